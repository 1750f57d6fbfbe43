"""Policies beside each other and beside today's: paired differences, ranks, and decisions at a stated error rate.

All estimates come from the same episodes. What an episode adds to two of them goes the same way, so that a difference
is surer than its parts: its standard error is that of the episodes' differences of influence, and resamples are the
same for all policies.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from semiope._arrays import Floats, Integers
from semiope._random import Seed, generator
from semiope._tables import as_table
from semiope.errors import NotEstimatedError, OptionError, SchemaError, nearest
from semiope.estimate.result import Estimate, Part, degrees_of_freedom, satterthwaite, standard_error
from semiope.uncertainty.bootstrap import RESAMPLES, resampled
from semiope.uncertainty.intervals import Interval, around, check_alpha, hull, student

# Ranks are given with the range that holds this share of resamples.
RANKS = 0.9
# Of a policy's decisions; beyond it, an estimate says nothing of the policy's value.
UNSUPPORTED = 0.05
FEW = 10
# Estimates beyond this have left all proportion, and their squares the range of numbers.
LARGEST = 1e100
# What scatters less than this, measured by what episodes bring, is rounding.
ROUNDING = 1e-10


class Difference(NamedTuple):
    """One estimate minus another, paired by episode; `p_value` is that of being no better.

    Interval and p-value hold by estimates that do not trust annotations as well, and by the self-normalized form where
    ratios should average one. `least` is the
    least number of standard errors that the difference is above 0, by any of them.
    """

    value: float
    std_error: float
    interval: Interval
    p_value: float
    least: float


class Standing(NamedTuple):
    """Where a policy stands: its estimate, its difference to today's, its rank from 1 on (equals share theirs).

    `interval` and `difference` hold for this policy alone; `simultaneous` and `together` (the difference's) hold for
    all policies at once. `better`: better than today's, with an error probability of at most alpha for this policy;
    `surely`: likewise, that any policy is called so wrongly. `best` is the share of resamples in which it is first.
    """

    policy: str
    value: float
    std_error: float
    interval: Interval
    simultaneous: Interval
    difference: Difference
    together: Interval
    better: bool
    surely: bool
    rank: int
    ranks: Interval
    best: float


def is_comparable(estimate: Estimate) -> bool:
    """Whether an estimate and its standard error are numbers whose squares are, too."""
    return abs(estimate.value) < LARGEST and estimate.std_error < LARGEST


@dataclass(frozen=True, eq=False)
class Comparison(Mapping[str, Standing]):
    """Estimates of several policies by one estimator, and what is achieved `today`: the mean return of the logs.

    `unsupported` is the share of a policy's decisions that its estimate knows nothing of; with more than UNSUPPORTED,
    it is not called better, whatever the numbers. Of `unchecked` policies, the estimate takes the annotators' word, and
    nothing in the data checks it.
    """

    estimates: Mapping[str, Estimate]
    today: Estimate
    alpha: float = 0.05
    seed: Seed = 0
    unsupported: Mapping[str, float] = field(default_factory=dict)
    unchecked: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        check_alpha(self.alpha)
        generator(self.seed)
        if not self.estimates:
            raise OptionError("compare: there is no policy to compare.")
        lengths = {len(one.values) for one in (*self.estimates.values(), self.today)}
        if len(lengths) > 1:
            raise SchemaError("compare: the results come from different episodes. Evaluate all policies on the same.")
        if min(lengths) < 2:
            raise SchemaError("compare: there is only one episode, and a comparison needs at least two.")
        for name, one in self.estimates.items():
            if not is_comparable(one):
                raise SchemaError(
                    f"compare: the estimate of policy {name!r} is no number that can be compared ({one.value:.4g} +- "
                    f"{one.std_error:.4g}). Leave it out, or annotate what it does."
                )

    def __getitem__(self, policy: str) -> Standing:
        if policy not in self.standings:
            raise NotEstimatedError(f"no policy {policy!r} was compared.{nearest(str(policy), self.estimates)}")
        return self.standings[policy]

    def __iter__(self) -> Iterator[str]:
        return iter(self.standings)

    def __len__(self) -> int:
        return len(self.estimates)

    @property
    def estimator(self) -> str:
        """By which all policies are compared."""
        return next(iter(self.estimates.values())).estimator

    @property
    def better(self) -> list[str]:
        """Policies called better than today's, best first; one that is not is called so with a probability of alpha."""
        return [name for name, one in self.standings.items() if one.better]

    @property
    def surely_better(self) -> list[str]:
        """Policies called better than today's, best first; alpha is the probability that any is called so wrongly."""
        return [name for name, one in self.standings.items() if one.surely]

    def supported(self, policy: str) -> bool:
        """Whether the estimate of a policy knows of nearly all that it would do."""
        return self.unsupported.get(policy, 0.0) <= UNSUPPORTED

    def call(self, policy: str) -> str:
        """In words, whether a policy is better than today's."""
        if not self.supported(policy):
            return f"unknown: {self.unsupported[policy]:.0%} unsupported"
        one = self[policy]
        found = "yes, all at once" if one.surely else "yes" if one.better else "not shown"
        return f"{found}, if annotators are right" if one.better and policy in self.unchecked else found

    def between(self, one: str, other: str) -> Difference:
        """The value of one policy minus that of another."""
        first, second = (self.estimates[self[name].policy] for name in (one, other))
        return _difference(first, second, self.alpha)

    @cached_property
    def standings(self) -> dict[str, Standing]:
        """All policies, best first."""
        names, n = list(self.estimates), len(self.today.values)
        values = np.array([one.value for one in self.estimates.values()])
        differences = [_difference(one, self.today, self.alpha) for one in self.estimates.values()]
        # All policies see the same resamples; a generator would give each its own.
        seed = int(self.seed.integers(2**63)) if isinstance(self.seed, np.random.Generator) else self.seed
        ratios = np.array([_resampled(one, seed) for one in self.estimates.values()])
        pivots = np.array([_pivots(one, None, seed) for one in self.estimates.values()])
        paired = np.array([_pivots(one, self.today, seed) for one in self.estimates.values()])
        wide, wider, above = self._factor(np.abs(pivots)), self._factor(np.abs(paired)), self._factor(paired, sides=1)
        place = _ranks(values[:, None])[:, 0]
        ends = np.quantile(_ranks(ratios), ((1 - RANKS) / 2, (1 + RANKS) / 2), axis=1, method="nearest")
        first = (ratios == ratios.max(axis=0)) / (ratios == ratios.max(axis=0)).sum(axis=0)
        found = {}
        for i in map(int, np.argsort(-values, kind="stable")):
            estimate, difference = self.estimates[names[i]], differences[i]
            found[names[i]] = Standing(
                policy=names[i],
                value=estimate.value,
                std_error=estimate.std_error,
                interval=estimate.interval(self.alpha),
                simultaneous=hull([around(v, wide * e) for v, e, _ in _alternatives(estimate)]),
                difference=difference,
                together=_stretched(difference, wider, student(n - 1, 1 - self.alpha / 2)),
                better=difference.p_value <= self.alpha and self.supported(names[i]),
                surely=difference.p_value <= self.alpha and difference.least > above and self.supported(names[i]),
                rank=int(place[i]),
                ranks=Interval(*map(float, ends[:, i])),
                best=float(first[i].mean()),
            )
        return found

    def _factor(self, pivots: Floats, *, sides: int = 2) -> float:
        """How many standard errors hold for all policies at once: a quantile of the largest pivot.

        Not less than Student's for one policy, which the quantile of so many resamples may miss.
        """
        n = len(self.today.values)
        # Resamples of very few episodes say nothing of the largest of many.
        single = student(n - 1, 1 - self.alpha / sides / (len(pivots) if n < FEW else 1))
        return max(single, float(np.quantile(pivots.max(axis=0), 1 - self.alpha)))

    def rows(self) -> list[dict[str, object]]:
        """One row a policy, best first."""
        return [
            {
                "policy": one.policy, "rank": one.rank, "value": one.value, "std_error": one.std_error,
                "ci_low": one.interval.low, "ci_high": one.interval.high,
                "difference": one.difference.value, "difference_std_error": one.difference.std_error,
                "difference_low": one.difference.interval.low, "difference_high": one.difference.interval.high,
                "p_value": one.difference.p_value, "better": one.better, "surely_better": one.surely,
                "best": one.best, "rank_low": int(one.ranks.low), "rank_high": int(one.ranks.high),
            }
            for one in self.standings.values()
        ]  # fmt: skip

    def _repr_html_(self) -> str:
        return as_table(self.rows(), f"{self.estimator} against {self.today.value:.4g} achieved today")

    def __repr__(self) -> str:
        lines = [
            f"{self.estimator} against today's {self.today.value:.4g} (mean return of {len(self.today.values):,} "
            f"episodes), error rate {self.alpha:g}",
            f"{'rank':>4}  {'policy':<20}{'value':>10}{'difference':>12}{'from':>10}{'to':>10}{'p':>9}"
            f"{'best':>7}  better than today's",
        ]
        for one in self.standings.values():
            gap = one.difference
            lines.append(
                f"{one.rank:>4}  {one.policy:<20}{one.value:>10.4g}{gap.value:>+12.4g}{gap.interval.low:>+10.4g}"
                f"{gap.interval.high:>+10.4g}{gap.p_value:>9.2g}{one.best:>7.0%}  {self.call(one.policy)}"
            )
        return "\n".join(lines)


class Alternative(NamedTuple):
    """A value that an estimate may have, its standard error, and its degrees of freedom."""

    value: float
    std_error: float
    degrees: float


def _alternatives(estimate: Estimate) -> list[Alternative]:
    """The estimate without a bias that shows, and the estimates that do not trust annotations."""
    own = Alternative(estimate.unshrunk - estimate.bias, estimate.std_error, estimate.degrees)
    return [own, *(Alternative(one.value, one.std_error, one.degrees) for one in estimate.also_covered)]


def _difference(one: Estimate, other: Estimate, alpha: float) -> Difference:
    from scipy.special import stdtr

    rounding = _rounding(one, other)
    own = [_rounded(_paired(a, b), rounding) for a in _forms(one) for b in _forms(other)]
    firsts, seconds = _alternatives(one), _alternatives(other)
    # Rivals are not paired by episode with the other estimate.
    others = [
        Alternative(a.value - b.value, math.hypot(a.std_error, b.std_error), min(a.degrees, b.degrees))
        for i, a in enumerate(firsts)
        for j, b in enumerate(seconds)
        if i or j
    ]
    every = [*own, *others]
    ends = [around(each.value, student(each.degrees, 1 - alpha / 2) * each.std_error) for each in every]
    ratios = [each.value / each.std_error if each.std_error else _sign(each.value) * math.inf for each in every]
    p_values = [
        float(stdtr(each.degrees, -ratio)) if math.isfinite(ratio) else 0.0 if ratio > 0 else 1.0
        for each, ratio in zip(every, ratios, strict=True)
    ]
    value = one.value - other.value
    value = value if abs(value) > rounding else 0.0
    return Difference(value, own[0].std_error, hull(ends), max(p_values), min(ratios))


def _forms(estimate: Estimate) -> list[Estimate]:
    """The estimate and, if its ratios should average one, what it is divided by their mean."""
    if not estimate.mean_one:
        return [estimate]
    return [estimate, replace(estimate, self_normalized=True, mean_one=False)]


def _rounded(found: Alternative, rounding: float) -> Alternative:
    """A difference whose standard error is rounding has none."""
    if found.std_error > rounding:
        return found
    return found._replace(value=found.value if abs(found.value) > rounding else 0.0, std_error=0.0)


def _sign(value: float) -> int:
    return 1 if value > 0 else -1


def _paired(one: Estimate, other: Estimate) -> Alternative:
    """The difference of two estimates, its standard error over the same episodes and what else they have."""
    off = one.influence - other.influence
    groups = [each.groups for each in (one, other) if each.groups is not None]
    degrees = float(min(len(each.without) for each in groups) - 1) if groups else degrees_of_freedom(off)
    parts = [Part(standard_error(off, np.ones(len(off))), degrees), *one.parts, *other.parts]
    value = (one.unshrunk - one.bias) - (other.unshrunk - other.bias)
    return Alternative(value, math.hypot(*(part.std_error for part in parts)), satterthwaite(parts))


def _stretched(difference: Difference, factor: float, single: float) -> Interval:
    """The interval of a difference, as much wider as a factor is larger than that for one policy."""
    low, high = (difference.value - end for end in difference.interval)
    return Interval(difference.value - low * factor / single, difference.value - high * factor / single)


def _rounding(*estimates: Estimate) -> float:
    """What is too little to tell estimates apart, by the size of what an episode adds to them."""
    return ROUNDING * max(abs(one.value) + math.sqrt(len(one.values)) * one.std_error for one in estimates)


def _resampled(estimate: Estimate, seed: Seed) -> Floats:
    """What the estimate would have been in resamples; where one holds nothing of it, as it is."""
    ratios = resampled(estimate.values, estimate.denominators, estimate.keys, seed=seed).ratios
    moved = ratios * estimate.scale + (estimate.value - estimate.unshrunk)
    return np.where(np.isnan(ratios), estimate.value, moved)


def _pivots(one: Estimate, other: Estimate | None, seed: Seed) -> Floats:
    """How far resamples of an estimate or a difference are off, each in its own standard error: so skewness counts.

    0 where nothing scatters.
    """
    influence = one.influence if other is None else one.influence - other.influence
    ones = np.ones(len(influence))
    if standard_error(influence, ones) <= _rounding(one, *([] if other is None else [other])):
        return np.zeros(RESAMPLES)
    sums = resampled(influence, ones, one.keys, seed=seed, squares=True)
    return np.divide(sums.ratios, sums.errors, out=np.zeros(RESAMPLES), where=sums.errors > 0)


def _ranks(values: Floats) -> Integers:
    """Ranks from 1 on of the rows in each column, the largest first; those that are equal share the better rank."""
    ordered = np.sort(values, axis=0)
    behind = [np.searchsorted(column, row, side="right") for column, row in zip(ordered.T, values.T, strict=True)]
    found: Integers = 1 + len(values) - np.array(behind).T
    return found
