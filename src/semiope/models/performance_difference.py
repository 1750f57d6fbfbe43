"""Q of a policy less Q of the behavior policy, from Q of the behavior policy and what followed each pair in the logs.

By the performance-difference identity (Kakade and Langford, 2002), backward over the steps,

    Delta_t(s, a) = gamma sum_s' p(s'|s, a) D_{t+1}(s'),
    D_t(s) = sum_a (pi_e - pi_b)(a|s) Q_t(s, a; pi_b) + sum_a pi_e(a|s) Delta_t(s, a),

with Delta = Q of pi_e less Q of pi_b, and D the same of V. If Q of pi_b is known, as annotators know it, the means of
D_{t+1} are all that the logs have to tell. A pair logged once or twice tells its own badly, and an error there grows
with every time that the policy comes back to the pair. So D_{t+1} of the next state is, in each logged transition,

    mu + effect of the state s (variance `states`) + effect of the pair (`pairs`) + rest (`within`),

with variances from an analysis of variance of the logged transitions (Searle, 1971), and the means of pairs are their
best linear predictions: those of pairs logged often are as counted, those of others lean on their state's, and these
on that of all states. Pairs never logged have the mean of their state. Nothing is set by hand.
"""

from __future__ import annotations

import numpy as np

from semiope._arrays import Floats, frozen
from semiope._compiled import compiled
from semiope.models.bellman import BellmanModel
from semiope.models.empirical import successors
from semiope.models.planning import Dynamics
from semiope.models.transitions import END

# Variances below this share of the largest are rounding.
ROUNDING = 1e-12


def differences(model: BellmanModel, returns: Floats) -> Floats:
    """Q_t(s, a) of the policy of a model less that of the behavior policy, which is given as `returns`.

    Both are (horizon, n_states, n_actions).
    """
    mdp = model.empirical.mdp
    # In units of the largest, so that squares of extreme values stay in range.
    unit = max(float(np.abs(returns).max(initial=0.0)), 1e-150)
    found = np.zeros(model.shape)
    times = frozen(_times_followed(model))
    _backward(mdp.dynamics, times, model.behavior, model.policy, mdp.gamma, frozen(returns / unit), found)
    return unit * found


def _times_followed(model: BellmanModel) -> Floats:
    """How often what followed each pair is known, (n_states, n_actions): a cut episode does not show its last."""
    row = np.flatnonzero(model.rows.action >= 0)
    known, _ = successors(model.episodes, row, model.shape[0], "unknown")
    at, found = model.rows.part(row[known]), np.zeros(model.shape[1:])
    np.add.at(found, (at.state, at.action), 1.0)
    return found


@compiled
def _backward(
    model: Dynamics, times: Floats, behavior: Floats, policy: Floats, gamma: float, returns: Floats, found: Floats
) -> None:
    """Fill in Delta_t(s, a)."""
    horizon, n_states, n_actions = found.shape
    gain, mean, square = np.zeros(n_states), np.zeros((n_states, n_actions)), np.zeros((n_states, n_actions))
    for step in range(horizon - 1, -1, -1):
        if step < horizon - 1:
            _moments(model, gain, mean, square)
            predict(mean, square, times, found[step])
        chances = policy[step if len(policy) > 1 else 0]
        for s in range(n_states):
            gain[s] = 0.0
            for a in range(n_actions):
                found[step, s, a] = 0.0 if model.terminal[s] else gamma * found[step, s, a]
                if not model.terminal[s]:
                    gain[s] += (chances[s, a] - behavior[s, a]) * returns[step, s, a]
                    gain[s] += chances[s, a] * found[step, s, a]


@compiled
def _moments(model: Dynamics, values: Floats, mean: Floats, square: Floats) -> None:
    """Mean and mean square of the next state's value, after each pair, as counted."""
    n_states, n_actions = mean.shape
    for s in range(n_states):
        for a in range(n_actions):
            mean[s, a], square[s, a] = 0.0, 0.0
            for i in range(model.offsets[s * n_actions + a], model.offsets[s * n_actions + a + 1]):
                if model.following[i] != END:
                    value = values[model.following[i]]
                    mean[s, a] += model.prob[i] * value
                    square[s, a] += model.prob[i] * value * value


@compiled
def predict(mean: Floats, square: Floats, times: Floats, found: Floats) -> None:
    """Fill in best linear predictions of the means of all pairs, from means and mean squares of `times` values each."""
    within, pairs, states = variance_components(mean, square, times)
    least = ROUNDING * max(within, pairs, states)
    overall = float((times * mean).sum() / max(times.sum(), 1.0))
    if not least > 0:
        found[:] = overall
        return
    within, pairs, states = max(within, least), max(pairs, least), max(states, least)
    n_states, n_actions = mean.shape
    of_state, precision = np.zeros(n_states), np.zeros(n_states)
    total, weights = 0.0, 0.0
    for s in range(n_states):
        for a in range(n_actions):
            if times[s, a] > 0:
                weight = 1 / (pairs + within / times[s, a])
                of_state[s] += weight * mean[s, a]
                precision[s] += weight
        if precision[s] > 0:
            of_state[s] /= precision[s]
            weight = 1 / (states + 1 / precision[s])
            total += weight * of_state[s]
            weights += weight
    overall = total / weights
    for s in range(n_states):
        kept = states * precision[s] / (1 + states * precision[s])
        usual = overall + kept * (of_state[s] - overall)
        for a in range(n_actions):
            found[s, a] = usual
            if times[s, a] > 0:
                found[s, a] += pairs / (pairs + within / times[s, a]) * (mean[s, a] - usual)


@compiled
def variance_components(mean: Floats, square: Floats, times: Floats) -> tuple[float, float, float]:
    """Variances within pairs, between pairs of a state and between states, by a nested analysis of variance.

    `mean` and `square` are means and mean squares of the values of each pair, of which there are `times`. What cannot
    be told is 0: the variance within pairs if none has two values, that between pairs if no state has two.
    """
    n_states, n_actions = mean.shape
    n, n_pairs, known, overall = 0.0, 0, 0, 0.0
    inside, between, among = 0.0, 0.0, 0.0  # sums of squares: within pairs, between those of a state, between states
    by_state, by_all, squared = 0.0, 0.0, 0.0  # sums of times^2 over those of the state, of times^2, of a state's^2
    total = max(float(times.sum()), 1.0)
    overall = float((times * mean).sum()) / total
    for s in range(n_states):
        here, usual = 0.0, 0.0
        for a in range(n_actions):
            here += times[s, a]
            usual += times[s, a] * mean[s, a]
        if not here > 0:
            continue
        usual /= here
        known += 1
        n += here
        squared += here * here
        among += here * (usual - overall) ** 2
        for a in range(n_actions):
            if times[s, a] > 0:
                n_pairs += 1
                inside += times[s, a] * max(square[s, a] - mean[s, a] ** 2, 0.0)
                between += times[s, a] * (mean[s, a] - usual) ** 2
                by_state += times[s, a] ** 2 / here
                by_all += times[s, a] ** 2
    within = inside / (n - n_pairs) if n > n_pairs else 0.0
    pairs = max((between - within * (n_pairs - known)) / (n - by_state), 0.0) if n_pairs > known else 0.0
    left = among - within * (known - 1) - pairs * (by_state - by_all / total)
    states = max(left / (n - squared / total), 0.0) if known > 1 else 0.0
    return within, pairs, states
