"""Normal causes that values share, and causes behind those: likelihood, its slopes and conditional means.

Values y with variances c share a cause of variance v. Of the cause they say `information`, the sum of 1 / c, and
`total`, the sum of y / c. Their covariance matrix v 1 1' + diag(c) has, with k = 1 + v information,

    determinant       k times the product of c
    quadratic form    sum of y^2 / c less v total^2 / k

and of whatever lies behind the cause, the values together say information / k and total / k: the same once more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from semiope._arrays import Floats, Integers
from semiope._compiled import compiled


class Causes(NamedTuple):
    """The variance of each cause, what the values that share it say of it, and its k."""

    variance: Floats
    information: Floats
    total: Floats
    factor: Floats


class Slopes(NamedTuple):
    """Derivatives of a misfit by the variance of each cause, and by what is said of it."""

    variance: Floats
    information: Floats
    total: Floats


@compiled
def shared(variance: Floats, of_value: Integers, information: Floats, total: Floats) -> Causes:
    """Causes of such variances, from the information and the total of each value and which of them it belongs to."""
    sums, totals = np.zeros_like(variance), np.zeros_like(variance)
    for i in range(len(of_value)):
        sums[of_value[i]] += information[i]
        totals[of_value[i]] += total[i]
    return Causes(variance, sums, totals, 1 + variance * sums)


@compiled
def behind(causes: Causes, variance: Floats, of_cause: Integers) -> Causes:
    """The causes behind these, of such variances: `of_cause` says which belongs to each."""
    return shared(variance, of_cause, causes.information / causes.factor, causes.total / causes.factor)


@compiled
def misfit(causes: Causes) -> float:
    """What the causes add to the logarithm of the determinant and to the quadratic form."""
    found: float = np.sum(np.log(causes.factor) - causes.variance * causes.total**2 / causes.factor)
    return found


@compiled
def means(causes: Causes, further: Floats) -> Floats:
    """Conditional means of the causes, given those behind them (those of each cause in `further`)."""
    return causes.variance * (causes.total - further * causes.information) / causes.factor


@compiled
def slopes(causes: Causes, by_information: Floats, by_total: Floats) -> Slopes:
    """Derivatives of the misfit.

    `by_information` and `by_total` are those by what is said of the causes behind: information / k and total / k.
    """
    passed, total = causes.information / causes.factor, causes.total / causes.factor
    mean = causes.variance * total
    return Slopes(
        passed * (1 - by_information * passed) - total * (total + by_total * passed),
        mean**2 + (causes.variance + by_information / causes.factor - by_total * mean) / causes.factor,
        by_total / causes.factor - 2 * mean,
    )
