"""The episodes that an estimate hangs on, step by step: what was done, what the policy would do, what experts said."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from semiope.estimate.problem import Problem
from semiope.estimate.result import Estimate

MOST = 10
# Actions that the policy takes less often than this are not listed.
LEAST = 0.005


class Step(NamedTuple):
    """One row of an episode; `action` is None where there was no decision."""

    step: int
    state: int | str
    action: int | str | None
    reward: float
    chosen: list[tuple[int | str, float]]
    answers: list[tuple[int | str, float]]
    follows: float


class Told(NamedTuple):
    """An episode: `weight` over the mean, what was achieved, and by how much it moves the estimate."""

    episode: int | str
    weight: float
    achieved: float
    moves: float
    steps: list[Step]


def influential(problem: Problem, estimate: Estimate, most: int = MOST) -> list[Told]:
    """The episodes without which the estimate would change most."""
    influence = estimate.influence
    order = np.argsort(-np.abs(influence), kind="stable")[:most]
    mean = float(estimate.normalizers.mean())
    return [
        _told(problem, int(i), float(estimate.normalizers[i] / mean) if mean else 0.0, float(influence[i]))
        for i in order
    ]


def _told(problem: Problem, episode: int, weight: float, influence: float) -> Told:
    logbook = problem.evidence.logbook
    episodes, answers = logbook.episodes, logbook.annotations
    rows = np.arange(int(episodes.offsets[episode]), int(episodes.offsets[episode + 1]))
    probs, follows, steps = problem.evaluation.at(rows), 1.0, []
    for t, row in enumerate(rows):
        action = int(episodes.action[row])
        follows *= float(probs[t, action]) if action >= 0 else 1.0
        said = range(int(answers.row.searchsorted(row)), int(answers.row.searchsorted(row, side="right")))
        chosen = [int(a) for a in np.argsort(-probs[t], kind="stable") if probs[t, a] > LEAST]
        steps.append(
            Step(
                step=t,
                state=episodes.states[int(episodes.state[row])],
                action=logbook.actions[action] if action >= 0 else None,
                reward=float(episodes.reward[row]),
                chosen=[(logbook.actions[a], float(probs[t, a])) for a in chosen],
                answers=[(logbook.actions[int(answers.action[j])], float(answers.value[j])) for j in said],
                follows=follows,
            )
        )
    achieved = float(episodes.reward[rows] @ problem.gamma ** np.arange(len(rows)))
    return Told(episodes.labels[episode], weight, achieved, influence / episodes.n_episodes, steps)
