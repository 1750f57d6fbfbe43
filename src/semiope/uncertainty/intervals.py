"""Confidence intervals for a ratio of sums over episodes: sum of numerators over sum of denominators.

Numerators are per-episode values; denominators are 1 for ordinary estimates and the normalisers for self-normalised
ones. Resampling draws episodes and forms the ratio of sums anew: values already divided by their normaliser would not
cover. Estimators that normalise per step give linearised values, and it is those that are resampled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from semiope._arrays import Floats, Integers
from semiope._random import Seed, generator
from semiope.errors import OptionError, nearest
from semiope.estimate.result import degrees_of_freedom, influence_of, standard_error
from semiope.uncertainty.bootstrap import Sums, resampled

if TYPE_CHECKING:
    from semiope.estimate.result import Estimate


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
    keys: Integers | None = None,
) -> Interval:
    """Return an interval with nominal coverage 1 - alpha; NaN for fewer than two episodes.

    `keys` tell episodes apart in the resampling; by default, their positions.
    """
    check_alpha(alpha)
    check_method(method)
    n, total = len(numerators), float(denominators.sum())
    if n < 2 or not total:
        return Interval(math.nan, math.nan)
    generator(seed)
    sample = Sample(numerators, denominators, np.arange(n) if keys is None else keys, seed)
    return METHODS[method](sample, alpha) if sample.error else Interval(sample.value, sample.value)


def covering(found: Interval, estimate: Estimate, alpha: float, method: str) -> Interval:
    """Widen an interval over episodes by what else the estimate's standard error has, and to cover rivals.

    By Student's t, or by normal quantiles, with the whole standard error; intervals by resampling are stretched as
    much. A bias of the annotators that outcomes show is taken off both ends.
    """
    over, total = estimate.over_episodes, estimate.std_error
    if not math.isfinite(total):
        return found
    if estimate.groups is not None or estimate.parts:
        if method in ("t", "normal") or not over:
            degrees = estimate.degrees if method == "t" else math.inf
            found = around(estimate.unshrunk, student(degrees, 1 - alpha / 2) * total)
        else:
            middle = estimate.unshrunk
            found = Interval(*(middle + (end - middle) * total / over for end in found))
    ends = [Interval(*(end - estimate.bias for end in found))]
    ends += [around(one.value, student(one.degrees, 1 - alpha / 2) * one.std_error) for one in estimate.also_covered]
    return hull(ends)


class Sample:
    """Episodes' numerators and denominators, their ratio of sums, and what it would have been in resamples."""

    def __init__(self, numerators: Floats, denominators: Floats, keys: Integers, seed: Seed) -> None:
        self.numerators, self.denominators, self.keys, self.seed = numerators, denominators, keys, seed
        self.value = float(numerators.sum()) / float(denominators.sum())
        self.error = standard_error(numerators, denominators)

    def resampled(self, *, squares: bool = False) -> Sums:
        """Sums over resampled episodes."""
        return resampled(self.numerators, self.denominators, self.keys, seed=self.seed, squares=squares)

    @cached_property
    def skewness(self) -> float:
        """Of the episodes' influences, over sqrt(n): how far the estimate is from being normal."""
        influence = influence_of(self.numerators, self.denominators)
        influence = influence / np.abs(influence).max()  # or squares leave the range of numbers
        return float(np.sum(influence**3) / np.sum(influence**2) ** 1.5)


def student(degrees: float, level: float) -> float:
    """The quantile of Student's t; of the normal distribution for infinitely many degrees of freedom."""
    from scipy.special import ndtri, stdtrit

    return float(stdtrit(degrees, level)) if math.isfinite(degrees) else float(ndtri(level))


def around(value: float, half: float) -> Interval:
    """An interval of this half-width."""
    return Interval(value - half, value + half)


def hull(intervals: Sequence[Interval]) -> Interval:
    """The least interval that covers all of these."""
    return Interval(min(one.low for one in intervals), max(one.high for one in intervals))


def _student(sample: Sample, alpha: float) -> Interval:
    """Delta method, quantiles of Student's t with as many degrees of freedom as the episodes' influences leave."""
    degrees = degrees_of_freedom(influence_of(sample.numerators, sample.denominators))
    return around(sample.value, student(degrees, 1 - alpha / 2) * sample.error)


def _normal(sample: Sample, alpha: float) -> Interval:
    """Delta method, normal quantiles."""
    from scipy.special import ndtri

    return around(sample.value, float(ndtri(1 - alpha / 2)) * sample.error)


def _percentile(sample: Sample, alpha: float) -> Interval:
    """Quantiles of the resampled ratios."""
    return _quantiles(sample.resampled().ratios, alpha / 2, 1 - alpha / 2)


def _studentized(sample: Sample, alpha: float) -> Interval:
    """Quantiles of (resampled ratio - ratio) / its own standard error, in place of Student's."""
    sums = sample.resampled(squares=True)
    off, errors = sums.ratios - sample.value, sums.errors
    pivots = np.divide(off, errors, out=np.full(len(off), math.nan), where=errors > 0)
    low, high = _quantiles(pivots, alpha / 2, 1 - alpha / 2)
    return Interval(sample.value - high * sample.error, sample.value - low * sample.error)


def _bca(sample: Sample, alpha: float) -> Interval:
    """Quantiles of the resampled ratios at levels corrected for bias and for a variance that changes with the value."""
    from scipy.special import ndtr, ndtri

    ratios = sample.resampled().ratios
    ratios = ratios[~np.isnan(ratios)]
    below = (np.sum(ratios < sample.value) + 0.5 * np.sum(ratios == sample.value)) / max(len(ratios), 1)
    if not 0 < below < 1:
        return Interval(math.nan, math.nan)
    shift, acceleration = float(ndtri(below)), sample.skewness / 6
    levels = []
    for level in (alpha / 2, 1 - alpha / 2):
        z = shift + float(ndtri(level))
        levels.append(float(ndtr(shift + z / (1 - acceleration * z))))
    return _quantiles(ratios, *levels)


def _quantiles(values: Floats, low: float, high: float) -> Interval:
    values = values[~np.isnan(values)]
    if not len(values):
        return Interval(math.nan, math.nan)
    return Interval(*(float(end) for end in np.quantile(values, (low, high))))


METHODS: dict[str, Callable[[Sample, float], Interval]] = {
    "t": _student,
    "normal": _normal,
    "bootstrap": _percentile,
    "studentized": _studentized,
    "bca": _bca,
}


def check_alpha(alpha: float) -> None:
    """Fail unless alpha is an error probability."""
    if not isinstance(alpha, Real) or not 0 < alpha < 1:
        raise OptionError(f"alpha: {alpha!r} is not between 0 and 1. For a 95% interval use 0.05.")


def check_method(method: str) -> None:
    """Fail unless the method is known."""
    if not isinstance(method, str) or method not in METHODS:
        raise OptionError(
            f"ci: {method!r} is not known.{nearest(str(method), METHODS)} Use one of {', '.join(METHODS)}."
        )
