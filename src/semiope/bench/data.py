"""Synthetic data to measure on: random walks over many states, an annotation on half of the steps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from semiope.data.annotations import Annotations
from semiope.data.episodes import Episodes
from semiope.policies.policy import Policy

STEPS, STATES, ACTIONS, POLICIES = 20, 1442, 8, 26


class Synthetic(NamedTuple):
    """Logs, annotations, and policies to evaluate."""

    episodes: Episodes
    annotations: Annotations
    policies: dict[str, Policy]


def synthetic(n_episodes: int, seed: int = 0) -> Synthetic:
    """Draw everything uniformly: what is measured depends on sizes, not on values."""
    rng = np.random.default_rng(seed)
    n = n_episodes * STEPS
    episode, step = np.repeat(np.arange(n_episodes), STEPS), np.tile(np.arange(STEPS), n_episodes)
    state, action = rng.integers(STATES, size=n), rng.integers(ACTIONS, size=n)
    episodes = Episodes.from_arrays(episode=episode, step=step, state=state, action=action, reward=rng.normal(size=n))
    asked = np.sort(rng.choice(n, n // 2, replace=False))
    other = (action[asked] + rng.integers(1, ACTIONS, size=len(asked))) % ACTIONS
    annotations = Annotations.from_arrays(
        episode=episode[asked], step=step[asked], action=other, value=rng.normal(size=len(asked))
    )
    probs = rng.dirichlet(np.ones(ACTIONS), size=(POLICIES, STATES))
    return Synthetic(episodes, annotations, {f"p{i}": Policy.from_table(p) for i, p in enumerate(probs)})
