"""Makes the bundled example: `python -m semiope.example.make FOLDER` writes the tables anew, the same each time.

A ward. Patients are stable, worse or critical; each day a team waits, medicates or transfers; patients recover (+1) or
die (-1), or are still there after eight days. Today critical patients are never transferred. The proposed policy would
transfer them at once, so that the logs alone cannot tell what it is worth. Clinicians have said what they expect.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

from semiope._arrays import Floats
from semiope.data.annotations import Annotations
from semiope.data.episodes import Episodes
from semiope.models.tabular import TabularMDP
from semiope.policies.policy import Policy

STATES = ("stable", "worse", "critical", "recovered", "died")
ACTIONS = ("wait", "medicate", "transfer")
OUTCOME = np.array([0.0, 0.0, 0.0, 1.0, -1.0])
DECISIONS, PATIENTS, SEED, NOISE = 8, 400, 2028, 0.15
# The share of actions taken that clinicians are asked about as well.
TAKEN = 0.3

# Where a patient is the day after, by state and action; columns as in STATES.
NEXT = np.array(
    [
        [[0.60, 0.15, 0.00, 0.25, 0.00], [0.55, 0.10, 0.00, 0.35, 0.00], [0.70, 0.05, 0.00, 0.25, 0.00]],
        [[0.20, 0.45, 0.35, 0.00, 0.00], [0.40, 0.40, 0.20, 0.00, 0.00], [0.50, 0.40, 0.10, 0.00, 0.00]],
        [[0.00, 0.10, 0.50, 0.00, 0.40], [0.00, 0.25, 0.50, 0.00, 0.25], [0.05, 0.45, 0.40, 0.00, 0.10]],
    ]
)
ADMITTED = np.array([0.45, 0.40, 0.15, 0.00, 0.00])
TODAY = np.array([[0.80, 0.20, 0.00], [0.25, 0.65, 0.10], [0.10, 0.90, 0.00]])
PROPOSED = np.array([[0.70, 0.30, 0.00], [0.00, 0.70, 0.30], [0.00, 0.00, 1.00]])


class Example(NamedTuple):
    """The tables, and the exact values of the two policies."""

    episodes: Episodes
    annotations: Annotations
    today: Policy
    proposed: Policy
    value_today: float
    value_proposed: float


def make() -> Example:
    """Simulate the ward."""
    rng, ward = np.random.default_rng(SEED), model()
    # Some questions are about what was done: its outcomes are known, and show how far clinicians can be trusted.
    about_taken = np.random.default_rng(SEED + 1)
    today, proposed = _policy(TODAY), _policy(PROPOSED)
    returns = ward.action_values(proposed)
    logs: dict[str, list[object]] = {name: [] for name in ("episode", "step", "state", "action", "reward")}
    answers: dict[str, list[object]] = {name: [] for name in ("episode", "step", "action", "value", "annotator")}
    for patient in range(PATIENTS):
        state, step, name = int(rng.choice(3, p=ADMITTED[:3])), 0, f"patient-{patient:03d}"
        while True:
            decides = state < 3 and step < DECISIONS
            action = int(rng.choice(3, p=TODAY[state])) if decides else -1
            row = (name, step, STATES[state], ACTIONS[action] if decides else None, float(OUTCOME[state]))
            for column, value in zip(logs.values(), row, strict=True):
                column.append(value)
            if not decides:
                break
            for other in range(3):
                asked = PROPOSED[state, other] > 0 and rng.random() < (0.9 if state == 2 else 0.5)
                source = rng
                if other == action:
                    asked, source = about_taken.random() < TAKEN, about_taken
                if asked:
                    value = round(float(returns[step, state, other] + NOISE * source.normal()), 3)
                    answer = (name, step, ACTIONS[other], value, f"clinician-{source.integers(3) + 1}")
                    for column, entry in zip(answers.values(), answer, strict=True):
                        column.append(entry)
            state, step = int(rng.choice(5, p=NEXT[state, action])), step + 1
    return Example(
        Episodes.from_arrow(logs),
        Annotations.from_arrow(answers),
        today,
        proposed,
        ward.value(today),
        ward.value(proposed),
    )


def model() -> TabularMDP:
    """The ward as a model; what patients are worth whose stay is over is seen on one more day."""
    ended = np.zeros((2, 3, 5))
    return TabularMDP.from_dense(
        np.concatenate([NEXT, ended]),
        reward=OUTCOME[:, None].repeat(3, axis=1),
        initial=ADMITTED,
        terminal=np.arange(5) >= 3,
        horizon=DECISIONS + 1,
        states=STATES,
        actions=ACTIONS,
    )


def _policy(probs: Floats) -> Policy:
    state, action = np.nonzero(probs)
    columns = {"state": [STATES[s] for s in state], "action": [ACTIONS[a] for a in action]}
    return Policy.from_arrow({**columns, "prob": probs[state, action]})


def write(folder: Path) -> None:
    """Write the tables as CSV."""
    example = make()
    for name in ("episodes", "annotations", "today", "proposed"):
        getattr(example, name).write(folder / f"{name}.csv")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
