"""What annotators say beyond a model: residuals taken apart by their causes, and predicted with shrinkage.

    g - Q-hat_t(s, a) = m + mu(s, a) + delta(t, s, a) + noise

mu belongs to a pair, and the more often the logs saw it the better the model knows it: its variance is `logged` / n for
a pair logged n times, `unlogged` for one never logged. delta belongs to a pair at one step, of variance `step`. m
belongs to all pairs that were logged, or to all that were not (a model is off in other ways there): its variance is
PART `logged` / n_episodes for the former, `unlogged` for the latter. All have mean zero and are normal.

The variances are found from the answers by maximum likelihood, leaning on what the logs say beforehand as on a few
answers more; m, mu and delta are then predicted by their conditional means: residuals, shrunk the more the better the
logs know a pair, and the fewer and the noisier the answers are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from semiope._arrays import Booleans, Floats, Integers
from semiope._compiled import compiled
from semiope.data.labels import number
from semiope.models.places import Places
from semiope.planning import causes
from semiope.planning.causes import Causes

# How many answers the prior variances count for, and where they lie in units of the logs' own: steps differ little, and
# answers are good. The search for the most likely ones starts from more noise, lest it end where there is nothing else.
LEAN = np.array([40.0, 4.0, 2.0, 0.5])
CENTRE = np.log([1.0, 1.0, 0.002, 0.005])
START = np.log([1.0, 1.0, 1.0, 100.0])
# Logarithms of variances are looked for within this of where the logs put them.
FAR = 25.0
# The level of what the model misses where it was logged is known as well as a mean of a quarter of the episodes.
PART = 4.0
# Logs scatter by at least this share of the residuals' mean square, so that all of it is within FAR of what they say.
LEAST = 1e-6
# So many answers more than questions that all say what was said before, but for rounding, show that there is no noise.
REPEATS, ROUNDING = 10, 1e-12
# Newton's steps at the end of the search: how many, from which differences, and how far they may lead.
NEWTON, SHIFT, CLOSE = 4, 1e-4, 0.1


class Prior(NamedTuple):
    """What is known beforehand: the standard deviation of returns around the model, and of how many episodes.

    `noise` is that of an answer, if somebody knows; `logged` how much of the square of `scatter` is expected in what
    answers say of pairs that were logged.
    """

    scatter: float
    n_episodes: int
    noise: float | None = None
    logged: float = 1.0

    @property
    def centre(self) -> Floats:
        """Logarithms of the variances, in units of the square of `scatter`."""
        return CENTRE + np.log([self.logged, 1.0, 1.0, 1.0])


class Components(NamedTuple):
    """Variances of residuals: of pairs logged once and never, of the steps of a pair, and of answers to a question."""

    logged: float
    unlogged: float
    step: float
    noise: float


def expected(prior: Prior) -> Components:
    """The variances as long as there are no answers."""
    found = Components(*(prior.scatter * prior.scatter * np.exp(prior.centre)).tolist())
    return found if prior.noise is None else found._replace(noise=prior.noise**2)


class Summary(NamedTuple):
    """All that the answers say: mean residuals of questions, of how many answers, and the scatter within questions.

    Questions are steps of a pair: `of_group` is the pair of each, `counts` how often each pair was logged, and `side`
    whether it was at all, 0 or 1. `within` is the sum of squares of answers around the means of their questions, `free`
    its degrees of freedom.
    """

    mean: Floats
    times: Floats
    of_group: Integers
    counts: Floats
    side: Integers
    within: float
    free: int

    @property
    def exact(self) -> bool:
        """Whether answers to the same question are always the same."""
        repeated = self.within <= self.free * ROUNDING**2 * self.square
        return self.free >= REPEATS and repeated and self.square > 0

    @property
    def square(self) -> float:
        """The mean square of the residuals."""
        return (float(np.sum(self.times * self.mean**2)) + self.within) / float(self.times.sum())


def predict(places: Places, residual: Floats, counts: Floats, horizon: int, prior: Prior) -> tuple[Floats, Components]:
    """m + mu + delta for every (step, state, action), and the variances they were shrunk by.

    `counts` is how often the logs have each pair, (n_states, n_actions).
    """
    n_states, n_actions = counts.shape
    n_pairs = n_states * n_actions
    # In units of the largest, so that squares of extreme answers stay in range.
    unit = max(float(np.abs(residual).max()), prior.scatter, float(np.finfo(np.float64).tiny))
    pair = places.state.astype(np.int64) * n_actions + places.action
    of_answer, groups = number(places.step.astype(np.int64) * n_pairs + pair)
    of_group, pairs = number(groups % n_pairs)
    answers = _summed(residual / unit, of_answer, of_group, counts.ravel()[pairs])
    noise = None if prior.noise is None else prior.noise / unit
    parts = fitted(answers, prior._replace(scatter=prior.scatter / unit, noise=noise))
    by_pair, by_level = _causes(parts, answers, prior.n_episodes)
    level = causes.means(by_level, np.zeros(2))
    found = level[_side(counts.ravel())]
    found[pairs] += causes.means(by_pair, level[answers.side])
    left = answers.mean - found[pairs][of_group]
    by_step = np.repeat(found[None], horizon, axis=0)
    by_step.reshape(-1)[groups] += left * parts.step / (parts.step + parts.noise / answers.times)
    in_units = Components(*(variance * unit * unit for variance in parts))
    return unit * by_step.reshape(horizon, n_states, n_actions), in_units


def _summed(residual: Floats, of_answer: Integers, of_group: Integers, counts: Floats) -> Summary:
    times = np.bincount(of_answer).astype(np.float64)
    mean = np.bincount(of_answer, weights=residual) / times
    within = float(np.sum((residual - mean[of_answer]) ** 2))
    free = len(residual) - len(times)
    return Summary(mean, times, of_group.astype(np.int64), counts, _side(counts), within, free)


def _side(counts: Floats) -> Integers:
    """Which m belongs to each pair: 0 if it was never logged, 1 if it was."""
    return (counts > 0).astype(np.int64)


def fitted(answers: Summary, prior: Prior) -> Components:
    """The variances under which the answers, and what the logs say beforehand, are most likely."""
    # If there is nothing but zeros, any variances will do.
    scatter = max(prior.scatter * prior.scatter, LEAST * answers.square) or 1.0
    centre = prior.centre + np.log(scatter)
    start, lean, bounds = centre + START, LEAN.copy(), [(middle - FAR, middle + FAR) for middle in centre]
    if answers.exact or prior.noise is not None:
        known = 0.0 if prior.noise is None else prior.noise**2
        start[-1], lean[-1] = max(centre[-1] - FAR, math.log(max(known, 1e-300))), 0.0
        bounds[-1] = start[-1], start[-1]
    args = answers, centre, lean, prior.n_episodes
    found = minimize(_misfit, start, args=args, method="TNC", jac=True, bounds=bounds)
    inner = np.array([low < x < high for x, (low, high) in zip(found.x, bounds, strict=True)])
    settled = _settled(found.x, inner, lambda logs: _misfit(logs, *args)[1])
    return Components(*np.exp(np.clip(settled, *np.transpose(bounds))).tolist())


def _settled(logs: Floats, inner: Booleans, slope: Callable[[Floats], Floats]) -> Floats:
    """Where the slope is 0 in the `inner` directions, close to `logs`, to all digits, by Newton's steps.

    Searches end within some tolerance, and where depends on the order of the data; nothing that is found should.
    """
    shifts = SHIFT * np.eye(len(logs))[inner]
    curvature = np.array([(slope(logs + shift) - slope(logs - shift))[inner] / (2 * SHIFT) for shift in shifts])
    if not inner.any() or np.linalg.eigvalsh((curvature + curvature.T) / 2).min() <= 0:
        return logs
    found = logs.copy()
    for _ in range(NEWTON):
        found[inner] -= np.linalg.solve(curvature, slope(found)[inner])
        if np.abs(found - logs).max() > CLOSE:
            return logs
    return found


def _misfit(logs: Floats, answers: Summary, centre: Floats, lean: Floats, n_episodes: int) -> tuple[float, Floats]:
    """Minus the logarithm of the likelihood of log variances with their prior, and its gradient; constants left out."""
    fit, slope = _misfit_of_answers(Components(*np.exp(logs).tolist()), answers, n_episodes)
    beyond = np.exp(centre - logs)
    fit += float(np.sum(lean * (logs - centre + beyond)))
    return 0.5 * fit, 0.5 * (slope * np.exp(logs) + lean * (1 - beyond))


@compiled
def _misfit_of_answers(parts: Components, answers: Summary, n_episodes: int) -> tuple[float, Floats]:
    """Minus twice the logarithm of the likelihood of the variances, and its gradient; constants left out."""
    mean, of_group, side = answers.mean, answers.of_group, answers.side
    scatter = parts.step + parts.noise / answers.times
    pairs, levels = _causes(parts, answers, n_episodes)
    fit = np.sum(np.log(scatter) + mean**2 / scatter) + causes.misfit(pairs) + causes.misfit(levels)
    fit += answers.free * np.log(parts.noise) + answers.within / parts.noise
    by_levels = causes.slopes(levels, np.zeros(2), np.zeros(2))
    by_pairs = causes.slopes(pairs, by_levels.information[side], by_levels.total[side])
    said = by_pairs.information[of_group] + by_pairs.total[of_group] * mean
    by_scatter = (1 - (mean**2 + said) / scatter) / scatter
    slope = np.array([by_levels.variance[1] * PART / n_episodes, by_levels.variance[0], 0.0, 0.0])
    slope[0] += np.sum(side * by_pairs.variance / np.maximum(answers.counts, 1.0))
    slope[1] += np.sum((1 - side) * by_pairs.variance)
    slope[2] = np.sum(by_scatter)
    slope[3] = np.sum(by_scatter / answers.times) + (answers.free - answers.within / parts.noise) / parts.noise
    return fit, slope


@compiled
def _causes(parts: Components, answers: Summary, n_episodes: int) -> tuple[Causes, Causes]:
    """What the answers say of mu of each pair, and of the two m behind."""
    scatter = parts.step + parts.noise / answers.times
    pairs = causes.shared(of_pairs(parts, answers.counts), answers.of_group, 1 / scatter, answers.mean / scatter)
    return pairs, causes.behind(pairs, of_levels(parts, n_episodes), answers.side)


@compiled
def of_pairs(parts: Components, counts: Floats) -> Floats:
    """The variance of mu of pairs logged so often."""
    return np.where(counts > 0, parts.logged / np.maximum(counts, 1.0), parts.unlogged)


@compiled
def of_levels(parts: Components, n_episodes: int) -> Floats:
    """The variances of m of pairs never logged, and of those logged."""
    return np.array([parts.unlogged, PART * parts.logged / n_episodes])
