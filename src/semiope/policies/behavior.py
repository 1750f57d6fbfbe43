"""The behaviour policy where nobody logged it, estimated by counting."""

from __future__ import annotations

import numpy as np

from semiope._arrays import Floats, frozen
from semiope.data.episodes import Episodes
from semiope.policies.cells import cells_of, count_actions
from semiope.policies.policy import Policy


def estimate_behavior(episodes: Episodes, *, cell: str = "state") -> Policy:
    """Estimate pi_b(a|s) as the share of decisions in the cell (`state` or `step,state`) that took a."""
    cells = cells_of(episodes, cell)
    counts = count_actions(cells, episodes.action, len(episodes.actions))
    decided = counts.sum(axis=1) > 0
    return Policy(
        probs=frozen(shares(counts)[decided]),
        state=frozen(cells.state[decided]),
        step=None if cells.step is None else frozen(cells.step[decided]),
        states=episodes.states,
        actions=episodes.actions,
    )


def shares(counts: Floats) -> Floats:
    """Return each row of counts divided by its sum; rows without counts stay zero."""
    totals = counts.sum(axis=1, keepdims=True)
    return counts / np.where(totals > 0, totals, 1.0)
