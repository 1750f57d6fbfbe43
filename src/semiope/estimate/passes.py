"""Passes over the data: from a recipe (an estimator's terms and how they are used) to per-episode values."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from semiope._arrays import Floats
from semiope.estimate.critic import Critic
from semiope.estimate.problem import Problem, Slab
from semiope.estimate.result import EpisodeValues
from semiope.estimate.scan import Scaled, Terms, scan
from semiope.estimate.stepwise import RowsDone, values_normalized_per_step


class Recipe(NamedTuple):
    """How per-episode values are made.

    `factor` gives f of each row, the factor of the action taken; `shares` gives h of each annotation, its share in the
    additions c = sum of h g and k = sum of h (None: annotations do not enter). `finish` completes the terms where that
    is not all. `whole` weights rewards by the whole episode's ratio. `per_step` normalises the ratios at each step:
    over "all" episodes (finished ones keep their last ratio) or over those still "alive". A `critic` makes it doubly
    robust: the estimator then sees what a model leaves of rewards and annotations, that of the logs ("plain") or the
    one corrected by annotations ("annotated").
    """

    factor: Callable[[Slab], Floats]
    shares: Callable[[Slab], Floats] | None = None
    whole: bool = False
    per_step: str | None = None
    critic: str | None = None
    finish: Callable[[Slab, Terms], Terms] | None = None

    def terms(self, slab: Slab) -> Terms:
        """What the recursion runs on, for a run of episodes."""
        f = self.factor(slab)
        found = Terms(f) if self.shares is None else Terms(f, *slab.additions(self.shares(slab)))
        return found if self.finish is None else self.finish(slab, found)

    def critic_of(self, problem: Problem) -> Critic:
        """Rewards and annotations as this recipe sees them."""
        if self.critic is None:
            return problem.no_critic
        return problem.modelled.annotated_critic if self.critic == "annotated" else problem.modelled.critic


def episode_values(problem: Problem, recipe: Recipe, done: RowsDone | None = None) -> EpisodeValues:
    """Run a recipe over all episodes; `done` is told of rows as they are finished."""
    critic = recipe.critic_of(problem)
    if recipe.per_step:
        finished = recipe.per_step == "all"
        found = values_normalized_per_step(problem, recipe.terms, critic, count_finished=finished, done=done)
        return found._replace(values=found.values + critic.start)
    n = problem.evidence.logbook.episodes.n_episodes
    values, normalizers = Scaled.empty(n), Scaled.empty(n)
    samples, squares = None, None
    for slab in problem.slabs(critic):
        terms = recipe.terms(slab)
        here = (slab.first, slab.last)
        scan(
            slab.reward, slab.offsets, problem.gamma, terms, values.part(*here), normalizers.part(*here),
            whole=recipe.whole,
        )  # fmt: skip
        if terms.samples is not None:
            samples = np.empty(n) if samples is None else samples
            samples[slice(*here)] = terms.samples
        if terms.k_squared is not None:
            squares = Scaled.empty(n) if squares is None else squares
            _scan_squares(slab, terms, squares.part(*here))
        if done:
            done(len(slab.reward))
    v, v_exponent = values.on_common_scale()
    if recipe.critic:
        v = v + np.ldexp(critic.start, -v_exponent)
    m, m_exponent = normalizers.on_common_scale()
    if squares is None:
        return EpisodeValues(v, m, v_exponent, m_exponent, samples)
    on_scale_of_m = np.ldexp(squares.mantissa, squares.exponent - 2 * m_exponent)
    return EpisodeValues(v, m, v_exponent, m_exponent, samples, on_scale_of_m)


def _scan_squares(slab: Slab, terms: Terms, squares: Scaled) -> None:
    """Sum the squared ratios of all samples that an episode stands for: the recursion of m with f squared."""
    weight = None if terms.weight is None else terms.weight**2
    squared = Terms(f=terms.f**2, k=terms.k_squared, weight=weight)
    unused = Scaled.empty(len(squares.mantissa))
    scan(np.zeros_like(slab.reward), slab.offsets, 0.0, squared, unused, squares)
