"""C*-PDIS on sepsis, from theory alone and over 1000 simulated datasets of 1000 episodes: the table in the docs."""

from __future__ import annotations

import gc
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

import semiope as so
from semiope.diagnostics import sequential
from semiope.domains import sepsis

PAGE = Path(__file__).parents[2] / "docs" / "theory.md"
DATASETS, EPISODES, AT_ONCE, SEED = 1000, 1000, 100, 2023
BOUND = 4.3  # two-sided normal quantile: an error probability of 1e-3 over 52 comparisons


class Row(NamedTuple):
    """Of one policy: true value, floor, std of C*-PDIS by theory, and its spread over datasets."""

    policy: str
    value: float
    floor: float
    theory: float
    spread: float
    mean: float
    second: float  # mean over all episodes of (v - value)^2, and of its square
    fourth: float

    def cells(self) -> list[str]:
        """As the docs show them."""
        return [self.policy, *(f"{number:.5f}" for number in self[1:5])]


@cache
def table() -> list[Row]:
    """Simulate 100 datasets at a time."""
    world = sepsis.world()
    estimates: dict[str, list[np.ndarray]] = {name: [] for name in world.policies}
    powers = {name: np.zeros(2) for name in world.policies}
    for part in range(DATASETS // AT_ONCE):
        n = AT_ONCE * EPISODES
        episodes = world.sample(n, seed=SEED, first=part * n)
        annotations = world.annotate(episodes, world.policies)
        found = so.evaluate(
            episodes, world.policies, annotations=annotations, behavior=world.behavior, estimators=["c*-pdis"],
            gamma=world.mdp.gamma,
        )  # fmt: skip
        for name, result in found.items():
            values = result["c*-pdis"].values
            estimates[name].append(values.reshape(AT_ONCE, EPISODES).mean(axis=1))
            deviations = (values - world.mdp.value(world.policies[name])) ** 2
            powers[name] += np.array([deviations.mean(), (deviations**2).mean()]) * AT_ONCE / DATASETS
        # Several gigabytes, which would else stay until the next part is there as well.
        del episodes, annotations, found, result, values
        gc.collect()
    made = []
    for name, policy in world.policies.items():
        exact = sequential.c_star_pdis(world.setting(policy))
        over = np.concatenate(estimates[name])
        floor = world.mdp.initial_std(policy) / EPISODES**0.5
        spread, mean = float(over.std(ddof=1)), float(over.mean())
        made.append(Row(name, exact.value, floor, exact.std_error(EPISODES), spread, mean, *powers[name].tolist()))
    return made


def test_theory_agrees_with_the_spread_over_datasets() -> None:
    """The std of 1000 estimates, each a mean and so nearly normal, has a relative error of 1 / sqrt(2 * 999)."""
    for row in table():
        assert abs(row.spread / row.theory - 1) < BOUND / (2 * (DATASETS - 1)) ** 0.5
        assert abs(row.mean - row.value) < BOUND * row.theory / DATASETS**0.5


def test_theory_agrees_with_the_spread_over_all_episodes() -> None:
    """A much sharper look at the same: the variance of a million values, whose relative error is about 0.2%."""
    for row in table():
        error = ((row.fourth - row.second**2) / (DATASETS * EPISODES)) ** 0.5
        assert abs(row.second - EPISODES * row.theory**2) < BOUND * error
        assert error < 0.003 * row.second


def test_no_estimate_is_below_the_floor() -> None:
    assert all(row.floor < row.theory for row in table())


def test_the_docs_show_this_table() -> None:
    printed = re.findall(
        r"^\| (optimal|flip-\S+) \| (\S+) \| (\S+) \| (\S+) \| (\S+) \|$", PAGE.read_text(), re.MULTILINE
    )
    assert [list(cells) for cells in printed] == [row.cells() for row in table()]


if __name__ == "__main__":
    for one in table():
        print("| " + " | ".join(one.cells()) + " |")
