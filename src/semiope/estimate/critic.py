"""A model as control variate: what turns an estimator into its doubly robust form.

With Q-hat and V-hat(s) = sum_a pi_e(a|s) Q-hat(s, a), write the recursion's value as v = V-hat(s) + y. Then

    v <- V-hat(s) + f (r + gamma v' - Q-hat(s, a)) + sum of w rho (g - Q-hat(s, a~))

becomes, for y, the estimator's own recursion with rewards r - Q-hat(s, a) + gamma V-hat(s') and annotations
g - Q-hat(s, a~); V-hat of the first state is added at the end. (Jiang and Li, 2016; with one step and annotations these
are the estimators of CANDOR, Mandyam et al., 2026.) Rows without a decision keep their rewards, and V-hat there is
gamma times that of the next row: no policy had a say in it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from semiope._arrays import Floats, Integers
from semiope._compiled import compiled
from semiope.data.logbook import Logbook
from semiope.models.study import Study


class Critic(NamedTuple):
    """`reward` per row and `annotated` per entry, as the estimator is to see them; `start` to add per episode."""

    reward: Floats
    annotated: Floats
    start: Floats

    @classmethod
    def of(cls, returns: Floats, study: Study, annotated: Floats) -> Critic:
        """Shape the rewards, and these values of annotations, by Q-hat of every action in every row."""
        episodes, annotations = study.episodes, study.logbook.annotations
        worth = np.einsum("ij,ij->i", study.probs, returns)
        reward = np.empty(episodes.n_steps)
        _shape(episodes.offsets, episodes.action, episodes.reward, returns, study.gamma, worth, reward)
        told = annotated - returns[annotations.row, annotations.action]
        return cls(reward, told, worth[episodes.offsets[:-1]])


def untouched(logbook: Logbook) -> Critic:
    """No model: everything as it is."""
    episodes = logbook.episodes
    return Critic(episodes.reward, logbook.annotations.value, np.zeros(episodes.n_episodes))


@compiled
def _shape(
    offsets: Integers, action: Integers, reward: Floats, returns: Floats, gamma: float, worth: Floats, shaped: Floats
) -> None:
    """Fill in shaped rewards, and V-hat of the rows without a decision."""
    for e in range(len(offsets) - 1):
        ahead = 0.0
        for row in range(offsets[e + 1] - 1, offsets[e] - 1, -1):
            if action[row] == -1:
                worth[row] = gamma * ahead
                shaped[row] = reward[row]
            else:
                shaped[row] = reward[row] - returns[row, action[row]] + gamma * ahead
            ahead = worth[row]
