"""Contextual Gaussian bandits: one step, rewards N(mean, std^2); those of section 5.1 and appendix E.1 as instances.

In the paper's bandits every policy takes the first action in s2, and only counterfactuals in s1 are annotated; a policy
is named by its probabilities in s1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from semiope._arrays import as_floats
from semiope._memory import refuse_beyond_memory
from semiope.domains.world import World
from semiope.errors import SchemaError
from semiope.models.checks import flags
from semiope.models.tabular import TabularMDP
from semiope.policies.policy import Policy

PAPER_STD = 0.5
# The policies of the paper's tables, by their probabilities in s1.
PAPER_POLICIES = ((1.0, 0.0), (0.0, 1.0), (0.5, 0.5), (0.1, 0.9), (0.8, 0.2))


def bandit(
    reward_means: Any,
    reward_std: Any,
    *,
    initial: Any = None,
    behavior: Any = None,
    policies: Mapping[str, Any] | None = None,
    askable: Any = None,
    states: Sequence[str] | None = None,
    actions: Sequence[str] | None = None,
) -> World:
    """Build a bandit from mean rewards (n_states, n_actions), their std, and the distribution of states.

    Defaults: states equally likely, a uniform behaviour policy, evaluation policies that always take one action, every
    counterfactual askable.
    """
    means = as_floats(reward_means, "reward_means")
    if means.ndim != 2 or not means.size:
        raise SchemaError(f"reward_means: an array of shape {means.shape}; give (n_states, n_actions).")
    refuse_beyond_memory(2.0 * means.size * means.shape[1], "what can be asked for", "Take fewer actions.")
    n_states = means.shape[0]
    mdp = TabularMDP.one_step(
        means,
        reward_std=reward_std,
        initial=np.full(n_states, 1 / n_states) if initial is None else initial,
        states=[f"s{i + 1}" for i in range(n_states)] if states is None else states,
        actions=[f"a{i + 1}" for i in range(means.shape[1])] if actions is None else actions,
    )
    n_actions = mdp.n_actions
    if policies is None:
        always = np.eye(n_actions)[:, None].repeat(n_states, axis=1)
        policies = {f"always-{mdp.actions[i]}": always[i] for i in range(n_actions)}
    return World(
        name="bandit",
        mdp=mdp,
        behavior=_policy(mdp, np.full(means.shape, 1 / n_actions) if behavior is None else behavior),
        policies={name: _policy(mdp, probs) for name, probs in policies.items()},
        askable=flags(askable, (n_states, n_actions, n_actions), True, "askable"),
        state_words=tuple(str(mdp.states[i]) for i in range(n_states)),
        action_words=tuple(str(mdp.actions[i]) for i in range(n_actions)),
    )


def two_state(
    reward_means: Sequence[float] = (1.0, 2.0),
    behavior: Sequence[float] = (0.5, 0.5),
    *,
    other_mean: float = 1.0,
    reward_std: float = PAPER_STD,
) -> World:
    """The paper's two-state bandit: mean rewards of up and down in s1, `other_mean` for both in s2.

    Section 5.1 has `other_mean` 1, the tables of appendix E.1 have 0.
    """
    askable = np.zeros((2, 2, 2), dtype=bool)
    askable[0] = True
    return bandit(
        [list(reward_means), [other_mean, other_mean]],
        reward_std,
        behavior=in_s1(behavior, n_states=2),
        policies={name_of(probs): in_s1(probs, n_states=2) for probs in PAPER_POLICIES},
        askable=askable,
        actions=("up", "down"),
    )


def one_state(
    reward_means: Sequence[float] = (1.0, 2.0),
    behavior: Sequence[float] = (0.5, 0.5),
    *,
    reward_std: Any = PAPER_STD,
) -> World:
    """The paper's one-state bandit: mean rewards and their std (one, or one for each action)."""
    return bandit(
        [list(reward_means)],
        reward_std,
        behavior=[list(behavior)],
        policies={name_of(probs): [list(probs)] for probs in PAPER_POLICIES},
        actions=("up", "down"),
    )


def in_s1(probs: Sequence[float], *, n_states: int) -> list[list[float]]:
    """A policy given by its probabilities in s1; elsewhere it takes the first action."""
    return [list(probs), *([[1.0, 0.0]] * (n_states - 1))]


def name_of(probs: Sequence[float]) -> str:
    """The name of a policy by its probabilities in s1, such as '0.1-0.9'."""
    return "-".join(f"{prob:g}" for prob in probs)


def _policy(mdp: TabularMDP, probs: Any) -> Policy:
    return probs if isinstance(probs, Policy) else mdp.policy(as_floats(probs, "policy"))
