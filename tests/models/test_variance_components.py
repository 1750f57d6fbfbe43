"""Regression with a prior variance for each block of columns."""

from __future__ import annotations

import numpy as np
import pytest

from semiope.models.variance_components import Posterior, fit

BLOCKS = np.array([0, *[1] * 20, *[2] * 20])


def drawn(seed: int, n: int = 500, useful: float = 1.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = np.hstack([np.ones((n, 1)), rng.normal(size=(n, 40))])
    weights = np.concatenate([[3.0], useful * rng.normal(size=20), np.zeros(20)])
    return x, weights, x @ weights + 0.5 * rng.normal(size=n)


def fitted(x: np.ndarray, y: np.ndarray, rounds: int = 100) -> Posterior:
    return fit(x.T @ x, x.T @ y, float(y @ y), len(y), BLOCKS, rounds=rounds)


def test_variances_of_blocks_and_noise_are_found() -> None:
    x, weights, y = drawn(0)
    found = fitted(x, y)
    assert np.sqrt(found.noise) == pytest.approx(0.5, rel=0.1)
    assert np.sqrt(found.blocks[1]) == pytest.approx(np.sqrt(np.mean(weights[1:21] ** 2)), rel=0.1)
    assert found.blocks[2] < 0.01 * found.blocks[1]
    assert np.abs(found.mean - weights).max() < 0.1


def test_the_mean_is_that_of_ridge_regression_with_the_variances_found() -> None:
    x, _, y = drawn(1)
    found = fitted(x, y)
    precision = np.where(BLOCKS == 0, 0.0, found.noise / np.maximum(found.blocks, 1e-300)[BLOCKS])
    expected = np.linalg.solve(x.T @ x + np.diag(precision), x.T @ y)
    assert np.abs(found.mean - expected).max() < 1e-6


def test_the_fixed_point_is_a_maximum_of_the_marginal_likelihood() -> None:
    x, _, y = drawn(2, n=120)
    found = fitted(x, y, rounds=1000)

    def likelihood(blocks: np.ndarray, noise: float) -> float:
        covariance = noise * np.eye(len(y)) + (x * blocks[BLOCKS]) @ x.T
        return -0.5 * float(np.linalg.slogdet(covariance)[1] + y @ np.linalg.solve(covariance, y))

    best = likelihood(found.blocks, found.noise)
    for k, times in ((1, 1.3), (1, 0.7), (2, 1e4)):
        other = found.blocks.copy()
        other[k] *= times
        assert likelihood(other, found.noise) < best
    assert likelihood(found.blocks, found.noise * 1.3) < best
    assert likelihood(found.blocks, found.noise * 0.7) < best


def test_the_posterior_holds_the_weights_as_often_as_it_says() -> None:
    z = []
    for seed in range(60):
        x, weights, y = drawn(seed, n=80)
        found = fitted(x, y, rounds=30)
        direction = np.random.default_rng(1000 + seed).normal(size=41)
        z.append(float(direction @ (found.mean - weights)) / np.sqrt(direction @ found.covariance @ direction))
    assert 0.8 < np.sqrt(np.mean(np.square(z))) < 1.25


def test_numbers_of_any_size_give_the_same() -> None:
    x, _, y = drawn(3)
    plain, large = fitted(x, y), fitted(x, 1e6 * y)
    assert np.allclose(large.mean, 1e6 * plain.mean, rtol=1e-6)
    assert fitted(x, 0 * y).mean.tolist() == [0.0] * 41
