"""The three meanings of weighted per-decision importance sampling, by hand, and their standard errors by jackknife."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import semiope as so

Floats = NDArray[np.float64]
GAMMA = 0.9
BEHAVIOR, EVALUATION = np.array([[0.5, 0.5], [0.3, 0.7]]), np.array([[0.8, 0.2], [0.4, 0.6]])


def make(n: int = 300, horizon: int = 6) -> tuple[dict[str, NDArray[Any]], list[NDArray[Any]]]:
    """Ragged episodes as columns, and as (episode, step) arrays of cumulative ratio, reward and presence."""
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, horizon + 1, size=n)
    there = np.arange(horizon) < lengths[:, None]
    state = rng.integers(2, size=(n, horizon))
    action = (rng.random((n, horizon)) < BEHAVIOR[state, 1]).astype(int)
    reward = np.where(there, rng.normal(1 + state, 1), 0.0)
    ratio = np.where(there, EVALUATION[state, action] / BEHAVIOR[state, action], 1.0).cumprod(axis=1)
    episode, step = np.nonzero(there)
    columns = {"episode": episode, "step": step}
    columns |= {"state": state[there], "action": action[there], "reward": reward[there]}
    return columns, [ratio, reward, there]


def pdwis(ratio: Floats, reward: Floats, there: NDArray[np.bool_]) -> float:
    discount = GAMMA ** np.arange(ratio.shape[1])
    return float((ratio * reward @ discount).sum() / ratio[:, -1].sum())


def per_step(ratio: Floats, reward: Floats, there: NDArray[np.bool_]) -> float:
    discount = GAMMA ** np.arange(ratio.shape[1])
    return float(discount @ ((ratio * reward).sum(axis=0) / ratio.sum(axis=0)))


def alive(ratio: Floats, reward: Floats, there: NDArray[np.bool_]) -> float:
    discount = GAMMA ** np.arange(ratio.shape[1])
    mean_ratio = (ratio * there).sum(axis=0) / there.sum(axis=0)
    return float(discount @ ((ratio * reward / mean_ratio).sum(axis=0) / len(ratio)))


MEANINGS: dict[str, Callable[[Floats, Floats, NDArray[np.bool_]], float]] = {
    "pdwis": pdwis,
    "pdwis-step": per_step,
    "pdwis-alive": alive,
}


@pytest.mark.parametrize("name", MEANINGS)
def test_by_hand(name: str) -> None:
    columns, arrays = make()
    found = so.evaluate(
        columns, so.Policy.from_table(EVALUATION), behavior=so.Policy.from_table(BEHAVIOR), gamma=GAMMA, estimators=name
    )[name]
    assert found.value == pytest.approx(MEANINGS[name](*arrays), rel=1e-12)
    n = len(arrays[0])
    without = [MEANINGS[name](*(array[np.arange(n) != i] for array in arrays)) for i in range(n)]
    jackknife = math.sqrt((n - 1) / n * np.square(np.array(without) - np.mean(without)).sum())
    # Delta method and jackknife differ by terms of order 1/n.
    assert found.std_error == pytest.approx(jackknife, rel=0.03)


def test_they_are_three() -> None:
    _, arrays = make()
    values = [meaning(*arrays) for meaning in MEANINGS.values()]
    assert min(abs(np.diff(sorted(values)))) > 1e-3


@pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")
def test_steps_at_which_nobody_follows_the_policy_bring_nothing() -> None:
    found = so.evaluate(
        {"episode": [0, 0, 1], "step": [0, 1, 0], "state": [0, 1, 0], "action": [0, 0, 0], "reward": [1.0, 5.0, 3.0]},
        so.Policy.from_table([[1.0, 0.0], [0.0, 1.0]]),
        estimators=["pdwis-step", "pdwis-alive"],
    )
    assert found["pdwis-step"].value == pytest.approx(2.0)
    assert found["pdwis-alive"].value == pytest.approx(2.0)
