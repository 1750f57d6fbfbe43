"""Distributions of returns: the samples they are made of, and that they are right in expectation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import semiope as so
from semiope.estimate import problem as problem_module
from semiope.estimate.scan import Terms
from semiope.uncertainty.distribution import Distribution, returns_distribution
from tests.contract.test_brute_force import Oracle
from tests.contract.worlds import random_logs
from tests.uncertainty.enumeration import GAMMA, Everything, Small, problem_from, problem_of

pytestmark = pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")

FAMILIES = {
    "": ("is", "wis", "pdis", "pdwis"),
    "c-": ("c-is", "c-wis", "c-pdis", "c-pdwis"),
    "c*": ("c*-is", "c*-pdis"),
}
NAMES = [(family, name) for family, names in FAMILIES.items() for name in names]
WHOLE = {"": "is", "c-": "c-is", "c*": "c*-is"}
SHARES = (0.01, 0.1, 0.25, 0.5, 0.9, 1.0)

seeds = st.integers(0, 10**6)
few = settings(max_examples=20)


def summed(found: Distribution, numbers: Any) -> Any:
    """Sums over the samples of each episode."""
    return np.bincount(found.episode, numbers, minlength=len(found.labels))


def expected(world: Everything, name: str) -> Distribution:
    """The expected weighted distribution: that of each episode times its probability."""
    found = returns_distribution(world.problem, name)
    return replace(found, weights=found.weights * world.probability[found.episode])


# What samples are, and what they sum to


@pytest.mark.parametrize(("family", "name"), NAMES)
@given(seed=seeds, weights=st.sampled_from(["equal", "column"]))
@few
def test_samples_are_the_branches_of_the_definition(family: str, name: str, seed: int, weights: str) -> None:
    logs = random_logs(seed, fully_annotated=True)
    assume(logs.evaluate([name], weights=weights)[name].normalizers.any())
    found = returns_distribution(problem_from(logs, weights=weights), name)
    assert (np.diff(found.returns) >= 0).all()
    for i, steps in enumerate((oracle := Oracle(logs, weights, "state", known=True)).episodes):
        branches = sorted((g, w) for w, g in oracle.branches(steps, family) if w > 0)
        own = found.episode == i
        ours = sorted(zip(found.returns[own], found.weights[own], strict=True))
        assert np.ravel(ours) == pytest.approx(np.ravel(branches), rel=1e-9, abs=1e-12)
        assert (own & ~found.answered).sum() <= 1


@pytest.mark.parametrize(("family", "name"), NAMES)
@given(seed=seeds, full=st.booleans(), cell=st.sampled_from(["state", "step,state"]), known=st.booleans())
@few
def test_weights_sum_to_normalisers_and_returns_to_the_values_of_is(
    family: str, name: str, seed: int, full: bool, cell: str, known: bool
) -> None:
    logs = random_logs(seed, fully_annotated=full or family == "c*")
    options: dict[str, Any] = {"cell": cell} if known else {"cell": cell, "behavior": "count"}
    estimates = logs.evaluate([WHOLE[family], name], **options)
    assume(estimates[name].normalizers.any())
    found = returns_distribution(problem_from(logs, **options), name)
    assert summed(found, found.weights) == pytest.approx(estimates[name].normalizers, rel=1e-10)
    assert summed(found, found.weights * found.returns) == pytest.approx(estimates[WHOLE[family]].values, abs=1e-10)
    if family != "c*":
        normalised = WHOLE[family].replace("is", "wis")
        assert found.mean == pytest.approx(logs.evaluate([normalised], **options)[normalised].value, abs=1e-10)


@pytest.mark.parametrize(("whole", "stepwise"), [("is", "pdis"), ("c-is", "c-pdis")])
@given(seed=seeds)
@few
def test_per_decision_values_differ_by_what_normalisers_of_the_rest_miss(whole: str, stepwise: str, seed: int) -> None:
    """v of c-is - v of c-pdis = sum of gamma^t f_0 ... f_t (m_(t+1) - 1) r_t."""
    logs = random_logs(seed, fully_annotated=False)
    problem, estimates = problem_from(logs), logs.evaluate([whole, stepwise])
    (slab,) = problem.slabs()
    terms: Terms = so.ESTIMATORS[whole].recipe.terms(slab)
    k = np.zeros(len(terms.f)) if terms.k is None else terms.k
    for i, (first, last) in enumerate(zip(slab.offsets[:-1], slab.offsets[1:], strict=True)):
        rest, difference = 1.0, 0.0
        for t in range(last - 1, first - 1, -1):
            so_far = float(np.prod(terms.f[first : t + 1]))
            difference += GAMMA ** (t - first) * so_far * (rest - 1) * slab.reward[t]
            rest = terms.f[t] * rest + k[t]
        found = estimates[whole].values[i] - estimates[stepwise].values[i]
        assert found == pytest.approx(difference, rel=1e-9, abs=1e-9)


@given(seed=seeds)
@few
def test_per_decision_values_are_those_of_the_samples_if_only_last_rows_pay(seed: int) -> None:
    logs = random_logs(seed, fully_annotated=False)
    episode = logs.episodes["episode"]
    reward = np.where(np.append(np.diff(episode) > 0, True), logs.episodes["reward"], 0.0)
    logs = replace(logs, episodes={**logs.episodes, "reward": reward})
    estimates = logs.evaluate(["c-pdis", "c-pdwis"])
    assume(estimates["c-pdwis"].normalizers.any())
    found = returns_distribution(problem_from(logs), "c-pdwis")
    assert summed(found, found.weights * found.returns) == pytest.approx(estimates["c-pdis"].values, abs=1e-10)
    assert found.mean == pytest.approx(estimates["c-pdwis"].value, abs=1e-10)


@given(seed=seeds)
@few
def test_per_decision_values_are_those_of_the_samples_in_closed_form(seed: int) -> None:
    logs = random_logs(seed, fully_annotated=True)
    found = returns_distribution(problem_from(logs), "c*-pdis")
    values = logs.evaluate(["c*-pdis"])["c*-pdis"].values
    assert summed(found, found.weights * found.returns) == pytest.approx(values, abs=1e-10)
    assert found.mean == pytest.approx(values.mean(), abs=1e-10)


def test_a_family_shares_its_distribution_whatever_the_slabs(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = random_logs(3, fully_annotated=True)
    for names in FAMILIES.values():
        whole = [returns_distribution(problem_from(logs), name) for name in names]
        with monkeypatch.context() as patched:
            patched.setattr(problem_module, "ROWS_PER_SLAB", 4)
            cut = returns_distribution(problem_from(logs), names[0])
        for other in (*whole, cut):
            for column in ("returns", "weights", "episode", "answered"):
                assert np.array_equal(getattr(whole[0], column), getattr(other, column))


# Right in expectation


@pytest.mark.parametrize("asked", ["all", "each or not"])
@given(seed=seeds, unsupported=st.booleans())
@settings(max_examples=8)
def test_answers_that_are_draws_give_the_true_distribution(asked: str, seed: int, unsupported: bool) -> None:
    for horizon in (1, 2, 3) if asked == "all" else (1, 2):
        world = Small(seed, horizon, unsupported=unsupported).everything("draws", asked=asked)
        for name in ("c-wis", "c*-is") if asked == "all" else ("c-wis",):
            assert_true(expected(world, name), world)


@given(seed=seeds)
@settings(max_examples=8)
def test_logs_alone_give_the_true_distribution(seed: int) -> None:
    world = Small(seed, 3).everything("draws", asked="none")
    for name in ("wis", "c-wis"):
        assert_true(expected(world, name), world)


def assert_true(found: Distribution, world: Everything) -> None:
    assert found.weights.sum() == pytest.approx(1, abs=1e-9)
    between = (world.returns.value[1:] + world.returns.value[:-1]) / 2
    assert found.cdf(between) == pytest.approx(world.returns.cdf(between), abs=1e-9)
    assert found.mean == pytest.approx(world.returns.mean, abs=1e-9)
    for share in SHARES:
        assert found.cvar(share) == pytest.approx(world.returns.cvar(share), abs=1e-8)


@pytest.mark.parametrize("asked", ["all", "each or not"])
@given(seed=seeds, unsupported=st.booleans())
@settings(max_examples=8)
def test_answers_that_are_means_are_smaller_in_the_convex_order(asked: str, seed: int, unsupported: bool) -> None:
    world = Small(seed, 3, unsupported=unsupported).everything("means", asked=asked)
    found, true = expected(world, "c-wis"), world.returns
    assert found.mean == pytest.approx(true.mean, abs=1e-9)
    shortfall = np.array([np.maximum(x - found.returns, 0) @ found.weights for x in true.value])
    assert (shortfall <= true.shortfall(true.value) + 1e-9).all()
    optimism = [found.cvar(share) - true.cvar(share) for share in SHARES]
    assert min(optimism) >= -1e-9
    assert optimism[-1] == pytest.approx(0, abs=1e-9)
    assert max(optimism) > 1e-6
    assert found.weights @ (found.returns - true.mean) ** 2 < true.chance @ (true.value - true.mean) ** 2
    assert "at best" in returns_distribution(world.problem).note


# Refusals


@pytest.mark.parametrize("name", ["dr", "pdwis-step", "naive-weighted", "dm+-is+"])
def test_estimators_that_do_not_weigh_whole_returns(name: str) -> None:
    with pytest.raises(so.OptionError, match=r"does not weigh whole returns.*Use one of is, wis"):
        returns_distribution(problem_from(random_logs(0, fully_annotated=False)), name)


def test_a_policy_that_nothing_follows() -> None:
    episodes = so.Episodes.from_arrays(episode=[0, 1], step=[0, 0], state=[0, 0], action=[0, 0], reward=[1.0, 2.0])
    policy = so.Policy.from_table(np.array([[0.0, 1.0]]))
    for name in ("wis", "c-wis"):
        with pytest.raises(so.SupportError, match=r"no sample of its returns\. Annotate actions"):
            returns_distribution(problem_of(episodes, policy), name)
    with pytest.raises(so.SupportError, match="need every action"):
        returns_distribution(problem_of(episodes, policy), "c*-is")
