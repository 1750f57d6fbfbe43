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
from semiope.models.study import ROWS_AT_ONCE, CrossFitted, Study


class Critic(NamedTuple):
    """`reward` per row and `annotated` per entry, as the estimator is to see them; `start` to add per episode."""

    reward: Floats
    annotated: Floats
    start: Floats

    @classmethod
    def of(cls, returns: CrossFitted, study: Study, annotated: Floats) -> Critic:
        """Shape the rewards, and these values of annotations, by Q-hat of every action in every row."""
        episodes, annotations = study.episodes, study.logbook.annotations
        worth, reward = np.empty(episodes.n_steps), np.empty(episodes.n_steps)
        for first in range(0, episodes.n_steps, ROWS_AT_ONCE):
            part = slice(first, first + ROWS_AT_ONCE)
            found = returns.at(np.arange(*part.indices(episodes.n_steps)))
            worth[part] = np.einsum("ij,ij->i", study.probs[part], found)
            reward[part] = episodes.reward[part] - found[np.arange(len(found)), episodes.action[part]]
        _shape(episodes.offsets, episodes.action, episodes.reward, study.gamma, worth, reward)
        told = annotated - returns.of(annotations.row, annotations.action)
        return cls(reward, told, worth[episodes.offsets[:-1]])


def untouched(logbook: Logbook) -> Critic:
    """No model: everything as it is."""
    episodes = logbook.episodes
    return Critic(episodes.reward, logbook.annotations.value, np.zeros(episodes.n_episodes))


@compiled
def _shape(offsets: Integers, action: Integers, reward: Floats, gamma: float, worth: Floats, shaped: Floats) -> None:
    """Finish shaped rewards, which lack V-hat of the next row, and V-hat of the rows without a decision."""
    for e in range(len(offsets) - 1):
        ahead = 0.0
        for row in range(offsets[e + 1] - 1, offsets[e] - 1, -1):
            if action[row] == -1:
                worth[row] = gamma * ahead
                shaped[row] = reward[row]
            else:
                shaped[row] += gamma * ahead
            ahead = worth[row]
