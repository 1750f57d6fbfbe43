"""What annotators say beyond a model: residuals taken apart by their causes, and predicted with shrinkage.

    g - Q-hat_t(s, a) = m + mu(s, a) + delta(t, s, a) + noise

m is a mean of its own for pairs that the logs know and for those they do not (a model is off in other ways there). mu
and delta, with mean zero, belong to a pair and to a pair at one step; the three variances are estimated from the
answers (sums of squares equated to their expectations, as in an analysis of variance with unequal groups). mu and delta
are predicted by their conditional means: means of residuals, shrunk by how few and how noisy the answers are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from semiope._arrays import Booleans, Floats, Integers
from semiope.data.labels import number
from semiope.models.places import Places


class Components(NamedTuple):
    """Variances of residuals: between pairs, between the steps of a pair, and of answers to the same question."""

    pair: float
    step: float
    noise: float


def predict(places: Places, residual: Floats, known: Booleans, horizon: int) -> tuple[Floats, Components]:
    """m + mu + delta for every (step, state, action), and the variances they were shrunk by.

    `known` flags the pairs that the logs know, (n_states, n_actions).
    """
    n_states, n_actions = known.shape
    n_pairs = n_states * n_actions
    # In units of the largest residual, so that squares of extreme answers stay in range.
    unit = max(float(np.abs(residual).max()), 1e-100)
    residual = residual / unit
    pair = places.state.astype(np.int64) * n_actions + places.action
    mean = means(residual, known.ravel()[pair], pair)
    of_answer, groups = number(places.step * n_pairs + pair)
    n_group, pair_of_group = np.bincount(of_answer).astype(np.float64), groups % n_pairs
    left = residual - mean[known.ravel()[pair].astype(int)]
    mean_group = np.bincount(of_answer, weights=left) / n_group
    parts = components(left, of_answer, mean_group, n_group, pair_of_group)
    # Answers without any noise are not averaged away: the floor is far below all that matters.
    least = 1e-12 * max(float(np.mean(residual**2)), 1e-100)
    scatter = np.maximum(parts.step + parts.noise / n_group, least)
    weight = np.bincount(pair_of_group, weights=1 / scatter, minlength=n_pairs)
    total = np.bincount(pair_of_group, weights=mean_group / scatter, minlength=n_pairs)
    mu = total * parts.pair / (1 + weight * parts.pair)
    found = np.repeat((mean[known.ravel().astype(int)] + mu)[None], horizon, axis=0)
    found.reshape(-1)[groups] += (mean_group - mu[pair_of_group]) * parts.step / scatter
    in_units = Components(*(variance * unit * unit for variance in parts))
    return unit * found.reshape(horizon, n_states, n_actions), in_units


def means(residual: Floats, known: Booleans, pair: Integers) -> Floats:
    """m of pairs that the logs do not know, and of those they do, shrunk by how uncertain they are.

    Answers about a pair go together, so that the squared error e^2 of a mean is taken over pairs; m is the mean times
    the positive part of 1 - e^2 / mean^2. A single pair says nothing about others.
    """
    found = np.zeros(2)
    for flag in (0, 1):
        own = known == bool(flag)
        of_answer, pairs = number(pair[own]) if own.any() else (pair[own], pair[own])
        if len(pairs) > 1:
            mean = float(residual[own].mean())
            sums = np.bincount(of_answer, weights=residual[own] - mean)
            error = float(np.sum(sums**2)) / len(of_answer) ** 2 * len(pairs) / (len(pairs) - 1)
            found[flag] = mean * max(0.0, 1 - error / mean / mean) if mean else 0.0
    return found


def components(
    residual: Floats, of_answer: Integers, mean_group: Floats, n_group: Floats, pair_of_group: Integers
) -> Components:
    """Variance components by equating sums of squares to their expectations, none below zero.

    With n answers in G groups (pairs at a step) of P pairs, n_g and n_p of them in each, and K = sum of n_g^2 / n_p:

        sum of (r - mean of g)^2            (n - G) noise
        sum of n_g (mean of g - of p)^2     (G - P) noise + (n - K) step
        sum of n_p (mean of p)^2            P noise + K step + n pair

    Where no question was answered twice, noise cannot be told from step, and is taken to be all of it.
    """
    n, n_groups = len(residual), len(n_group)
    of_group, pairs = number(pair_of_group)
    n_pair = np.bincount(of_group, weights=n_group)
    mean_pair = np.bincount(of_group, weights=n_group * mean_group) / n_pair
    repeated = float(np.sum(n_group**2 / n_pair[of_group]))
    within = float(np.sum((residual - mean_group[of_answer]) ** 2))
    between_steps = float(np.sum(n_group * (mean_group - mean_pair[of_group]) ** 2))
    between_pairs = float(np.sum(n_pair * mean_pair**2))
    if n == n_groups > len(pairs):  # no question was answered twice: what differs between steps is taken for noise
        noise = between_steps / (n_groups - len(pairs))
    else:
        noise = within / (n - n_groups) if n > n_groups else 0.0
    free = n - repeated
    step = max(0.0, (between_steps - noise * (n_groups - len(pairs))) / free) if free > 1e-9 else 0.0
    pair = max(0.0, (between_pairs - noise * len(pairs) - step * repeated) / n)
    return Components(pair, step, noise)
