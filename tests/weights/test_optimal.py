"""Weights of least variance: against a grid on the paper's settings, a general solver, and C*-IS."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import semiope as so
from semiope.diagnostics import sequential, theory
from semiope.domains import bandit
from semiope.weights.optimal import optimal_factors

# R, sigma_R, pi_b, pi_e and sigma_G / sigma_R of the weight heat maps (figure 7; e as its code ran it).
SETTINGS: dict[str, Any] = {
    "a": ([1.0, 2.0], [1.0, 1.0], [0.1, 0.9], [0.8, 0.2], 1.0),
    "b": ([1.0, 2.0], [1.0, 1.0], [0.9, 0.1], [0.95, 0.05], 1.0),
    "c": ([1.0, 2.0], [1.0, 1.0], [0.1, 0.9], [0.8, 0.2], 2.0),
    "d": ([1.0, 2.0], [1.0, 1.0], [0.1, 0.9], [0.8, 0.2], 0.5),
    "e": ([1.0, 2.0], [1.0, 1.0], [0.8, 0.2], [0.1, 0.9], 1.0),
}


def variance_of(u: np.ndarray, pb: np.ndarray, pe: np.ndarray, y: np.ndarray, vr: np.ndarray, vg: np.ndarray) -> float:
    """The variance of one sample in one state, straight from the definition; u by action taken and action."""
    own = np.eye(len(pb), dtype=bool)
    spread = (u**2 * pe**2 * np.where(own, vr, vg)).sum(axis=1) + (u * pe * y).sum(axis=1) ** 2
    return float(pb @ spread - (pb @ (u * pe * y).sum(axis=1)) ** 2)


def setting_of(name: str) -> tuple[np.ndarray, ...]:
    y, std, pb, pe, factor = SETTINGS[name]
    vr = np.array(std) ** 2
    return np.array(pb), np.array(pe), np.array(y), vr, vr * factor**2


def best_of_grid(name: str) -> float:
    """201 x 201 split weights of the action taken, as the heat maps have them."""
    pb, pe, y, vr, vg = setting_of(name)
    best = np.inf
    for w0 in np.linspace(0, 1, 201):
        w1 = np.linspace(0, 1, 201)
        weights = np.array([[np.full(201, w0), np.full(201, 1 - w0)], [1 - w1, w1]])
        augmented = np.einsum("a,aik->ik", pb, weights)
        with np.errstate(divide="ignore", invalid="ignore"):
            u = weights / augmented
        unbiased = (augmented > 0).all(axis=0)
        own = np.eye(2, dtype=bool)[:, :, None]
        spread = (u**2 * pe[:, None] ** 2 * np.where(own, vr[:, None], vg[:, None])).sum(axis=1)
        spread = spread + ((u * (pe * y)[:, None]).sum(axis=1)) ** 2
        variance = np.where(unbiased, pb @ spread - (pe @ y) ** 2, np.inf)
        best = min(best, float(np.nanmin(variance)))
    return best


@pytest.mark.parametrize("name", SETTINGS)
def test_no_split_weights_do_better_on_the_papers_settings(name: str) -> None:
    pb, pe, y, vr, vg = setting_of(name)
    u = optimal_factors([pb], [pe], [y], [vr], [vg])[0]
    ours, equal = variance_of(u, pb, pe, y, vr, vg), variance_of(np.ones((2, 2)), pb, pe, y, vr, vg)
    assert pb @ u == pytest.approx([1.0, 1.0])
    assert ours <= best_of_grid(name) + 1e-12
    assert ours <= equal + 1e-12
    expected = {"c": (2.1136, 2.42), "d": (0.2042, 0.245)}
    if name in expected:
        assert (ours, equal) == pytest.approx(expected[name], abs=5e-5)


def test_theory_knows_their_variance() -> None:
    """`sequential.moments` takes any factors: the same variance, and no bias."""
    pb, pe, y, vr, vg = setting_of("c")
    world = bandit.one_state(y.tolist(), pb.tolist(), reward_std=np.sqrt(vr)[None])
    setting = theory.Setting.of(world.mdp, world.behavior, [pe], annotation_std=np.sqrt(vg)[None])
    u = optimal_factors([pb], [pe], [y], [vr], [vg])
    found = sequential.moments(setting, u[None], ratio=setting.evaluation)
    assert found.variance == pytest.approx(2.1136, abs=5e-5)
    assert found.bias == pytest.approx(0.0, abs=1e-12)


def random_problem(seed: int, n: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    pb, pe = rng.dirichlet(np.ones(n), size=2)
    return pb, pe, rng.normal(size=n), rng.random(n), rng.random(n) * 2


@pytest.mark.parametrize("scale", [1e-6, 1e3, 1e6])
def test_the_sums_are_one_whatever_the_means(scale: float) -> None:
    pb, pe, y, vr, vg = random_problem(7, 5)
    u = optimal_factors([pb], [pe], [y * scale], [vr], [vg])[0]
    assert pb @ u == pytest.approx(np.ones(5), rel=0, abs=1e-14)


def test_what_was_held_at_zero_is_released() -> None:
    """The conditions of Karush, Kuhn and Tucker at the minimum, on many problems, some of which need a release."""
    for seed in range(200):
        pb, pe, y, vr, vg = random_problem(seed, 5)
        u = optimal_factors([pb], [pe], [3 * y], [vr], [vg])[0]
        variance = np.where(np.eye(5, dtype=bool), vr, vg) * pe**2
        gradient = u * variance + (u * pe * 3 * y).sum(axis=1, keepdims=True) * pe * 3 * y
        price = np.array([gradient[u[:, i] > 1e-9, i].mean() for i in range(5)])
        scale = np.abs(gradient).max()
        assert np.abs((gradient - price)[u > 1e-9]).max() < 1e-6 * scale
        assert (gradient - price).min() > -1e-6 * scale


def test_a_policy_that_takes_one_action_only() -> None:
    """In closed form, and as the limit of policies that hardly ever take another."""
    pb, _, y, vr, vg = random_problem(3, 4)
    nearly = np.array([1e-9, 1.0, 1e-9, 1e-9])
    exact = optimal_factors([pb], [np.array([0.0, 1.0, 0.0, 0.0])], [y], [vr], [vg])[0]
    close = optimal_factors([pb], [nearly / nearly.sum()], [y], [vr], [vg])[0]
    assert exact[:, 1] == pytest.approx(close[:, 1], rel=1e-4)
    assert not exact[:, [0, 2, 3]].any()
    assert pb @ exact[:, 1] == pytest.approx(1.0)


@given(st.integers(0, 2**32 - 1), st.integers(2, 6))
@settings(max_examples=150)
def test_never_above_equal_weights(seed: int, n: int) -> None:
    problem = random_problem(seed, n)
    pb, pe, y, vr, vg = problem
    u = optimal_factors([pb], [pe], [y], [vr], [vg])[0]
    assert (u >= 0).all()
    assert pb @ u == pytest.approx(np.ones(n), abs=1e-9)
    assert variance_of(u, *problem) <= variance_of(np.ones((n, n)), *problem) + 1e-9


@pytest.mark.parametrize("seed", range(12))
def test_a_general_solver_finds_nothing_better(seed: int) -> None:
    """Sequential least squares programming from the minimum and from elsewhere; some actions are not annotated."""
    n = 3
    problem = random_problem(seed, n)
    pb, pe, y, vr, vg = problem
    there = (np.random.default_rng(seed).random((n, n)) < 0.7) | np.eye(n, dtype=bool)
    u = optimal_factors([pb], [pe], [y], [vr], [vg], there[None])[0]
    assert not u[~there].any()
    own = np.eye(n, dtype=bool)

    def objective(x: np.ndarray) -> float:
        return variance_of(x.reshape(n, n), pb, pe, y, vr, vg)

    start = np.where(there, 1 / np.maximum((pb[:, None] * there).sum(axis=0), 1e-12), 0.0)
    constraint = {"type": "eq", "fun": lambda x: pb @ x.reshape(n, n) - 1}
    bounds = [(0, None if flag else 0) for flag in there.ravel()]
    for begin in (start, np.where(own, 1 / pb, 0.0)):
        options: dict[str, Any] = {"bounds": bounds, "constraints": [constraint], "method": "SLSQP"}
        other = minimize(objective, begin.ravel(), **options)
        assert objective(u.ravel()) <= other.fun + 1e-6 * max(1.0, other.fun)


def test_estimates_with_them_are_unbiased_and_scatter_as_told() -> None:
    """200,000 samples of setting c with factors fixed beforehand; four standard errors."""
    pb, pe, y, vr, vg = setting_of("c")
    u = optimal_factors([pb], [pe], [y], [vr], [vg])[0]
    rng = np.random.default_rng(1)
    n = 200_000
    taken = rng.choice(2, size=n, p=pb)
    own = np.eye(2, dtype=bool)[taken]
    known = y + np.where(own, np.sqrt(vr), np.sqrt(vg)) * rng.normal(size=(n, 2))
    values = (u[taken] * pe * known).sum(axis=1)
    assert abs(values.mean() - pe @ y) < 4 * values.std() / n**0.5
    assert values.var() == pytest.approx(2.1136, abs=4 * np.var((values - values.mean()) ** 2) ** 0.5 / n**0.5)


@pytest.mark.parametrize(
    ("place", "table", "message"),
    [
        (0, [[0.5, -0.5]], "behavior: not finite numbers of at least 0"),
        (2, [[np.nan, 1.0]], "mean: not finite numbers"),
        (3, [[1.0]], r"reward_variance: an array of shape \(1, 1\)"),
        (4, [1.0, 2.0], r"annotation_variance: an array of shape \(2,\)"),
    ],
)
def test_bad_input(place: int, table: Any, message: str) -> None:
    arguments: list[Any] = [[[0.5, 0.5]], [[0.5, 0.5]], [[1.0, 2.0]], [[1.0, 1.0]], [[1.0, 1.0]]]
    arguments[place] = table
    with pytest.raises(so.SchemaError, match=message):
        optimal_factors(*arguments)
