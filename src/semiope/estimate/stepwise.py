"""Weighted per-decision importance sampling with one normaliser a step.

With d_t the mean of rho_1:t over the episodes counted at step t, the estimate is the mean over episodes of
sum_t gamma^t rho_1:t / d_t r_t.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from semiope._arrays import Floats, Integers
from semiope.estimate.critic import Critic
from semiope.estimate.problem import Problem, Slab
from semiope.estimate.result import EpisodeValues
from semiope.estimate.scan import (
    Scaled,
    Terms,
    add_steps,
    include_finished,
    scan,
    sum_from_the_end,
    sum_residuals,
)
from semiope.policies.lookup import safe_ratio

RowsDone = Callable[[int], None]


def values_normalized_per_step(
    problem: Problem,
    terms: Callable[[Slab], Terms],
    critic: Critic,
    *,
    count_finished: bool,
    done: RowsDone | None = None,
) -> EpisodeValues:
    """Return linearised per-episode values: their mean is the estimate, and their spread its delta-method error.

    With R_t the ratio-weighted mean reward of step t, they are sum_t gamma^t (rho_1:t / d_t (r_t - R_t) + R_t) over the
    steps at which the episode counts: those it reaches or, if finished ones count, all.
    """
    episodes, gamma = problem.evidence.logbook.episodes, problem.gamma
    n, horizon = episodes.n_episodes, int(episodes.lengths.max())
    sums = StepSums(horizon)
    for slab in problem.slabs(critic):
        sums.add(_ratios(terms(slab)), slab.reward, slab.offsets)
    means, mean_reward, after = sums.normalizers(gamma, count_finished=count_finished)
    discount: Floats = np.power(gamma, np.arange(horizon, dtype=np.float64))
    level = np.append(0.0, np.cumsum(discount * mean_reward))
    values, normalizers = np.empty(n), Scaled.empty(n)
    for slab in problem.slabs(critic):
        here = (slab.first, slab.last)
        ratios = _ratios(terms(slab))
        lengths = episodes.lengths[slice(*here)]
        last, unused, residuals = normalizers.part(*here), Scaled.empty(len(lengths)), np.empty(len(lengths))
        scan(slab.reward, slab.offsets, gamma, Terms(ratios), unused, last)
        sum_residuals(ratios, slab.reward, slab.offsets, discount, mean_reward, *means, residuals)
        # Ended episodes that still count go on with their last ratio and without reward.
        rest = np.ldexp(last.mantissa * after.mantissa[lengths], last.exponent + after.exponent[lengths])
        values[slice(*here)] = residuals - rest + level[horizon if count_finished else lengths]
        if done:
            done(len(slab.reward))
    m, m_exponent = normalizers.on_common_scale()
    return EpisodeValues(values, m, 0, m_exponent)


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
        add_steps(f, reward, offsets, self.ratios, self.rewards, self.ended, self.alive, self.exponent)

    def normalizers(self, gamma: float, *, count_finished: bool) -> tuple[Scaled, Floats, Scaled]:
        """Return per step d_t and R_t (0 where all ratios are 0), and what goes on after an end.

        d_t is the mean of rho_1:t over the episodes that reach step t or, if finished ones count, over all episodes,
        those that ended before with their last ratio. R_t is the sum of rho_1:t r_t over the sum that d_t is the mean
        of. What goes on after an end at step T is the sum of gamma^t R_t / d_t over t >= T, if finished ones count.
        """
        n, sums, exponent = self.alive, self.ratios.copy(), self.exponent.copy()
        if count_finished:
            n = np.full(len(sums), float(self.n_episodes))
            include_finished(sums, exponent, self.ended, self.exponent)
        means = Scaled(sums / n, exponent)
        mean_reward = np.ldexp(safe_ratio(self.rewards, sums), self.exponent - exponent)
        after = Scaled(np.zeros(len(sums) + 1), np.zeros(len(sums) + 1, dtype=np.int64))
        if count_finished:
            terms = safe_ratio(gamma ** np.arange(len(sums)) * mean_reward, means.mantissa)
            sum_from_the_end(terms, -exponent, after.mantissa, after.exponent)
        return means, mean_reward, after


def _ratios(terms: Terms) -> Floats:
    if terms.c is not None or terms.k is not None:
        raise ValueError("ratios can be normalised per step only for estimators without additions c and k")
    return terms.f
