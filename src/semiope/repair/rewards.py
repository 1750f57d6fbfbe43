"""Answers that give the immediate reward of an action: what follows is added from the model of the logs.

g = r~ + gamma sum_s' p-hat(s'|s, a) V-hat(s'). The model's next-state values rest on n logged transitions: their
variance (with one observation more, of the variance in general) over n joins that of the answer in `std`. Where a pair
was never logged, what usually follows its state is put in its place, and the variance is that of next-state values in
general.
"""

from __future__ import annotations

import numpy as np

from semiope._arrays import Floats, Integers
from semiope._compiled import compiled
from semiope.models.case import Case
from semiope.models.places import Places
from semiope.models.transitions import END


def completed(case: Case, at: Places, reward: Floats) -> tuple[Floats, Floats]:
    """Returns for answers that are rewards, and the standard deviation that this adds."""
    records = case.records
    mdp = records.empirical.mdp
    known, pi_b = mdp.available, records.behavior
    rest = case.expected - np.where(known, mdp.reward, 0.0)
    usual = (pi_b * np.where(known, rest, 0.0)).sum(axis=2)
    rest = np.where(known, rest, usual[:, :, None])
    values = (case.spoken_of * case.expected).sum(axis=2)
    values = np.where(mdp.terminal, mdp.reward[:, 0], values)
    spread = _spread(case, values)
    counts = records.empirical.counts
    in_general = float(np.var(values[records.rows.step, records.rows.state])) * mdp.gamma**2
    # One observation more, of the variance in general: a single one shows none.
    spread = (counts * spread + in_general) / (counts + 1)
    unknown = np.where(counts > 0, spread / np.maximum(counts, 1), in_general)
    return reward + at.read(rest), np.sqrt(at.read(unknown))


def _spread(case: Case, values: Floats) -> Floats:
    """Variance of gamma V-hat of the next state, (horizon, n_states, n_actions), 0 at the last step."""
    mdp = case.records.empirical.mdp
    found = np.zeros((len(values), mdp.reward.size))
    _variances(mdp.transitions.offsets, mdp.transitions.following, mdp.transitions.prob, values, found)
    return mdp.gamma**2 * found.reshape(len(values), *mdp.reward.shape)


@compiled
def _variances(offsets: Integers, following: Integers, prob: Floats, values: Floats, found: Floats) -> None:
    for step in range(len(values) - 1):
        for pair in range(found.shape[1]):
            mean, square = 0.0, 0.0
            for i in range(offsets[pair], offsets[pair + 1]):
                ahead = values[step + 1, following[i]] if following[i] != END else 0.0
                mean += prob[i] * ahead
                square += prob[i] * ahead * ahead
            found[step, pair] = max(square - mean * mean, 0.0)
