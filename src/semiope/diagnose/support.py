"""Support: how much of a policy lies on actions about which the data say nothing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from semiope._arrays import Floats
from semiope.estimate.evidence import Problem
from semiope.policies.lookup import TableLookup
from semiope.policies.policy import RowPolicy

WORST = 3


class Unsupported(NamedTuple):
    """`mass` is the share of the policy's decisions, at the steps logged, on actions without support; `states` are the
    state labels that contribute most to it, with their own share.
    """

    mass: float
    states: list[tuple[int | str, float]]


def unsupported_mass(problem: Problem, support: Floats) -> Unsupported:
    """Return the mass of the policy on actions that have probability 0 in `support` (n_cells, n_actions)."""
    evidence = problem.evidence
    cells, decisions = evidence.cells, evidence.counts.sum(axis=1)
    evaluation = problem.evaluation
    if isinstance(evaluation, TableLookup) and evaluation.cell is cells.of_row:
        lacking = decisions * np.where(support > 0, 0.0, evaluation.table).sum(axis=1)
    else:
        lacking = _row_by_row(problem, support)
    per_state = np.bincount(cells.state, weights=lacking, minlength=len(evidence.episodes.states))
    decisions_per_state = np.bincount(cells.state, weights=decisions, minlength=len(evidence.episodes.states))
    worst = np.argsort(-per_state, kind="stable")[:WORST]
    worst = worst[per_state[worst] > 0]
    total = float(decisions.sum())
    return Unsupported(
        float(lacking.sum()) / total if total else 0.0,
        [(evidence.episodes.states[s], float(per_state[s] / decisions_per_state[s])) for s in worst],
    )


def _row_by_row(problem: Problem, support: Floats) -> Floats:
    """Unsupported mass per cell where the policy's probabilities are not a table over the same cells."""
    evidence = problem.evidence
    action, lacking = evidence.episodes.action, np.zeros(len(evidence.cells))
    if isinstance(problem.policy, RowPolicy):
        row, chosen, prob = problem.policy.on(evidence.episodes, evidence.actions, problem.name)
        keep = (action[row] >= 0) & (support[evidence.cells.of_row[row], chosen] <= 0)
        np.add.at(lacking, evidence.cells.of_row[row[keep]], prob[keep])
        return lacking
    assert isinstance(problem.evaluation, TableLookup)
    decided = action >= 0
    pairs = np.stack([evidence.cells.of_row[decided], problem.evaluation.cell[decided]])
    unique, times = np.unique(pairs, axis=1, return_counts=True)
    mass = np.where(support[unique[0]] > 0, 0.0, problem.evaluation.table[unique[1]]).sum(axis=1)
    np.add.at(lacking, unique[0], mass * times)
    return lacking
