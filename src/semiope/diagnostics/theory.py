"""Bias and variance of estimators before any data: sections 3 and 4 and appendix C of the paper as functions.

A `Setting` holds what the theory speaks about: a model, the two policies, the moments of the split weights, and how far
annotations are off (bias) and scatter (std). The functions of this file are about one step (T = 1) and give the terms
that the paper names; `sequential.py` gives exact bias and variance for any horizon. All are for a single episode:
`Moments.std_error(n)` is what remains of n.

docs/theory.md lists where this differs from what the paper prints, and why.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from semiope._arrays import Booleans, Floats
from semiope.diagnostics.setting import Draw, Moments, Setting
from semiope.errors import OptionError
from semiope.models.checks import broadcast
from semiope.policies.lookup import safe_ratio
from semiope.weights.moments import WeightMoments, check_probabilities

__all__ = [
    "Bias",
    "Draw",
    "Moments",
    "Setting",
    "Unsupported",
    "VarianceCIS",
    "VarianceCStarIS",
    "VarianceIS",
    "WeightMoments",
    "bias_c_is",
    "bias_is",
    "naive_is",
    "unsupported_actions",
    "variance_c_is",
    "variance_c_star_is",
    "variance_is",
]


class Unsupported(NamedTuple):
    """Actions about which nothing can be known, as flags (steps, n_states, n_actions)."""

    logged: Booleans
    augmented: Booleans


class Bias(NamedTuple):
    """Bias of C-IS: what lies on unsupported actions, and what imperfect annotations add."""

    support: float
    annotation: float

    @property
    def total(self) -> float:
        """The bias."""
        return self.support + self.annotation


class VarianceIS(NamedTuple):
    """The three terms of the variance of IS."""

    state: float
    action: float
    reward: float

    @property
    def total(self) -> float:
        """The variance."""
        return sum(self)


class VarianceCIS(NamedTuple):
    """The eight terms of the variance of C-IS (Theorem 13), in the paper's order."""

    state: float
    action: float
    reward: float
    annotation: float
    weight: float
    weight_reward: float
    weight_covariance: float
    weight_annotation: float

    @property
    def total(self) -> float:
        """The variance."""
        return sum(self)


class VarianceCStarIS(NamedTuple):
    """The terms of the variance of C*-IS; `annotation` holds where annotations scatter other than rewards."""

    state: float
    reward: float
    annotation: float
    bias: float

    @property
    def total(self) -> float:
        """The variance."""
        return sum(self)


def unsupported_actions(setting: Setting) -> Unsupported:
    """U(s, pi_b) and U(s, pi_b+): actions of probability 0 in the logs, and in logs and annotations together."""
    return Unsupported(setting.behavior == 0, setting.augmented == 0)


def bias_is(setting: Setting) -> float:
    """Bias of IS (Proposition 10): - E_s sum over unsupported a of pi_e(a|s) R(s, a)."""
    one = _one_step(setting)
    return -float(one.initial @ np.where(one.behavior == 0, one.evaluation * one.reward, 0.0).sum(axis=1))


def bias_c_is(setting: Setting) -> Bias:
    """Bias of C-IS by its parts (Propositions 2, 3 and 12):

        support     - E_s sum over a with pi_b+(a|s) = 0 of pi_e(a|s) R(s, a)
        annotation    E_s sum over the others of delta_W(s, a) pi_e(a|s) eps_G(s, a)

    where delta_W(s, a) = 1 - W(a|s, a) pi_b(a|s) / pi_b+(a|s) is the annotations' share of what is known of a.
    """
    one = _one_step(setting)
    lost = np.where(one.augmented == 0, one.evaluation * one.reward, 0.0)
    share = 1 - safe_ratio(_own(one.weight_mean) * one.behavior, one.augmented)
    off = np.where(one.augmented > 0, share * one.evaluation * (one.annotation_mean - one.reward), 0.0)
    return Bias(-float(one.initial @ lost.sum(axis=1)), float(one.initial @ off.sum(axis=1)))


