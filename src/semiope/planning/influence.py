"""The influence of a question: how much an estimate moves with its annotation.

With every annotation there, the value of a policy is estimated (C*-PDIS) by the mean over episodes of

    sum over t of  P_t ( pi_e(a_t|s_t) r_t + sum over actions a not taken of pi_e(a|s_t) g_t(a) ),

P_t = gamma^t pi_e(a_0|s_0) ... pi_e(a_(t-1)|s_(t-1)): how much of the estimate still passes through step t. So an
annotation g_t(a) enters with P_t pi_e(a|s_t) / n. For a deterministic policy this is non-zero only at the first step at
which the episode departs from it.
"""

from __future__ import annotations

import numpy as np

from semiope._arrays import Floats, Integers, frozen
from semiope._compiled import compiled
from semiope.data.episodes import Episodes


def influences(episodes: Episodes, probs: Floats, gamma: float) -> tuple[Floats, Floats]:
    """Influence of every question, (n_rows, n_actions), and what each episode's rewards add; both without 1 / n.

    `probs` is pi_e of every action in every row. Actions taken have influence 0: no annotation of them enters.
    """
    decided = np.flatnonzero(episodes.action >= 0)
    taken, arrive = np.ones(episodes.n_steps), np.empty(episodes.n_steps)
    taken[decided] = probs[decided, episodes.action[decided]]
    _arrive(episodes.offsets, frozen(taken), gamma, arrive)
    found = probs * arrive[:, None]
    found[decided, episodes.action[decided]] = 0.0
    return found, np.add.reduceat(arrive * taken * episodes.reward, episodes.offsets[:-1])


@compiled
def _arrive(offsets: Integers, taken: Floats, gamma: float, arrive: Floats) -> None:
    """P_t of every row."""
    for i in range(len(offsets) - 1):
        passing = 1.0
        for row in range(offsets[i], offsets[i + 1]):
            arrive[row] = passing
            passing *= gamma * taken[row]
