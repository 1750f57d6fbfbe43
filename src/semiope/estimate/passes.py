"""Passes over the data: from a recipe (an estimator's terms and how they are used) to per-episode values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from semiope._arrays import Floats, Integers
from semiope._compiled import compiled
from semiope.estimate.evidence import Problem, Slab
from semiope.estimate.result import EpisodeValues
from semiope.estimate.scan import BIG, SHIFT, SMALL, Scaled, Terms, scan
from semiope.policies.lookup import safe_ratio

Progress = Callable[[int], None]


class Recipe(NamedTuple):
    """How per-episode values are made.

    `terms` prepares the recursion, `whole` weights rewards by the whole episode's ratio. `per_step` normalises the
    ratios at each step: over "all" episodes (finished ones keep their last ratio) or over those still "alive".
    """

    terms: Callable[[Slab], Terms]
    whole: bool = False
    per_step: str | None = None


def episode_values(problem: Problem, recipe: Recipe, progress: Progress | None = None) -> EpisodeValues:
    """Run a recipe over all episodes; `progress` is told the rows done."""
    if recipe.per_step:
        return _normalized_per_step(problem, recipe, progress)
    n = problem.evidence.episodes.n_episodes
    values, normalizers, squares = Scaled.empty(n), Scaled.empty(n), None
    counts = None
    for slab in problem.slabs():
        terms = recipe.terms(slab)
        here = (slab.first, slab.last)
        scan(
            slab.reward, slab.offsets, problem.gamma, terms, values.part(*here), normalizers.part(*here),
            whole=recipe.whole,
        )  # fmt: skip
        if terms.samples is not None:
            counts = np.empty(n) if counts is None else counts
            counts[slab.first : slab.last] = terms.samples
        if terms.k_squared is not None:
            squares = Scaled.empty(n) if squares is None else squares
            _scan_squares(slab, terms, squares.part(*here))
        if progress:
            progress(len(slab.reward))
    v, v_exponent = values.on_common_scale()
    m, m_exponent = normalizers.on_common_scale()
    if squares is None:
        return EpisodeValues(v, m, v_exponent, m_exponent, counts)
    on_scale_of_m = np.ldexp(squares.mantissa, squares.exponent - 2 * m_exponent)
    return EpisodeValues(v, m, v_exponent, m_exponent, counts, on_scale_of_m)


def _scan_squares(slab: Slab, terms: Terms, squares: Scaled) -> None:
    """Sum the squared ratios of all samples that an episode stands for: the recursion of m with f squared."""
    weight = None if terms.weight is None else terms.weight**2
    squared = Terms(f=terms.f**2, k=terms.k_squared, weight=weight)
    unused = Scaled.empty(len(squares.mantissa))
    scan(np.zeros_like(slab.reward), slab.offsets, 0.0, squared, unused, squares)


def _normalized_per_step(problem: Problem, recipe: Recipe, progress: Progress | None) -> EpisodeValues:
    """Weighted per-decision importance sampling with one normaliser a step.

    With d_t the mean of rho_1:t over the episodes counted at step t, the estimate is the mean over episodes of
    sum_t gamma^t rho_1:t / d_t r_t: the recursion with f_t = rho_t d_{t-1} / d_t. With R_t the ratio-weighted mean
    reward of step t, the values returned are the linearised ones, sum_t gamma^t (rho_1:t / d_t (r_t - R_t) + R_t) over
    the steps at which the episode counts: their mean is the estimate, and their spread its delta-method error.
    """
    horizon = int(problem.evidence.episodes.lengths.max())
    sums = _StepSums(horizon)
    for slab in problem.slabs():
        sums.add(recipe.terms(slab).f, slab.reward, slab.offsets)
    change, mean_reward = sums.normalizers(finished_count=recipe.per_step == "all")
    tails = np.zeros(horizon + 1)
    for t in range(horizon - 1, -1, -1) if recipe.per_step == "all" else ():
        tails[t] = change[t] * (problem.gamma * tails[t + 1] - mean_reward[t])
    discounted = mean_reward * problem.gamma ** np.arange(horizon)
    upto = np.concatenate([[0.0], np.cumsum(discounted)])
    n = problem.evidence.episodes.n_episodes
    values, normalizers, unused = Scaled.empty(n), Scaled.empty(n), Scaled.empty(n)
    for slab in problem.slabs():
        here = (slab.first, slab.last)
        terms = recipe.terms(slab)
        scan(slab.reward, slab.offsets, problem.gamma, terms, unused.part(*here), normalizers.part(*here))
        lengths = np.diff(slab.offsets)
        step = np.arange(len(slab.reward)) - np.repeat(slab.offsets[:-1], lengths)
        scan(
            slab.reward - mean_reward[step], slab.offsets, problem.gamma, Terms(terms.f * change[step]),
            values.part(*here), unused.part(*here), tail=tails[lengths],
        )  # fmt: skip
        values.mantissa[slab.first : slab.last] += upto[horizon if recipe.per_step == "all" else lengths]
        if progress:
            progress(len(slab.reward))
    m, m_exponent = normalizers.on_common_scale()
    return EpisodeValues(np.ldexp(values.mantissa, values.exponent), m, 0, m_exponent)


class _StepSums:
    """Per step, scaled by powers of two: sums of rho_1:t and of rho_1:t r_t, of last ratios of episodes that end."""

    def __init__(self, horizon: int) -> None:
        self.ratios, self.rewards, self.ended = np.zeros(horizon), np.zeros(horizon), np.zeros(horizon)
        self.alive = np.zeros(horizon)
        self.exponent = np.zeros(horizon, dtype=np.int64)
        self.n_episodes = 0

    def add(self, f: Floats, reward: Floats, offsets: Integers) -> None:
        """Add a slab."""
        self.n_episodes += len(offsets) - 1
        _add_steps(f, reward, offsets, self.ratios, self.rewards, self.ended, self.alive, self.exponent)

    def normalizers(self, *, finished_count: bool) -> tuple[Floats, Floats]:
        """Return d_{t-1} / d_t and R_t per step; both 0 from the step on at which all ratios are 0."""
        means, scales = self.ratios / self.alive, self.exponent
        if finished_count:
            means, scales = self._with_finished()
        previous = np.concatenate([[1.0], means[:-1]])
        shift = np.concatenate([[0], scales[:-1]]) - scales
        change = safe_ratio(np.ldexp(previous, np.clip(shift, -1000, 1000)), means)
        total = np.ldexp(means * (self.n_episodes if finished_count else self.alive), scales - self.exponent)
        return change, safe_ratio(self.rewards, total)

    def _with_finished(self) -> tuple[Floats, Integers]:
        """Means over all episodes, those that ended before counting with their last ratio."""
        means, scales = np.empty(len(self.ratios)), np.empty(len(self.ratios), dtype=np.int64)
        finished, scale = 0.0, 0
        for t in range(len(means)):
            common = int(max(scale, self.exponent[t]))
            total = math.ldexp(finished, scale - common) + math.ldexp(self.ratios[t], int(self.exponent[t]) - common)
            means[t], scales[t] = total / self.n_episodes, common
            finished, scale = (
                math.ldexp(finished, scale - common) + math.ldexp(self.ended[t], int(self.exponent[t]) - common),
                common,
            )
        return means, scales


@compiled
def _add_steps(
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
        p, e = 1.0, 0
        for row in range(offsets[i], offsets[i + 1]):
            t = row - offsets[i]
            p *= f[row]
            if p >= BIG:
                p, e = math.ldexp(p, -SHIFT), e + SHIFT
            elif 0.0 < p <= SMALL:
                p, e = math.ldexp(p, SHIFT), e - SHIFT
            alive[t] += 1.0
            empty = ratios[t] == 0.0
            if empty or e > exponent[t]:
                by = 0 if empty else int(exponent[t]) - e
                ratios[t] = math.ldexp(ratios[t], by)
                rewards[t] = math.ldexp(rewards[t], by)
                ended[t] = math.ldexp(ended[t], by)
                exponent[t] = e
            scaled = math.ldexp(p, e - int(exponent[t]))
            ratios[t] += scaled
            rewards[t] += scaled * reward[row]
            if row == offsets[i + 1] - 1:
                ended[t] += scaled
