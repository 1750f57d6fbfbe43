"""Counting the behaviour policy: what it takes from influences, by hand, by derivatives, and over datasets."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import semiope as so
from semiope.domains import bandit, tree
from semiope.errors import quietly
from semiope.estimate.counting import counting_correction
from semiope.estimate.passes import Recipe, episode_values
from semiope.estimate.problem import CountedBehavior, Slab, behavior
from semiope.estimate.registry import ESTIMATORS, Estimator
from semiope.policies.lookup import TableLookup
from tests.resample import repeated
from tests.weights.population import GAMMA, STOCHASTIC, population, some_first_departures

WORLD = bandit.two_state((1.0, 2.0), (0.5, 0.5))


def test_one_cell_by_hand() -> None:
    """rho (r - mean of r where a was taken) - (r - mean of r), for pdis and for wis."""
    rng = np.random.default_rng(0)
    action, reward = rng.integers(0, 2, 50), rng.normal(size=50)
    rows = {"episode": range(50), "step": [0] * 50, "state": [0] * 50, "action": action, "reward": reward}
    results = so.evaluate(rows, so.Policy.from_table(np.array([[0.3, 0.7]])), estimators="pdis,wis")
    rho = np.array([0.3, 0.7])[action] / np.array([np.mean(action == 0), np.mean(action == 1)])[action]
    means = np.array([reward[action == 0].mean(), reward[action == 1].mean()])
    expected = rho * (reward - means[action])
    for name in ("pdis", "wis"):
        influence = so.compare(results, estimator=name).estimates["policy"].influence
        assert influence == pytest.approx(expected, abs=1e-12)


def half(slab: Slab) -> Any:
    """f = sqrt(rho): an estimator of somebody else's, whose factors fall half as fast as counts rise."""
    return np.sqrt(slab.ratio_taken(behavior))


