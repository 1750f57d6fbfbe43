"""Derived ranges hold all values, and are refused where there are none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import semiope as so
from semiope.domains import bandit, sepsis
from semiope.errors import quietly
from semiope.estimate.registry import ESTIMATORS
from semiope.uncertainty.ranges import value_range


@pytest.fixture(scope="module")
def results() -> so.Results:
    world = sepsis.world()
    episodes = world.sample(200, seed=1)
    annotations = world.annotate(episodes, "optimal", seed=2)
    names = ["is", "pdis", "c-is", "c-pdis", "c*-is", "c*-pdis", "c-pdwis", "dr", "naive-weighted"]
    with quietly():
        return so.evaluate(
            episodes,
            world.policies["optimal"],
            annotations=annotations,
            estimators=names,
            cell="step,state",
            gamma=0.99,
        )


@pytest.mark.parametrize("name", ["is", "pdis", "c-is", "c-pdis", "c*-is", "c*-pdis"])
def test_all_values_lie_within(results: so.Results, name: str) -> None:
    problem = results.origin.weighed.seen_by(ESTIMATORS[name])
    low, high = value_range(problem, name, rewards=(-1, 1))
    assert low <= results[name].values.min() <= results[name].values.max() <= high


@pytest.mark.parametrize("name", ["c-is", "c-pdis", "c*-is", "c*-pdis"])
def test_with_everything_annotated_it_is_that_of_returns(results: so.Results, name: str) -> None:
    problem = results.origin.weighed.seen_by(ESTIMATORS[name])
    assert value_range(problem, name, returns=(-1, 1)) == (-1, 1)
    mean = float(results[name].values.mean())
    bound = results.lower_bound(name, returns=(-1, 1), alpha=0.05)
    assert -1 < bound < mean
    assert results.lower_bound(name, returns=(-1, 1), method="hoeffding") == pytest.approx(
        mean - 2 * np.sqrt(np.log(20) / 400)
    )


def test_by_hand_on_a_bandit() -> None:
    """pi_e / pi_b is at most 2, so that one step doubles a reward."""
    world = bandit.two_state((1.0, 2.0), (0.5, 0.5))
    episodes = world.sample(40, seed=0)
    results = so.evaluate(episodes, next(iter(world.policies.values())), behavior=world.behavior, estimators="is,pdis")
    for name in ("is", "pdis"):
        problem = results.origin.weighed.seen_by(ESTIMATORS[name])
        low, high = value_range(problem, name, rewards=(-3, 7))
        assert (low, high) == pytest.approx((-6, 14))
        assert value_range(problem, "is", returns=(-3, 7)) == pytest.approx((-6, 14))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("c-pdis", {}, "a bound needs to know"),
        ("c-pdis", {"returns": (-1, 1), "rewards": (-1, 1)}, "a bound needs to know"),
        ("c-pdis", {"returns": (1, -1)}, "is no range"),
        ("c-pdis", {"returns": (0, float("inf"))}, "is no range"),
        ("pdis", {"returns": (-1, 1)}, "2.0% of the policy's decisions are actions that pdis knows nothing of"),
        ("c-pdis", {"returns": (1,)}, "Give two numbers"),
        ("c-pdis", {"returns": "ab"}, "Give two numbers"),
        ("c-pdwis", {"returns": (-1, 1)}, "none can be derived for c-pdwis"),
        ("naive-weighted", {"returns": (-1, 1)}, "none can be derived"),
        ("c-pdis", {"returns": (0, 0.5)}, "is not between 0 and 0.5"),
    ],
)
def test_what_is_refused(results: so.Results, name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises((so.OptionError, so.SchemaError, so.SupportError), match=message):
        results.lower_bound(name, **options)


def test_ratios_without_end() -> None:
    """Twenty steps of ratios of 1e9 are a number, but times 1e200 they are none."""
    n = 20
    rows = {
        "episode": np.repeat([0, 1], n), "step": np.tile(np.arange(n), 2), "state": np.zeros(2 * n, int),
        "action": np.zeros(2 * n, int), "reward": np.ones(2 * n),
    }  # fmt: skip
    behavior = so.Policy.from_table(np.array([[1e-9, 1 - 1e-9]]))
    with quietly():
        results = so.evaluate(rows, so.Policy.from_table(np.array([[1.0, 0.0]])), behavior=behavior, estimators="is")
    assert results["is"].per_episode.value_exponent == 0
    with pytest.raises(so.SupportError, match="no range to speak of"):
        results.lower_bound("is", returns=(0, 1e200))
