"""Bounds that hold for any number of episodes, for values that are known to lie in a range.

Intervals by quantiles or resampling trust that the mean is near enough to normal; these trust only the range. Each
function takes the per-episode values of an ordinary (not self-normalised) estimate and the range they cannot leave.

Hoeffding (1963), for a share alpha of error on one side:

    mean - (high - low) sqrt(log(1 / alpha) / 2n)

Empirical Bernstein (Maurer and Pontil, 2009), better where the values scatter less than their range allows:

    mean - sqrt(2 V log(2 / alpha) / n) - 7 (high - low) log(2 / alpha) / 3(n - 1)

The confidence sequence is the empirical Bernstein one of Waudby-Smith and Ramdas (2024, Theorem 2): all its intervals
hold at once with probability 1 - alpha, so that one may look after every episode and stop when one likes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from semiope._arrays import Floats
from semiope.errors import OptionError, SchemaError, nearest
from semiope.uncertainty.intervals import check_alpha, student

# Bets of a confidence sequence are at most this.
LARGEST_BET = 0.5


class Sequence(NamedTuple):
    """Lower and upper ends after each episode; they only ever come closer."""

    low: Floats
    high: Floats


def lower_bound(values: Floats, low: float, high: float, *, alpha: float = 0.05, method: str = "bernstein") -> float:
    """What the mean of values in [low, high] is above, but for a probability of at most alpha.

    `hoeffding` and `bernstein` hold for any number of values; `t` is Student's one-sided limit, for comparison.
    """
    check_alpha(alpha)
    if not isinstance(method, str) or method not in BOUNDS:
        raise OptionError(
            f"bound: {method!r} is not known.{nearest(str(method), BOUNDS)} Use one of {', '.join(BOUNDS)}."
        )
    check_range(values, low, high)
    if len(values) < 2:
        raise SchemaError("bound: there is only one value, and at least two are needed.")
    return max(low, BOUNDS[method](values, high - low, alpha))


def confidence_sequence(values: Floats, low: float, high: float, *, alpha: float = 0.05) -> Sequence:
    """Intervals for the mean of values in [low, high], in the order they came, that hold all at once."""
    check_alpha(alpha)
    check_range(values, low, high)
    if not len(values):
        raise SchemaError("confidence sequence: there are no values.")
    x = (values - low) / (high - low)
    t = np.arange(1, len(x) + 1)
    mean = (0.5 + np.cumsum(x)) / (t + 1)
    variance = (0.25 + np.cumsum((x - mean) ** 2)) / (t + 1)
    before_mean, before_variance = np.append(0.5, mean[:-1]), np.append(0.25, variance[:-1])
    bet = np.minimum(np.sqrt(2 * math.log(2 / alpha) / (before_variance * t * np.log1p(t))), LARGEST_BET)
    penalty = 4 * (x - before_mean) ** 2 * (-np.log1p(-bet) - bet) / 4
    bets = np.cumsum(bet)
    centre = np.cumsum(bet * x) / bets
    half = (math.log(2 / alpha) + np.cumsum(penalty)) / bets
    lower = np.maximum.accumulate(np.clip(centre - half, 0.0, 1.0))
    upper = np.minimum.accumulate(np.clip(centre + half, 0.0, 1.0))
    return Sequence(low + (high - low) * lower, low + (high - low) * upper)


def check_range(values: Floats, low: float, high: float) -> None:
    """Fail unless the range is one, and holds all values."""
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise OptionError(f"range: {low:g} to {high:g} is no range. State the least and the greatest value possible.")
    outside = np.flatnonzero(~((values >= low) & (values <= high)))
    if len(outside):
        raise SchemaError(
            f"range: the value {values[outside[0]]:g} of episode number {outside[0]} is not between {low:g} and "
            f"{high:g}. State a range that no episode's value can leave, or the bound does not hold."
        )


def _hoeffding(values: Floats, width: float, alpha: float) -> float:
    return float(values.mean()) - width * math.sqrt(math.log(1 / alpha) / (2 * len(values)))


def _bernstein(values: Floats, width: float, alpha: float) -> float:
    n, log = len(values), math.log(2 / alpha)
    return float(values.mean()) - math.sqrt(2 * float(values.var(ddof=1)) * log / n) - 7 * width * log / (3 * (n - 1))


def _student(values: Floats, width: float, alpha: float) -> float:
    n = len(values)
    return float(values.mean()) - student(n - 1, 1 - alpha) * float(values.std(ddof=1)) / math.sqrt(n)


BOUNDS: dict[str, Callable[[Floats, float, float], float]] = {
    "bernstein": _bernstein,
    "hoeffding": _hoeffding,
    "t": _student,
}
