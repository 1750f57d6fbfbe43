"""What is true in a world whose states are features, from rollouts, and kept on disk.

A policy's value is the mean return of 1,000,000 rollouts; its standard error is kept beside it. Where there is a single
decision whose mean reward is known, that takes the place of drawn actions and rewards, and starts alone are drawn.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from feature_worlds import CHUNK, FeatureWorld, Probs, action_values, log, rollout

ROLLOUTS = 1_000_000
# Questions from which the standard deviation of Q is known, the episodes they are drawn from, and episodes of the
# policy to evaluate from which its support is known.
QUESTIONS, EPISODES = 4000, 2000
# Probability of the behavior policy below which an action counts as never taken.
NEVER = 1e-3

_folder: list[Path] = []


class Truth(NamedTuple):
    """Values of both policies with their standard errors, the std of Q, and how far the logs lack support.

    `unit` is over questions about actions not taken in logged episodes. `unsupported` is how often the policy to
    evaluate does what the behavior policy does with a probability below 0.001.
    """

    value: float
    value_error: float
    of_behavior: float
    of_behavior_error: float
    unit: float
    unsupported: float


def keep_in(folder: Path) -> None:
    """Keep what was computed in this folder, and look there first."""
    folder.mkdir(parents=True, exist_ok=True)
    _folder[:] = [folder]


def truth(world: FeatureWorld, family: str, seed: int, place: int) -> Truth:
    """What is true in this world, from disk if it was computed before for the very same world."""
    if not _folder:
        keep_in(Path(tempfile.gettempdir()) / "semiope-gauntlet")
    path = _folder[0] / f"{family}-{seed}-{_fingerprint(world)}.json"
    try:
        return Truth(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        found = _truth(world, np.random.default_rng([seed, place, 1]))
    part = path.with_suffix(f".{os.getpid()}")
    part.write_text(json.dumps(found._asdict()), encoding="utf-8")
    part.replace(path)
    return found


def _fingerprint(world: FeatureWorld) -> str:
    """A word for all that the truth depends on: some episodes, both policies there, and how rollouts are made."""
    some = log(world, world.behavior_probs, 50, np.random.default_rng(0))
    told = hashlib.sha256(repr((world.horizon, world.gamma, ROLLOUTS, QUESTIONS, EPISODES)).encode())
    for column in (*some, world.behavior_probs(some.x), world.evaluation_probs(some.x)):
        told.update(np.ascontiguousarray(column).tobytes())
    return told.hexdigest()[:16]


def _truth(world: FeatureWorld, rng: np.random.Generator) -> Truth:
    logged = log(world, world.behavior_probs, EPISODES, rng)
    rows = rng.choice(len(logged.x), min(QUESTIONS, len(logged.x)), replace=False)
    other = (logged.action[rows] + rng.integers(1, world.n_actions, size=len(rows))) % world.n_actions
    mean, error = action_values(world, world.evaluation_probs, logged.x[rows], logged.step[rows], other, rng)
    unit = float(np.sqrt(max(mean.var() - error.mean(), 1e-12)))
    visited = log(world, world.evaluation_probs, EPISODES, rng).x
    does = world.evaluation_probs(visited)
    lacking = float((does * (world.behavior_probs(visited) < NEVER)).sum(axis=1).mean())
    value, value_error = _value(world, world.evaluation_probs, rng)
    practice, practice_error = _value(world, world.behavior_probs, rng)
    return Truth(value, value_error, practice, practice_error, unit, lacking)


def _value(world: FeatureWorld, probs: Probs, rng: np.random.Generator) -> tuple[float, float]:
    """Mean return of a policy, and its standard error."""
    returns = np.empty(ROLLOUTS)
    for first in range(0, ROLLOUTS, CHUNK):
        x = world.start(min(CHUNK, ROLLOUTS - first), rng)
        if world.horizon == 1 and world.mean_reward is not None:
            here = (probs(x) * world.mean_reward(x)).sum(axis=1)
        else:
            here = rollout(world, probs, x, np.zeros(len(x), dtype=int), rng)
        returns[first : first + CHUNK] = here
    return float(returns.mean()), float(returns.std()) / ROLLOUTS**0.5
