"""Unbiasedness and Corollary 5 by exact enumeration of all trajectories and annotations of small random MDPs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import semiope as so
from semiope.models.study import Study
from tests.contract.worlds import Enumeration, enumerate_mdp

pytestmark = pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")

SHAPES = [(1, 3, 3), (2, 2, 3), (3, 2, 2)]
UNBIASED = {name: estimator for name, estimator in so.ESTIMATORS.items() if estimator.unbiased}
FROM_LOGS = [name for name, estimator in UNBIASED.items() if estimator.support == "logged"]
WITH_ANNOTATIONS = [name for name, estimator in UNBIASED.items() if estimator.support == "augmented"]
FULLY_ANNOTATED = [name for name, estimator in UNBIASED.items() if estimator.requires]
# Self-normalised forms share the normalisers of the unbiased estimator that they are made from.
RECIPES = [estimator.recipe for estimator in UNBIASED.values()]
MEAN_ONE = [name for name, estimator in so.ESTIMATORS.items() if estimator.recipe in RECIPES]

seeds = st.integers(0, 10**6)
shapes = st.sampled_from(SHAPES)
gammas = st.sampled_from([0.0, 0.9, 1.0])


def world(seed: int, shape: tuple[int, int, int], gamma: float, annotated: str, unsupported: bool) -> Enumeration:
    horizon, n_states, n_actions = shape
    sizes = {"horizon": horizon, "n_states": n_states, "n_actions": n_actions}
    return enumerate_mdp(seed, gamma=gamma, annotated=annotated, unsupported=unsupported, **sizes)


class AnyModel:
    """A model of returns per step, fixed beforehand, that has nothing to do with the truth; annotations change it."""

    folds, told = None, "any"

    def __init__(self, shape: tuple[int, int, int], seed: int) -> None:
        self.plain, self.annotated = np.random.default_rng(seed + 7).normal(size=(2, *shape))

    def fit(self, study: Study, fold: int) -> Any:
        return self.plain[study.episodes.step, study.episodes.state]

    def corrected(self, study: Study, fold: int, returns: Any) -> Any:
        return self.annotated[study.episodes.step, study.episodes.state]


def assert_unbiased(mdp: Enumeration, found: so.Results) -> None:
    for name, estimate in found.items():
        assert mdp.probability @ estimate.values == pytest.approx(mdp.value, abs=1e-10), name
        assert mdp.probability @ estimate.normalizers == pytest.approx(1.0, abs=1e-10), name


@given(seed=seeds, shape=shapes, gamma=gammas)
@settings(max_examples=15)
def test_logs_alone(seed: int, shape: tuple[int, int, int], gamma: float) -> None:
    mdp = world(seed, shape, gamma, "none", unsupported=False)
    assert mdp.probability.sum() == pytest.approx(1.0, abs=1e-12)
    assert_unbiased(mdp, mdp.logs.evaluate(FROM_LOGS, gamma=gamma, model=AnyModel(shape, seed)))


@pytest.mark.parametrize("annotated", ["each or not", "by pair"])
@given(seed=seeds, shape=shapes, gamma=gammas, unsupported=st.booleans(), weights=st.sampled_from(["equal", "table"]))
@settings(max_examples=15)
def test_annotated_or_not(
    annotated: str, seed: int, shape: tuple[int, int, int], gamma: float, unsupported: bool, weights: str
) -> None:
    """Assumption 4 instead of 1: the behaviour policy may never take an action, if it is annotated now and then."""
    mdp = world(seed, shape, gamma, annotated, unsupported)
    given_weights: Any = weights
    if weights == "table":
        n_states, n_actions = shape[1:]
        given_weights = np.random.default_rng(seed).dirichlet(np.ones(n_actions), size=(n_states, n_actions))
    options: dict[str, Any] = {"gamma": gamma, "model": AnyModel(shape, seed)}
    for cell in ("state", "step,state"):
        assert_unbiased(mdp, mdp.logs.evaluate(WITH_ANNOTATIONS, weights=given_weights, cell=cell, **options))


@given(seed=seeds, shape=shapes)
@settings(max_examples=10)
def test_behaviour_that_changes_over_time(seed: int, shape: tuple[int, int, int]) -> None:
    """Given per step, or row by row with cells per state; logged propensities need cells per step."""
    mdp = world(seed, shape, 0.9, "each or not", unsupported=False)
    horizon, n_states, n_actions = shape
    rng = np.random.default_rng(seed)
    changing = rng.dirichlet(np.ones(n_actions), size=(horizon, n_states))
    columns = mdp.logs.episodes
    step, state, action = columns["step"], columns["state"], columns["action"]
    change = np.ones(len(mdp.probability))
    np.multiply.at(change, columns["episode"], changing[step, state, action] / mdp.logs.behavior[state, action])
    mdp = replace(mdp, probability=mdp.probability * change)
    assert mdp.probability.sum() == pytest.approx(1.0, abs=1e-12)
    rows = np.repeat(np.arange(len(step)), n_actions)
    actions = np.tile(np.arange(n_actions), len(step))
    by_row = so.RowPolicy.from_arrays(
        episode=columns["episode"][rows],
        step=step[rows],
        action=actions,
        prob=changing[step[rows], state[rows], actions],
    )
    model = {"model": AnyModel(shape, seed)}
    for behavior, cell in ((so.Policy.from_table(changing), "state"), (by_row, "state"), (by_row, "step,state")):
        assert_unbiased(mdp, mdp.logs.evaluate([*FROM_LOGS, *WITH_ANNOTATIONS], behavior=behavior, cell=cell, **model))
    logged = replace(mdp.logs, episodes={**columns, "behavior_prob": changing[step, state, action]})
    assert_unbiased(mdp, logged.evaluate(FROM_LOGS, behavior=None, **model))
    assert_unbiased(mdp, logged.evaluate(WITH_ANNOTATIONS, behavior=None, cell="step,state", **model))
    if horizon > 1:
        warned = logged.evaluate(WITH_ANNOTATIONS, behavior=None, cell="state", **model).warnings
        assert any("propensities differ from the mean of their state and action" in warning for warning in warned)


@given(seed=seeds, shape=shapes, gamma=gammas, unsupported=st.booleans())
@settings(max_examples=15)
def test_closed_forms(seed: int, shape: tuple[int, int, int], gamma: float, unsupported: bool) -> None:
    mdp = world(seed, shape, gamma, "all", unsupported)
    assert_unbiased(
        mdp, mdp.logs.evaluate([*FULLY_ANNOTATED, *WITH_ANNOTATIONS], gamma=gamma, model=AnyModel(shape, seed))
    )


def test_every_estimator_called_unbiased_is_tested() -> None:
    assert sorted(UNBIASED) == sorted([*FROM_LOGS, *WITH_ANNOTATIONS, *FULLY_ANNOTATED])
    assert set(UNBIASED) >= {"is", "pdis", "c-is", "c-pdis", "c*-is", "c*-pdis", "dr", "dm-is+"}


@given(seed=seeds, shape=shapes)
@settings(max_examples=10)
def test_normalisers_have_mean_one(seed: int, shape: tuple[int, int, int]) -> None:
    """Corollary 5, whatever the estimator divides by."""
    mdp = world(seed, shape, 0.9, "all", unsupported=False)
    for name, estimate in mdp.logs.evaluate(MEAN_ONE, model=AnyModel(shape, seed)).items():
        assert mdp.probability @ estimate.normalizers == pytest.approx(1.0, abs=1e-10), name


@pytest.mark.parametrize("name", ["dr", "dm+-is"])
@pytest.mark.parametrize("seed", [1, 2])
def test_cross_fitting_keeps_estimates_unbiased(name: str, seed: int) -> None:
    """Every dataset of two episodes: each is evaluated with the model that the other one makes."""
    mdp = world(seed, (1, 2, 2), 0.9, "each or not", unsupported=False)
    some = [mdp.logs.of(episode) for episode in range(len(mdp.probability))]
    total = 0.0
    for i, first in enumerate(some):
        for j, second in enumerate(some):
            both = first.beside(second)
            found = both.evaluate([name], behavior=so.Policy.from_table(mdp.logs.behavior))[name]
            total += mdp.probability[i] * mdp.probability[j] * found.value
    assert total == pytest.approx(mdp.value, abs=1e-10)


@pytest.mark.parametrize("name", ["naive-unweighted", "naive-weighted"])
def test_naive_estimators_are_biased(name: str) -> None:
    """The enumeration can tell: it sees the bias of the estimators that have one."""
    mdp = world(1, (2, 2, 3), 0.9, "each or not", unsupported=False)
    found = mdp.logs.evaluate([name], behavior="count")[name]
    estimate = mdp.probability @ found.values / (mdp.probability @ found.denominators)
    assert abs(estimate - mdp.value) > 1e-3


def test_plain_is_is_biased_without_support() -> None:
    mdp = world(2, (2, 2, 3), 0.9, "none", unsupported=True)
    found = mdp.logs.evaluate(["pdis"])["pdis"]
    assert abs(mdp.probability @ found.values - mdp.value) > 1e-3
