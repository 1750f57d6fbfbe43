"""Weights of least variance for C-IS (appendix D.3, which leaves them open): a small quadratic programme a state.

C-IS multiplies what is known of action i where a was taken by u(i|a) pi_e(i), u = W(i|s, a) / pi_b+(i|s). Its mean is
sum_i pi_e(i) y_i sum_a pi_b(a) u(i|a), so that it is unbiased for right annotations, whatever y, exactly if

    sum_a pi_b(a) u(i|a) = 1    for every action i that pi_e may take,

whether or not u comes from split weights that sum to one: any such u >= 0 will do. With mean y_i, variance v_ii of
rewards and v_ai of annotations, all independent, the variance given the state is a convex quadratic of u,

    sum_a pi_b(a) [ sum_i u(i|a)^2 pi_e(i)^2 v_ai + (sum_i u(i|a) pi_e(i) y_i)^2 ] - (sum_i pi_e(i) y_i)^2,

and its minimum under these constraints is found by the active-set method: solve with some u held at zero, step until
another one gets there, release those whose multipliers say so.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from semiope._arrays import Booleans, Floats, as_floats
from semiope._compiled import compiled
from semiope.errors import SchemaError
from semiope.models.checks import flags
from semiope.policies.lookup import safe_ratio

ROUNDS = 500
# Variances are not taken to be less than this share of the largest, so that the minimum is unique.
LEAST = 1e-10


def optimal_factors(
    behavior: Any, evaluation: Any, mean: Any, reward_variance: Any, annotation_variance: Any, annotated: Any = None
) -> Floats:
    """u, (n_states, n_actions, n_actions) by state, action taken and action, of least variance.

    All others are (n_states, n_actions); `annotated`, (n_states, n_actions, n_actions), says which actions are
    annotated where another was taken (default: all, always). For several steps, `mean` and `reward_variance` are those
    of r + gamma v after the action taken. Actions that nothing is known of have u = 0.
    """
    names = ("behavior", "evaluation", "mean", "reward_variance", "annotation_variance")
    given = (behavior, evaluation, mean, reward_variance, annotation_variance)
    tables = [as_floats(values, name) for values, name in zip(given, names, strict=True)]
    shape = tables[0].shape
    for table, name in zip(tables, names, strict=True):
        if table.ndim != 2 or table.shape != shape:
            raise SchemaError(f"{name}: an array of shape {table.shape}; give (n_states, n_actions), the same for all.")
        if not np.isfinite(table).all() or (name != "mean" and (table < 0).any()):
            raise SchemaError(f"{name}: not finite numbers{'' if name == 'mean' else ' of at least 0'}.")
    there = flags(annotated, (*shape, shape[1]), True, "annotated") | np.eye(shape[1], dtype=bool)
    pi_b, pi_e, y, paid, told = tables
    variance = np.where(np.eye(shape[1], dtype=bool), paid[:, None, :], told[:, None, :])
    return solve_each(pi_b, pi_e, y, variance, there)


def solve_each(behavior: Floats, evaluation: Floats, mean: Floats, variance: Floats, there: Booleans) -> Floats:
    """Return u of each state: `variance` and `there` are, like it, by action taken and action."""
    usable = there & (behavior[:, :, None] > 0) & (evaluation[:, None, :] > 0)
    z, scatter = evaluation * mean, variance * evaluation[:, None, :] ** 2
    scale = np.maximum(np.maximum(scatter.max(axis=(1, 2)), (z * z).max(axis=1)), 1e-300)
    scatter = np.maximum(scatter, LEAST * scale[:, None, None]) / scale[:, None, None]
    z = z / np.sqrt(scale)[:, None]
    # Where the policy takes one action only, u is in proportion to 1 / (variance + z^2).
    found = np.where(usable, 1 / (scatter + (z * z)[:, None, :]), 0.0)
    for s in np.flatnonzero(np.count_nonzero(evaluation, axis=1) > 1):
        _solve(behavior[s], scatter[s], z[s], usable[s], found[s])
    # The sums are one exactly, whatever rounding did on the way: that is what keeps the estimate unbiased.
    total = np.einsum("sa,sai->si", behavior, found)[:, None, :]
    return safe_ratio(found, np.broadcast_to(total, found.shape))


@compiled
def _solve(behavior: Floats, variance: Floats, z: Floats, usable: Booleans, u: Floats) -> None:
    """Fill in u of one state, by the active-set method."""
    n = len(behavior)
    # To begin with, what is known of an action counts the same wherever it is known.
    for i in range(n):
        mass = 0.0
        for a in range(n):
            mass += behavior[a] if usable[a, i] else 0.0
        for a in range(n):
            u[a, i] = 1.0 / mass if usable[a, i] else 0.0
    free, target, price = usable.copy(), np.zeros((n, n)), np.zeros(n)
    for _ in range(ROUNDS):
        _with_free(behavior, variance, z, free, target, price)
        step, blocked_a, blocked_i = 1.0, -1, -1
        for a in range(n):
            for i in range(n):
                if free[a, i] and target[a, i] < 0 and u[a, i] / (u[a, i] - target[a, i]) < step:
                    step, blocked_a, blocked_i = u[a, i] / (u[a, i] - target[a, i]), a, i
        for a in range(n):
            for i in range(n):
                if free[a, i]:
                    u[a, i] += step * (target[a, i] - u[a, i])
        if blocked_a >= 0:
            u[blocked_a, blocked_i] = 0.0
            free[blocked_a, blocked_i] = False
            continue
        worst, out_a, out_i = -1e-12, -1, -1
        for a in range(n):
            inner = 0.0
            for i in range(n):
                inner += u[a, i] * z[i]
            for i in range(n):
                if usable[a, i] and not free[a, i] and z[i] * inner - price[i] < worst:
                    worst, out_a, out_i = z[i] * inner - price[i], a, i
        if out_a < 0:
            break
        free[out_a, out_i] = True


@compiled
def _with_free(behavior: Floats, variance: Floats, z: Floats, free: Booleans, target: Floats, price: Floats) -> None:
    """Fill in the minimum with all but the free u at zero, and the price of each constraint.

    For each a, (diag(v_a) + z z') u_a = price on what is free; the inverse is that of a diagonal plus rank one.
    """
    n = len(z)
    system = np.zeros((n, n))
    for a in range(n):
        if behavior[a] == 0:
            continue
        total = 1.0
        for i in range(n):
            if free[a, i]:
                total += z[i] * z[i] / variance[a, i]
        for i in range(n):
            for j in range(n):
                if free[a, i] and free[a, j]:
                    shared = z[i] * z[j] / (variance[a, i] * variance[a, j] * total)
                    system[i, j] += behavior[a] * ((1.0 / variance[a, i] if i == j else 0.0) - shared)
    for i in range(n):
        price[i] = 1.0
        if system[i, i] == 0:
            system[i, i], price[i] = 1.0, 0.0
    _eliminate(system, price)
    for a in range(n):
        total, inner = 1.0, 0.0
        for i in range(n):
            if free[a, i]:
                total += z[i] * z[i] / variance[a, i]
                inner += z[i] * price[i] / variance[a, i]
        for i in range(n):
            if free[a, i]:
                target[a, i] = (price[i] - z[i] * inner / total) / variance[a, i]


@compiled
def _eliminate(system: Floats, found: Floats) -> None:
    """Solve for `found`, which holds the right-hand side; all are 0 if the numbers left their range.

    The system is symmetric and positive definite, a sum of such, so that elimination needs no pivots.
    """
    n = len(found)
    for k in range(n):
        for i in range(k + 1, n):
            factor = system[i, k] / system[k, k]
            for j in range(k, n):
                system[i, j] -= factor * system[k, j]
            found[i] -= factor * found[k]
    finite = True
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            found[i] -= system[i, j] * found[j]
        found[i] /= system[i, i]
        finite = finite and np.isfinite(found[i])
    for i in range(n):
        found[i] = found[i] if finite else 0.0
