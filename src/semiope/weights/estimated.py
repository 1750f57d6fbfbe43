"""Weights from variances that are themselves estimated, on other folds of the data.

Where a was taken, what is known of action i is multiplied by u(i|a) pi_e(i) (see `optimal.py`). `inverse-variance`
takes u(i|a) as 1 over the variance of what is known: of r + gamma v for the action taken, of the annotations for
others. `optimal` minimises the variance of the whole. If i is annotated with probability p only, its u is used now and
then: with q = p u for its mean, the variance has q^2 (v + (1 - p) y^2) / p in the place of u^2 v, and the programme is
the same in q.

Estimators divide by the mean weight of an action in its cell (`augmented.py`), so that only proportions matter here,
and weights need not sum to one. Moments of a cell are shrunk towards those of its step, and these towards all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from semiope._arrays import Booleans, Floats, Integers
from semiope._memory import refuse_beyond_memory
from semiope.data.labels import ABSENT, number
from semiope.data.logbook import Logbook
from semiope.policies.cells import Cells
from semiope.policies.lookup import safe_ratio
from semiope.weights.optimal import solve_each
from semiope.weights.split import SplitWeights

# Moments of a cell count as many observations of its step's moments beside its own, and so on.
PRIOR = 5.0
# No variance is taken to be less than this share of the mean one.
LEAST = 1e-6
# Standard deviations count up to so many times the largest return.
MOST = 1e6


class Known(NamedTuple):
    """What is known of each row and answer before weighing.

    `returns`, `probs`: Q-hat and pi_e of every action in every row; `outcome`: r + gamma v after the action taken;
    `fold`: of each row. Q-hat of a row comes from other folds.
    """

    returns: Floats
    probs: Floats
    outcome: Floats
    fold: Integers


class Moments(NamedTuple):
    """What the weights of a group of rows, a cell in a fold, rest on; the last two axes are action taken and action."""

    behavior: Floats
    evaluation: Floats
    mean: Floats
    variance: Floats
    chance: Floats


class Entries(NamedTuple):
    """Fold, cell and action of observations."""

    fold: Integers
    cell: Integers
    action: Integers


def estimated_weights(
    kind: str, logbook: Logbook, cells: Cells, behavior: Floats, known: Known, *, centred: bool = False
) -> SplitWeights:
    """Weights of one policy; `behavior` is pi_b per cell and action. `centred`: means are taken off beforehand."""
    episodes, annotations = logbook.episodes, logbook.annotations
    decided = np.flatnonzero(episodes.action != ABSENT)
    code, groups = number(known.fold[decided].astype(np.int64) * len(cells) + cells.of_row[decided])
    fold, cell = np.divmod(groups, len(cells))
    moments = _moments(logbook, cells, behavior, known, (decided, code, fold, cell))
    if centred:
        moments = moments._replace(mean=np.zeros_like(moments.mean))
    factors = _factors(kind, moments)
    taken, place = episodes.action[decided], np.searchsorted(decided, annotations.row)
    weight_taken = np.ones(episodes.n_steps)
    weight_taken[decided] = factors[code, taken, taken]
    return SplitWeights(weight_taken, factors[code[place], taken[place], annotations.action])


def _factors(kind: str, moments: Moments) -> Floats:
    """u of each group; what is never annotated has none."""
    there = moments.chance > 0
    chance = np.where(there, moments.chance, 1.0)
    scatter = (moments.variance + (1 - chance) * moments.mean[:, None, :] ** 2) / chance
    if kind == "inverse-variance":
        q = np.where(there, 1 / scatter, 0.0)
        total = np.einsum("ga,gai->gi", moments.behavior, q)[:, None, :]
        q = safe_ratio(q, np.broadcast_to(total, q.shape))
    else:
        q = solve_each(moments.behavior, moments.evaluation, moments.mean, scatter, there)
    found: Floats = q / chance
    return found


def _moments(
    logbook: Logbook,
    cells: Cells,
    behavior: Floats,
    known: Known,
    rows: tuple[Integers, Integers, Integers, Integers],
) -> Moments:
    """Moments of each group, from other folds but for pi_b and pi_e, in units of the largest return.

    `rows` are those with a decision, the group of each, and the fold and cell of each group.
    """
    episodes, annotations = logbook.episodes, logbook.annotations
    decided, code, fold, cell = rows
    shape = (int(known.fold.max()) + 1, len(cells), len(logbook.actions))
    refuse_beyond_memory(80.0 * float(np.prod(shape)) * shape[2], "weights by variance", "Use weights='equal'.")
    step = np.zeros(len(cells), dtype=np.int64) if cells.step is None else cells.step
    taken = episodes.action[decided]
    own = Entries(known.fold[decided], cells.of_row[decided], taken)
    answers = Entries(known.fold[annotations.row], cells.of_row[annotations.row], annotations.action)
    unit = max(*(float(np.abs(x).max()) for x in (known.outcome[decided], annotations.value, known.returns)), 1e-100)
    returns = known.returns / unit
    paid = known.outcome[decided] / unit - returns[decided, taken]
    told = annotations.value / unit - returns[annotations.row, annotations.action]
    v_paid = _variances(paid, own, shape, step)
    if annotations.std is None:
        v_told = _variances(told, answers, shape, step)
    else:
        v_told = _means(np.square(np.minimum(annotations.std / unit, MOST)), answers, shape, step)
    diagonal = np.eye(shape[2], dtype=bool)
    variance = np.where(diagonal, v_paid[fold, cell, None, :], v_told[fold, cell, None, :])
    # Without any scatter, all count the same.
    floor = LEAST * max(float(np.mean(paid**2)), float(np.mean(told**2)), float(variance.max()))
    variance = np.maximum(variance, floor) if floor > 0 else np.ones_like(variance)
    times = np.bincount(code, minlength=len(cell)).astype(np.float64)[:, None]
    mean, probs = np.zeros((2, len(cell), shape[2]))
    np.add.at(mean, code, returns[decided])
    np.add.at(probs, code, known.probs[decided])
    chance = _chances(logbook, own, answers, shape)[cell]
    return Moments(behavior[cell], probs / times, mean / times, variance, chance)


def _variances(residual: Floats, at: Entries, shape: tuple[int, int, int], step: Integers) -> Floats:
    """Variances by cell and action over the other folds, within cells; where nothing came twice, mean squares."""
    sums, squares, counts = np.zeros((3, *shape))
    np.add.at(sums, tuple(at), residual)
    np.add.at(squares, tuple(at), residual**2)
    np.add.at(counts, tuple(at), 1.0)
    sums, squares, counts = _of_others(sums), _of_others(squares), _of_others(counts)
    free = np.maximum(counts - 1, 0.0)
    if not free.any():
        return _shrunk(squares, counts, step)
    within = np.where(free > 0, np.maximum(squares - sums**2 / np.maximum(counts, 1.0), 0.0), 0.0)
    return _shrunk(within, free, step)


def _means(numbers: Floats, at: Entries, shape: tuple[int, int, int], step: Integers) -> Floats:
    """Means of numbers by cell and action over the other folds."""
    sums, counts = np.zeros((2, *shape))
    np.add.at(sums, tuple(at), numbers)
    np.add.at(counts, tuple(at), 1.0)
    return _shrunk(_of_others(sums), _of_others(counts), step)


def _shrunk(sums: Floats, counts: Floats, step: Integers) -> Floats:
    """Sums over counts, (n_folds, n_cells, n_actions), shrunk towards their step's, and those towards all."""
    by_step = np.zeros((2, len(sums), int(step.max()) + 1))
    for table, of_step in zip((sums, counts), by_step, strict=True):
        np.add.at(of_step.T, step, table.sum(axis=2).T)
    total = by_step.sum(axis=2)
    overall = total[0] / np.maximum(total[1], 1.0)
    expected = (by_step[0] + PRIOR * overall[:, None]) / (by_step[1] + PRIOR)
    found: Floats = (sums + PRIOR * expected[:, step, None]) / (counts + PRIOR)
    return found


