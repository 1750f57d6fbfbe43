"""EpisodeValues in, Estimate out: value, standard error, effective sample size, knowing no estimator by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from semiope._arrays import Floats, Integers
from semiope.data.labels import Vocabulary

if TYPE_CHECKING:
    from semiope.uncertainty.intervals import Interval

# The square of the normal quantile of 97.5%: what exceeds it, in squared standard errors, is no chance at 5%.
NO_CHANCE = 3.841458820694124
# Estimates that differ by less than this share of their size are the same.
ROUNDING = 1e-9


class EpisodeValues(NamedTuple):
    """Per-episode values v and normalizers m; the true ones are v * 2**value_exponent and m * 2**normalizer_exponent.

    Both exponents are 0 if the largest of the true ones fits well into float64 (below 2**900, above 2**-900).
    `samples` are how many each episode stands for (None: one each), `squares` the sums of their squared normalizers
    (None: m**2).
    """

    values: Floats
    normalizers: Floats
    value_exponent: int = 0
    normalizer_exponent: int = 0
    samples: Floats | None = None
    squares: Floats | None = None


class ModelValues(NamedTuple):
    """What a model alone says of each episode, and the posterior standard deviation of their mean; NaN if unknown."""

    values: Floats
    std: float


class Part(NamedTuple):
    """A standard error that is not one over episodes, and the degrees of freedom it is known with."""

    std_error: float
    degrees: float


class Rival(NamedTuple):
    """An estimate that does not take the annotators' word, beside one that does.

    `apart` is their difference in its standard errors, `apart_error`. `shows`: the rival rests on outcomes, so that a
    difference that is no chance is a bias of the annotators, and is taken out. Else the rival may be the one that is
    wrong, and the value goes halfway.
    """

    name: str
    value: float
    std_error: float
    degrees: float
    apart: float
    apart_error: float
    shows: bool

    def excess(self, value: float) -> float:
        """As much of the difference of a value to the rival as is no chance at 5%."""
        difference = value - self.value
        rounding = ROUNDING * (abs(value) + abs(self.value))
        if not abs(difference) > max(math.sqrt(NO_CHANCE) * self.apart_error, rounding):
            return 0.0
        return difference * (1 - NO_CHANCE * (self.apart_error / difference) ** 2)


class Groups(NamedTuple):
    """The estimate without each group of episodes in turn, everything fitted anew; `of_episode` is each one's group."""

    without: Floats
    of_episode: Integers

    @property
    def std_error(self) -> float:
        """The standard error by the jackknife."""
        n = len(self.without)
        return float(np.sqrt((n - 1) / n * np.sum((self.without - self.without.mean()) ** 2)))

    @property
    def influence(self) -> Floats:
        """Per episode, what gives the same standard error as that of a mean over episodes."""
        n, episodes = len(self.without), len(self.of_episode)
        found: Floats = math.sqrt((n - 1) * (episodes - 1)) * (self.without.mean() - self.without)[self.of_episode]
        return found


