"""The augmented behaviour policy with prefix-weighted mean split weights: for questions chosen by an episode's past.

Definition 1 weighs what is known of an action by its mean split weight in a cell. That is right if whether a step is
annotated depends on its state and action alone. If it depends on the past, say because only the first step at which an
episode leaves the policy is asked about, the samples of a cell differ: those that still count have other weights than
those that were cut before. A sample arrives at step t with P_t = f_1 ... f_(t-1), the product of its own factors
f = w(a) pi_e(a|s) / pi_b+(a|s), and the estimator is unbiased if, in each cell of step and state and for every action,

    E[ P_t w_t(a) | s ] / pi_b+(a|s)  =  E[ P_t | s ].

So means are taken with these weights. The first step has P = 1; its ratios give P_2, and so on forward over the steps,
for each evaluation policy anew, in cells of step and state whatever else is counted by.

*Counted behaviour policy.* The condition itself, with sums over the samples of the cell in the place of expectations:

    pi_b+(a|s) = sum of P_t w_t(a) / sum of P_t.

pi_b is not needed; it may even depend on the past. What arrives in a cell leaves it, whatever actions happened to be
taken: as with a counted pi_b in plain importance sampling, their chance cancels. What no sample that arrives knows of
is lost, as with every counted pi_b.

*Given behaviour policy.* With pi_b depending on s alone, P_t does not depend on the action taken a' beyond s, and

    pi_b+(a|s) = sum over a' of pi_b(a'|s) W(a|s, a'),   W = sum of P_t w_t(a) / sum of P_t over samples that took a',

fulfils the condition as well. This is Definition 1, but for the weights in W. Where weights of samples that arrive do
not scatter within (s, a'), W is exact, and so is unbiasedness for any number of episodes in which no cell lacks an
action (below), as with this pi_b in plain importance sampling. The form above would have somewhat less variance, but
lose what thin cells do not show; behavior="count" asks for it. A pi_b known row by row is mixed row by row, with W of
the cell: right if weights of samples that arrive depend on cell and action taken alone, as for first departures. If
only propensities of actions taken are known, the action taken keeps its own, times pi_b+ / pi_b of its cell, and what
they leave of one is shared by the actions never taken there.

An a' that no sample took and arrived with has no W. It is put together from the samples up to this step of which the
policy thinks alike, pi_e(a') > 0 or not: the mean weight that the action taken keeps, and that of another action that
the policy may take. If there is none either, pi_b is taken without a'. Weights that do not sum to one, such as those by
variance, say nothing across cells; with them pi_b+ is counted, unless pi_b is known row by row.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from semiope._arrays import Floats, Integers, frozen
from semiope._compiled import compiled
from semiope.data.logbook import Logbook
from semiope.policies.behavior import Behavior
from semiope.policies.cells import Cells, check_size
from semiope.policies.lookup import ArrayLookup, BoundPolicy, ListedLookup, RowLookup, TableLookup
from semiope.weights.split import SplitWeights, sum_to_one

# Products beyond 2 to this power are brought back; only their proportions at one step matter.
FAR = 300


class PrefixAugmented(NamedTuple):
    """pi_b+ at the actions taken and annotated; in each cell; and P of every row, on a scale of its step's own."""

    lookup: RowLookup
    probs: Floats
    arrive: Floats


class Walk(NamedTuple):
    """The samples step by step, as all kernels go through them.

    Rows of step t are order[first_rows[t]:first_rows[t + 1]], its cells first_cells[t] to first_cells[t + 1], and the
    answers about a row first_answers[row] to first_answers[row + 1]; `evaluation` is pi_e of the actions taken.
    """

    order: Integers
    first_rows: Integers
    first_cells: Integers
    first_answers: Integers
    cell: Integers
    episode: Integers
    action: Integers
    answered: Integers
    taken: Floats
    annotated: Floats
    evaluation: Floats


class Listed(NamedTuple):
    """What is known of pi_b beyond that of cells: `own` is a row's own propensity over that of its cell; or, for a pi_b
    known in every row, prob[i] of action[i] for i from starts[row] to starts[row + 1].
    """

    own: Floats
    starts: Integers
    action: Integers
    prob: Floats