def variance_is(setting: Setting) -> VarianceIS:
    """Variance of IS: V_s[E[rho R]] + E_s V_a[rho R] + E_s E_a[rho^2 sigma_R^2], rho = pi_e / pi_b (Proposition 11)."""
    one = _one_step(setting)
    ratio = safe_ratio(one.evaluation, one.behavior)
    inner = (one.behavior * ratio * one.reward).sum(axis=1)
    action = (one.behavior * (ratio * one.reward - inner[:, None]) ** 2).sum(axis=1)
    reward = (one.behavior * ratio**2 * one.reward_variance).sum(axis=1)
    return VarianceIS(_spread(one.initial, inner), float(one.initial @ action), float(one.initial @ reward))


def variance_c_is(setting: Setting) -> VarianceCIS:
    """Variance of C-IS in its eight terms (Theorem 13), rho = pi_e / pi_b+, D = sigma_G^2 - sigma_R^2:

        state               V_s[E[v|s]]
        action              E_s V_a[sum_i rho_i W_i y_i]
        reward              E sum_i rho_i^2 W_i^2 sigma_R,i^2
        annotation          E sum_{i != a} rho_i^2 W_i^2 D_i
        weight              E sum_i rho_i^2 y_i^2 V[w_i]
        weight_reward       E sum_i rho_i^2 sigma_R,i^2 V[w_i]
        weight_covariance   E sum_{i != j} rho_i rho_j y_i y_j Cov[w_i, w_j]
        weight_annotation   E sum_{i != a} rho_i^2 D_i V[w_i]

    where y is R for the action taken and the annotations' mean for the others. Weights are independent of rewards and
    annotations given state and action taken.
    """
    one = _one_step(setting)
    ratio = safe_ratio(one.evaluation, one.augmented)[:, None, :]
    own = np.eye(setting.mdp.n_actions, dtype=bool)
    mean = np.where(own, one.reward[:, None, :], one.annotation_mean[:, None, :])
    excess = np.where(own, 0.0, (one.annotation_variance - one.reward_variance)[:, None, :])
    scatter = np.broadcast_to(one.reward_variance[:, None, :], excess.shape)
    covariance = one.weight_covariance
    spread = np.zeros(mean.shape) if covariance is None else np.diagonal(covariance, axis1=-2, axis2=-1)
    inner = (ratio * one.weight_mean * mean).sum(axis=2)
    per_state = (one.behavior * inner).sum(axis=1)

    def average(terms: Floats) -> float:
        """Mean over states and actions taken of a sum over actions."""
        return float(one.initial @ (one.behavior * terms.sum(axis=2)).sum(axis=1))

    crossed = np.zeros(mean.shape)
    if covariance is not None:
        weighted = ratio * mean
        crossed = weighted * np.einsum("saij,saj->sai", np.where(own, 0.0, covariance), weighted)
    action = (one.behavior * (inner - per_state[:, None]) ** 2).sum(axis=1)
    return VarianceCIS(
        state=_spread(one.initial, per_state),
        action=float(one.initial @ action),
        reward=average(ratio**2 * one.weight_mean**2 * scatter),
        annotation=average(ratio**2 * one.weight_mean**2 * excess),
        weight=average(ratio**2 * mean**2 * spread),
        weight_reward=average(ratio**2 * scatter * spread),
        weight_covariance=average(crossed),
        weight_annotation=average(ratio**2 * excess * spread),
    )


