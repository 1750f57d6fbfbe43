"""Means, ratios of sums and straight lines for many groups at once, with standard errors clustered by episode.

Answers about the same episode share its chance events: they are summed by episode before they are squared. With u_c the
sum of the influences of what belongs to episode c, and C episodes, the standard error is

    sqrt(C / (C - 1) sum_c u_c^2)

and quantiles are those of Student's t with C - 1 degrees of freedom. What rests on fewer than two episodes has no
standard error (NaN).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from semiope._arrays import Booleans, Floats, Integers
from semiope.uncertainty.intervals import Interval, check_alpha, student


class Figure(NamedTuple):
    """A number, its standard error, and how many answers (n) about how many episodes it rests on."""

    value: float
    std_error: float
    n: int
    episodes: int

    def interval(self, alpha: float = 0.05) -> Interval:
        """An interval with nominal coverage 1 - alpha; NaN without a standard error."""
        half = half_width(self.episodes, alpha) * self.std_error
        return Interval(self.value - half, self.value + half)


class Spread(NamedTuple):
    """A standard deviation, or a ratio of two, by its square; `source` says what it was found from.

    An unbiased square may come out negative: the value is 0 then.
    """

    square: Figure
    source: str

    @property
    def value(self) -> float:
        """The root of the square."""
        return math.sqrt(max(self.square.value, 0.0)) if not math.isnan(self.square.value) else math.nan

    @property
    def std_error(self) -> float:
        """By the delta method; NaN at 0, where only the interval says something."""
        return self.square.std_error / (2 * self.value) if self.value > 0 else math.nan

    @property
    def n(self) -> int:
        """How many answers it rests on."""
        return self.square.n

    @property
    def episodes(self) -> int:
        """How many episodes these are about."""
        return self.square.episodes

    def interval(self, alpha: float = 0.05) -> Interval:
        """The root of an interval of the square.

        Squares scatter like chi-square: where a mean of squares is never negative, the interval is that of its
        logarithm. A mean of products may be negative; its upper end is that of the logarithm if the lower is above 0.
        """
        low, high = self.square.interval(alpha)
        if math.isnan(low):
            return Interval(math.nan, math.nan)
        centre = self.square.value
        if centre > 0 and (low > 0 or self.source in NEVER_NEGATIVE):
            factor = math.exp(min((high - centre) / centre, 700.0))
            low, high = centre / factor if self.source in NEVER_NEGATIVE else low, centre * factor
        return Interval(math.sqrt(max(low, 0.0)), math.sqrt(max(high, 0.0)))


# Sources whose squares are means of squares; others are means of products.
NEVER_NEGATIVE = ("persons", "repeats", "answers to the same question")


def half_width(episodes: int, alpha: float) -> float:
    """How many standard errors an interval reaches to either side."""
    check_alpha(alpha)
    return student(episodes - 1, 1 - alpha / 2) if episodes > 1 else math.nan


def sum_by(values: Floats, group: Integers, n: int) -> Floats:
    """The sum of each of n groups."""
    return np.bincount(group, weights=values, minlength=n).astype(np.float64)


def mean_by(values: Floats, group: Integers, n: int) -> Floats:
    """The mean of each of n groups, NaN for those without values."""
    return _over(sum_by(values, group, n), np.bincount(group, minlength=n))


def figures(
    values: Floats, weights: Floats | None, group: Integers, episode: Integers, n: int, *, spent: int = 0
) -> list[Figure]:
    """For each of n groups the sum of `values` over that of `weights` (None: 1 each, a mean).

    `spent` degrees of freedom of each group went into what the values are relative to: sums are scaled up by it.
    """
    weights = np.ones(len(values)) if weights is None else weights
    count = np.bincount(group, minlength=n)
    left = _over(count, np.maximum(count - spent, 0))
    total = sum_by(weights, group, n)
    value = _over(sum_by(values, group, n), total) * left
    influence = (values * left[group] - value[group] * weights) / total[group]
    return _listed(value, influence, group, episode, count)


def lines(x: Floats, y: Floats, group: Integers, episode: Integers, n: int) -> tuple[list[Figure], list[Figure]]:
    """Intercept and slope of the least-squares line of y on x in each of n groups.

    NaN where all x or all y are the same. Standard errors have the usual factor (count - 1) / (count - 2) as well.
    """
    count = np.bincount(group, minlength=n)
    mean_x, mean_y = mean_by(x, group, n), mean_by(y, group, n)
    off_x, off_y = x - mean_x[group], y - mean_y[group]
    square = sum_by(off_x**2, group, n)
    square[_constant(x, group, n) | _constant(y, group, n)] = 0.0
    slope = _over(sum_by(off_x * off_y, group, n), square)
    intercept = mean_y - slope * mean_x
    residual = off_y - slope[group] * off_x
    factor = np.sqrt(_over(count - 1.0, np.maximum(count - 2, 0)))[group]
    of_slope = factor * residual * _over(off_x, square[group])
    of_intercept = factor * residual / count[group] - mean_x[group] * of_slope
    return _listed(intercept, of_intercept, group, episode, count), _listed(slope, of_slope, group, episode, count)


def _constant(values: Floats, group: Integers, n: int) -> Booleans:
    """Which groups have nothing but equal values."""
    low, high = np.full(n, math.inf), np.full(n, -math.inf)
    np.minimum.at(low, group, values)
    np.maximum.at(high, group, values)
    return low >= high


def _listed(value: Floats, influence: Floats, group: Integers, episode: Integers, count: Integers) -> list[Figure]:
    n, width = len(value), int(episode.max(initial=0)) + 1
    pairs, place = np.unique(group.astype(np.int64) * width + episode, return_inverse=True)
    owner = pairs // width
    squares = sum_by(influence, place, len(pairs)) ** 2
    episodes = np.bincount(owner, minlength=n)
    spread = sum_by(squares, owner, n)
    error = np.sqrt(spread * _over(episodes, episodes - 1))
    columns = zip(value.tolist(), error.tolist(), count.tolist(), episodes.tolist(), strict=True)
    return [Figure(*row) for row in columns]


def _over(numerator: Any, denominator: Any) -> Floats:
    """The ratio, NaN where the denominator is not positive."""
    found: Floats = np.full(len(numerator), math.nan)
    np.divide(numerator, denominator, out=found, where=denominator > 0)
    return found
