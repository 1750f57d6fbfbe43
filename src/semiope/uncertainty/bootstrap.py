"""Resampled sums: a Poisson bootstrap in which an episode's weights depend on the seed and its own key alone.

In each resample an episode counts k times, k drawn from the Poisson distribution with mean 1: what drawing n of n
episodes with replacement comes to, but without the sum over all episodes being fixed. So resamples of parts of the data
can be drawn apart, in any order and on any machine, and added up. An episode's weights are a SplitMix64 series (Steele
et al., 2014) that starts at Philox of the seed and the episode's key.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from semiope._arrays import Floats, Integers
from semiope._compiled import compiled
from semiope._random import BOOTSTRAP, Seed, key_of, philox

RESAMPLES = 1000

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
# A uniform number of 32 bits counts for as many as the thresholds that it reaches: P(k <= 0), P(k <= 1) ...
_THRESHOLDS = tuple(
    np.uint64(round(2**32 * math.exp(-1) * sum(1 / math.factorial(i) for i in range(k + 1)))) for k in range(11)
)


class Sums(NamedTuple):
    """Sums over resampled episodes, one entry a resample: of x, y, x^2, xy and y^2 (the last three if asked for)."""

    x: Floats
    y: Floats
    xx: Floats
    xy: Floats
    yy: Floats

    def added(self, other: Sums) -> Sums:
        """Those of two parts of the data together."""
        return Sums(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    @property
    def ratios(self) -> Floats:
        """Sum of x over sum of y; NaN in resamples without any y."""
        found: Floats = np.divide(self.x, self.y, out=np.full(len(self.x), math.nan), where=self.y != 0)
        return found

    @property
    def errors(self) -> Floats:
        """Standard errors of the ratios by the delta method, in each resample."""
        ratio = self.ratios
        squares = np.maximum(self.xx - 2 * ratio * self.xy + ratio**2 * self.yy, 0.0)
        found: Floats = np.divide(
            np.sqrt(squares), np.abs(self.y), out=np.full(len(self.y), math.nan), where=self.y != 0
        )
        return found


def resampled(
    numerators: Floats,
    denominators: Floats,
    keys: Integers,
    *,
    seed: Seed = 0,
    resamples: int = RESAMPLES,
    squares: bool = False,
) -> Sums:
    """Sums over resamples of these episodes; keys, one an episode, are integers that tell episodes apart."""
    half = (resamples + 1) // 2
    sums = [np.zeros(2 * half) for _ in range(5)]
    chosen = _add_squares if squares else _add
    given = sums if squares else sums[:2]
    chosen(key_of(seed, BOOTSTRAP), keys.astype(np.uint64), numerators, denominators, *given)
    return Sums(*(one[:resamples] for one in sums))


def counts(keys: Integers, *, seed: Seed = 0, resamples: int = RESAMPLES) -> Iterator[Floats]:
    """How often each of these episodes counts, resample by resample: what `resampled` multiplies by.

    For statistics that are no ratios of sums. An episode's counts depend on the seed and its key alone.
    """
    starts = np.empty(len(keys), dtype=np.uint64)
    _begin(key_of(seed, BOOTSTRAP), keys.astype(np.uint64), starts)
    for resample in range(resamples):
        found = np.empty(len(keys))
        _count(starts, resample, found)
        yield found


@compiled
def _start(key: np.uint64, episode: np.uint64) -> np.uint64:
    """Where an episode's series begins."""
    w0, w1, _, _ = philox(key, episode & _LOW, episode >> _HALF, np.uint64(0), np.uint64(0))
    return (w0 << _HALF) | w1


@compiled
def _mixed(state: np.uint64) -> np.uint64:
    state = (state ^ (state >> np.uint64(30))) * _FIRST
    state = (state ^ (state >> np.uint64(27))) * _SECOND
    return state ^ (state >> np.uint64(31))


@compiled
def _times(uniform: np.uint64) -> float:
    """A Poisson number from 32 uniform bits."""
    found = 0.0
    for threshold in _THRESHOLDS:
        found += 1.0 if uniform >= threshold else 0.0
    return found


@compiled
def _add(key: np.uint64, keys: Integers, x: Floats, y: Floats, sum_x: Floats, sum_y: Floats) -> None:
    for i in range(len(keys)):
        start, xi, yi = _start(key, keys[i]), x[i], y[i]
        for b in range(len(sum_x) // 2):
            bits = _mixed(start + np.uint64(b + 1) * _STEP)
            first, second = _times(bits & _LOW), _times(bits >> _HALF)
            sum_x[2 * b] += first * xi
            sum_y[2 * b] += first * yi
            sum_x[2 * b + 1] += second * xi
            sum_y[2 * b + 1] += second * yi


@compiled
def _add_squares(
    key: np.uint64, keys: Integers, x: Floats, y: Floats, sum_x: Floats, sum_y: Floats, xx: Floats, xy: Floats,
    yy: Floats,
) -> None:  # fmt: skip
    for i in range(len(keys)):
        start, xi, yi = _start(key, keys[i]), x[i], y[i]
        for b in range(len(sum_x)):
            bits = _mixed(start + np.uint64(b // 2 + 1) * _STEP)
            times = _times(bits >> _HALF if b % 2 else bits & _LOW)
            sum_x[b] += times * xi
            sum_y[b] += times * yi
            xx[b] += times * xi * xi
            xy[b] += times * xi * yi
            yy[b] += times * yi * yi


@compiled
def _begin(key: np.uint64, keys: Integers, starts: NDArray[np.uint64]) -> None:
    for i in range(len(keys)):
        starts[i] = _start(key, keys[i])


@compiled
def _count(starts: NDArray[np.uint64], resample: int, found: Floats) -> None:
    for i in range(len(starts)):
        bits = _mixed(starts[i] + np.uint64(resample // 2 + 1) * _STEP)
        found[i] = _times(bits >> _HALF if resample % 2 else bits & _LOW)
