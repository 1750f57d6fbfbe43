"""The augmented behaviour policy with prefix-weighted mean split weights: for questions chosen by an episode's past.

Definition 1 weighs what is known of an action by its mean split weight in a cell. That is right if whether a step is
annotated depends on its state and action alone. If it depends on the past, say because a plan asks about the first step
at which an episode leaves the policy, the samples of a cell differ: those that still count have other weights than those
that were cut before. What is needed is that, in each cell of step t,

    sum over samples of P_t w_t(a) / pi_b+(a|s)    =    sum over samples of P_t    (in expectation),

with P_t = f_1 ... f_(t-1) the factor that a sample arrives with. So means are taken with these weights:

    W(a|s, a') = sum of P_t w_t(a) / sum of P_t   over the samples in s at step t that took a'.

The first step has P = 1; its ratios give P_2, and so on forward over the steps, for each evaluation policy anew.
"""

from __future__ import annotations

import numpy as np

from semiope._arrays import Floats, Integers, frozen
from semiope._compiled import compiled
from semiope.data.logbook import Logbook
from semiope.policies.cells import Cells, cells_of
from semiope.policies.lookup import BoundPolicy, RowLookup
from semiope.weights.augmented import overall_weights
from semiope.weights.split import SplitWeights


def prefix_augmented(
    evaluation: BoundPolicy, behavior_probs: Floats, split: SplitWeights, cells: Cells, logbook: Logbook
) -> RowLookup:
    """Return pi_b+ at the actions taken and annotated, for one evaluation policy; cells are of step and state."""
    episodes, annotations = logbook.episodes, logbook.annotations
    by_step = cells if cells.step is not None else cells_of(episodes, "step,state")
    assert by_step.step is not None
    within = np.empty(len(by_step), dtype=np.int64)
    within[by_step.of_row] = cells.of_row
    order = np.argsort(episodes.step, kind="stable")
    first_rows = np.searchsorted(episodes.step[order], np.arange(int(episodes.lengths.max()) + 1))
    first_cells = np.searchsorted(by_step.step, np.arange(len(first_rows)))
    everywhere = slice(0, episodes.n_steps), slice(0, len(annotations.row))
    episode = np.repeat(np.arange(episodes.n_episodes), episodes.lengths)
    augmented = np.zeros((len(by_step), len(logbook.actions)))
    _forward(
        order, first_rows, first_cells, frozen(by_step.of_row), episodes.action, episode,
        annotations.row.searchsorted(np.arange(episodes.n_steps + 1)), annotations.action,
        frozen(behavior_probs[within]), overall_weights(split, logbook), frozen(split.taken), frozen(split.annotated),
        frozen(evaluation.taken(everywhere[0])), augmented,
    )  # fmt: skip
    taken = np.where(episodes.action >= 0, augmented[by_step.of_row, episodes.action], 1.0)
    return RowLookup(taken, augmented[by_step.of_row[annotations.row], annotations.action])


COUNTED = True


@compiled
def _forward(
    order: Integers,
    first_rows: Integers,
    first_cells: Integers,
    cell: Integers,
    action: Integers,
    episode: Integers,
    first_answers: Integers,
    answered: Integers,
    behavior: Floats,
    overall: Floats,
    taken: Floats,
    annotated: Floats,
    evaluation: Floats,
    augmented: Floats,
) -> None:
    """Fill in pi_b+ cell by cell, step by step."""
    n_actions = augmented.shape[1]
    arrive = np.ones(episode[len(episode) - 1] + 1)
    mass = np.zeros(augmented.shape)
    for t in range(len(first_rows) - 1):
        for r in range(first_rows[t], first_rows[t + 1]):
            row = order[r]
            if action[row] >= 0:
                mass[cell[row], action[row]] += arrive[episode[row]]
        for c in range(first_cells[t], first_cells[t + 1]):
            for b in range(n_actions):
                if not COUNTED and behavior[c, b] > 0 and mass[c, b] == 0:
                    for a in range(n_actions):
                        augmented[c, a] += behavior[c, b] * overall[b, a]
        for r in range(first_rows[t], first_rows[t + 1]):
            row = order[r]
            if action[row] >= 0 and mass[cell[row], action[row]] > 0:
                c, b = cell[row], action[row]
                share = (
                    arrive[episode[row]] / mass[c].sum()
                    if COUNTED
                    else arrive[episode[row]] * behavior[c, b] / mass[c, b]
                )
                augmented[c, b] += share * taken[row]
                for j in range(first_answers[row], first_answers[row + 1]):
                    augmented[c, answered[j]] += share * annotated[j]
        for r in range(first_rows[t], first_rows[t + 1]):
            row = order[r]
            if action[row] >= 0:
                below = augmented[cell[row], action[row]]
                arrive[episode[row]] *= taken[row] * evaluation[row] / below if below > 0 else 0.0
