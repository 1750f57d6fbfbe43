"""EpisodeValues in, Estimate out: value, standard error, effective sample size, knowing no estimator by name."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from semiope._arrays import Floats, Integers
from semiope.data.labels import Vocabulary

if TYPE_CHECKING:
    from semiope.uncertainty.intervals import Interval


class EpisodeValues(NamedTuple):
    """Per-episode values v and normalisers m; the true ones are v * 2**value_exponent and m * 2**normalizer_exponent.

    Both exponents are 0 if the largest of the true ones fits well into float64 (below 2**900, above 2**-900).
    `samples` are how many each episode stands for (None: one each), `squares` the sums of their squared normalisers
    (None: m**2).
    """

    values: Floats
    normalizers: Floats
    value_exponent: int = 0
    normalizer_exponent: int = 0
    samples: Floats | None = None
    squares: Floats | None = None


@dataclass(frozen=True, eq=False)
class Estimate:
    """The value of a policy by one estimator, with the per-episode values and normalisers it comes from.

    `labels` are those of the episodes: resampling depends on them, not on how the data are divided or sorted.
    `correction` is what counting the behaviour policy takes from the episodes' influences, in comparisons.
    """

    policy: str
    estimator: str
    per_episode: EpisodeValues
    self_normalized: bool = False
    labels: Vocabulary | None = None
    correction: tuple[Floats, Floats] | None = None

    @property
    def values(self) -> Floats:
        """Per-episode values (times 2**-per_episode.value_exponent, which is 1 unless they leave float64's range)."""
        return self.per_episode.values

    @property
    def normalizers(self) -> Floats:
        """Per-episode normalisers (scaled likewise): an episode's ratio or, with annotations, the sum of its ratios."""
        return self.per_episode.normalizers

    @cached_property
    def denominators(self) -> Floats:
        """What the sum of the values is divided by, per episode."""
        if self.self_normalized:
            return self.per_episode.normalizers
        return np.ones(len(self.values)) if self.per_episode.samples is None else self.per_episode.samples

    @cached_property
    def value(self) -> float:
        """Sum of values over sum of denominators; NaN if the denominators sum to 0."""
        total = float(self.denominators.sum())
        return self._unscaled(float(self.values.sum()) / total) if total else math.nan

    @cached_property
    def std_error(self) -> float:
        """Standard error over episodes, by the delta method for ratios; NaN for fewer than two episodes."""
        return self._unscaled(standard_error(self.values, self.denominators))

    @cached_property
    def ess(self) -> float:
        """Effective sample size: (sum of normalisers)**2 / sum of their squares."""
        largest = float(self.normalizers.max())
        if not largest:
            return 0.0
        share = self.normalizers / largest
        squares = np.square(share) if self.per_episode.squares is None else self.per_episode.squares / largest / largest
        return float(share.sum()) ** 2 / float(squares.sum())

    def interval(self, alpha: float = 0.05, method: str = "t", *, seed: int | np.random.Generator = 0) -> Interval:
        """Return a confidence interval at level 1 - alpha.

        `method`: `t`, `normal`, or by resampling (which uses the seed) `bootstrap`, `studentized`, `bca`.
        """
        from semiope.uncertainty.intervals import Interval, interval

        found = interval(self.values, self.denominators, alpha=alpha, method=method, seed=seed, keys=self.keys)
        return Interval(*map(self._unscaled, found))

    @property
    def keys(self) -> Integers:
        """What tells episodes apart in resampling."""
        return np.arange(len(self.values)) if self.labels is None else self.labels.numbers

    @property
    def scale(self) -> float:
        """What a ratio of per-episode sums is multiplied by: 1 unless they left the range of float64."""
        return self._unscaled(1.0)

    @cached_property
    def influence(self) -> Floats:
        """How much each episode pulls the estimate its way, times n; less what counting takes, if that is known."""
        found = influence_of(self.values, self.denominators)
        if self.correction is not None:
            values, normalizers = self.correction
            mean = float(self.denominators.mean())
            ratio = float(self.values.mean()) / mean
            found = found - (values - (ratio * normalizers if self.self_normalized else 0.0)) / mean
        return found * self.scale

    def _unscaled(self, number: float) -> float:
        exponents = self.per_episode.value_exponent, self.per_episode.normalizer_exponent
        try:
            return math.ldexp(number, exponents[0] - (exponents[1] if self.self_normalized else 0))
        except OverflowError:
            return math.copysign(math.inf, number)

    def __repr__(self) -> str:
        return f"Estimate({self.estimator} = {self.value:.6g} +- {self.std_error:.2g}, ess {self.ess:.1f})"


def standard_error(numerators: Floats, denominators: Floats) -> float:
    """Return the standard error of a ratio of sums over independent episodes, by the delta method.

    With value = sum x / sum y, the episode's influence is (x - value y) / mean y. For denominators of 1 this is the
    usual standard error of a mean. NaN for fewer than two episodes.
    """
    n = len(numerators)
    if n < 2 or not float(denominators.sum()):
        return math.nan
    influence = influence_of(numerators, denominators)
    largest = float(np.abs(influence).max())
    if not largest:
        return 0.0
    return largest * math.sqrt(float(np.square(influence / largest).sum()) / (n * (n - 1)))


def influence_of(numerators: Floats, denominators: Floats) -> Floats:
    """How much each episode pulls a ratio of sums its way, times n."""
    n, total = len(numerators), float(denominators.sum())
    found: Floats = (numerators - float(numerators.sum()) / total * denominators) / (total / n)
    return found
