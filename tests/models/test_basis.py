"""Terms of a regression on features."""

from __future__ import annotations

import numpy as np
import pytest

from semiope.models import basis as module
from semiope.models.basis import Basis

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 3))
X[:, 2] = X[:, 2] > 0


def timed(step: int, n: int = 400) -> np.ndarray:
    return np.column_stack([X[:n], np.full(n, step)])


STEPS = np.vstack([timed(step) for step in range(6)])


def test_columns_of_a_policy_are_the_mean_of_those_of_its_actions() -> None:
    basis = Basis(STEPS, 3, timed=True)
    probs = RNG.dirichlet(np.ones(3), size=20)
    for step in (0, 3):
        parts = basis.of(timed(step, 20))
        each = [basis.taken(parts, np.full(20, a)) for a in range(3)]
        mixed = sum(probs[:, [a]] * each[a] for a in range(3))
        found = basis.mixed_functions(basis.of_features(X[:20]), probs)
        assert np.abs(basis.spread(step, found.T).T - mixed).max() < 1e-11


def test_sums_of_products_of_columns_come_from_those_of_functions() -> None:
    basis, action = Basis(STEPS, 3, timed=True), RNG.integers(3, size=100)
    functions, columns = basis.of_features(X[:100]), basis.taken(basis.of(timed(2, 100)), action)
    sums = np.array([functions[action == a].T @ functions[action == a] for a in range(3)])
    found = basis.spread(2, basis.spread(2, basis.squared_functions(sums)).T)
    assert np.abs(found - columns.T @ columns).max() < 1e-9 * np.abs(found).max()


def test_predictions_are_columns_times_weights() -> None:
    for x, is_timed in ((X[:20], False), (STEPS[::60], True)):
        basis = Basis(STEPS if is_timed else X, 3, timed=is_timed)
        weights = RNG.normal(size=basis.n_columns)
        step = x[:, -1].astype(int) if is_timed else np.zeros(len(x), int)
        found = basis.predicted(x[:, :3], step, basis.coefficients(weights, 6))
        for a in range(3):
            assert np.abs(found[:, a] - basis.taken(basis.of(x), np.full(len(x), a)) @ weights).max() < 1e-10


def test_curves_pairs_and_effects_by_action_are_in_the_basis() -> None:
    basis, action = Basis(X, 2), RNG.integers(2, size=len(X))
    columns = basis.taken(basis.of(X), action)
    inside = np.clip(X, *np.quantile(X, [module.OUTER, 1 - module.OUTER], axis=0))
    for target in (X[:, 2], inside[:, 0] * inside[:, 1], inside[:, 0] * action, inside[:, 0] * X[:, 2] * action):
        left = target - columns @ np.linalg.lstsq(columns, target, rcond=None)[0]
        assert np.abs(left).max() < 1e-6


def test_an_outlier_counts_as_the_quantile() -> None:
    basis = Basis(X, 2)
    far, end = np.array([[1e9, 0.0, 1.0]]), np.array([[basis.inputs.high[0], 0.0, 1.0]])
    assert np.array_equal(basis.of(far)[0], basis.of(end)[0])


@pytest.mark.parametrize(("n_features", "n_actions"), [(20, 8), (60, 3), (10, 50), (150, 2)])
def test_there_are_never_too_many_columns(n_features: int, n_actions: int) -> None:
    x = RNG.normal(size=(200, n_features))
    basis = Basis(x, n_actions)
    assert basis.n_columns <= max(module.MOST_COLUMNS, 1 + n_features + n_actions)
    assert basis.taken(basis.of(x[:5]), np.zeros(5, dtype=int)).shape == (5, basis.n_columns)


def test_a_rare_indicator_keeps_its_column() -> None:
    x = np.column_stack([X[:, 0], np.arange(400) == 7])
    assert Basis(x, 2).of(x)[0].std(axis=0)[2] > 0
