"""Confidence intervals for a ratio of sums over episodes: sum of numerators over sum of denominators.

Numerators are per-episode values; denominators are 1 for ordinary estimates and the normalisers for self-normalised
ones. Resampling draws episodes and forms the ratio of sums anew: values already divided by their normaliser would not
cover. Estimators that normalise per step give linearised values, and it is those that are resampled.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import NamedTuple

import numpy as np

from semiope._arrays import Floats
from semiope._random import Seed, generator
from semiope.errors import OptionError, nearest
from semiope.estimate.result import standard_error

METHODS = ("t", "normal", "bootstrap")
RESAMPLES = 1000


class Interval(NamedTuple):
    """Lower and upper end."""

    low: float
    high: float


def interval(
    numerators: Floats,
    denominators: Floats,
    *,
    alpha: float = 0.05,
    method: str = "t",
    seed: Seed = 0,
) -> Interval:
    """Return an interval with nominal coverage 1 - alpha; NaN for fewer than two episodes."""
    check_alpha(alpha)
    check_method(method)
    n, total = len(numerators), float(denominators.sum())
    if n < 2 or not total:
        return Interval(math.nan, math.nan)
    if method == "bootstrap":
        return _bootstrap(numerators, denominators, alpha, generator(seed))
    from scipy.special import ndtri, stdtrit

    value, error = float(numerators.sum()) / total, standard_error(numerators, denominators)
    quantile = float(stdtrit(n - 1, 1 - alpha / 2) if method == "t" else ndtri(1 - alpha / 2))
    return Interval(value - quantile * error, value + quantile * error)


def check_alpha(alpha: float) -> None:
    """Fail unless alpha is an error probability."""
    if not isinstance(alpha, Real) or not 0 < alpha < 1:
        raise OptionError(f"alpha: {alpha!r} is not between 0 and 1. For a 95% interval use 0.05.")


def check_method(method: str) -> None:
    """Fail unless the method is known."""
    if method not in METHODS:
        raise OptionError(f"ci: {method!r} is not known.{nearest(method, METHODS)} Use one of {', '.join(METHODS)}.")


def _bootstrap(numerators: Floats, denominators: Floats, alpha: float, rng: np.random.Generator) -> Interval:
    """Percentile bootstrap of the ratio of sums over episodes drawn with replacement."""
    n = len(numerators)
    ratios = np.empty(RESAMPLES)
    for b in range(RESAMPLES):
        times = np.bincount(rng.integers(n, size=n), minlength=n)
        total = times @ denominators
        ratios[b] = times @ numerators / total if total else math.nan
    ratios = ratios[~np.isnan(ratios)]
    if not len(ratios):
        return Interval(math.nan, math.nan)
    low, high = np.quantile(ratios, (alpha / 2, 1 - alpha / 2))
    return Interval(float(low), float(high))