@pytest.mark.parametrize("name", ["is", "wis", "pdis", "pdwis", "c-is", "c-wis", "c-pdis", "c-pdwis", "half"])
def test_influence_is_the_derivative_by_an_episodes_weight(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An episode counted once more moves an estimate by its influence over n, counts and all, to first order."""
    monkeypatch.setitem(ESTIMATORS, "half", Estimator(Recipe(half), "roots of ratios", support="logged"))
    world = tree.tree(2)
    episodes = world.sample(400, seed=1)
    answers = world.annotate(episodes, "uniform", annotators=so.Annotator(std=0.3, ratio=0.5), seed=2)
    policy = world.policies["mostly-y"]
    options: dict[str, Any] = {"annotations": answers, "estimators": name, "gamma": 0.9, "cell": "step,state"}
    with quietly():
        results = so.evaluate(episodes, policy, **options)
    influence = so.compare(results).estimates["policy"].influence
    for i in (0, 7, 33):
        times = np.ones(400, dtype=np.int64)
        times[i] += 1
        more, told = repeated(episodes, answers, times)
        with quietly():
            moved = so.evaluate(more, policy, **{**options, "annotations": told})[name].value - results[name].value
        assert moved == pytest.approx(influence[i] / 401, rel=0.03, abs=2e-5)


@pytest.mark.parametrize("name", ["c-is", "c-wis", "c-pdis", "c-pdwis"])
@pytest.mark.parametrize("weights", ["equal", "annotated"])
def test_influence_is_the_derivative_with_means_by_prefix(name: str, weights: str) -> None:
    """For questions that depend on the past; episodes of different lengths, some of which end without a decision."""
    asked = population(STOCHASTIC, some_first_departures)
    times = np.random.default_rng(3).integers(0, 2, 8192) * np.random.default_rng(4).integers(0, 2, 8192)
    episodes, answers = repeated(
        so.Episodes.from_arrays(**asked.episodes), so.Annotations.from_arrays(**asked.annotations), times
    )
    options: dict[str, Any] = {"estimators": name, "gamma": GAMMA, "weights": weights, "means": "prefix"}
    policy, n = asked.policy(STOCHASTIC), episodes.n_episodes
    with quietly():
        results = so.evaluate(episodes, policy, annotations=answers, **options)
    influence = so.compare(results).estimates["policy"].influence
    plain = results[name].values - results[name].value * (results[name].normalizers if "w" in name else 1)
    assert np.abs(influence - plain).max() > 0.5
    for i in (0, 7, 33, 500, 1500):  # a tenth of an episode more: eleven times among others ten times
        more, told = repeated(episodes, answers, np.where(np.arange(n) == i, 11, 10))
        with quietly():
            moved = so.evaluate(more, policy, annotations=told, **options)[name].value - results[name].value
        assert moved * (10 * n + 1) == pytest.approx(influence[i], rel=0.005, abs=0.002)


@pytest.mark.parametrize("never", [False, True])
def test_counts_within_folds_are_corrected_for(never: bool) -> None:
    """pp-dr by an episode's weight in all counts, lambda fixed: the derivative is minus the correction.

    `never`: nothing is asked about one pair, whose factor comes from the counts of all folds.
    """
    rng = np.random.default_rng(5)
    n, steps = 60, 3
    rows = {
        "episode": np.repeat(np.arange(n), steps), "step": np.tile(np.arange(steps), n),
        "state": rng.integers(2, size=n * steps), "action": rng.integers(3, size=n * steps),
        "reward": rng.normal(size=n * steps),
    }  # fmt: skip
    asked = np.flatnonzero(rng.random(n * steps) < 0.6)
    action = (rows["action"][asked] + 1 + rng.integers(2, size=len(asked))) % 3
    kept = ~((rows["state"][asked] == 1) & (action == 0)) | (not never)
    answers = so.Annotations.from_arrays(
        episode=rows["episode"][asked][kept], step=rows["step"][asked][kept], action=action[kept],
        value=rng.normal(size=kept.sum()),
    )  # fmt: skip
    with quietly():
        results = so.evaluate(
            rows, so.Policy.from_table([[0.2, 0.3, 0.5], [0.4, 0.4, 0.2]]), annotations=answers, estimators="pp-dr"
        )
    problem, estimator = results.chosen("pp-dr").problem, ESTIMATORS["pp-dr"]
    assert problem.inclusion.never.any() == never
    correction = counting_correction(problem, estimator)
    assert correction is not None
    evidence, (cells, counts) = problem.evidence, problem.counted_in_folds
    episodes, lookup = evidence.logbook.episodes, evidence.behavior.lookup
    assert isinstance(lookup, TableLookup)

    def total(weight: Any) -> float:
        """The sum of values with episodes of these weights in the counts."""
        within, over_all = np.zeros_like(counts), np.zeros_like(evidence.counts)
        by_row = np.repeat(weight, episodes.lengths)
        np.add.at(within, (cells.of_row, episodes.action), by_row)
        np.add.at(over_all, (evidence.cells.of_row, episodes.action), by_row)
        probs = over_all / over_all.sum(axis=1, keepdims=True)
        behavior_ = evidence.behavior._replace(probs=probs, lookup=TableLookup(probs, evidence.cells, evidence.logbook))
        changed = replace(evidence, behavior=behavior_, _derived={})
        weighed = replace(problem, evidence=changed, fixed=problem, _ratios={}, _derived={})
        weighed.__dict__["counted_in_folds"] = CountedBehavior(cells, within)
        return float(episode_values(weighed, estimator.recipe).values.sum())

    for i in (0, 7, 33):
        nudge = 1e-5 * (np.arange(n) == i)
        derivative = (total(1 + nudge) - total(1 - nudge)) / 2e-5
        assert abs(derivative) > 1e-3
        assert correction.values[i] == pytest.approx(-derivative, abs=1e-7)


def test_today_is_seldom_called_better_than_itself() -> None:
    """The true behaviour policy as a candidate: the error rate is what was asked for, with and without answers."""
    called, errors, values = 0, [], []
    for number in range(100):
        episodes = WORLD.sample(200, seed=9, first=200 * number)
        expert = so.Annotator(std=1.0, ratio=0.3)
        answers = WORLD.annotate(episodes, WORLD.behavior, annotators=expert, seed=number) if number % 2 else None
        with quietly():
            results = so.evaluate(episodes, WORLD.behavior, annotations=answers)
        one = so.compare(results)["policy"]
        called += one.better
        errors.append(one.difference.std_error)
        values.append(one.difference.value)
    assert called <= 5 + 3 * math.sqrt(100 * 0.05 * 0.95)
    assert np.mean(errors) == pytest.approx(np.std(values, ddof=1), rel=0.25)


def test_nothing_is_counted_where_it_is_given() -> None:
    episodes = WORLD.sample(50, seed=0)
    results = so.evaluate(episodes, WORLD.behavior, behavior=WORLD.behavior, estimators="pdis")
    problem = results.origin.weighed.problem
    assert counting_correction(problem, ESTIMATORS["pdis"]) is None
    assert so.compare(results)["policy"].difference.p_value == 1
