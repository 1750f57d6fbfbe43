"""Small logs made by hand or drawn, for the tests of diagnostics."""

from __future__ import annotations

from typing import Any

import numpy as np

import semiope as so
from semiope.errors import quietly
from semiope.estimate.problem import Problem
from semiope.pipeline.diagnosis import Diagnosis


def one_step(action: Any, reward: Any = None, state: Any = None, **more: Any) -> so.Episodes:
    """Episodes of a single decision."""
    n = len(action)
    zeros = np.zeros(n, int)
    return so.Episodes.from_arrays(
        episode=np.arange(n), step=zeros, state=zeros if state is None else state, action=np.asarray(action),
        reward=np.ones(n) if reward is None else reward, **more,
    )  # fmt: skip


def drawn(n: int, steps: int, probs: Any, seed: int = 0) -> so.Episodes:
    """Equally long episodes of one state; actions drawn with these probabilities, rewards standard normal."""
    rng = np.random.default_rng(seed)
    rows = n * steps
    return so.Episodes.from_arrays(
        episode=np.repeat(np.arange(n), steps), step=np.tile(np.arange(steps), n), state=np.zeros(rows, int),
        action=rng.choice(len(probs), p=probs, size=rows), reward=rng.normal(size=rows),
    )  # fmt: skip


def everywhere(*probs: float, n_states: int = 1) -> so.Policy:
    """The same probabilities in each state."""
    return so.Policy.from_table(np.tile(probs, (n_states, 1)))


def evaluated(episodes: Any, policy: so.Policy, **options: Any) -> so.Results:
    with quietly():
        found: so.Results = so.evaluate(episodes, policy, **options)
    return found


def diagnosed(episodes: Any, policy: so.Policy, estimator: str = "pdis", *, seed: int = 0, **options: Any) -> Diagnosis:
    found: Diagnosis = so.diagnose(evaluated(episodes, policy, estimators=estimator, **options), seed=seed)
    return found


def problem_of(results: so.Results) -> Problem:
    return results.origin.weighed.problem
