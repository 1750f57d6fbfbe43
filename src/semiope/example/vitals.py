"""A ward whose states are vitals: simulated patients, annotators and the truth, for the documentation and the demo.

Every six hours a team waits, gives fluids or gives pressors, four times in all. At the end a patient has survived
(reward 1) or not (0). Current practice treats late. What patients need depends on their vitals, and so does what the
senior team does: it treats early.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from semiope._arrays import Floats, Integers
from semiope._random import Seed, generator

VITALS = ("heart_rate", "pressure", "oxygen", "lactate")
WARDS = ("medical", "surgical")
FEATURES = (*VITALS, "ward")
ACTIONS = ("fluids", "pressors", "wait")
DECISIONS = 4
CENTER, SCALE = np.array([95.0, 75.0, 95.0, 2.5]), np.array([15.0, 10.0, 2.5, 1.0])
# What becomes of the vitals, in units of SCALE from CENTER: what stays of them, and what each action adds.
KEPT = 0.85
EFFECT = np.array([[-0.15, 0.30, -0.15, -0.20], [0.15, 0.55, 0.00, -0.30], [0.10, -0.15, -0.05, 0.15]])
NOISE = 0.35
# How much each vital tells against survival, in the same units.
SEVERITY = np.array([0.25, -0.40, -0.35, 0.60])
# Logits of actions: constants, and slopes in the vitals; lines are those of ACTIONS.
PRACTICE = np.array([-0.3, -0.9, 0.8]), np.array([[0.3, -0.6, 0.1, 0.2], [0.2, -0.9, -0.1, 0.4], [0.0, 0.0, 0.0, 0.0]])
SENIOR = np.array([0.2, 0.2, 0.3]), np.array([[0.2, -0.3, 0.8, 0.2], [0.0, -1.2, -0.2, 0.8], [-0.3, 0.9, 0.0, -0.8]])
ANNOTATORS = {"ana": (0.03, 0.10), "ben": (-0.03, 0.15), "cem": (0.00, 0.25)}  # offset, and std of noise
ROLLOUTS = 300

# A policy as `so.evaluate` takes it: from features (n, 6) to probabilities of ACTIONS, or a fitted classifier.
Probs = Callable[[Floats], Floats]


def practice(x: Floats) -> Floats:
    """Current practice: probabilities of ACTIONS by features, columns as in VITALS and then WARDS."""
    return _softmax(_standardized(x) @ PRACTICE[1].T + PRACTICE[0] - np.array([0.0, 0.4, 0.0]) * x[:, 4:5])


def senior(x: Floats) -> Floats:
    """What the senior team does."""
    return _softmax(1.2 * (_standardized(x) @ SENIOR[1].T + SENIOR[0]))


def logs(patients: int = 1000, seed: Seed = 0) -> dict[str, list[Any]]:
    """Simulate patients under current practice, and return them as columns of a table of episodes."""
    rng = generator(seed)
    x = _admitted(patients, rng)
    rows: list[tuple[Any, ...]] = []
    for step in range(DECISIONS + 1):
        decides = step < DECISIONS
        action = _draw(practice(x), rng) if decides else None
        reward = np.zeros(patients) if decides else (rng.random(patients) < _survival(x)).astype(np.float64)
        for i in range(patients):
            done = ACTIONS[action[i]] if action is not None else None
            rows.append((i, step, *x[i, :4].tolist(), WARDS[int(x[i, 5])], done, float(reward[i])))
        x = x if action is None else _later(x, action, rng)
    rows.sort()
    names = ("episode", "step", *VITALS, "ward", "action", "reward")
    return {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


def seniors(patients: int = 500, seed: Seed = 1) -> dict[str, list[Any]]:
    """Vitals of other patients, and what the senior team decided: what a classifier learns from."""
    rng = generator(seed)
    x = _admitted(patients, rng)
    action = _draw(senior(x), rng)
    columns = {name: x[:, k].tolist() for k, name in enumerate(VITALS)}
    return {**columns, "action": [ACTIONS[a] for a in action]}


def ask(table: Any, policy: Any, share: float = 0.05, *, taken: bool = False, seed: Seed = 2) -> dict[str, list[Any]]:
    """Ask annotators about a share of the questions, drawn at random, and return the annotations as columns.

    What they expect of an action is its true chance of survival under `policy`, with an offset and noise of their own.
    Questions are about actions not `taken`, or about those that were.
    """
    rng = generator(seed)
    columns = {name: np.asarray(table[name]) for name in ("episode", "step", "ward", *VITALS)}
    known = {name: a for a, name in enumerate(ACTIONS)}
    done = np.array([known.get(action, -1) for action in table["action"]])
    row, action = np.nonzero((np.arange(len(ACTIONS)) == done[:, None]) == taken)
    asked = (done[row] >= 0) & (rng.random(len(row)) < share)
    row, action = row[asked], action[asked]
    wards = np.column_stack([columns["ward"] == ward for ward in WARDS])
    x = np.column_stack([*(columns[name] for name in VITALS), wards]).astype(np.float64)[row]
    many = np.repeat(np.arange(len(row)), ROLLOUTS)
    ends = _end(_probs_of(policy), x[many], columns["step"][row][many], rng, action[many])
    expected = ends.reshape(len(row), ROLLOUTS).mean(axis=1)
    who = rng.integers(len(ANNOTATORS), size=len(row))
    offset, noise = np.array(list(ANNOTATORS.values()))[who].T
    value = np.round(expected + offset + noise * rng.normal(size=len(row)), 2)
    return {
        "episode": columns["episode"][row].tolist(),
        "step": columns["step"][row].tolist(),
        "action": [ACTIONS[a] for a in action],
        "value": value.tolist(),
        "annotator": [list(ANNOTATORS)[k] for k in who],
    }


def value(policy: Any, patients: int = 100_000, seed: Seed = 3) -> float:
    """The true value of a policy, by simulating so many patients."""
    rng = generator(seed)
    return float(_end(_probs_of(policy), _admitted(patients, rng), np.zeros(patients, dtype=np.int64), rng).mean())


def _end(probs: Probs, x: Floats, step: Integers, rng: np.random.Generator, first: Integers | None = None) -> Floats:
    """The chance of survival at the end of one rollout each, after these first actions if given."""
    found, left = np.empty(len(x)), np.arange(len(x))
    while len(left):
        x = _later(x, _draw(probs(x), rng) if first is None else first, rng)
        step, first = step + 1, None
        over = step == DECISIONS
        found[left[over]] = _survival(x[over])
        x, step, left = x[~over], step[~over], left[~over]
    return found


def _admitted(patients: int, rng: np.random.Generator) -> Floats:
    z = np.array([0.3, -0.3, 0.0, 0.4]) + 0.8 * rng.normal(size=(patients, 4))
    ward = (rng.random(patients) < 0.4).astype(np.int64)
    return np.hstack([_measured(z), np.eye(2)[ward]])


def _later(x: Floats, action: Integers, rng: np.random.Generator) -> Floats:
    z = KEPT * _standardized(x) + EFFECT[action] + NOISE * rng.normal(size=(len(x), 4))
    # Fluids overload patients whose oxygen is low already.
    z[:, 2] -= 0.3 * (action == 0) * (_standardized(x)[:, 2] < 0)
    return np.hstack([_measured(z), x[:, 4:]])


def _survival(x: Floats) -> Floats:
    found: Floats = 1 / (1 + np.exp(1.5 * (_standardized(x) @ SEVERITY) + 0.3 * x[:, 5] - 0.6))
    return found


def _standardized(x: Floats) -> Floats:
    found: Floats = (x[:, :4] - CENTER) / SCALE
    return found


def _measured(z: Floats) -> Floats:
    found: Floats = np.round(np.maximum(CENTER + SCALE * np.clip(z, -4, 4), 0.1), 1)
    return found


def _probs_of(policy: Any) -> Probs:
    """A policy as a function of features; a classifier that was fitted to a data frame gets one."""
    if not hasattr(policy, "predict_proba"):
        found: Probs = policy
        return found
    order = [list(policy.classes_).index(action) for action in ACTIONS]
    names = getattr(policy, "feature_names_in_", None)

    def probs(x: Floats) -> Floats:
        given: Any = x
        if names is not None:
            from pandas import DataFrame

            given = DataFrame(x[:, :4], columns=list(VITALS))[list(names)]
        predicted: Floats = policy.predict_proba(given)[:, order]
        return predicted

    return probs


def _softmax(logits: Floats) -> Floats:
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    found: Floats = odds / odds.sum(axis=1, keepdims=True)
    return found


def _draw(probs: Floats, rng: np.random.Generator) -> Integers:
    found: Integers = (probs.cumsum(axis=1) < rng.random((len(probs), 1))).sum(axis=1).clip(max=probs.shape[1] - 1)
    return found
