"""What logs and answers say together, and what all answers have in common beyond the truth.

Where logs never saw a pair, the model takes the answers' word, and passes it on to the pairs that lead there:

    Q-hat    the model's returns, a pair never logged worth what its state is worth today
    Q-tilde  the same, a pair never logged worth what the answers say of it (residuals against Q-hat, predicted)

Answers about pairs that were logged can then be held against the logs. If all are too high by b, so is Q-tilde where
paths leave the logs for sure, and not at all where they never do: g - Q-tilde = b (1 - kappa) + noise with kappa(s, a)
the discounted probability of leaving. That tells b, if it is the same everywhere, without anybody being asked about
actions that were taken.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from semiope._arrays import Floats, frozen
from semiope.models import planning
from semiope.models.places import Places
from semiope.planning.case import Case
from semiope.planning.residuals import Components, predict

# Answers are judged where paths stay in the logs with at least this probability.
SHARE = 0.5


class Level(NamedTuple):
    """A common bias and its standard error."""

    bias: float
    error: float

    @property
    def shrunk(self) -> float:
        """The bias times the positive part of 1 - (2 error / bias)^2: within two standard errors there is none."""
        return self.bias * max(0.0, 1 - (2 * self.error / self.bias) ** 2) if self.bias else 0.0


def together(case: Case, at: Places, value: Floats, *, unbias: bool = False) -> tuple[Floats, Components]:
    """Returns by logs and answers together, (horizon, n_states, n_actions), and what the answers scatter by.

    `unbias`: without what all answers have in common.
    """
    mdp = case.records.empirical.mdp
    informed = _informed(case, at, value)
    common = _bias(case, at, value, informed).shrunk if unbias else 0.0
    if common:
        value = value - common
        informed = _informed(case, at, value)
    # What answers say of pairs never logged is held against the model as it was without them.
    unlogged = case.records.empirical.counts == 0
    base = np.where(unlogged & ~mdp.terminal[:, None], case.records.behavior_values[:, :, None], informed)
    correction, parts = predict(at, value - at.read(base), case.records.empirical.counts, mdp.horizon, case.prior)
    return base + correction, parts


def common_bias(case: Case, at: Places, value: Floats) -> Level:
    """How much too high all answers are, judged by those about pairs that were logged; infinite error if none is.

    Answers about pairs from which most paths leave the logs are not looked at: there, answers would be held against
    answers, and a bias in those about pairs never logged would come out many times as large, with the sign changed.
    The error has two parts: scatter between states or, if that is more, what the returns of each pair logged n times
    are known by, their scatter over n; and what the logs know of their level, the standard error of their mean return.
    """
    return _bias(case, at, value, _informed(case, at, value))


def _bias(case: Case, at: Places, value: Floats, informed: Floats) -> Level:
    mdp = case.records.empirical.mdp
    share = 1 - at.read(_leaving(case))
    judged = mdp.available[at.state, at.action] & (share >= SHARE)
    off, share, state = (value - at.read(informed))[judged], share[judged], at.state[judged].astype(np.int64)
    if not len(off):
        return Level(0.0, np.inf)
    total = float(share @ share)
    records = case.records
    outcomes = records.returns_from(records.episodes.offsets[:-1])
    # In units of the largest number, so that squares of extreme answers stay in range.
    unit = max(float(np.abs(off).max()), float(np.abs(outcomes).max()), 1e-100)
    off, outcomes = off / unit, outcomes / unit
    bias = float(share @ off) / total
    by_state = np.bincount(state, weights=share * (off - bias * share))
    n_states = len(np.unique(state))
    between = float(np.sum(by_state**2)) * float(n_states) / float(max(n_states - 1, 1))
    pairs = np.bincount(state * mdp.n_actions + at.action[judged], weights=share, minlength=mdp.reward.size)
    per_pair = pairs**2 / np.maximum(records.empirical.counts.ravel(), 1)
    logged = float(np.sum(per_pair)) * (records.scatter / unit) ** 2
    error = float(np.sqrt(max(between, logged) / total**2 + outcomes.var() / len(outcomes)))
    return Level(unit * bias, unit * error)


def resting_on(case: Case, mass: Floats) -> tuple[Floats, Floats]:
    """How much of what pairs never logged are taken to be worth is in the sum of mass times Q-tilde of those logged.

    Also how much of it passes through each pair that was logged, (n_states, n_actions).
    """
    mdp, found = case.records.empirical.mdp, np.zeros_like(mass)
    passing = np.zeros(mass.shape[1:])
    planning.rest(mdp.dynamics, case.spoken_of, mdp.gamma, mass, found, passing)
    return found, passing


def _informed(case: Case, at: Places, value: Floats) -> Floats:
    """Q-tilde."""
    records = case.records
    mdp = records.empirical.mdp
    off = value - at.read(case.expected)
    correction, _ = predict(at, off, records.empirical.counts, mdp.horizon, case.prior)
    return mdp.evaluate_with(records.behavior_values[:, :, None] + correction, case.spoken_of)


def _leaving(case: Case) -> Floats:
    """kappa: for each step, state and action, the discounted probability of coming to a pair never logged."""
    mdp = case.records.empirical.mdp
    unpaid = mdp.dynamics._replace(reward=frozen(np.zeros_like(mdp.reward)))
    found, values = np.empty((mdp.horizon, *mdp.reward.shape)), np.empty((1, mdp.n_states))
    unknown = np.ones((mdp.horizon, mdp.n_states, 1))
    planning.evaluate(unpaid, case.spoken_of, mdp.gamma, mdp.horizon, found, values, unknown)
    return found
