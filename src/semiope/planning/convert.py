"""From annotations of today's policy to annotations of the one under evaluation (appendix D.1).

Experts tell what they expect of today's practice: g ~ Q_t of pi_b. What they would expect of pi_e differs by
D_t(s, a) = Q_t(s, a; pi_e) - Q_t(s, a; pi_b), which goes backward over the steps in a model counted from the logs:

    D_t(s, a) = gamma sum_s' p(s'|s, a) d_{t+1}(s')
    d_t(s)    = sum_a (pi_e - pi_b)(a|s) Q_t(s, a; pi_b) + sum_a pi_e(a|s) D_t(s, a)

The annotations are about Q of pi_b itself, so that they say what the model gets wrong of it: Q here is the model's plus
the predicted residuals of the answers (`residuals.py`). And a pair that was logged n times leans on what follows its
state in general as on one more observation: D_t(s, a) <- (n D_t(s, a) + D_t(s)) / (n + 1), D_t(s) the mean over pi_b.

A pair that was never logged has no place in the model, and annotations of it stay as they are, unless the option
`state` asks for more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from semiope._arrays import Floats
from semiope._compiled import compiled
from semiope.models.planning import Dynamics
from semiope.models.transitions import END
from semiope.planning.case import Case

# Less than this share of what hangs on any pair is nothing.
TINY = 1e-12


def turned(case: Case, returns: Floats) -> Floats:
    """D for every step, state and action, from returns of today's policy as logs and answers have them."""
    records, change = case.records, np.zeros_like(returns)
    mdp = records.empirical.mdp
    _backward(mdp.dynamics, records.empirical.counts, records.behavior, case.evaluation, returns, mdp.gamma, change)
    return change


def of_policy(case: Case, today: Floats) -> Floats:
    """Returns of the policy, (horizon, n_states, n_actions), from those of today's as logs and answers have them."""
    return today + turned(case, today)


def leading_to(case: Case, mass: Floats) -> Floats:
    """How much of each of today's returns is in the sum of mass times D: `turned` the other way round."""
    return _hanging_on(case, mass)[0]


def _hanging_on(case: Case, mass: Floats) -> tuple[Floats, Floats]:
    """How much of each of today's returns, and of what follows each pair, is in the sum of mass times D."""
    records, found, passed = case.records, np.zeros_like(mass), np.zeros_like(mass)
    mdp = records.empirical.mdp
    _forward(mdp.dynamics, records.empirical.counts, records.behavior, case.evaluation, mdp.gamma, mass, found, passed)
    return found, passed


def turning_errors(cases: Sequence[Case], masses: Iterable[Floats], today: Floats) -> Floats:
    """The covariance of the policies' sums of mass times D, because what follows pairs was counted from few.

    If g(s') is what a sum has of p(s'|s, a), that pair adds the variance of g(s') over n, how often it was seen what
    followed. Where n is small, little of that variance is seen: pairs lean, as on two observations more, on what g
    varies by within pairs in general, for as much as hangs on them; and, as far as pairs were seen once, among them.

    `today` are returns of today's policy as logs and answers have them.
    """
    records = cases[0].records
    prob, offsets = records.empirical.mdp.dynamics.prob, records.empirical.mdp.dynamics.offsets
    seen = records.followed.ravel()
    pair, n = np.repeat(np.arange(len(seen)), np.diff(offsets)), np.maximum(seen, 1.0)
    around, passing = np.zeros((len(cases), len(pair))), np.zeros((len(cases), len(seen)))
    within, overall = np.zeros_like(around), np.zeros_like(around)
    for k, (case, mass) in enumerate(zip(cases, masses, strict=True)):
        brings, passing[k] = what_follows_brings(case, mass, today)
        around[k] = brings - np.bincount(pair, weights=prob * brings, minlength=len(seen))[pair]
        met = (passing[k] > TINY * passing[k].max(initial=0.0)) & (seen > 0)
        each, known = np.where(met, passing[k], np.inf)[pair], max(float(np.sum(met * (n - 1))), 1.0)
        within[k] = around[k] / each * np.sqrt(prob * n[pair] / known)
        times, once = max(float(np.sum(met * n)), 1.0), float(np.sum(met & (seen == 1)))
        weight = met[pair] * prob * n[pair] / times
        overall[k] = np.sqrt(weight * once / times) * (brings / each - np.sum(weight * brings / each))
    general = within @ within.T + overall @ overall.T
    own, leaning = around * np.sqrt(prob / (n[pair] + 1)), passing / np.sqrt(n * (n + 1))
    found: Floats = own @ own.T + 2 * general * (leaning @ leaning.T)
    return found


