"""Mean split weights and the augmented behaviour policy (Definition 1)."""

from __future__ import annotations

import numpy as np

from semiope._arrays import Floats, Integers, frozen
from semiope._compiled import compiled
from semiope.data.logbook import Logbook
from semiope.policies.cells import Cells, check_size, count_actions
from semiope.policies.lookup import BoundPolicy, RowLookup, safe_ratio
from semiope.weights.split import SplitWeights

ROWS_AT_ONCE = 1 << 16


def augmented_policy(
    behavior_probs: Floats, counts: Floats, split: SplitWeights, cells: Cells, logbook: Logbook, *, of_all: bool = True
) -> Floats:
    """Return pi_b+ (n_cells, n_actions) of Definition 1,

        pi_b+(a|s) = sum over a' of W(a|s, a') pi_b(a'|s),

    where W(a|s, a') is the mean weight of a over the samples in s that took a'. The sum over a' is taken as a sum over
    samples, each with its own weights times pi_b(a'|s) / n(s, a'): no table of (cell, action, action) is needed. Where
    a' was never logged in s (and the behaviour policy is given, so that pi_b(a'|s) may be positive all the same), its
    mean weights are those of all samples that took a', in whatever state, and pi_b+ sums to one as pi_b does.

    Where propensities were logged, pi_b(a'|s) is known only of actions a' that were taken in s. Those that were not
    have the rest of the probability, and no samples: the mean weight of a after actions other than a is then that over
    the ones that were taken, times 1 - pi_b(a|s).

    `behavior_probs` is pi_b and `counts` is n, both (n_cells, n_actions); `of_all`: pi_b is known of all actions.
    """
    unlogged = np.where(counts == 0, behavior_probs, 0.0)
    augmented = unlogged @ _overall(split, logbook) if unlogged.any() else unlogged
    per_sample, episodes, annotations = safe_ratio(behavior_probs, counts), logbook.episodes, logbook.annotations
    _add_taken(per_sample, cells.of_row, episodes.action, split.taken, augmented)
    others = augmented if of_all else np.zeros_like(augmented)
    _add_annotated(
        per_sample, cells.of_row, episodes.action, annotations.row, annotations.action, frozen(split.annotated), others
    )
    if not of_all:
        known = np.maximum(behavior_probs.sum(axis=1, keepdims=True) - behavior_probs, 0.0)
        augmented += safe_ratio(np.maximum(1 - behavior_probs, 0.0), known) * others
    return augmented


def mean_split_weights(split: SplitWeights, cells: Cells, logbook: Logbook) -> Floats:
    """Return W (n_cells, n_actions, n_actions): W[s, a', a] is the mean weight of a over samples in s that took a'.

    Where a' was never logged in s, they are those of all samples that took a'. It is needed where pi_b is known row by
    row; where pi_b is a table, `augmented_policy` does without it.
    """
    episodes, annotations, n_actions = logbook.episodes, logbook.annotations, len(logbook.actions)
    check_size(len(cells) * n_actions, n_actions, "episodes")
    sums = np.zeros((len(cells), n_actions, n_actions))
    counts = count_actions(cells, episodes.action, n_actions)
    decided = episodes.action >= 0
    cell, action = cells.of_row[decided], episodes.action[decided]
    np.add.at(sums, (cell, action, action), split.taken[decided])
    cell, taken = cells.of_row[annotations.row], episodes.action[annotations.row]
    np.add.at(sums, (cell, taken, annotations.action), split.annotated)
    sums += np.where(counts[:, :, None] == 0, _overall(split, logbook), 0.0)
    return sums / np.maximum(counts, 1)[:, :, None]


def _overall(split: SplitWeights, logbook: Logbook) -> Floats:
    """Mean weights over all samples that took an action, (n_actions, n_actions); of one never taken all on itself."""
    episodes, annotations, n_actions = logbook.episodes, logbook.annotations, len(logbook.actions)
    sums = np.zeros((n_actions, n_actions))
    decided = episodes.action >= 0
    action = episodes.action[decided]
    np.add.at(sums, (action, action), split.taken[decided])
    np.add.at(sums, (episodes.action[annotations.row], annotations.action), split.annotated)
    times = np.bincount(action, minlength=n_actions)[:, None]
    return np.where(times > 0, sums / np.maximum(times, 1), np.eye(n_actions))


def augmented_by_row(mean_weights: Floats, behavior: BoundPolicy, cells: Cells, logbook: Logbook) -> RowLookup:
    """Definition 1 row by row: pi_b+(a|x) = sum over a' of W(a|s, a') pi_b(a'|x), for a pi_b known in every row x."""
    taken, annotations = logbook.episodes.action, logbook.annotations
    of_taken = np.ones(len(taken))
    decided = np.flatnonzero(taken >= 0)
    of_taken[decided] = _mixed(mean_weights, behavior, cells, decided, taken[decided])
    return RowLookup(of_taken, _mixed(mean_weights, behavior, cells, annotations.row, annotations.action))


def _mixed(mean_weights: Floats, behavior: BoundPolicy, cells: Cells, row: Integers, action: Integers) -> Floats:
    found = np.empty(len(row))
    for first in range(0, len(row), ROWS_AT_ONCE):
        part = slice(first, first + ROWS_AT_ONCE)
        weights = mean_weights[cells.of_row[row[part]], :, action[part]]
        found[part] = np.einsum("ra,ra->r", weights, behavior.at(row[part]))
    return found


@compiled
def _add_taken(per_sample: Floats, cell: Integers, action: Integers, weight_taken: Floats, augmented: Floats) -> None:
    for i in range(len(action)):
        if action[i] >= 0:
            augmented[cell[i], action[i]] += weight_taken[i] * per_sample[cell[i], action[i]]


@compiled
def _add_annotated(
    per_sample: Floats,
    cell: Integers,
    action: Integers,
    annotated_row: Integers,
    annotated_action: Integers,
    weight_annotated: Floats,
    augmented: Floats,
) -> None:
    for j in range(len(annotated_row)):
        i = annotated_row[j]
        augmented[cell[i], annotated_action[j]] += weight_annotated[j] * per_sample[cell[i], action[i]]