def _chances(logbook: Logbook, own: Entries, answers: Entries, shape: tuple[int, int, int]) -> Floats:
    """Probability that an action is annotated where another was taken, by cell, shrunk towards that in all cells.

    It is 0 where that never happened: no weight is put on answers that do not come. Which answers are there does not
    depend on what they say, so that all folds count. The action taken is always known.
    """
    n_actions = shape[2]
    asked, given = np.zeros((shape[1], n_actions, 1)), np.zeros((shape[1], n_actions, n_actions))
    np.add.at(asked[:, :, 0], (own.cell, own.action), 1.0)
    np.add.at(given, (answers.cell, logbook.episodes.action[logbook.annotations.row], answers.action), 1.0)
    away: Booleans = ~np.eye(n_actions, dtype=bool)
    # How often each action is annotated where it could be, all cells together.
    questions = (asked.sum(axis=0) * away).sum(axis=0)
    share = (given * away).sum(axis=(0, 1)) / np.maximum(questions, 1.0)
    chance = np.where(given > 0, (given + PRIOR * share) / (asked + PRIOR), 0.0)
    return np.where(away, np.minimum(chance, 1.0), 1.0)


def _of_others(sums: Floats) -> Floats:
    """Sums over all folds but the own; of all where there is one fold only."""
    return sums.sum(axis=0) - sums if len(sums) > 1 else sums