def what_follows_brings(case: Case, mass: Floats, today: Floats) -> tuple[Floats, Floats]:
    """What the sum of mass times D has of each probability in the model, and how much hangs on each pair in all."""
    mdp, policy = case.records.empirical.mdp, case.evaluation
    worth = ((policy - case.records.behavior) * today + policy * turned(case, today)).sum(axis=2)
    passed, brings = _hanging_on(case, mass)[1], np.zeros(len(mdp.dynamics.prob))
    _following(mdp.dynamics, passed, np.where(mdp.terminal, 0.0, worth), brings)
    return brings, passed[:-1].sum(axis=0).ravel()


@compiled
def _backward(
    model: Dynamics, counts: Floats, behavior: Floats, evaluation: Floats, returns: Floats, gamma: float, change: Floats
) -> None:
    """Fill in D, (horizon, n_states, n_actions)."""
    horizon, n_states, n_actions = change.shape
    ahead, earlier = np.zeros(n_states), np.zeros(n_states)
    for t in range(horizon - 1, -1, -1):
        policy = evaluation[t if len(evaluation) > 1 else 0]
        for s in range(n_states):
            earlier[s] = 0.0
            if model.terminal[s]:
                continue
            general = 0.0
            for a in range(n_actions):
                total, pair = 0.0, s * n_actions + a
                for i in range(model.offsets[pair], model.offsets[pair + 1]):
                    if model.following[i] != END:
                        total += model.prob[i] * ahead[model.following[i]]
                change[t, s, a] = gamma * total
                general += behavior[s, a] * change[t, s, a]
            for a in range(n_actions):
                change[t, s, a] = (counts[s, a] * change[t, s, a] + general) / (counts[s, a] + 1.0)
                earlier[s] += (policy[s, a] - behavior[s, a]) * returns[t, s, a] + policy[s, a] * change[t, s, a]
        for s in range(n_states):
            ahead[s] = earlier[s]


@compiled
def _forward(
    model: Dynamics,
    counts: Floats,
    behavior: Floats,
    evaluation: Floats,
    gamma: float,
    mass: Floats,
    found: Floats,
    passed_on: Floats,
) -> None:
    """Fill in what hangs on each of today's returns, (horizon, n_states, n_actions), if `mass` hangs on D.

    `passed_on` takes what hangs on the d that follow each pair.
    """
    horizon, n_states, n_actions = found.shape
    here, ahead = np.zeros(n_states), np.zeros(n_states)  # what hangs on d
    for t in range(horizon):
        policy = evaluation[t if len(evaluation) > 1 else 0]
        ahead[:] = 0.0
        for s in range(n_states):
            if model.terminal[s]:
                continue
            general = 0.0
            for a in range(n_actions):
                general += (mass[t, s, a] + here[s] * policy[s, a]) / (counts[s, a] + 1.0)
            for a in range(n_actions):
                found[t, s, a] = here[s] * (policy[s, a] - behavior[s, a])
                own = (mass[t, s, a] + here[s] * policy[s, a]) * counts[s, a] / (counts[s, a] + 1.0)
                passed, pair = gamma * (own + behavior[s, a] * general), s * n_actions + a
                passed_on[t, s, a] = passed
                if passed != 0.0:
                    for i in range(model.offsets[pair], model.offsets[pair + 1]):
                        if model.following[i] != END:
                            ahead[model.following[i]] += model.prob[i] * passed
        here, ahead = ahead, here


@compiled
def _following(model: Dynamics, weight: Floats, worth: Floats, found: Floats) -> None:
    """Fill in what each possible transition brings, if so much hangs on what follows its pair at each step."""
    horizon, n_states, n_actions = weight.shape
    for t in range(horizon - 1):
        for s in range(n_states):
            for a in range(n_actions):
                if weight[t, s, a] != 0.0:
                    pair = s * n_actions + a
                    for i in range(model.offsets[pair], model.offsets[pair + 1]):
                        if model.following[i] != END:
                            found[i] += weight[t, s, a] * worth[t + 1, model.following[i]]
