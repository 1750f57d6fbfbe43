"""A tree: at each of T steps one of two actions leads to one of two children; leaves pay. Small enough to enumerate.

As in figure 1 every node is a state of its own, so that what annotations, weights and policies do can be followed along
each path. A state is named by the way to it: root, x, xy, ...
"""

from __future__ import annotations

from itertools import product
from numbers import Real
from typing import Any

import numpy as np

from semiope._arrays import Floats, as_floats
from semiope._options import check_count
from semiope._random import Seed, generator
from semiope.domains.world import World
from semiope.errors import OptionError, SchemaError
from semiope.models.checks import broadcast
from semiope.models.tabular import TabularMDP

ACTIONS = "xy"
LARGEST_DEPTH = 16


def tree(
    depth: int = 3,
    *,
    leaf_rewards: Any = None,
    reward_std: float = 0.0,
    slip: float = 0.1,
    gamma: float = 1.0,
    behavior: tuple[float, float] = (0.7, 0.3),
    seed: Seed = 0,
) -> World:
    """Build a tree of `depth` decisions; an action leads to the other child with probability `slip`.

    `leaf_rewards` has 2^depth entries in the order xx..x to yy..y; by default they are drawn, standard normal, with
    `seed`. A leaf is a terminal state: a row of its own, so that episodes have depth + 1 rows.
    """
    if check_count(depth, "depth") > LARGEST_DEPTH:
        raise OptionError(f"depth: {depth} is more than {LARGEST_DEPTH}; the number of states doubles with each step.")
    if not isinstance(slip, Real) or not 0 <= float(slip) <= 1:
        raise OptionError(f"slip: {slip} is not a probability.")
    n_leaves = len(ACTIONS) ** depth
    paid = generator(seed).normal(size=n_leaves) if leaf_rewards is None else as_floats(leaf_rewards, "leaf_rewards")
    if paid.shape != (n_leaves,):
        raise SchemaError(f"leaf_rewards: {paid.size} numbers; a tree of depth {depth} has {n_leaves} leaves.")
    ways = ["".join(way) for length in range(depth + 1) for way in product(ACTIONS, repeat=length)]
    mdp = _model(ways, paid, reward_std, slip, gamma, depth)
    shares = {"always-x": (1.0, 0.0), "always-y": (0.0, 1.0), "uniform": (0.5, 0.5), "mostly-y": (0.2, 0.8)}
    policies = {name: mdp.policy(np.tile(share, (len(ways), 1))) for name, share in shares.items()}
    return World(
        name="tree",
        mdp=mdp,
        behavior=mdp.policy(np.tile(as_floats(behavior, "behavior"), (len(ways), 1))),
        policies={**policies, "optimal": mdp.optimal(infinite=True)},
        askable=np.ones((len(ways), 2, 2), dtype=bool),
        state_words=tuple(
            f"leaf {way}" if leaf else f"node {way or 'root'}" for way, leaf in zip(ways, mdp.terminal, strict=True)
        ),
        action_words=tuple(ACTIONS),
    )


def _model(ways: list[str], paid: Floats, reward_std: float, slip: float, gamma: float, depth: int) -> TabularMDP:
    """The model of a tree whose nodes are reached by these ways, shorter ones first; the last ones are leaves."""
    n_inner = len(ways) - len(paid)
    # The children of node i are 2i + 1 and 2i + 2: the ways are in the order of a heap.
    state, action, child = (index.ravel() for index in np.indices((n_inner, 2, 2)))
    is_leaf = np.arange(len(ways)) >= n_inner
    return TabularMDP.from_sparse(
        state=state,
        action=action,
        next_state=2 * state + 1 + child,
        prob=np.where(action == child, 1 - slip, slip),
        reward=np.r_[np.zeros(n_inner), paid][:, None].repeat(2, axis=1),
        reward_std=(is_leaf * broadcast(reward_std, ((),), "reward_std"))[:, None].repeat(2, axis=1),
        initial=np.arange(len(ways)) == 0,
        terminal=is_leaf,
        gamma=gamma,
        horizon=depth + 1,
        states=[way or "root" for way in ways],
        actions=list(ACTIONS),
    )
