"""The paper's theory for one step: formulas against enumeration, its propositions as properties, its limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import semiope as so
from semiope.diagnostics import sequential, theory
from semiope.domains import bandit
from tests.diagnostics.enumeration import distribution, everything_annotated, example

seeds = st.integers(0, 2**32 - 1)
sizes = st.tuples(st.integers(1, 3), st.integers(2, 3))


@given(seeds, sizes, st.booleans(), st.booleans())
@settings(max_examples=60)
def test_bias_and_variance_equal_enumeration(seed: int, size: tuple[int, int], biased: bool, unsupported: bool) -> None:
    """Random weights; annotations missing, biased and noisy."""
    one = example(seed, n_states=size[0], n_actions=size[1], biased=biased, unsupported=unsupported)
    setting = one.setting
    plain, augmented, star = (distribution(one, name) for name in ("pdis", "c-pdis", "c*-pdis"))
    assert theory.bias_is(setting) == pytest.approx(plain.mean - setting.value, abs=1e-9)
    assert theory.variance_is(setting).total == pytest.approx(plain.variance, abs=1e-9)
    assert theory.bias_c_is(setting).total == pytest.approx(augmented.mean - setting.value, abs=1e-9)
    assert theory.variance_c_is(setting).total == pytest.approx(augmented.variance, abs=1e-9)
    annotated = everything_annotated(setting)
    assert theory.variance_c_star_is(annotated).total == pytest.approx(star.variance, abs=1e-9)


@given(seeds, sizes)
@settings(max_examples=40)
def test_each_of_the_eight_terms(seed: int, size: tuple[int, int]) -> None:
    """Theorem 13 written out as it stands, sum by sum; annotations are biased, so that y is their own mean."""
    one = example(seed, n_states=size[0], n_actions=size[1])
    setting, mdp = one.setting, one.setting.mdp
    n, actions = mdp.n_states, range(mdp.n_actions)
    behavior, evaluation, augmented = setting.behavior[0], setting.evaluation[0], setting.augmented[0]
    shares = np.einsum("k,ksai->sai", one.chances, one.kinds)
    terms, inner = dict.fromkeys(theory.VarianceCIS._fields, 0.0), np.zeros((n, mdp.n_actions))
    for s, a in np.ndindex(inner.shape):
        chance = float(mdp.initial[s] * behavior[s, a])
        for i in actions:
            rho = evaluation[s, i] / augmented[s, i] if augmented[s, i] > 0 else 0.0
            y = mdp.reward[s, i] if i == a else setting.annotation_mean[0, s, i]
            paid = mdp.reward_std[s, i] ** 2
            excess = 0.0 if i == a else setting.annotation_variance[0, s, i] - paid
            spread = float(one.chances @ (one.kinds[:, s, a, i] - shares[s, a, i]) ** 2)
            inner[s, a] += rho * shares[s, a, i] * y
            terms["reward"] += chance * rho**2 * shares[s, a, i] ** 2 * paid
            terms["annotation"] += chance * rho**2 * shares[s, a, i] ** 2 * excess
            terms["weight"] += chance * rho**2 * y**2 * spread
            terms["weight_reward"] += chance * rho**2 * paid * spread
            terms["weight_annotation"] += chance * rho**2 * excess * spread
            for j in set(actions) - {i}:
                rho_j = evaluation[s, j] / augmented[s, j] if augmented[s, j] > 0 else 0.0
                y_j = mdp.reward[s, j] if j == a else setting.annotation_mean[0, s, j]
                off = (one.kinds[:, s, a, i] - shares[s, a, i]) * (one.kinds[:, s, a, j] - shares[s, a, j])
                terms["weight_covariance"] += chance * rho * rho_j * y * y_j * float(one.chances @ off)
    per_state = (behavior * inner).sum(axis=1)
    terms["state"] = float(mdp.initial @ (per_state - mdp.initial @ per_state) ** 2)
    terms["action"] = float(mdp.initial @ (behavior * (inner - per_state[:, None]) ** 2).sum(axis=1))
    assert theory.variance_c_is(setting)._asdict() == pytest.approx(terms, abs=1e-9)


@given(seeds, sizes)
@settings(max_examples=40)
def test_each_term_of_c_star(seed: int, size: tuple[int, int]) -> None:
    """Corollary 14 with its mean over actions taken, and what biased annotations add."""
    setting = everything_annotated(example(seed, n_states=size[0], n_actions=size[1]).setting)
    mdp, behavior, evaluation = setting.mdp, setting.behavior[0], setting.evaluation[0]
    terms, inner = dict.fromkeys(theory.VarianceCStarIS._fields, 0.0), np.zeros(behavior.shape)
    for s, a in np.ndindex(behavior.shape):
        chance = float(mdp.initial[s] * behavior[s, a])
        for i in range(mdp.n_actions):
            y = mdp.reward[s, i] if i == a else setting.annotation_mean[0, s, i]
            inner[s, a] += evaluation[s, i] * y
            terms["reward"] += chance * evaluation[s, i] ** 2 * mdp.reward_std[s, i] ** 2
            if i != a:
                excess = setting.annotation_variance[0, s, i] - mdp.reward_std[s, i] ** 2
                terms["annotation"] += chance * evaluation[s, i] ** 2 * excess
    per_state = (behavior * inner).sum(axis=1)
    terms["state"] = float(mdp.initial @ (per_state - mdp.initial @ per_state) ** 2)
    terms["bias"] = float(mdp.initial @ (behavior * (inner - per_state[:, None]) ** 2).sum(axis=1))
    assert theory.variance_c_star_is(setting)._asdict() == pytest.approx(terms, abs=1e-9)


@given(seeds, sizes)
@settings(max_examples=40)
def test_the_bias_is_split_by_its_causes(seed: int, size: tuple[int, int]) -> None:
    """Without annotation error only support is left (Proposition 2); with full support only annotations (3)."""
    options: dict[str, Any] = {"n_states": size[0], "n_actions": size[1]}
    exact = theory.bias_c_is(example(seed, **options, biased=False).setting)
    assert exact.annotation == 0.0
    supported = example(seed, **options, unsupported=False).setting
    assert not theory.unsupported_actions(supported).augmented.any()
    assert theory.bias_c_is(supported).support == 0.0
    both = theory.bias_c_is(example(seed, **options).setting)
    assert both.support == exact.support


@given(seeds, sizes)
@settings(max_examples=60)
def test_annotations_reduce_bias(seed: int, size: tuple[int, int]) -> None:
    """Proposition 4. Perfect annotations, no negative reward, an annotated action that the logs lack: less bias."""
    one = example(seed, n_states=size[0], n_actions=size[1], biased=False).setting
    mdp = so.TabularMDP.one_step(np.abs(one.mdp.reward), reward_std=one.mdp.reward_std, initial=one.mdp.initial)
    weights = theory.WeightMoments(one.weights.mean[0], None)
    setting = theory.Setting.of(mdp, one.behavior[0], one.evaluation[0], weights=weights)
    lacking = theory.unsupported_actions(setting)
    gained = lacking.logged & ~lacking.augmented & (setting.evaluation > 0) & (mdp.reward > 0)
    if (gained[0] & (mdp.initial > 0)[:, None]).any():
        assert abs(theory.bias_c_is(setting).total) < abs(theory.bias_is(setting))
    else:
        assert theory.bias_c_is(setting).total == pytest.approx(theory.bias_is(setting), abs=1e-12)


@given(seeds, sizes)
@settings(max_examples=60)
def test_c_is_is_unbiased(seed: int, size: tuple[int, int]) -> None:
    """Theorem 1. Perfect annotations and common support with annotations, for every weighting."""
    one = example(seed, n_states=size[0], n_actions=size[1], biased=False, unsupported=False)
    assert theory.bias_c_is(one.setting).total == pytest.approx(0.0, abs=1e-12)
    assert distribution(one, "c-pdis").mean == pytest.approx(one.setting.value, abs=1e-9)


@given(seeds, sizes)
@settings(max_examples=60)
def test_c_star_is_reduces_variance(seed: int, size: tuple[int, int]) -> None:
    """Proposition 7. Perfect annotations that scatter as rewards do: V[C*-IS] <= V[IS], term by term."""
    one = example(seed, n_states=size[0], n_actions=size[1], unsupported=False).setting
    setting = theory.Setting.of(one.mdp, one.behavior[0], one.evaluation[0], annotation_std=one.mdp.reward_std)
    plain, star = theory.variance_is(setting), theory.variance_c_star_is(setting)
    assert star.state == pytest.approx(plain.state, abs=1e-12)
    assert (star.annotation, star.bias) == (0.0, 0.0)
    assert star.reward <= plain.reward + 1e-12
    assert star.total <= plain.total + 1e-12
    # Theorem 6 in its own words: E_s E_a[pi_b rho^2 sigma_R^2].
    ratio = setting.evaluation[0] / setting.behavior[0]
    printed = one.mdp.initial @ (setting.behavior[0] ** 2 * ratio**2 * one.mdp.reward_std**2).sum(axis=1)
    assert star.reward == pytest.approx(float(printed), abs=1e-12)


@given(seeds, sizes)
@settings(max_examples=40)
def test_terms_vanish_when_the_paper_says_so(seed: int, size: tuple[int, int]) -> None:
    one = example(seed, n_states=size[0], n_actions=size[1], biased=False, unsupported=False).setting
    behavior, evaluation = one.behavior[0], one.evaluation[0]
    constant = theory.variance_c_is(theory.Setting.of(one.mdp, behavior, evaluation, weights=one.weights.mean[0]))
    assert constant[4:] == (0.0, 0.0, 0.0, 0.0)
    same = theory.Setting.of(
        one.mdp, behavior, evaluation, weights=theory.WeightMoments(*(m[0] for m in one.weights if m is not None)),
        annotation_std=one.mdp.reward_std,
    )  # fmt: skip
    terms = theory.variance_c_is(same)
    assert (terms.annotation, terms.weight_annotation) == (0.0, 0.0)
    factual = theory.WeightMoments.factual(*one.mdp.reward.shape)
    ignoring = theory.Setting.of(
        one.mdp, behavior, evaluation, weights=factual, annotation_bias=5.0, annotation_std=7.0
    )
    assert theory.variance_c_is(ignoring)[:3] == pytest.approx(tuple(theory.variance_is(ignoring)), abs=1e-12)
    assert theory.variance_c_is(ignoring).total == pytest.approx(theory.variance_is(ignoring).total, abs=1e-12)
    equal = theory.Setting.of(one.mdp, behavior, evaluation, annotation_bias=0.3, annotation_std=0.2)
    assert theory.variance_c_is(equal).total == pytest.approx(theory.variance_c_star_is(equal).total, abs=1e-12)


@given(seeds, sizes)
@settings(max_examples=40)
def test_one_step_terms_and_the_recursion_agree(seed: int, size: tuple[int, int]) -> None:
    setting = example(seed, n_states=size[0], n_actions=size[1]).setting
    assert theory.variance_is(setting).total == pytest.approx(sequential.pdis(setting).variance, abs=1e-9)
    found = sequential.c_pdis(setting)
    assert theory.variance_c_is(setting).total == pytest.approx(found.variance, abs=1e-9)
    assert theory.bias_c_is(setting).total == pytest.approx(found.bias, abs=1e-9)


def test_the_naive_estimator_of_section_3() -> None:
    """Two states with rewards 1 and 0; only s1 is annotated: 2/3 instead of 1/2."""
    world = bandit.two_state((1.0, 1.0), (1.0, 0.0), other_mean=0.0, reward_std=0.0)
    setting = theory.Setting.of(world.mdp, world.behavior, world.policies["0-1"])
    found = theory.naive_is(setting, world.askable)
    assert (found.value, found.mean, found.bias) == pytest.approx((1 / 2, 2 / 3, 1 / 6))


@given(seeds)
@settings(max_examples=30)
def test_the_naive_estimator_by_enumeration(seed: int) -> None:
    """Pooled samples listed one by one: state, action taken, sample; behaviour as the pool shows it."""
    one = example(seed, n_actions=3).setting
    annotated = np.random.default_rng(seed).random((2, 3, 3))
    pool: list[tuple[float, int, int, float, float]] = []  # chance, state, action, mean, variance
    for s, a in np.ndindex(2, 3):
        chance = float(one.mdp.initial[s] * one.behavior[0, s, a])
        pool.append((chance, s, a, float(one.mdp.reward[s, a]), float(one.mdp.reward_std[s, a]) ** 2))
        for i in set(range(3)) - {a}:
            told = float(one.annotation_mean[0, s, i]), float(one.annotation_variance[0, s, i])
            pool.append((chance * annotated[s, a, i], s, i, *told))
    total = sum(sample[0] for sample in pool)
    mean = second = 0.0
    for chance, s, i, m, v in pool:
        seen = sum(c for c, s_, _, _, _ in pool if s_ == s)
        share = sum(c for c, s_, i_, _, _ in pool if (s_, i_) == (s, i)) / seen
        ratio = one.evaluation[0, s, i] / share if share else 0.0
        mean += chance / total * ratio * m
        second += chance / total * ratio**2 * (m**2 + v)
    found = theory.naive_is(one, annotated)
    assert (found.mean, found.variance) == pytest.approx((mean, second - mean**2), abs=1e-9)


@given(seeds)
@settings(max_examples=20)
def test_moments_of_a_mixture(seed: int) -> None:
    """The enumeration forms these moments by itself."""
    one = example(seed, n_actions=3)
    found = theory.WeightMoments.mixture(one.chances, one.kinds)
    assert found.covariance is not None
    assert one.setting.weights.covariance is not None
    assert found.mean == pytest.approx(one.setting.weights.mean[0], abs=1e-12)
    assert found.covariance == pytest.approx(one.setting.weights.covariance[0], abs=1e-12)


@given(seeds, st.integers(2, 4))
@settings(max_examples=40)
def test_moments_of_equal_weights_under_missing_annotations(seed: int, n_actions: int) -> None:
    """By going through every subset of annotations, one pair at a time."""
    rng = np.random.default_rng(seed)
    annotated = np.where(
        rng.random((2, n_actions, n_actions)) < 0.3, rng.integers(2), rng.random((2, n_actions, n_actions))
    )
    found = theory.WeightMoments.equal(annotated)
    for s, a in np.ndindex(2, n_actions):
        others = [i for i in range(n_actions) if i != a]
        mean, second = np.zeros(n_actions), np.zeros((n_actions, n_actions))
        for flags in np.ndindex(*(2,) * len(others)):
            there = [i for i, flag in zip(others, flags, strict=True) if flag]
            chance = np.prod([annotated[s, a, i] if i in there else 1 - annotated[s, a, i] for i in others])
            weights = np.zeros(n_actions)
            weights[[a, *there]] = 1 / (1 + len(there))
            mean += chance * weights
            second += chance * np.outer(weights, weights)
        assert found.mean[s, a] == pytest.approx(mean, abs=1e-12)
        covariance = np.zeros((n_actions, n_actions)) if found.covariance is None else found.covariance[s, a]
        assert covariance == pytest.approx(second - np.outer(mean, mean), abs=1e-12)


def test_counting_scatters_less_than_knowing() -> None:
    """As the docs say: theory is for known policies; what is counted in the data scatters less, however many there are.

    1000 datasets of 500 episodes: a standard deviation is known to 2.2%, four times that is allowed.
    """
    world = bandit.one_state(behavior=(0.8, 0.2))
    policy, expert = world.policies["0.1-0.9"], so.Annotator(std=0.5, ratio=0.5)
    found: dict[str, list[float]] = {}
    for k in range(1000):
        episodes = world.sample(500, seed=31, first=500 * k)
        annotations = world.annotate(episodes, policy, annotators=expert, seed=32)
        for kind, behavior in (("known", world.behavior), ("counted", "count")):
            options: dict[str, Any] = {"annotations": annotations, "behavior": behavior, "estimators": ["is", "c-is"]}
            for name, estimate in so.evaluate(episodes, policy, **options).items():
                found.setdefault(f"{name} {kind}", []).append(estimate.value)
    setting = world.setting(policy, expert)
    std = {name: float(np.std(values)) for name, values in found.items()}
    assert std["is known"] == pytest.approx(sequential.pdis(setting).std_error(500), rel=0.09)
    assert sequential.pdis(setting).std_error(500) == pytest.approx(0.165, abs=5e-4)
    assert sequential.c_pdis(setting).std_error(500) == pytest.approx(0.0765, abs=5e-4)
    assert std["is counted"] == pytest.approx(0.046, rel=0.09)
    assert std["c-is known"] == pytest.approx(0.052, rel=0.09)
    assert std["c-is counted"] == pytest.approx(0.027, rel=0.09)


def test_weights_are_those_that_evaluate_counts() -> None:
    """Moments under missing annotations, against the weights that a large simulated dataset has."""
    world = bandit.bandit([[1.0, -2.0, 3.0]], 1.0, behavior=[[0.5, 0.3, 0.2]])
    moments = theory.WeightMoments.equal(np.full((1, 3, 3), 0.4))
    setting = theory.Setting.of(world.mdp, world.behavior, [[0.1, 0.1, 0.8]], weights=moments, annotation_std=1.0)
    n = 200_000
    episodes = world.sample(n, seed=5)
    annotations = world.annotate(
        episodes, world.mdp.policy(setting.evaluation[0]), annotators=so.Annotator(std=1.0, ratio=0.4), seed=6
    )
    found = so.evaluate(
        episodes, world.mdp.policy(setting.evaluation[0]), annotations=annotations, behavior=world.behavior,
        estimators=["c-is"],
    )["c-is"]  # fmt: skip
    expected = theory.variance_c_is(setting)
    # Four standard errors of a variance of 200,000 values.
    spread = np.var((found.values - found.values.mean()) ** 2) ** 0.5 / n**0.5
    assert np.var(found.values) == pytest.approx(expected.total, abs=4 * spread)
    assert abs(found.value - setting.value) < 4 * (expected.total / n) ** 0.5
