"""Episodes as a model of returns sees them: decisions alone, with the rewards of rows without one put to the decision
before.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from semiope._arrays import Booleans, Floats, Integers, frozen, id_dtype
from semiope._compiled import compiled
from semiope.data.episodes import Episodes
from semiope.data.labels import ABSENT


class Decisions(NamedTuple):
    """Episodes of decisions; `row` is where each lies in the logs."""

    episodes: Episodes
    row: Integers

    @property
    def step(self) -> Integers:
        """How many decisions came before each in its episode."""
        return self.episodes.step


def only_decisions(episodes: Episodes, gamma: float) -> Decisions:
    """Leave out the rows without a decision; their rewards, discounted, go to the decision before (if there is one).

    Episodes without any decision are left out. Ids of states and actions stay.
    """
    row = np.flatnonzero(episodes.action != ABSENT).astype(id_dtype(episodes.n_steps + 1))
    if len(row) == episodes.n_steps:
        return Decisions(replace(episodes, behavior_prob=None, extra=None, features=None, order=None), row)
    reward = _gathered(episodes.offsets, episodes.action, episodes.reward, gamma)
    before = np.searchsorted(row, episodes.offsets)
    kept = np.flatnonzero(np.diff(before))
    offsets = np.append(before[kept], len(row))
    left = replace(
        episodes,
        labels=episodes.labels.used(kept)[1] if len(kept) else episodes.labels,
        offsets=frozen(offsets),
        state=frozen(episodes.state[row]),
        action=frozen(episodes.action[row]),
        reward=frozen(reward[row]),
        behavior_prob=None,
        extra=None,
        features=None,
        order=None,
    )
    return Decisions(left, row)


def some_of(episodes: Episodes, kept: Booleans) -> Episodes:
    """These episodes alone; ids of states and actions stay."""
    rows = np.repeat(kept, episodes.lengths)
    return replace(
        episodes,
        labels=episodes.labels.used(np.flatnonzero(kept))[1],
        offsets=frozen(np.append(0, np.cumsum(episodes.lengths[kept]))),
        state=frozen(episodes.state[rows]),
        action=frozen(episodes.action[rows]),
        reward=frozen(episodes.reward[rows]),
        behavior_prob=None,
        extra=None,
        features=None,
        order=None,
    )


@compiled
def _gathered(offsets: Integers, action: Integers, reward: Floats, gamma: float) -> Floats:
    """Rewards with those of the rows without a decision that follow, discounted."""
    found = reward.copy()
    for e in range(len(offsets) - 1):
        rest = 0.0
        for row in range(offsets[e + 1] - 1, offsets[e] - 1, -1):
            if action[row] == -1:
                rest = reward[row] + gamma * rest
            else:
                found[row] += gamma * rest
                rest = 0.0
    return found