def prefix_augmented(
    evaluation: BoundPolicy, behavior: Behavior, split: SplitWeights, cells: Cells, logbook: Logbook
) -> PrefixAugmented:
    """Return pi_b+ for one evaluation policy; cells are of step and state."""
    walk = walk_of(evaluation, split, cells, logbook)
    n_rows, n_answers = len(walk.order), len(walk.answered)
    augmented, arrive = np.zeros((len(cells), len(logbook.actions))), np.zeros(n_rows)
    by_row = isinstance(behavior.lookup, ListedLookup | ArrayLookup)
    if behavior.origin == "counted" or not (by_row or sum_to_one(split, logbook)):
        _forward_counted(walk, augmented, arrive)
        found = TableLookup(augmented, cells, logbook)
        at_samples = RowLookup(found.taken(slice(0, n_rows)), found.annotated(slice(0, n_answers)))
        return PrefixAugmented(at_samples, augmented, arrive)
    check_size(int(np.diff(walk.first_cells).max()) * augmented.shape[1], augmented.shape[1], "episodes")
    pi_b = _completed(behavior.probs) if behavior.origin == "logged" else behavior.probs
    policy, pi_b = (frozen(np.ascontiguousarray(one)) for one in (evaluation.mean_probs(cells), pi_b))
    of_taken, of_annotated = np.ones(n_rows), np.zeros(n_answers)
    listed = _listed(behavior, pi_b, cells, logbook)
    _forward_given(walk, policy, pi_b, listed, augmented, arrive, of_taken, of_annotated)
    return PrefixAugmented(RowLookup(of_taken, of_annotated), augmented, arrive)


def walk_of(evaluation: BoundPolicy, split: SplitWeights, cells: Cells, logbook: Logbook) -> Walk:
    """Put the samples in the order of their steps; cells are of step and state."""
    episodes, annotations = logbook.episodes, logbook.annotations
    assert cells.step is not None
    steps = np.arange(int(episodes.lengths.max()) + 1)
    order = np.argsort(episodes.step, kind="stable")
    columns: list[Integers] = [
        order,
        np.searchsorted(episodes.step[order], steps),
        np.searchsorted(cells.step, steps),
        annotations.row.searchsorted(np.arange(episodes.n_steps + 1)),
        cells.of_row,
        np.repeat(np.arange(episodes.n_episodes), episodes.lengths),
        episodes.action,
        annotations.action,
    ]
    weights = (split.taken, split.annotated, evaluation.taken(slice(0, episodes.n_steps)))
    return Walk(
        *(frozen(np.ascontiguousarray(one, dtype=np.int64)) for one in columns),
        *(frozen(np.ascontiguousarray(one, dtype=np.float64)) for one in weights),
    )


def _completed(probs: Floats) -> Floats:
    """What is left of one in a cell goes to the actions that were never taken there, in equal parts."""
    never = probs == 0
    left = np.maximum(1 - probs.sum(axis=1), 0.0) / np.maximum(never.sum(axis=1), 1)
    return np.where(never, left[:, None], probs)


def _listed(behavior: Behavior, pi_b: Floats, cells: Cells, logbook: Logbook) -> Listed:
    """What is known of pi_b beyond that of cells."""
    lookup, action = behavior.lookup, logbook.episodes.action
    own, starts = np.ones(len(action)), np.zeros(len(action) + 1, np.int64)
    actions, probs = np.zeros(0, np.int64), np.zeros(0)
    if isinstance(lookup, ListedLookup):
        starts = np.searchsorted(lookup.row, np.arange(len(action) + 1))
        actions, probs = lookup.action.astype(np.int64), np.ascontiguousarray(lookup.prob)
    elif isinstance(lookup, ArrayLookup):
        n_actions = len(logbook.actions)
        starts = np.append(0, np.cumsum(np.where(action >= 0, n_actions, 0)))
        decided = np.flatnonzero(action >= 0)
        actions, probs = np.tile(np.arange(n_actions), len(decided)), lookup.at(decided).ravel()
    elif behavior.origin == "logged":
        decided = np.flatnonzero(action >= 0)
        own[decided] = lookup.taken(slice(0, len(action)))[decided]
        own[decided] /= pi_b[cells.of_row[decided], action[decided]]
    return Listed(*map(frozen, (own, starts, actions, probs)))


@compiled
def _forward_counted(walk: Walk, augmented: Floats, arrive: Floats) -> None:
    """Fill in pi_b+ cell by cell, step by step: sums of P w over sums of P."""
    product = np.ones(len(walk.order))
    mass = np.zeros(len(augmented))
    for t in range(len(walk.first_rows) - 1):
        rows = walk.order[walk.first_rows[t] : walk.first_rows[t + 1]]
        _arrive(walk, rows, product, arrive)
        for row in rows:
            if walk.action[row] >= 0:
                mass[walk.cell[row]] += arrive[row]
        for row in rows:
            c = walk.cell[row]
            if walk.action[row] >= 0 and arrive[row] > 0:
                augmented[c, walk.action[row]] += arrive[row] / mass[c] * walk.taken[row]
                for j in range(walk.first_answers[row], walk.first_answers[row + 1]):
                    augmented[c, walk.answered[j]] += arrive[row] / mass[c] * walk.annotated[j]
        for row in rows:
            if walk.action[row] >= 0:
                below = augmented[walk.cell[row], walk.action[row]]
                product[walk.episode[row]] *= walk.taken[row] * walk.evaluation[row] / below if below > 0 else 0.0


