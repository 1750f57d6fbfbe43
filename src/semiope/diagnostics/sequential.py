"""Exact mean and variance of PDIS, C-PDIS and C*-PDIS for any horizon, by backward dynamic programming.

Given the state s at step t, the estimator's value from there on is

    v_t = w^a rho^a (r + gamma v_{t+1}) + sum_{i != a} w^i rho^i g^i

With y_a = r + gamma v_{t+1} for the action taken and y_i = g^i for the others, all independent given s, a and the
weights, mean m and variance V of v_t follow from those of v_{t+1}: first given s and a,

    y_a:  R + gamma E[m_{t+1}],   sigma_R^2 + gamma^2 (E[V_{t+1}] + Var[m_{t+1}])     over next states
    v_t:  sum_i rho_i W_i y_i,    sum_i rho_i^2 (W_i^2 + V[w_i]) Var[y_i] + sum_ij rho_i rho_j y_i y_j Cov[w_i, w_j]

then over a ~ pi_b. Cost: one pass over the transitions per step, whatever the number of trajectories. pi_b and pi_b+
are taken as known. Estimators that count them in the data usually scatter less, however much data there are.
"""

from __future__ import annotations

import numpy as np

from semiope._arrays import Floats
from semiope._compiled import compiled
from semiope.diagnostics.setting import Moments, Setting
from semiope.models.planning import Dynamics
from semiope.models.transitions import END
from semiope.policies.lookup import safe_ratio


def pdis(setting: Setting) -> Moments:
    """PDIS, which hears only what happened: the factor of the action taken is pi_e / pi_b."""
    ratio = safe_ratio(*np.broadcast_arrays(setting.evaluation, setting.behavior))
    return moments(setting, np.eye(setting.mdp.n_actions) * ratio[..., None, :])


def c_pdis(setting: Setting) -> Moments:
    """C-PDIS with the setting's weights: factors w pi_e / pi_b+."""
    ratio = safe_ratio(*np.broadcast_arrays(setting.evaluation, setting.augmented))
    return moments(setting, setting.weights.mean, setting.weights.covariance, ratio)


def c_star_pdis(setting: Setting) -> Moments:
    """C*-PDIS, in which every action the policy may take was taken or annotated: factors pi_e.

    Weights of the setting that never listen to such an action are refused; else they are not looked at.
    """
    setting.check_covered()
    shape = (*setting.evaluation.shape, setting.mdp.n_actions)
    return moments(setting, np.broadcast_to(setting.evaluation[..., None, :], shape))


def moments(setting: Setting, factor: Floats, covariance: Floats | None = None, ratio: Floats | None = None) -> Moments:
    """Mean and variance of v <- f_a (r + gamma v) + sum over annotated i of f_i g_i, f = u ratio, for any factors f.

    `factor` is E[u], (steps, n_states, n_actions, n_actions) by action taken and action; `covariance` that of u, with
    one more axis, None if u is constant; `ratio` (steps, n_states, n_actions), None for one. A first axis of length 1
    stands for all steps. The factors need not come from weights that sum to one.
    """
    mdp = setting.mdp
    mean, variance = _backward(
        mdp.dynamics,
        np.broadcast_to(setting.behavior, (mdp.horizon, *mdp.reward.shape)),
        np.ones((1, *mdp.reward.shape)) if ratio is None else ratio,
        factor,
        np.empty((0, 0, 0, 0, 0)) if covariance is None else covariance,
        setting.annotation_mean,
        setting.annotation_variance,
        mdp.gamma,
    )
    overall = mdp.over_initial(mean)
    return Moments(setting.value, overall, mdp.over_initial(variance + (mean - overall) ** 2))


@compiled
def _backward(
    model: Dynamics,
    behavior: Floats,
    ratio: Floats,
    factor: Floats,
    covariance: Floats,
    told_mean: Floats,
    told_variance: Floats,
    gamma: float,
) -> tuple[Floats, Floats]:
    """Mean and variance of v_0 per state."""
    horizon, n_states, n_actions = behavior.shape
    mean, variance = np.zeros(n_states), np.zeros(n_states)
    earlier_mean, earlier_variance = np.zeros(n_states), np.zeros(n_states)
    inner, spread = np.zeros(n_actions), np.zeros(n_actions)
    y, scatter = np.zeros(n_actions), np.zeros(n_actions)
    for t in range(horizon - 1, -1, -1):
        f, rho = factor[t if len(factor) > 1 else 0], ratio[t if len(ratio) > 1 else 0]
        for s in range(n_states):
            if model.terminal[s]:
                earlier_mean[s], earlier_variance[s] = model.reward[s, 0], model.reward_std[s, 0] ** 2
                continue
            overall = 0.0
            for a in range(n_actions):
                inner[a] = spread[a] = 0.0
                if behavior[t, s, a] == 0:
                    continue
                outcome = _outcome(model, s, a, mean, variance, gamma)
                for i in range(n_actions):
                    # What an unavailable action would bring is not a number, and has no part in anything.
                    known = outcome if i == a else (told_mean[t, s, i], told_variance[t, s, i])
                    y[i] = rho[s, i] * known[0] if rho[s, i] != 0 else 0.0
                    scatter[i] = rho[s, i] ** 2 * known[1]
                    inner[a] += f[s, a, i] * y[i]
                    spread[a] += f[s, a, i] ** 2 * scatter[i]
                if covariance.size:
                    spread[a] += _from_weights(covariance[t if len(covariance) > 1 else 0, s, a], y, scatter)
                overall += behavior[t, s, a] * inner[a]
            earlier_mean[s], earlier_variance[s] = overall, 0.0
            for a in range(n_actions):
                earlier_variance[s] += behavior[t, s, a] * (spread[a] + (inner[a] - overall) ** 2)
        mean[:], variance[:] = earlier_mean, earlier_variance
    return mean, variance


@compiled
def _outcome(model: Dynamics, s: int, a: int, mean: Floats, variance: Floats, gamma: float) -> tuple[float, float]:
    """Mean and variance of r + gamma v after action a in s."""
    pair = s * model.reward.shape[1] + a
    ahead = within = between = 0.0
    for k in range(model.offsets[pair], model.offsets[pair + 1]):
        if model.following[k] != END:
            ahead += model.prob[k] * mean[model.following[k]]
            within += model.prob[k] * variance[model.following[k]]
    for k in range(model.offsets[pair], model.offsets[pair + 1]):
        following = model.following[k]
        between += model.prob[k] * ((mean[following] if following != END else 0.0) - ahead) ** 2
    return model.reward[s, a] + gamma * ahead, model.reward_std[s, a] ** 2 + gamma**2 * (within + between)


@compiled
def _from_weights(covariance: Floats, y: Floats, scatter: Floats) -> float:
    """What weights that vary add to the variance."""
    total = 0.0
    for i in range(len(y)):
        total += covariance[i, i] * scatter[i]
        for j in range(len(y)):
            total += covariance[i, j] * y[i] * y[j]
    return total
