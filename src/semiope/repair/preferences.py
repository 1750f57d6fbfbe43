"""Answers that prefer one action to another: a Bradley-Terry fit, scaled on the returns known.

In a state, action a is preferred to b with probability 1 / (1 + exp(-(Q_t(s, a) - Q_t(s, b)) / beta)), Q_t(s, a) =
Q-hat_t(s, a) + d(s, a). Q-hat are the returns that logs (and answers that are returns) tell; d is what they miss, with
a prior of mean 0 and the variance of Q-hat: that of returns over the number of logs or, for a pair never logged, that
between actions. beta, how sharply experts tell returns apart, is what makes the preferences most likely among actions
whose returns are known (what little is not known of them integrated out, in the usual approximation of a logistic by a
normal curve); comparisons with others say nothing about it. d is then the mode of its posterior, found by Newton's
method in each state, and the posterior's standard deviation goes into `std`.

Preferences may go in circles; their likelihood has a maximum all the same. Sets of actions that no comparison connects
keep their distance by the prior alone, and are reported.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from semiope._arrays import Booleans, Floats, Integers
from semiope._compiled import compiled
from semiope.models.case import Case
from semiope.models.places import Places

SPAN = 1e2  # beta is sought this many times below and above the spread of returns
ROUNDS = 200


class Comparisons(NamedTuple):
    """At each place, how surely its action is preferred to `other`."""

    at: Places
    other: Integers
    value: Floats


class Preferred(NamedTuple):
    """Corrections d and their standard deviations, (n_states, n_actions); beta, and whether it was found.

    `apart` are the states in which compared actions fall into sets that nothing connects.
    """

    correction: Floats
    std: Floats
    beta: float
    found: bool
    apart: Integers


def fitted(case: Case, returns: Floats, given: Comparisons, known: Booleans) -> Preferred:
    """Fit the preferences on top of the returns known, (horizon, n_states, n_actions); `known` flags the pairs."""
    at, other = given.at, given.other
    prior = _prior(case, returns)
    ahead = at.read(returns) - returns[at.step, at.state, other]
    beta, found = _scale(ahead, prior[at.state, at.action] + prior[at.state, other], given, known)
    order = np.argsort(at.state, kind="stable")
    states, starts = np.unique(at.state[order], return_index=True)
    correction, variance = np.zeros_like(prior), prior.copy()
    _newton(
        states, np.append(starts, len(order)), at.action[order].astype(np.int64), other[order].astype(np.int64),
        ahead[order], given.value[order], beta, prior, correction, variance,
    )  # fmt: skip
    return Preferred(correction, np.sqrt(variance), beta, found, _apart(given, prior.shape[1], states))


def _scale(ahead: Floats, unsure: Floats, given: Comparisons, known: Booleans) -> tuple[float, bool]:
    """beta, and whether the preferences tell it: by those between actions whose returns are known."""
    from scipy.optimize import minimize_scalar

    size = max(float(np.sqrt(np.mean(ahead**2 + unsure))), 1e-12)
    told = known[given.at.state, given.at.action] & known[given.at.state, given.other]
    if not told.any():
        return size, False
    ahead, unsure, value = ahead[told], unsure[told], given.value[told]
    # Differences of estimates are larger than those of what they estimate: back to the mean, by their reliability.
    true = max(float(np.mean(ahead**2 - unsure)), 1e-3 * float(np.mean(ahead**2)))
    reliability = true / (true + unsure)
    ahead, unsure = reliability * ahead, reliability * unsure

    def surprise(log_beta: float) -> float:
        """Minus the log likelihood for one beta."""
        reach = np.sqrt(np.exp(2 * log_beta) + np.pi * unsure / 8)
        return float(np.sum(np.logaddexp(0.0, -ahead / reach) + (1 - value) * ahead / reach))

    ends = np.log(size / SPAN), np.log(size * SPAN)
    best = minimize_scalar(surprise, bounds=ends, method="bounded", options={"xatol": 1e-3})
    # Told nothing about the scale, as where all are ties or contradict the returns, the likelihood only falls.
    return float(np.exp(best.x)), surprise(float(best.x)) < surprise(ends[1]) - 0.5


def _prior(case: Case, returns: Floats) -> Floats:
    """Variance of what returns miss: of a mean of n returns, or of returns between actions for pairs never logged."""
    records = case.records
    mdp, rows = records.empirical.mdp, records.rows
    at = rows.part(rows.action >= 0)
    scatter = records.scatter * records.scatter
    usual = (records.behavior * np.where(mdp.available, returns, 0.0)).sum(axis=2)
    between = float(np.mean((at.read(returns) - usual[at.step, at.state]) ** 2))
    # Where the logs show no difference between actions, what is not logged may differ as much as returns scatter.
    between = max(between, scatter, 1e-12)
    counts = records.empirical.counts
    return np.where(counts > 0, np.maximum(scatter, 1e-12) / np.maximum(counts, 1), between)


def _apart(given: Comparisons, n_actions: int, states: Integers) -> Integers:
    """States in which the actions compared are not all connected by comparisons."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    state = given.at.state.astype(np.int64) * n_actions
    one, two = state + given.at.action, state + given.other
    nodes, place = np.unique(np.concatenate([one, two]), return_inverse=True)
    half = len(one)
    links = coo_matrix((np.ones(half), (place[:half], place[half:])), shape=(len(nodes), len(nodes)))
    n, label = connected_components(links, directed=False)
    sets = np.unique(label * np.int64(states.max() + 1) + nodes // n_actions) % (states.max() + 1)
    per_state = np.bincount(sets, minlength=int(states.max()) + 1)
    assert n == len(sets)
    return np.flatnonzero(per_state > 1)


@compiled
def _newton(
    states: Integers,
    starts: Integers,
    action: Integers,
    other: Integers,
    ahead: Floats,
    value: Floats,
    beta: float,
    prior: Floats,
    correction: Floats,
    variance: Floats,
) -> None:
    """Fill in mode and variance of d in each state that has comparisons, sorted by state."""
    n = prior.shape[1]
    for k in range(len(states)):
        s, here = states[k], slice(starts[k], starts[k + 1])
        own = (action[here], other[here], ahead[here], value[here], beta, prior[s])
        d = np.zeros(n)
        height = _height(d, *own)
        for _ in range(ROUNDS):
            slope, hessian = _slope(d, *own)
            step = np.linalg.solve(hessian, slope)
            length = 1.0
            while length > 1e-12 and _height(d - length * step, *own) > height - 1e-4 * length * (slope @ step):
                length *= 0.5
            d = d - length * step
            lower = _height(d, *own)
            if height - lower <= 1e-12 * (1.0 + abs(lower)):
                break
            height = lower
        correction[s] = d
        variance[s] = np.diag(np.linalg.inv(_slope(d, *own)[1]))


@compiled
def _height(
    d: Floats, action: Integers, other: Integers, ahead: Floats, value: Floats, beta: float, prior: Floats
) -> float:
    """Minus the log posterior of d in one state."""
    total: float = 0.5 * (d**2 / prior).sum()
    for i in range(len(action)):
        x = (ahead[i] + d[action[i]] - d[other[i]]) / beta
        total += max(-x, 0.0) + np.log1p(np.exp(-abs(x))) + (1.0 - value[i]) * x
    return total


@compiled
def _slope(
    d: Floats, action: Integers, other: Integers, ahead: Floats, value: Floats, beta: float, prior: Floats
) -> tuple[Floats, Floats]:
    """Its first and second derivatives."""
    slope, hessian = d / prior, np.diag(1.0 / prior)
    for i in range(len(action)):
        a, b = action[i], other[i]
        chance = 1.0 / (1.0 + np.exp(-(ahead[i] + d[a] - d[b]) / beta))
        push, bend = (chance - value[i]) / beta, chance * (1.0 - chance) / beta**2
        slope[a] += push
        slope[b] -= push
        hessian[a, a] += bend
        hessian[b, b] += bend
        hessian[a, b] -= bend
        hessian[b, a] -= bend
    return slope, hessian