@compiled
def _forward_given(
    walk: Walk,
    policy: Floats,
    pi_b: Floats,
    listed: Listed,
    augmented: Floats,
    arrive: Floats,
    of_taken: Floats,
    of_annotated: Floats,
) -> None:
    """Fill in pi_b+ step by step: pi_b of the cell, or of the row where it is listed, mixed by means of P w."""
    n_actions = augmented.shape[1]
    product, overall = np.ones(len(walk.order)), np.zeros((2, 4))
    for t in range(len(walk.first_rows) - 1):
        rows, first = walk.order[walk.first_rows[t] : walk.first_rows[t + 1]], walk.first_cells[t]
        _arrive(walk, rows, product, arrive)
        means = np.zeros((walk.first_cells[t + 1] - first, n_actions, n_actions))
        mass = np.zeros((len(means), n_actions))
        _sum_weights(walk, rows, first, arrive, policy, means, mass, overall)
        for c in range(len(means)):
            unknown = 0.0
            for b in range(n_actions):
                if _finish(means[c, b], mass[c, b], b, policy[first + c], overall):
                    mass[c, b] = 1.0
                    augmented[first + c] += pi_b[first + c, b] * means[c, b]
                else:
                    unknown += pi_b[first + c, b]
            if unknown < 1:
                augmented[first + c] /= 1 - unknown
        for row in rows:
            if walk.action[row] >= 0:
                c = walk.cell[row]
                _look_up(walk, row, augmented[c], means[c - first], mass[c - first], listed, of_taken, of_annotated)
                below = of_taken[row]
                product[walk.episode[row]] *= walk.taken[row] * walk.evaluation[row] / below if below > 0 else 0.0


@compiled
def _look_up(
    walk: Walk,
    row: int,
    in_cell: Floats,
    means: Floats,
    known: Floats,
    listed: Listed,
    of_taken: Floats,
    of_annotated: Floats,
) -> None:
    """pi_b+ of a row at its actions taken and annotated: that of its cell, or mixed by what is listed."""
    answers = range(walk.first_answers[row], walk.first_answers[row + 1])
    if listed.starts[row] == listed.starts[row + 1]:
        of_taken[row] = listed.own[row] * in_cell[walk.action[row]]
        for j in answers:
            of_annotated[j] = in_cell[walk.answered[j]]
        return
    of_taken[row], unknown = 0.0, 0.0
    for i in range(listed.starts[row], listed.starts[row + 1]):
        b = listed.action[i]
        if known[b] > 0:
            of_taken[row] += listed.prob[i] * means[b, walk.action[row]]
            for j in answers:
                of_annotated[j] += listed.prob[i] * means[b, walk.answered[j]]
        else:
            unknown += listed.prob[i]
    if unknown < 1:
        of_taken[row] /= 1 - unknown
        for j in answers:
            of_annotated[j] /= 1 - unknown


@compiled
def _arrive(walk: Walk, rows: Integers, product: Floats, arrive: Floats) -> None:
    """Note the products that rows arrive with, brought near one all together where they are far."""
    top, scale = 0.0, 1.0
    for row in rows:
        top = max(top, product[walk.episode[row]])
    if top > 0:
        power = math.frexp(top)[1]
        if abs(power) > FAR:
            scale = math.ldexp(1.0, -power)
    for row in rows:
        product[walk.episode[row]] *= scale
        arrive[row] = product[walk.episode[row]]


@compiled
def _sum_weights(
    walk: Walk, rows: Integers, first: int, arrive: Floats, policy: Floats, sums: Floats, mass: Floats, overall: Floats
) -> None:
    """Sums of P w by cell, action taken and action; and in all, by whether the policy may take the action taken: of P,
    of P w for the action taken; and of P, of P w for each other action that the policy may take.
    """
    for row in rows:
        c, b = walk.cell[row], walk.action[row]
        if b < 0:
            continue
        mass[c - first, b] += arrive[row]
        sums[c - first, b, b] += arrive[row] * walk.taken[row]
        kind = overall[1 if policy[c, b] > 0 else 0]
        kind[0] += arrive[row]
        kind[1] += arrive[row] * walk.taken[row]
        others = np.count_nonzero(policy[c]) - (1 if policy[c, b] > 0 else 0)
        kind[2] += others * arrive[row]
        for j in range(walk.first_answers[row], walk.first_answers[row + 1]):
            sums[c - first, b, walk.answered[j]] += arrive[row] * walk.annotated[j]
            if policy[c, walk.answered[j]] > 0:
                kind[3] += arrive[row] * walk.annotated[j]


@compiled
def _finish(means: Floats, mass: float, b: int, policy: Floats, overall: Floats) -> bool:
    """Make means of sums, for one cell and action taken; where nothing arrived, put them together from all samples.

    Return whether anything is known.
    """
    kind = overall[1 if policy[b] > 0 else 0]
    if mass > 0:
        means /= mass
    elif kind[0] > 0:
        means[b] = kind[1] / kind[0]
        for a in range(len(means)):
            if a != b and policy[a] > 0 and kind[2] > 0:
                means[a] = kind[3] / kind[2]
    return mass > 0 or kind[0] > 0
