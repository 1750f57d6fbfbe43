"""Bounds for values in a range: formulas by hand, error rates by simulation, and what they refuse."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

import semiope as so
from semiope.uncertainty.bounds import BOUNDS, confidence_sequence, lower_bound


def test_formulas_by_hand() -> None:
    values = np.array([0.0, 1.0, 1.0, 0.0])
    assert lower_bound(values, -2, 2, alpha=0.1, method="hoeffding") == pytest.approx(
        0.5 - 4 * math.sqrt(math.log(10) / 8)
    )
    expected = 0.5 - math.sqrt(2 * (1 / 3) * math.log(20) / 4) - 7 * 4 * math.log(20) / 9
    assert expected < -2
    assert lower_bound(values, -2, 2, alpha=0.1) == -2  # no bound is below the range
    many = np.tile(values, 500)
    expected = 0.5 - math.sqrt(2 * many.var(ddof=1) * math.log(20) / 2000) - 7 * 4 * math.log(20) / (3 * 1999)
    assert lower_bound(many, -2, 2, alpha=0.1) == pytest.approx(expected)


@pytest.mark.parametrize("method", ["hoeffding", "bernstein"])
def test_bounds_hold_at_least_at_their_rate(method: str) -> None:
    """Ratios of 0 or 20 with mean 1, which are far from normal at 100 episodes: 2,000 datasets, error rate 10%."""
    rng = np.random.default_rng(0)
    wrong = sum(
        lower_bound(rng.choice([0.0, 20.0], p=[0.95, 0.05], size=100), 0, 20, alpha=0.1, method=method) > 1
        for _ in range(2000)
    )
    assert wrong <= 200 + 4 * math.sqrt(2000 * 0.1 * 0.9)


def test_the_t_limit_does_not_hold_there() -> None:
    """Upper limits of the same ratios, as lower limits of their negatives: what trusting the normal comes to."""
    rng = np.random.default_rng(0)
    wrong = sum(
        lower_bound(-rng.choice([0.0, 20.0], p=[0.98, 0.02], size=50), -20, 0, alpha=0.05, method="t") > -0.4
        for _ in range(1000)
    )
    assert wrong > 200


@pytest.mark.parametrize("method", BOUNDS)
def test_bounds_tighten_with_more_episodes(method: str, rng: np.random.Generator) -> None:
    gaps = []
    for n in (100, 1000, 10_000, 100_000):
        values = rng.uniform(0, 1, size=n)
        gaps.append(0.5 - lower_bound(values, 0, 1, method=method))
    assert all(later < earlier for earlier, later in pairwise(gaps))
    assert gaps[-1] < 0.01


def test_a_confidence_sequence_holds_at_all_looks_at_once() -> None:
    """10,000 looks at each of 400 series: at most a share alpha of the series may ever leave the truth out."""
    rng = np.random.default_rng(1)
    missed = 0
    for _ in range(400):
        values = 3 * rng.random(10_000) ** 2 - 1  # mean 0
        low, high = confidence_sequence(values, -1, 2, alpha=0.1)
        missed += bool(((low > 0) | (high < 0)).any())
    assert missed <= 40 + 4 * math.sqrt(400 * 0.1 * 0.9)
    assert (np.diff(low) >= 0).all()
    assert (np.diff(high) <= 0).all()
    assert high[-1] - low[-1] < 0.12
    assert low[0] == -1
    assert high[0] == 2


def test_a_fixed_interval_would_not() -> None:
    """The same looks with Student's interval leave the truth out far more often than one in ten."""
    rng = np.random.default_rng(1)
    missed = 0
    for _ in range(100):
        values = 3 * rng.random(10_000) ** 2 - 1
        n = np.arange(1, 10_001)
        mean = np.cumsum(values) / n
        std = np.sqrt(np.maximum(np.cumsum(values**2) / n - mean**2, 0))
        missed += bool((np.abs(mean) > 1.645 * std / np.sqrt(n))[20:].any())
    assert missed > 30


def test_bets_know_only_the_past(rng: np.random.Generator) -> None:
    values = rng.random(50)
    whole = confidence_sequence(values, 0, 1)
    part = confidence_sequence(values[:20], 0, 1)
    assert whole.low[:20] == pytest.approx(part.low)
    assert whole.high[:20] == pytest.approx(part.high)


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        (1, 1, "range: 1 to 1 is no range"),
        (0, math.inf, "is no range"),
        (0, 0.5, "range: the value 1 of episode number 1 is not between 0 and 0.5"),
    ],
)
def test_ranges_that_cannot_be(low: float, high: float, message: str) -> None:
    values = np.array([0.0, 1.0])
    with pytest.raises((so.OptionError, so.SchemaError), match=message):
        lower_bound(values, low, high)
    with pytest.raises((so.OptionError, so.SchemaError), match=message):
        confidence_sequence(values, low, high)


def test_what_else_is_refused() -> None:
    with pytest.raises(so.OptionError, match="Did you mean 'hoeffding'"):
        lower_bound(np.zeros(3), -1, 1, method="hoefding")
    with pytest.raises(so.SchemaError, match="at least two"):
        lower_bound(np.zeros(1), -1, 1)
    with pytest.raises(so.SchemaError, match="there are no values"):
        confidence_sequence(np.zeros(0), -1, 1)
    with pytest.raises(so.OptionError, match="alpha"):
        lower_bound(np.zeros(3), -1, 1, alpha=1.5)
