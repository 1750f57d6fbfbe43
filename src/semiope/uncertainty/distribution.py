"""The distribution of returns under the evaluation policy, as a weighted sample: quantiles and tails, not only means.

The samples are those of `branches.py`: returns as they were logged and annotated, with the weights of the estimator.
Per-decision estimators weigh each reward of an episode differently, and no distribution of whole returns has their
value as its mean: with F_t = f_1 ... f_t and m_(t+1) the normaliser of the rest of the episode, of mean 1,

    value of C-IS - value of C-PDIS = sum over t of gamma^(t-1) F_t (m_(t+1) - 1) r_t,

which vanishes if only last rows pay or if m is 1 throughout (C*). They share the distribution of their family, whose
mean is C-WIS (WIS without annotations).

If annotations are draws of returns, the expected weighted distribution is that of returns under pi_e. If they are
means, it is smaller in the convex order (Jensen's inequality, given what happened before the annotation): the mean is
right, the spread too small, and the mean of any worst share too large or right. Single quantiles can err either way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any, overload

import numpy as np

from semiope._arrays import Booleans, Floats, Integers, frozen
from semiope._random import Seed, generator
from semiope.data.labels import Vocabulary
from semiope.errors import OptionError, SchemaError, SupportError, count
from semiope.estimate.problem import Problem
from semiope.estimate.registry import ESTIMATORS, canonical
from semiope.estimate.scan import Scaled
from semiope.uncertainty.bootstrap import counts
from semiope.uncertainty.branches import samples, weighs_returns
from semiope.uncertainty.intervals import Interval, check_alpha

# Sums of weights that miss a level by rounding only are taken to reach it.
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Distribution:
    """Returns in ascending order with their weights, which need not sum to one.

    `episode` is the position among `labels` of the episode that a sample comes from, `answered` tells whether it ends
    in an annotation. True weights are weights * 2**weight_exponent, which is 0 unless they leave float64's range.
    """

    returns: Floats
    weights: Floats
    episode: Integers
    answered: Booleans
    labels: Vocabulary
    weight_exponent: int = 0

    def __post_init__(self) -> None:
        columns = {name: getattr(self, name) for name in ("returns", "weights", "episode", "answered")}
        if len({np.shape(column) for column in columns.values()}) > 1 or np.ndim(self.returns) != 1:
            raise SchemaError(f"{', '.join(columns)}: give arrays of one dimension and equal length.")
        if not np.isfinite(self.returns).all():
            raise SchemaError("returns: some are not finite numbers. Rewards or annotations are too large to be added.")
        if not ((self.weights >= 0) & np.isfinite(self.weights)).all():
            raise SchemaError("weights: some are negative or not finite. Weights of a distribution are 0 or more.")
        if not self.weights.any():
            raise SupportError(
                "distribution: no sample has a weight above 0. Nothing that was logged or annotated follows the policy."
            )
        if (self.returns[1:] < self.returns[:-1]).any():
            order = np.argsort(self.returns, kind="stable")
            columns = {name: column[order] for name, column in columns.items()}
        for name, column in columns.items():
            object.__setattr__(self, name, frozen(column))

    @cached_property
    def _cumulated(self) -> Floats:
        found: Floats = np.cumsum(self.weights)
        return found

    @property
    def _total(self) -> float:
        return float(self._cumulated[-1])

    @cached_property
    def mean(self) -> float:
        """Weighted mean of the returns: the value by c-wis, or by wis without annotations."""
        return float(self.weights / self._total @ self.returns)

    @property
    def share_answered(self) -> float:
        """Share of the weight on samples that end in an annotation."""
        return float(self.weights[self.answered].sum()) / self._total

    @overload
    def cdf(self, x: float) -> float: ...
    @overload
    def cdf(self, x: Floats) -> Floats: ...
    def cdf(self, x: float | Floats) -> float | Floats:
        """Probability of a return of at most x; x may be an array."""
        found: float | Floats = self._up_to(x, "right")
        return found

    def probability_below(self, x: float) -> float:
        """Probability of a return below x (of x itself not)."""
        return float(self._up_to(x, "left"))

    def _up_to(self, x: Any, side: Any) -> Any:
        if np.isnan(x).any():
            raise OptionError("x: NaN is no return. Give numbers.")
        shares = np.append(0.0, self._cumulated / self._total)[np.searchsorted(self.returns, x, side)]
        return shares if np.ndim(x) else float(shares)

    def quantile(self, q: float) -> float:
        """Return the least return x with cdf(x) >= q; for q = 0 the least return of all."""
        level = _share(q, "q", zero=True)
        if not level:
            return float(self.returns[np.searchsorted(self._cumulated, 0.0, "right")])
        reached = self._total * (level * (1 - ROUNDING) if level < 1 else 1.0)
        return float(self.returns[np.searchsorted(self._cumulated, reached)])

    def cvar(self, share: float) -> float:
        """Mean of the worst share of returns; a return at the edge counts with the part of its weight that is inside.

        (1 / share) times the integral of quantile(u) over u from 0 to share; `cvar(1)` is the mean.
        """
        edge = _share(share, "share") * self._total
        inside = np.diff(np.minimum(self._cumulated, edge), prepend=0.0)
        return float(inside / inside.sum() @ self.returns)

    def interval(self, statistic: Callable[[Distribution], float], alpha: float = 0.05, *, seed: Seed = 0) -> Interval:
        """Return an interval with nominal coverage 1 - alpha: percentiles of a statistic over resampled episodes.

        `statistic` takes a distribution and gives a number, such as `lambda d: d.cvar(0.1)`. An episode's samples stay
        together. NaN for fewer than two episodes; resamples without any weight are left out.
        """
        check_alpha(alpha)
        generator(seed)
        found = []
        for times in counts(self.labels.numbers, seed=seed) if len(self.labels) > 1 else ():
            weights = self.weights * times[self.episode]
            if weights.any():
                found.append(float(statistic(replace(self, weights=weights))))
        if not found:
            return Interval(math.nan, math.nan)
        return Interval(*(float(end) for end in np.quantile(found, (alpha / 2, 1 - alpha / 2))))

    @property
    def note(self) -> str:
        """What annotations that state means do to this distribution, and how much of it they concern."""
        if not self.share_answered:
            return "All weight is on logged episodes, whose returns happened."
        return (
            f"{100 * self.share_answered:.3g}% of the weight is on samples that end in an annotation. Where annotations"
            " state means, the mean is right, but the spread is too small, and the mean of the worst is at best this:"
            " a bad one is bad news, a good one is no good news. Quantiles may err either way."
        )

    def __repr__(self) -> str:
        return (
            f"Distribution({count(len(self.returns), 'sample')} of {count(len(self.labels), 'episode')}, "
            f"mean {self.mean:.6g}, {100 * self.share_answered:.3g}% answered)"
        )


def returns_distribution(problem: Problem, estimator: str = "c-wis") -> Distribution:
    """Estimate the distribution of returns under the policy of a problem.

    `estimator` tells the weights: those of is, wis, pdis, pdwis (logs alone), of c-is, c-wis, c-pdis, c-pdwis, or of
    c*-is, c*-pdis; within each of these families the distribution is the same.
    """
    name = canonical(estimator)
    chosen = ESTIMATORS[name]
    recipe = chosen.recipe
    if not weighs_returns(recipe):
        fits = (known for known, one in ESTIMATORS.items() if weighs_returns(one.recipe))
        raise OptionError(
            f"estimator: {name!r} does not weigh whole returns, so that there is no distribution of returns by it. "
            f"Use one of {', '.join(fits)}."
        )
    if chosen.requires:
        chosen.requires(problem)
    parts = [samples(slab, recipe) for slab in problem.slabs()]
    returns, mantissa, exponent, episode, answered = (np.concatenate(column) for column in zip(*parts, strict=True))
    weights, common = Scaled(mantissa, exponent).on_common_scale()
    if not weights.any():
        raise SupportError(
            f"policy {problem.name!r}: nothing that was logged or annotated has a weight above 0 by {name!r}, so that "
            "there is no sample of its returns. Annotate actions that it takes and use c-wis, or soften the policy."
        )
    return Distribution(returns, weights, episode, answered, problem.evidence.logbook.episodes.labels, common)


def _share(number: object, name: str, *, zero: bool = False) -> float:
    """Return a share as a float; fail unless it lies between 0 and 1."""
    fits = isinstance(number, Real) and not isinstance(number, bool) and 0 <= float(number) <= 1
    if not fits or (not zero and not number):
        raise OptionError(f"{name}: {number!r} is not between 0 and 1. For the worst tenth use 0.1.")
    return float(number)  # type: ignore[arg-type]
