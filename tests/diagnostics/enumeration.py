"""Random small problems, and the exact distribution of estimators on them by going through everything that can happen.

Rewards and annotations are two-point: mean plus or minus std, each with one half. Weights are drawn anew at each step
from a few kinds. Nothing here uses the formulas of the theory.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import semiope as so
from semiope.diagnostics.setting import Setting
from semiope.weights.moments import WeightMoments
from tests.models.test_tabular import dense

Floats = NDArray[np.float64]


class Example(NamedTuple):
    """A problem with the kinds of weights that its moments were made from."""

    setting: Setting
    chances: Floats
    kinds: Floats  # (kinds, n_states, taken, actions), with steps before the states if they change over time


def everything_annotated(setting: Setting) -> Setting:
    """The same with weights that always listen to every action, as C* assumes."""
    n = setting.mdp.n_actions
    return replace(setting, weights=WeightMoments(np.full((1, setting.mdp.n_states, n, n), 1 / n)))


class Distribution(NamedTuple):
    """Outcomes with their probabilities."""

    chance: Floats
    value: Floats

    @property
    def mean(self) -> float:
        return float(self.chance @ self.value)

    @property
    def variance(self) -> float:
        return float(self.chance @ (self.value - self.mean) ** 2)


def example(
    seed: int,
    *,
    horizon: int = 1,
    n_states: int = 2,
    n_actions: int = 2,
    biased: bool = True,
    unsupported: bool = True,
    per_step: bool = False,
) -> Example:
    """A random problem: weights vary, annotations are missing now and then, scatter, and may be biased.

    `per_step`: policies and weights change over time.
    """
    rng = np.random.default_rng(seed)
    terminal = np.zeros(n_states, dtype=bool)
    terminal[-1] = horizon > 1
    # One more target than states: the end.
    following = rng.dirichlet(np.ones(n_states + 1), size=(n_states, n_actions))
    following[terminal] = 0.0
    if horizon == 1:
        following[:] = np.eye(n_states + 1)[0]
    state, action, target = np.indices(following.shape)
    reward, std = rng.normal(size=(n_states, n_actions)), rng.random((n_states, n_actions))
    reward[terminal], std[terminal] = reward[terminal, :1], std[terminal, :1]
    mdp = so.TabularMDP.from_sparse(
        state=state, action=action, next_state=target - 1, prob=following, reward=reward, reward_std=std,
        initial=rng.dirichlet(np.ones(n_states)), terminal=terminal, gamma=0.9, horizon=horizon,
    )  # fmt: skip
    steps = (horizon,) if per_step else ()
    behavior, evaluation = rng.dirichlet(np.ones(n_actions), size=(2, *steps, n_states))
    if unsupported:
        behavior[..., 0, -1] = 0.0
        behavior /= behavior.sum(axis=-1, keepdims=True)
    chances = rng.dirichlet(np.ones(3))
    kinds = rng.dirichlet(np.ones(n_actions), size=(3, *steps, n_states, n_actions))
    # The second kind is a sample without annotations; some pairs have none of any kind.
    kinds[1] = np.eye(n_actions)
    kinds[:, rng.random((*steps, n_states, n_actions)) < 0.3] = 0.0
    bare = kinds.sum(axis=-1) == 0
    kinds[bare] = np.eye(n_actions)[np.nonzero(bare)[-1]]
    off = kinds - np.einsum("k,k...->...", chances, kinds)
    moments = WeightMoments(
        np.einsum("k,k...->...", chances, kinds), np.einsum("k,k...i,k...j->...ij", chances, off, off)
    )
    shape = (horizon, n_states, n_actions)
    setting = Setting.of(
        mdp,
        behavior,
        evaluation,
        weights=moments,
        annotation_bias=rng.normal(size=shape) if biased else 0.0,
        annotation_std=rng.random(shape),
    )
    return Example(setting, chances, kinds)


def distribution(one: Example, estimator: str) -> Distribution:
    """Of the value of one episode: estimator is "pdis", "c-pdis" or "c*-pdis"."""
    mdp = one.setting.mdp
    ahead: list[Distribution] = [Distribution(np.ones(1), np.zeros(1))] * mdp.n_states
    for step in range(mdp.horizon - 1, -1, -1):
        ahead = [_from_state(one, estimator, step, s, ahead) for s in range(mdp.n_states)]
    return _mixed([(float(p), d) for p, d in zip(mdp.initial, ahead, strict=True)])


def _from_state(one: Example, estimator: str, step: int, s: int, ahead: list[Distribution]) -> Distribution:
    setting, mdp = one.setting, one.setting.mdp
    if mdp.terminal[s]:
        return _two_points(mdp.reward[s, 0], mdp.reward_std[s, 0])
    behavior, evaluation = (probs[min(step, len(probs) - 1), s] for probs in (setting.behavior, setting.evaluation))
    kinds = one.kinds[:, step] if one.kinds.ndim == 5 else one.kinds
    # Definition 1, with the mean over kinds of weights taken by hand.
    augmented = sum(c * behavior @ kind[s] for c, kind in zip(one.chances, kinds, strict=True))
    parts = []
    for a, (k, chance) in itertools.product(range(mdp.n_actions), enumerate(one.chances)):
        weights, ratio = (
            kinds[k, s, a],
            np.divide(evaluation, augmented, where=augmented > 0, out=np.zeros_like(evaluation)),
        )
        if estimator == "pdis":
            weights, ratio = np.eye(mdp.n_actions)[a], evaluation / np.where(behavior > 0, behavior, np.inf)
        elif estimator == "c*-pdis":
            weights, ratio = np.ones(mdp.n_actions), evaluation
        later = [(p, ahead[t]) for t, p in enumerate(dense(mdp)[s, a])]
        later.append((1 - sum(p for p, _ in later), Distribution(np.ones(1), np.zeros(1))))
        outcome = _sum(_two_points(mdp.reward[s, a], mdp.reward_std[s, a]), _scaled(_mixed(later), mdp.gamma))
        total = _scaled(outcome, weights[a] * ratio[a])
        for i in range(mdp.n_actions):
            if i != a:
                told = setting.annotation_mean[step, s, i], setting.annotation_variance[step, s, i] ** 0.5
                total = _sum(total, _scaled(_two_points(*told), weights[i] * ratio[i]))
        parts.append((float(behavior[a] * chance), total))
    return _mixed(parts)


def _two_points(mean: float, std: float) -> Distribution:
    return Distribution(np.array([0.5, 0.5]), np.array([mean - std, mean + std]))


def _scaled(one: Distribution, factor: float) -> Distribution:
    return Distribution(one.chance, one.value * factor)


def _sum(one: Distribution, other: Distribution) -> Distribution:
    """Of the sum of independent outcomes."""
    return Distribution(np.outer(one.chance, other.chance).ravel(), np.add.outer(one.value, other.value).ravel())


def _mixed(parts: list[tuple[float, Distribution]]) -> Distribution:
    kept = [(chance, one) for chance, one in parts if chance > 0]
    chance = np.concatenate([chance * one.chance for chance, one in kept])
    return Distribution(chance, np.concatenate([one.value for _, one in kept]))
