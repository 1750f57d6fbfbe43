"""Passes over the data: from a recipe (an estimator's terms and how they are used) to per-episode values."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from semiope.estimate.evidence import Problem, Slab
from semiope.estimate.result import EpisodeValues
from semiope.estimate.scan import Scaled, Terms, scan
from semiope.estimate.stepwise import StepSums

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
    episodes, gamma = problem.evidence.episodes, problem.gamma
    n, horizon, all_count = episodes.n_episodes, int(episodes.lengths.max()), recipe.per_step == "all"
    sums = StepSums(horizon)
    for slab in problem.slabs():
        sums.add(recipe.terms(slab).f, slab.reward, slab.offsets)
    change, mean_reward = sums.normalizers(finished_count=all_count)
    # Ended episodes that still count go on with their last ratio and without reward.
    after = sums.after_the_end(gamma) if all_count else Scaled(np.zeros(horizon + 1), np.zeros(horizon + 1, dtype=int))
    level = np.concatenate([[0.0], np.cumsum(mean_reward * gamma ** np.arange(horizon))])
    values, normalizers, unused = np.empty(n), Scaled.empty(n), Scaled.empty(n)
    for slab in problem.slabs():
        here = (slab.first, slab.last)
        terms = recipe.terms(slab)
        scan(slab.reward, slab.offsets, gamma, terms, unused.part(*here), normalizers.part(*here))
        step, lengths = episodes.step[slab.rows], episodes.lengths[slice(*here)]
        residuals, normalized = Scaled.empty(len(lengths)), Terms(terms.f * change[step])
        scan(slab.reward - mean_reward[step], slab.offsets, gamma, normalized, residuals, unused.part(*here))
        last = normalizers.part(*here)
        rest = np.ldexp(last.mantissa * after.mantissa[lengths], last.exponent + after.exponent[lengths])
        values[slice(*here)] = np.ldexp(*residuals) - rest + level[horizon if all_count else lengths]
        if progress:
            progress(len(slab.reward))
    m, m_exponent = normalizers.on_common_scale()
    return EpisodeValues(values, m, 0, m_exponent)
