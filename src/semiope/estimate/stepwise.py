"""Sums of ratios per step over all episodes, for estimators that normalise each step by its own mean ratio."""

from __future__ import annotations

import math

import numpy as np

from semiope._arrays import Floats, Integers
from semiope._compiled import compiled
from semiope.estimate.scan import BIG, SHIFT, SMALL, Scaled
from semiope.policies.lookup import safe_ratio


class StepSums:
    """Per step t: sums over episodes of rho_1:t, of rho_1:t r_t, and of rho_1:t of those whose last step it is.

    All three carry the power of two `exponent[t]`, so that products over long episodes stay in range.
    """

    def __init__(self, horizon: int) -> None:
        self.ratios, self.rewards, self.ended = np.zeros(horizon), np.zeros(horizon), np.zeros(horizon)
        self.alive = np.zeros(horizon)
        self.exponent = np.zeros(horizon, dtype=np.int64)
        self.n_episodes = 0

    def add(self, f: Floats, reward: Floats, offsets: Integers) -> None:
        """Add a run of whole episodes."""
        self.n_episodes += len(offsets) - 1
        _add(f, reward, offsets, self.ratios, self.rewards, self.ended, self.alive, self.exponent)

    def normalizers(self, *, finished_count: bool) -> tuple[Floats, Floats]:
        """Return d_{t-1} / d_t and R_t per step, 0 from the step on at which all ratios are 0.

        d_t is the mean of rho_1:t over the episodes that reach step t or, if `finished_count`, over all episodes, those
        that ended before with their last ratio. R_t is the sum of rho_1:t r_t over the sum that d_t is the mean of.
        """
        sums, exponent, n = self.ratios, self.exponent, self.alive
        if finished_count:
            sums, exponent = self._with_finished()
            n = np.full(len(sums), float(self.n_episodes))
        means = sums / n
        before, exponent_before = np.append(1.0, means[:-1]), np.append(0, exponent[:-1])
        change = np.ldexp(safe_ratio(before, means), exponent_before - exponent)
        return change, np.ldexp(safe_ratio(self.rewards, sums), self.exponent - exponent)

    def after_the_end(self, gamma: float) -> Scaled:
        """Return, for each step T, the sum of gamma^t R_t / d_t over t >= T, where finished episodes count."""
        sums, exponent = self._with_finished()
        _, mean_reward = self.normalizers(finished_count=True)
        terms = safe_ratio(gamma ** np.arange(len(sums)) * mean_reward, sums / self.n_episodes)
        found = Scaled(np.zeros(len(sums) + 1), np.zeros(len(sums) + 1, dtype=np.int64))
        rest = (0.0, 0)
        for t in range(len(sums) - 1, -1, -1):
            rest = _plus((float(terms[t]), -int(exponent[t])), rest)
            found.mantissa[t], found.exponent[t] = rest
        return found

    def _with_finished(self) -> tuple[Floats, Integers]:
        """Sums of rho_1:t over all episodes: those at step t, and the last ratios of those that ended before."""
        sums, exponents = np.empty_like(self.ratios), np.empty_like(self.exponent)
        finished = (0.0, 0)
        for t in range(len(sums)):
            here = int(self.exponent[t])
            sums[t], exponents[t] = _plus((float(self.ratios[t]), here), finished)
            finished = _plus((float(self.ended[t]), here), finished)
        return sums, exponents


def _plus(one: tuple[float, int], other: tuple[float, int]) -> tuple[float, int]:
    """Add two numbers, each a mantissa and a power of two."""
    if not one[0] or not other[0]:
        return one if one[0] else other
    exponent = max(one[1], other[1])
    return math.ldexp(one[0], one[1] - exponent) + math.ldexp(other[0], other[1] - exponent), exponent


@compiled
def _add(
    f: Floats,
    reward: Floats,
    offsets: Integers,
    ratios: Floats,
    rewards: Floats,
    ended: Floats,
    alive: Floats,
    exponent: Integers,
) -> None:
    for i in range(len(offsets) - 1):
        ratio, e = 1.0, 0
        for row in range(offsets[i], offsets[i + 1]):
            t = row - offsets[i]
            alive[t] += 1.0
            ratio *= f[row]
            if ratio == 0.0:
                continue
            if ratio >= BIG:
                ratio, e = math.ldexp(ratio, -SHIFT), e + SHIFT
            elif ratio <= SMALL:
                ratio, e = math.ldexp(ratio, SHIFT), e - SHIFT
            if ratios[t] == 0.0:
                exponent[t] = e
            elif e > exponent[t]:
                down = int(exponent[t]) - e
                ratios[t], rewards[t] = math.ldexp(ratios[t], down), math.ldexp(rewards[t], down)
                ended[t] = math.ldexp(ended[t], down)
                exponent[t] = e
            share = math.ldexp(ratio, e - int(exponent[t]))
            ratios[t] += share
            rewards[t] += share * reward[row]
            if row == offsets[i + 1] - 1:
                ended[t] += share
