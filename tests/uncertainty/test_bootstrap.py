"""The Poisson bootstrap: its weights, its independence of how data are divided, and the intervals made from it."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np
import pytest
from scipy import stats

import semiope as so
from semiope.uncertainty.bootstrap import RESAMPLES, Sums, resampled
from semiope.uncertainty.intervals import interval

METHODS = ("bootstrap", "studentized", "bca")


def weights(n: int, seed: int = 0) -> np.ndarray:
    """How often each of n episodes counts in each resample, (n, resamples)."""
    one = np.ones(1)
    return np.array([resampled(one, one, np.array([i]), seed=seed).x for i in range(n)])


def test_weights_are_poisson() -> None:
    """Chi-squared over 300,000 weights, and no correlation between episodes or resamples."""
    found = weights(300)
    counts = np.bincount(found.ravel().astype(int), minlength=8)
    expected = stats.poisson(1).pmf(np.arange(7)) * found.size
    assert stats.chisquare([*counts[:7], counts[7:].sum()], [*expected, found.size - expected.sum()]).pvalue > 1e-4
    for matrix in (np.corrcoef(found), np.corrcoef(found.T)):
        off = matrix[np.triu_indices(len(matrix), 1)]
        cells = found.shape[1] if len(matrix) == 300 else 300
        assert off.std() == pytest.approx(cells**-0.5, rel=0.05)
        assert abs(off.mean()) < 5 * cells**-0.5 / len(off) ** 0.5


def test_sums_are_those_of_the_weights(rng: np.random.Generator) -> None:
    x, y = rng.normal(size=(2, 40))
    w = weights(40, seed=3)
    found = resampled(x, y, np.arange(40), seed=3, squares=True)
    for ours, expected in zip(found, (x, y, x * x, x * y, y * y), strict=True):
        assert ours == pytest.approx(w.T @ expected, abs=1e-10)
    assert resampled(x, y, np.arange(40), seed=3).x == pytest.approx(found.x, abs=1e-10)
    ratio = found.x / found.y
    error = np.sqrt([np.sum(w[:, b] * (x - ratio[b] * y) ** 2) for b in range(RESAMPLES)]) / np.abs(found.y)
    assert found.errors == pytest.approx(error, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("parts", [1, 16])
def test_parts_add_up(parts: int, rng: np.random.Generator) -> None:
    x, y = rng.normal(1, 1, size=(2, 1000))
    keys = rng.permutation(1000) + 10**12
    whole = resampled(x, y, keys, seed=1, squares=True)
    order = rng.permutation(1000)
    pieces = [resampled(x[i], y[i], keys[i], seed=1, squares=True) for i in np.array_split(order, parts)]
    added = reduce(Sums.added, pieces)
    assert added.ratios == pytest.approx(whole.ratios, rel=1e-12)
    assert added.errors == pytest.approx(whole.errors, rel=1e-10)


@pytest.mark.parametrize("resamples", [1, 2, 7])
def test_any_number_of_resamples(resamples: int) -> None:
    one = np.ones(5)
    found = resampled(one, one, np.arange(5), resamples=resamples)
    assert len(found.x) == resamples
    assert (found.x == resampled(one, one, np.arange(5), resamples=8).x[:resamples]).all()


@pytest.mark.parametrize("method", METHODS)
def test_intervals_do_not_depend_on_the_order_of_episodes(method: str, rng: np.random.Generator) -> None:
    n = 60
    columns = {
        "episode": [f"patient {i}" for i in range(n)], "step": [0] * n, "state": ["s"] * n,
        "action": rng.choice(["a", "b"], n).tolist(), "reward": rng.normal(size=n).tolist(),
    }  # fmt: skip
    policy = so.read_policy({"state": ["s", "s"], "action": ["a", "b"], "prob": [0.7, 0.3]})
    order = rng.permutation(n)
    shuffled = {name: [values[i] for i in order] for name, values in columns.items()}
    first, second = (so.evaluate(one, policy, estimators=["wis"])["wis"] for one in (columns, shuffled))
    assert first.interval(method=method, seed=2) == pytest.approx(second.interval(method=method, seed=2), rel=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_agreement_with_an_independent_implementation(method: str, rng: np.random.Generator) -> None:
    """scipy's bootstrap draws its own resamples: ends agree within what 10,000 and 1,000 resamples leave open."""
    x = rng.gamma(2.0, size=200)
    y = np.ones(200)
    error = x.std(ddof=1) / math.sqrt(200)
    ours = np.mean([interval(x, y, method=method, seed=seed) for seed in range(10)], axis=0)
    if method == "studentized":
        draws = x[rng.integers(200, size=(10_000, 200))]
        pivots = (draws.mean(axis=1) - x.mean()) / (draws.std(axis=1) / math.sqrt(200))
        expected = x.mean() - error * np.quantile(pivots, (0.975, 0.025))
    else:
        kind: Any = {"bootstrap": "percentile", "bca": "BCa"}[method]
        found = stats.bootstrap((x,), np.mean, n_resamples=10_000, method=kind, random_state=1)
        expected = np.array(found.confidence_interval)
    assert ours == pytest.approx(expected, abs=0.12 * error)


@pytest.mark.parametrize("method", METHODS)
def test_coverage_of_a_skewed_self_normalised_estimate(method: str) -> None:
    """500 datasets of 80 episodes: the count covered is binomial; 450 is 5.1 standard deviations below 475."""
    covered = 0
    for seed in range(500):
        rng = np.random.default_rng(seed)
        ratio = rng.choice([0.4, 1.6], size=80)
        values = ratio * rng.gamma(2.0, 0.5, size=80)
        low, high = interval(values, ratio, method=method, seed=seed)
        covered += low <= 1 <= high
    assert 450 <= covered <= 495


def test_constant_values_leave_no_doubt() -> None:
    for method in METHODS:
        assert interval(np.full(9, 2.0), np.ones(9), method=method) == (2.0, 2.0)
