"""Normal causes that values share, and causes behind those: likelihood, its slopes and conditional means.

Values y with variances c share a cause of variance v. Of the cause they say `information`, the sum of 1 / c, and
`total`, the sum of y / c. Their covariance matrix v 1 1' + diag(c) has, with k = 1 + v information,

    determinant       k times the product of c
    quadratic form    sum of y^2 / c less v total^2 / k

and of whatever lies behind the cause, the values together say information / k and total / k: the same once more.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from semiope._arrays import Floats, Integers


class Slopes(NamedTuple):
    """Derivatives of a misfit by the variance of each cause, and by what is said of it."""

    variance: Floats
    information: Floats
    total: Floats


@dataclass(frozen=True, eq=False)
class Causes:
    """The variance of each cause, and what the values that share it say of it."""

    variance: Floats
    information: Floats
    total: Floats

    @cached_property
    def factor(self) -> Floats:
        """The k of each cause."""
        return 1 + self.variance * self.information

    @property
    def misfit(self) -> float:
        """What the causes add to the logarithm of the determinant and to the quadratic form."""
        return float(np.sum(np.log(self.factor) - self.variance * self.total**2 / self.factor))

    def behind(self, variance: Floats, of_cause: Integers) -> Causes:
        """The causes behind these, of such variances: `of_cause` says which belongs to each."""
        return shared(variance, of_cause, self.information / self.factor, self.total / self.factor)

    def means(self, behind: Floats) -> Floats:
        """Conditional means of the causes, given those behind them."""
        return self.variance * (self.total - behind * self.information) / self.factor

    def slopes(self, by_information: Floats, by_total: Floats) -> Slopes:
        """Derivatives of the misfit.

        `by_information` and `by_total` are those by what is said of the causes behind: information / k and total / k.
        """
        passed, total = self.information / self.factor, self.total / self.factor
        mean = self.variance * total
        return Slopes(
            passed * (1 - by_information * passed) - total * (total + by_total * passed),
            mean**2 + (self.variance + by_information / self.factor - by_total * mean) / self.factor,
            by_total / self.factor - 2 * mean,
        )


def shared(variance: Floats, of_value: Integers, information: Floats, total: Floats) -> Causes:
    """Causes of such variances, from the information and the total of each value and which of them it belongs to."""
    sums = (np.bincount(of_value, weights=said, minlength=len(variance)) for said in (information, total))
    return Causes(variance, *(said.astype(np.float64) for said in sums))
