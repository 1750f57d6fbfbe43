"""The authors' estimates on their own sepsis data, for datasets 0 to 4 and all 26 policies, to 1e-9."""

from __future__ import annotations

import csv
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

import semiope as so
from tests.conftest import reference

Floats = NDArray[np.float64]
N_STATES, N_ACTIONS, HORIZON, GAMMA = 1442, 8, 20, 0.99

pytestmark = pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")


@cache
def mdp() -> dict[str, NDArray[Any]]:
    with np.load(reference("sepsis/mdp.npz")) as found:
        return {name: found[name] for name in found}


@cache
def golden() -> dict[tuple[str, int, int, int], tuple[float, float, float]]:
    with reference("sepsis/estimates_runs_0_to_4.csv").open() as file:
        return {
            (row["experiment"], int(row["flip_num"]), int(row["flip_seed"]), int(row["run"])): (
                float(row["ordinary"]),
                float(row["weighted"]),
                float(row["ess"]),
            )
            for row in csv.DictReader(file)
            if row["weighted"]
        }


@cache
def dataset(run: int) -> so.Episodes:
    table = pq.read_table(reference("sepsis/episodes.parquet"))
    return so.read_episodes(table.filter(pc.equal(table["run"], run)))


def exact_returns(policy: Floats) -> Floats:
    """Finite-horizon Q_t(s, a) of a policy, discounted from its own step."""
    m = mdp()
    pair = m["a"].astype(np.int64) * N_STATES + m["s"]
    worth, returns = np.zeros(N_STATES), np.empty((HORIZON, N_STATES, N_ACTIONS))
    for step in range(HORIZON - 1, -1, -1):
        ahead = np.bincount(pair, weights=m["p"] * worth[m["s_next"]], minlength=N_ACTIONS * N_STATES)
        returns[step] = m["R"] + GAMMA * ahead.reshape(N_ACTIONS, N_STATES).T
        worth = (policy * returns[step]).sum(axis=1)
    return returns


def chosen(actions: NDArray[Any]) -> Floats:
    return np.eye(N_ACTIONS)[actions.astype(np.int64)]


@cache
def behavior_returns() -> Floats:
    best = chosen(mdp()["pi_star"])
    other = chosen(mdp()["pi_star"].astype(np.int64) ^ 1)
    return exact_returns(0.9 * best + 0.1 * other)


@cache
def evaluation_returns(number: int) -> Floats:
    return exact_returns(chosen(mdp()["pol_actions"][number]))


def annotate(episodes: so.Episodes, returns: Floats) -> so.Annotations:
    """Annotate the other vasopressor choice at every decision but one at a truncated step 19."""
    keep = (episodes.action >= 0) & (episodes.step != HORIZON - 1)
    step = episodes.step[keep]
    episode = np.repeat(np.arange(episodes.n_episodes), episodes.lengths)[keep]
    state = episodes.states.words.to_numpy()[episodes.state[keep]]
    other = episodes.actions.words.to_numpy()[episodes.action[keep]] ^ 1
    return so.Annotations.from_arrays(
        episode=episodes.labels.words.to_numpy()[episode], step=step, action=other, value=returns[step, state, other]
    )


def assert_golden(experiment: str, number: int, run: int, ordinary: so.Estimate, weighted: so.Estimate) -> None:
    flips, seed = int(mdp()["pol_flip_num"][number]), int(mdp()["pol_flip_seed"][number])
    expected = golden()[experiment, flips, seed, run]
    assert (ordinary.value, weighted.value, ordinary.ess) == pytest.approx(expected, rel=0, abs=1e-9)


def test_exact_returns_give_the_known_policy_values() -> None:
    for number in (0, 25):
        policy = chosen(mdp()["pol_actions"][number])
        value = mdp()["isd"] @ (policy * evaluation_returns(number)[0]).sum(axis=1)
        assert value == pytest.approx(float(mdp()["pol_value"][number]), abs=1e-12)


ANNOTATIONS: dict[str, Callable[[int], Floats]] = {
    "Qe": evaluation_returns,
    "Qb": lambda _: behavior_returns(),
    "0": lambda _: np.zeros((HORIZON, N_STATES, N_ACTIONS)),
}


@pytest.mark.parametrize("run", range(5))
@pytest.mark.parametrize("kind", ANNOTATIONS)
def test_pdis_and_c_pdis(kind: str, run: int) -> None:
    episodes = dataset(run)
    for number in range(26):
        policy = so.Policy.deterministic(mdp()["pol_actions"][number], N_ACTIONS)
        annotations = annotate(episodes, ANNOTATIONS[kind](number))
        names = ["pdis", "pdwis", "c-pdis", "c-pdwis"]
        found = so.evaluate(episodes, policy, annotations=annotations, cell="step,state", estimators=names, gamma=GAMMA)
        assert_golden("pdis", number, run, found["pdis"], found["pdwis"])
        assert_golden(f"c-pdis (G={kind})", number, run, found["c-pdis"], found["c-pdwis"])


@pytest.mark.parametrize("run", range(5))
@pytest.mark.parametrize("kind", ["Qe", "Q*"])
def test_naive(kind: str, run: int) -> None:
    """Softened policies, a stationary behaviour policy counted in the augmented data: the authors' conventions."""
    episodes = dataset(run)
    for number in range(26):
        policy = so.Policy.deterministic(mdp()["pol_actions"][number], N_ACTIONS).soften(0.01)
        # Policy 0 is the optimal one.
        annotations = annotate(episodes, evaluation_returns(number if kind == "Qe" else 0))
        names = [f"naive-{form}{end}" for form in ("unweighted", "weighted") for end in ("", "-wis")]
        found = so.evaluate(episodes, policy, annotations=annotations, estimators=names, gamma=GAMMA)
        for form in ("unweighted", "weighted"):
            name = f"naive-{form}"
            assert_golden(f"{name} (G={kind})", number, run, found[name], found[f"{name}-wis"])
