"""What annotators say beyond a model: residuals taken apart by their causes, and predicted with shrinkage.

    g - Q-hat_t(s, a) = m + mu(s, a) + delta(t, s, a) + noise

mu belongs to a pair, and the more often the logs saw it the better the model knows it: its variance is `logged` / n for
a pair logged n times, `unlogged` for one never logged. delta belongs to a pair at one step, m to all pairs that were
logged, or to all that were not (a model is off in other ways there). All have mean zero. The variances are found from
the answers by maximum likelihood, leaning on what the logs say beforehand as on a few answers more; the others are
predicted by their conditional means: residuals, shrunk by how well the logs know better and how noisy the answers are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from semiope._arrays import Booleans, Floats, Integers
from semiope.data.labels import number
from semiope.models.places import Places

# How many answers the prior variances count for, and where they lie in units of the logs' own: steps differ little.
LEAN = np.array([8.0, 4.0, 2.0, 0.5])
CENTRE = np.log([1.0, 1.0, 0.002, 0.05])
# Logarithms of variances are looked for within this of where the logs put them.
FAR = 25.0
# The level of what the model misses where it was logged is known as well as a mean of a quarter of the episodes.
PART = 4.0


class Prior(NamedTuple):
    """What the logs say beforehand: the variance of returns around the model, and how many episodes it rests on."""

    scatter: float
    n_episodes: int


class Components(NamedTuple):
    """Variances of residuals: of pairs logged once and never, of the steps of a pair, and of answers to a question."""

    logged: float
    unlogged: float
    step: float
    noise: float

    def of_pairs(self, counts: Floats) -> Floats:
        """Variances of mu of pairs that were logged so often."""
        return np.where(counts > 0, self.logged / np.maximum(counts, 1.0), self.unlogged)

    def of_levels(self, n_episodes: int) -> tuple[float, float]:
        """Variances of m of pairs never logged, and of those that were."""
        return self.unlogged, PART * self.logged / n_episodes


def expected(prior: Prior) -> Components:
    """The variances as long as there are no answers."""
    return Components(*(max(prior.scatter, 1e-200) * np.exp(CENTRE)))


class Summary(NamedTuple):
    """All that the answers say: mean residuals of questions, of how many answers, and the scatter within questions.

    Questions are steps of a pair: `of_group` is the pair of each, `counts` how often each pair was logged.
    """

    mean: Floats
    times: Floats
    of_group: Integers
    counts: Floats
    within: float
    free: int


class Solved(NamedTuple):
    """Conditional means given the variances: m where the pairs were never logged and where they were, and mu."""

    level: Floats
    pair: Floats


def predict(places: Places, residual: Floats, counts: Floats, horizon: int, prior: Prior) -> tuple[Floats, Components]:
    """m + mu + delta for every (step, state, action), and the variances they were shrunk by.

    `counts` is how often the logs have each pair, (n_states, n_actions).
    """
    n_states, n_actions = counts.shape
    n_pairs = n_states * n_actions
    # In units of the largest, so that squares of extreme answers stay in range.
    unit = max(float(np.abs(residual).max()), prior.scatter**0.5, 1e-100)
    pair = places.state.astype(np.int64) * n_actions + places.action
    of_answer, groups = number(places.step.astype(np.int64) * n_pairs + pair)
    of_group, pairs = number(groups % n_pairs)
    answers = _summed(residual / unit, of_answer, of_group, counts.ravel()[pairs])
    parts = fitted(answers, Prior(prior.scatter / unit / unit, prior.n_episodes))
    solved = _solved(answers, parts, prior.n_episodes)
    level = solved.level[(counts.ravel() > 0).astype(int)]
    mu = np.zeros(n_pairs)
    mu[pairs] = solved.pair
    found = np.repeat((level + mu)[None], horizon, axis=0)
    left = answers.mean - (level + mu)[pairs][of_group]
    found.reshape(-1)[groups] += left * parts.step / (parts.step + parts.noise / answers.times)
    in_units = Components(*(variance * unit * unit for variance in parts))
    return unit * found.reshape(horizon, n_states, n_actions), in_units


def _summed(residual: Floats, of_answer: Integers, of_group: Integers, counts: Floats) -> Summary:
    times = np.bincount(of_answer).astype(np.float64)
    mean = np.bincount(of_answer, weights=residual) / times
    within = float(np.sum((residual - mean[of_answer]) ** 2))
    return Summary(mean, times, of_group, counts, within, len(residual) - len(times))


def fitted(answers: Summary, prior: Prior) -> Components:
    """The variances under which the answers, and what the logs say beforehand, are most likely."""
    centre = CENTRE + np.log(max(prior.scatter, 1e-12 * float(np.mean(answers.mean**2)), 1e-200))
    bounds = [(low, low + 2 * FAR) for low in centre - FAR]
    args = answers, centre, prior.n_episodes
    found = minimize(_misfit, centre, args=args, method="TNC", jac=True, bounds=bounds)
    return Components(*np.exp(found.x).tolist())


def _solved(answers: Summary, parts: Components, n_episodes: int) -> Solved:
    """Conditional means of m and mu."""
    variance = parts.of_pairs(answers.counts)
    scatter = parts.step + parts.noise / answers.times
    information = np.bincount(answers.of_group, weights=1 / scatter)
    total = np.bincount(answers.of_group, weights=answers.mean / scatter)
    shrink = 1 + variance * information
    level = np.zeros(2)
    for flag, of_level in enumerate(parts.of_levels(n_episodes)):
        own = _own(answers, flag)
        level[flag] = of_level * (total / shrink)[own].sum() / (1 + of_level * (information / shrink)[own].sum())
    mean = level[(answers.counts > 0).astype(int)]
    return Solved(level, variance * (total - mean * information) / shrink)


def _own(answers: Summary, flag: int) -> Booleans:
    own: Booleans = (answers.counts > 0) == bool(flag)
    return own


def _misfit(logs: Floats, answers: Summary, centre: Floats, n_episodes: int) -> tuple[float, Floats]:
    """Minus the logarithm of the likelihood of log variances with their prior, and its gradient.

    Given the variances, residuals of a pair have the covariance matrix v J + diag(c), c = step + noise / n; with
    k = 1 + v L, L the sum of 1 / c and T that of mean / c, its determinant is k times the product of c, and its
    quadratic form the sum of mean^2 / c less v T^2 / k. m adds the same once more over pairs: I = L / k, J = T / k.
    """
    parts = Components(*np.exp(logs))
    v, c = parts.of_pairs(answers.counts), parts.step + parts.noise / answers.times
    g, y = answers.of_group, answers.mean
    L, T = np.bincount(g, weights=1 / c), np.bincount(g, weights=y / c)
    k = 1 + v * L
    fit = np.log(c).sum() + np.log(k).sum() + np.sum(y * y / c) - np.sum(v * T * T / k)
    by_v, by_L, by_T = L / k - (T / k) ** 2, v / k + (v * T / k) ** 2, -2 * v * T / k
    by_levels = np.zeros(2)
    for flag, level in enumerate(parts.of_levels(n_episodes)):
        own = _own(answers, flag)
        total_I, total_J = float((L / k)[own].sum()), float((T / k)[own].sum())
        a = 1 + level * total_I
        fit += np.log(a) - level * total_J**2 / a
        by_I, by_J = level / a + (level * total_J / a) ** 2, -2 * level * total_J / a
        by_levels[flag] = total_I / a - (total_J / a) ** 2
        by_v += np.where(own, -by_I * (L / k) ** 2 - by_J * L * T / k**2, 0.0)
        by_L += np.where(own, by_I / k**2 - by_J * v * T / k**2, 0.0)
        by_T += np.where(own, by_J / k, 0.0)
    by_c = 1 / c - (y / c) ** 2 - by_L[g] / c**2 - by_T[g] * y / c**2
    logged = answers.counts > 0
    of_logged = np.sum(by_v[logged] / answers.counts[logged]) + by_levels[1] * PART / n_episodes
    of_unlogged = np.sum(by_v[~logged]) + by_levels[0]
    fit += answers.free * logs[3] + answers.within / parts.noise
    of_noise = np.sum(by_c / answers.times) + (answers.free - answers.within / parts.noise) / parts.noise
    gradient = np.array([of_logged, of_unlogged, by_c.sum(), of_noise]) * np.array(parts)
    fit += np.sum(LEAN * (logs - centre + np.exp(centre - logs)))
    return 0.5 * float(fit), 0.5 * (gradient + LEAN * (1 - np.exp(centre - logs)))