def variance_c_star_is(setting: Setting) -> VarianceCStarIS:
    """Variance of C*-IS in closed form (Theorem 6 and Corollary 14), whatever the setting's weights:

        state        V_s[E[v|s]]
        reward       E_s sum_a pi_e(a|s)^2 sigma_R(s, a)^2
        annotation   E_s sum_a (1 - pi_b(a|s)) pi_e(a|s)^2 (sigma_G(s, a)^2 - sigma_R(s, a)^2)
        bias         E_s V_a[pi_e(a|s) eps_G(s, a)], 0 for unbiased annotations

    Every action that the policy may take must be annotated where it was not taken; weights that never listen to one are
    refused.
    """
    setting.check_covered()
    one = _one_step(setting)
    off = one.evaluation * (one.annotation_mean - one.reward)
    inner = (one.evaluation * one.reward).sum(axis=1) + ((1 - one.behavior) * off).sum(axis=1)
    reward = (one.evaluation**2 * one.reward_variance).sum(axis=1)
    excess = one.annotation_variance - one.reward_variance
    annotation = ((1 - one.behavior) * one.evaluation**2 * excess).sum(axis=1)
    mean_off = (one.behavior * off).sum(axis=1, keepdims=True)
    bias = (one.behavior * (off - mean_off) ** 2).sum(axis=1)
    return VarianceCStarIS(
        _spread(one.initial, inner), *(float(one.initial @ term) for term in (reward, annotation, bias))
    )


def naive_is(setting: Setting, annotated: Any) -> Draw:
    """Mean and variance of the naive estimator from one sample of the pooled data (section 3.1).

    `annotated[s, a, i]` is the probability that i is annotated where a was taken. Annotations are added as samples, so
    that s is seen 1 + (mean number of annotations) times as often, and behaviour is what the pooled data show. Samples
    of an episode depend on each other: this says nothing of the scatter of their mean.
    """
    one = _one_step(setting)
    shape = one.weight_mean.shape
    there = broadcast(annotated, (shape,), "annotated")
    check_probabilities(there, setting.mdp.states, setting.mdp.actions)
    there = np.where(np.eye(shape[1], dtype=bool), 0.0, there)
    logged = one.initial[:, None] * one.behavior
    told = np.einsum("sa,sai->si", logged, there)
    total = float((logged + told).sum())
    seen = (logged + told).sum(axis=1, keepdims=True)
    ratio = safe_ratio(one.evaluation * seen, logged + told)
    mean = float((ratio * (logged * one.reward + told * one.annotation_mean)).sum()) / total
    variance = logged * ((ratio * one.reward - mean) ** 2 + ratio**2 * one.reward_variance)
    variance = variance + told * ((ratio * one.annotation_mean - mean) ** 2 + ratio**2 * one.annotation_variance)
    return Draw(setting.value, mean, float(variance.sum()) / total)


class _OneStep(NamedTuple):
    """A setting with a horizon of one, without the axis over steps."""

    initial: Floats
    behavior: Floats
    evaluation: Floats
    augmented: Floats
    weight_mean: Floats
    weight_covariance: Floats | None
    reward: Floats
    reward_variance: Floats
    annotation_mean: Floats
    annotation_variance: Floats


def _one_step(setting: Setting) -> _OneStep:
    mdp, weights = setting.mdp, setting.weights
    if mdp.horizon != 1 or (mdp.terminal & (mdp.initial > 0)).any():
        raise OptionError(
            "theory: these terms are for problems of one decision (horizon 1, no terminal states). "
            "For longer ones use pdis, c_pdis or c_star_pdis of semiope.diagnostics.sequential."
        )
    if not mdp.available.all():
        raise OptionError("theory: these terms need every action to be available in every state.")
    return _OneStep(
        mdp.initial,
        setting.behavior[0],
        setting.evaluation[0],
        setting.augmented[0],
        weights.mean[0],
        None if weights.covariance is None else weights.covariance[0],
        mdp.reward,
        mdp.reward_std**2,
        setting.annotation_mean[0],
        setting.annotation_variance[0],
    )


def _own(weight_mean: Floats) -> Floats:
    """W(a|s, a), (n_states, n_actions)."""
    found: Floats = np.diagonal(weight_mean, axis1=-2, axis2=-1)
    return found


def _spread(initial: Floats, values: Floats) -> float:
    """Variance of a function of the state."""
    return float(initial @ (values - initial @ values) ** 2)
