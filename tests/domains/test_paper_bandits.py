"""All cells of the paper's bandit tables: exact bias, std and RMSE beside what 1000 draws gave the authors."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
import pytest

from semiope.diagnose import theory
from semiope.domains import bandit
from semiope.domains.world import World
from semiope.weights.moments import WeightMoments
from tests.conftest import reference

DRAWS = 1000
TABLES = {"main_bandit_table": 0.05, "two_state_bandit": 0.05, "one_state_bandit": 0.005}  # half the last digit printed


class Component(NamedTuple):
    """With this chance, the estimate from one sample is normal with this mean and variance."""

    chance: float
    mean: float
    variance: float


def world_of(table: str, row: dict[str, Any]) -> World:
    if table == "one_state_bandit":
        return bandit.one_state(row["reward_means"], row["pi_b"])
    other = 1.0 if table == "main_bandit_table" else 0.0
    return bandit.two_state(row.get("reward_means", (1.0, 2.0)), row["pi_b"], other_mean=other)


def exact(world: World, evaluation: Any, estimator: str) -> tuple[float, float, float]:
    """Bias, std and RMSE from theory."""
    weights = WeightMoments.equal(world.askable)
    setting = theory.Setting.of(world.mdp, world.behavior, evaluation, weights=weights, annotation_std=bandit.PAPER_STD)
    if estimator == "naive":
        draw = theory.naive_is(setting, world.askable)
        return draw.bias, draw.std, (draw.bias**2 + draw.variance) ** 0.5
    if estimator == "is":
        bias, variance = theory.bias_is(setting), theory.variance_is(setting).total
    else:
        bias, variance = theory.bias_c_is(setting).total, theory.variance_c_is(setting).total
    return bias, variance**0.5, (bias**2 + variance) ** 0.5


def components(world: World, evaluation: Any, estimator: str) -> list[Component]:
    """The estimate from one sample as a mixture, straight from the definitions."""
    mdp, var = world.mdp, bandit.PAPER_STD**2
    probs = np.array(evaluation)
    found = []
    for s in range(mdp.n_states):
        told = world.askable[s].any()
        for a in range(2):
            chance = mdp.initial[s] * world.behavior.probs[s, a]
            if not chance:
                continue
            if estimator == "is" or not told:
                ratio = probs[s, a] / world.behavior.probs[s, a]
                found.append(Component(chance, ratio * mdp.reward[s, a], ratio**2 * var))
            elif estimator == "c*-is":
                found.append(Component(chance, float(probs[s] @ mdp.reward[s]), float((probs[s] ** 2).sum() * var)))
            else:  # naive: both actions become samples, and the pooled behaviour is one half each
                pooled = 2 * probs[s]
                found += [Component(chance, pooled[i] * mdp.reward[s, i], pooled[i] ** 2 * var) for i in range(2)]
    total = sum(one.chance for one in found)
    return [one._replace(chance=one.chance / total) for one in found]


def moment(mixture: list[Component], center: float, power: int) -> float:
    """Mean of (x - center)^power, for power 1, 2 or 4."""
    total = 0.0
    for chance, mean, variance in mixture:
        d = mean - center
        total += chance * {1: d, 2: d**2 + variance, 4: d**4 + 6 * d**2 * variance + 3 * variance**2}[power]
    return total


def standard_errors(mixture: list[Component], value: float) -> tuple[float, float, float]:
    """Of bias, std and RMSE over 1000 draws; of the last two by the delta method."""
    mean = moment(mixture, 0.0, 1)
    errors = [(moment(mixture, mean, 2) / DRAWS) ** 0.5]
    for center in (mean, value):
        second, fourth = moment(mixture, center, 2), moment(mixture, center, 4)
        errors.append((max(0.0, fourth - second**2) / DRAWS / 4 / second) ** 0.5 if second else 0.0)
    return errors[0], errors[1], errors[2]


def rows(table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(reference("paper_tables.json").read_text())[table]
    return found


def outside(table: str) -> list[tuple[Any, ...]]:
    """Cells that differ by more than rounding and four standard errors."""
    found = []
    for row in rows(table):
        world = world_of(table, row)
        evaluation = bandit.in_s1(row["pi_e"], n_states=world.mdp.n_states)
        value = world.mdp.value(evaluation)
        ours = exact(world, evaluation, row["estimator"])
        errors = standard_errors(components(world, evaluation, row["estimator"]), value)
        for metric, number, error in zip(("bias", "std", "rmse"), ours, errors, strict=True):
            if abs(number - row[metric]) > TABLES[table] + 4 * error + 1e-12:
                where = (table, tuple(row.get("reward_means", ())), tuple(row["pi_b"]), tuple(row["pi_e"]))
                found.append((*where, row["estimator"], metric, row[metric], round(number, 4), round(error, 4)))
    return found


def test_all_387_triples_of_the_paper_are_here() -> None:
    assert sum(len(rows(table)) for table in TABLES) == 387


@pytest.mark.parametrize("table", TABLES)
def test_every_cell_agrees(table: str) -> None:
    assert outside(table) == []


@pytest.mark.parametrize("estimator", ["is", "naive", "c*-is"])
def test_theory_equals_the_mixture(estimator: str) -> None:
    """The figures compared above do not only come from the functions under test."""
    for behavior in bandit.PAPER_POLICIES:
        world = bandit.two_state((-1.0, 1.0), behavior, other_mean=0.5)
        for probs in bandit.PAPER_POLICIES:
            evaluation = bandit.in_s1(probs, n_states=2)
            value, mixture = world.mdp.value(evaluation), components(world, evaluation, estimator)
            mean = moment(mixture, 0.0, 1)
            expected = (mean - value, moment(mixture, mean, 2) ** 0.5, moment(mixture, value, 2) ** 0.5)
            assert exact(world, evaluation, estimator) == pytest.approx(expected, abs=1e-12)
