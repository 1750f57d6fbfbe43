"""Weights: how many episodes an estimate really rests on, over the steps too, and how heavy the tail of weights is."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from semiope._arrays import Floats, Integers, frozen
from semiope._compiled import compiled
from semiope.estimate.passes import Recipe
from semiope.estimate.problem import Problem
from semiope.estimate.scan import NOTHING

# Products of ratios beyond this have left all proportion, and sums of their squares the range of numbers.
LARGEST = 1e140
# The tail of weights is judged by this share of episodes, but not by more than 3 sqrt(n), as Vehtari et al. (2024) do.
TAIL = 0.2
FEWEST_IN_TAIL = 5
# Times the mean weight.
FAR = 5.0


class StepWeights(NamedTuple):
    """Per step: the effective sample size of the weights so far, and the share of episodes that have not ended."""

    ess: Floats
    alive: Floats


def weights_by_step(problem: Problem, recipe: Recipe) -> StepWeights:
    """Follow the weights of an estimator from the first step on; an episode that has ended keeps its weight."""
    episodes = problem.evidence.logbook.episodes
    horizon = int(episodes.lengths.max())
    going, gone = np.zeros((2, horizon)), np.zeros((3, horizon + 1))
    for slab in problem.slabs():
        terms = recipe.terms(slab)
        weight = np.ones(slab.last - slab.first) if terms.weight is None else terms.weight
        k = NOTHING if terms.k is None else terms.k
        _forward(frozen(terms.f), frozen(k), frozen(slab.offsets), frozen(weight), *going, *gone)
    # What was noted where episodes ended holds from there on.
    mass, squares, ended = np.cumsum(gone, axis=1)[:, :horizon]
    mass, squares = mass + going[0], squares + going[1]
    ess = np.divide(mass**2, squares, out=np.zeros(horizon), where=squares > 0)
    return StepWeights(ess, 1 - ended / episodes.n_episodes)


class Top(NamedTuple):
    """So many of the heaviest episodes carry this share of the weight; `even` would be theirs if all counted alike."""

    episodes: int
    share: float
    even: float


def top_share(weights: Floats, share: float = 0.01) -> Top:
    """What lies on the heaviest share of episodes, of which there is at least one; NaN if there is no weight at all."""
    total = float(weights.sum())
    n = max(1, math.ceil(share * len(weights)))
    return Top(n, float(np.sort(weights)[-n:].sum()) / total if total > 0 else math.nan, n / len(weights))


def tail_index(weights: Floats) -> float:
    """Shape k of the generalised Pareto distribution of the largest weights (Zhang and Stephens, 2009).

    Moments of order 1/k and above do not exist: from 1/2 on the variance is infinite, from 0.7 on so much rests on so
    few that no interval can be trusted (Vehtari et al., 2024). -inf where no weight is far above the mean: there is no
    tail to speak of. NaN if there are too few.
    """
    n = len(weights)
    size = int(min(TAIL * n, 3 * math.sqrt(n)))
    ordered = np.sort(weights)
    if size < FEWEST_IN_TAIL:
        return math.nan
    largest = float(ordered[-1])
    if largest <= FAR * float(ordered.mean()):
        return -math.inf
    above = (ordered[-size:] - float(ordered[-size - 1])) / largest
    # What lies so close to the cut tells nothing of the tail, but would leave the range of numbers.
    return _pareto_shape(np.maximum(above[above > 0], 1e-100))


def _pareto_shape(x: Floats) -> float:
    """Posterior mean of k for sorted excesses, drawn towards 0.5 as if by ten more observations."""
    n = len(x)
    if n < FEWEST_IN_TAIL:
        return math.nan if n else -math.inf
    grid = np.arange(1, 31 + math.isqrt(n)) - 0.5
    quartile = x[max(int(n / 4 + 0.5) - 1, 0)]
    theta = 1 / x[-1] + (1 - np.sqrt((30 + math.isqrt(n)) / grid)) / (3 * quartile)
    k = np.mean(np.log1p(-theta[:, None] * x), axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        likelihood = n * (np.log(-theta / k) - k - 1)
    likelihood = np.where(np.isfinite(likelihood), likelihood, -np.inf)
    chance = np.exp(likelihood - likelihood.max())
    mean = float(np.sum(theta * chance) / chance.sum())
    return (n * float(np.mean(np.log1p(-mean * x))) + 10 * 0.5) / (n + 10)


@compiled
def _forward(
    f: Floats, k: Floats, offsets: Integers, weight: Floats, mass: Floats, squares: Floats, last_mass: Floats,
    last_squares: Floats, ended: Floats,
) -> None:  # fmt: skip
    """Sum weights, and their squares, at each step; behind their last step, the last ones of episodes that ended."""
    for i in range(len(offsets) - 1):
        product, told, now = weight[i], 0.0, 0.0
        for row in range(offsets[i], offsets[i + 1]):
            t = row - offsets[i]
            told += product * k[row] if len(k) else 0.0
            product = min(product * f[row], LARGEST)
            now = min(product + told, LARGEST)
            mass[t] += now
            squares[t] += now * now
        length = offsets[i + 1] - offsets[i]
        last_mass[length] += now
        last_squares[length] += now * now
        ended[length] += 1.0