@dataclass(frozen=True, eq=False)
class Estimate:
    """The value of a policy by one estimator, with the per-episode values and normalizers it comes from.

    `labels` are those of the episodes: resampling depends on them, not on how the data are divided or sorted.
    `correction` is what counting the behavior policy takes from the episodes' influences, in comparisons. `model`
    draws the value towards that of a model alone, `parts` are variances beside that over episodes, `find_rivals`
    looks for estimates that do not trust annotations; `refit` evaluates again without each of a few groups of
    episodes, where something was fitted that per-episode values take as given. `mean_one`: if counts are few, ratios do
    not average one as they should, and a decision has to hold by the self-normalized form as well.
    """

    policy: str
    estimator: str
    per_episode: EpisodeValues
    self_normalized: bool = False
    labels: Vocabulary | None = None
    correction: tuple[Floats, Floats] | None = None
    model: ModelValues | None = None
    parts: tuple[Part, ...] = ()
    find_rivals: Callable[[], Sequence[Rival]] | None = None
    refit: Callable[[], Groups] | None = None
    mean_one: bool = False

    @property
    def values(self) -> Floats:
        """Per-episode values (times 2**-per_episode.value_exponent, which is 1 unless they leave float64's range)."""
        return self.per_episode.values

    @property
    def normalizers(self) -> Floats:
        """Per-episode normalizers (scaled likewise): an episode's ratio or, with annotations, the sum of its ratios."""
        return self.per_episode.normalizers

    @cached_property
    def denominators(self) -> Floats:
        """What the sum of the values is divided by, per episode."""
        if self.self_normalized:
            return self.per_episode.normalizers
        return np.ones(len(self.values)) if self.per_episode.samples is None else self.per_episode.samples

    @cached_property
    def unshrunk(self) -> float:
        """Sum of values over sum of denominators; NaN if the denominators sum to 0. Intervals are around it."""
        total = float(self.denominators.sum())
        return self._unscaled(float(self.values.sum()) / total) if total else math.nan

    @cached_property
    def rivals(self) -> Sequence[Rival]:
        """Estimates of the same value that do not trust annotations; the one that can best be told apart first."""
        return () if self.find_rivals is None else self.find_rivals()

    @cached_property
    def bias(self) -> float:
        """The bias of annotators in this estimate, as far as outcomes show it."""
        shows = next((one for one in self.rivals if one.shows), None)
        return 0.0 if shows is None else shows.excess(self.unshrunk)

    @cached_property
    def compromise(self) -> float:
        """Half of the difference to rivals that show no bias, as far as it is no chance: who is wrong is not known.

        Of all values between the two, the one in the middle has the least error in the worse case.
        """
        found = [one.excess(self.unshrunk - self.bias) for one in self.rivals if not one.shows]
        return (min(0.0, *found) + max(0.0, *found)) / 2 if found else 0.0

    @property
    def also_covered(self) -> list[Rival]:
        """Rivals that an interval covers as well: the first, and others that disagree at 5%.

        The first is the one that can best be told apart. Without it, an interval would hold only if annotators share no
        bias, or one large enough to show. Others may disagree with what is left after a bias was taken out, too.
        """
        values = {self.unshrunk, self.unshrunk - self.bias}
        return [*self.rivals[:1], *(one for one in self.rivals[1:] if any(one.excess(value) for value in values))]

    @cached_property
    def trusting(self) -> float:
        """The estimate if annotators are right: `unshrunk`, drawn towards the model where its correction is noise.

        See `kept_of` for how much of the model's correction is kept.
        """
        if self.model is None:
            return self.unshrunk
        alone = float(self.model.values.mean())
        noise = standard_error(self.values - self.model.values, self.denominators)
        return alone + (self.unshrunk - alone) * kept_of(self.unshrunk - alone, noise, self.model.std)

    @property
    def value(self) -> float:
        """The estimate: `trusting`, without a bias that shows, and halfway to a model of the logs that disagrees."""
        return self.trusting - self.bias - self.compromise

    @cached_property
    def over_episodes(self) -> float:
        """Standard error over episodes alone, by the delta method for ratios; NaN for fewer than two episodes."""
        return self._unscaled(standard_error(self.values, self.denominators))

    @cached_property
    def groups(self) -> Groups | None:
        """The estimate without each of a few groups of episodes; None where nothing was fitted."""
        return None if self.refit is None else self.refit()

    @cached_property
    def std_error(self) -> float:
        """Standard error of `unshrunk`, with all that was fitted on the way; NaN for fewer than two episodes."""
        own = self.over_episodes if self.groups is None else self.groups.std_error
        return math.hypot(own, *(part.std_error for part in self.parts))

    @cached_property
    def degrees(self) -> float:
        """Degrees of freedom of the standard error (Satterthwaite)."""
        if self.groups is not None:
            own = Part(self.groups.std_error, float(len(self.groups.without) - 1))
        else:
            own = Part(self.over_episodes, degrees_of_freedom(influence_of(self.values, self.denominators)))
        return satterthwaite([own, *self.parts])

    @cached_property
    def ess(self) -> float:
        """Effective sample size: (sum of normalizers)**2 / sum of their squares."""
        largest = float(self.normalizers.max())
        if not largest:
            return 0.0
        share = self.normalizers / largest
        squares = np.square(share) if self.per_episode.squares is None else self.per_episode.squares / largest / largest
        return float(share.sum()) ** 2 / float(squares.sum())

    def interval(self, alpha: float = 0.05, method: str = "t", *, seed: int | np.random.Generator = 0) -> Interval:
        """Return a confidence interval at level 1 - alpha, with all that was fitted on the way.

        `method`: `t`, `normal`, or by resampling (which uses the seed) `bootstrap`, `studentized`, `bca`. Where
        there is an estimate that does not trust annotations, the interval covers it as well.
        """
        from semiope.uncertainty.intervals import Interval, covering, interval

        found = interval(self.values, self.denominators, alpha=alpha, method=method, seed=seed, keys=self.keys)
        found = Interval(*map(self._unscaled, found))
        return covering(found, self, alpha, method)

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
        if self.groups is not None:
            return self.groups.influence
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


def kept_of(correction: float, noise: float, model: float) -> float:
    """How much of a model's correction D is kept: t / (t + s^2), s being its standard error `noise`.

    t is the model's own variance or, if that is more, what of D^2 is no chance at 5%. A model that does not know its
    variance (NaN) has t = D^2 - s^2, which estimates the square of what the correction corrects.
    """
    unit = max(abs(correction), noise, 0.0 if math.isnan(model) else model)
    if not noise > 0 or not math.isfinite(unit):
        return 1.0
    d, s, own = (number / unit for number in (correction, noise, 0.0 if math.isnan(model) else model))
    size = max(own**2, d**2 - (1.0 if math.isnan(model) else NO_CHANCE) * s**2, 0.0)
    return size / (size + s**2)


def satterthwaite(parts: Sequence[Part]) -> float:
    """Degrees of freedom of a standard error that is made of several."""
    largest = max(part.std_error for part in parts)
    if not largest > 0 or not math.isfinite(largest):
        return parts[0].degrees
    shares = [(part.std_error / largest) ** 2 for part in parts]
    spent = sum(share**2 / part.degrees for share, part in zip(shares, parts, strict=True))
    return sum(shares) ** 2 / spent if spent > 0 else parts[0].degrees


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


def degrees_of_freedom(influence: Floats) -> float:
    """Degrees of freedom of a standard error over episodes, n - 1 at most and 1 at least.

    The variance of an estimated variance is (k - 1) / n of its square, k the kurtosis, where that of a chi-squared
    variable is 2 over its degrees of freedom: 2 n / (k - 1). A few episodes that carry an estimate leave few.
    """
    n = len(influence)
    largest = float(np.abs(influence).max(initial=0.0))
    if n < 2 or not largest or not math.isfinite(largest):
        return float(max(n - 1, 1))
    squares = np.square(influence / largest)
    kurtosis = n * float(np.square(squares).sum()) / float(squares.sum()) ** 2
    return float(min(max(2 * n / max(kurtosis - 1, 1e-12), 1.0), n - 1))
