"""A tree: at each of T steps one of two actions leads to one of two children; leaves pay. Small enough to enumerate.

As in figure 1 every node is a state of its own, so that what annotations, weights and policies do can be followed along
each path. A state is named by the way to it: root, x, xy, ...
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from semiope._arrays import as_floats
from semiope._options import check_count
from semiope._random import Seed, generator
from semiope.domains.world import World
from semiope.errors import OptionError, SchemaError
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
    if not 1 <= check_count(depth, "depth") <= LARGEST_DEPTH:
        raise OptionError(f"depth: {depth} is more than {LARGEST_DEPTH}; the number of states doubles with each step.")
    if not 0 <= slip <= 1:
        raise OptionError(f"slip: {slip} is not a probability.")
    levels = [["".join(way) for way in product(ACTIONS, repeat=length)] for length in range(depth + 1)]
    ways = [way for level in levels for way in level]
    number = {way: i for i, way in enumerate(ways)}
    n_leaves, n_inner = len(levels[-1]), len(ways) - len(levels[-1])
    paid = generator(seed).normal(size=n_leaves) if leaf_rewards is None else as_floats(leaf_rewards, "leaf_rewards")
    if paid.shape != (n_leaves,):
        raise SchemaError(f"leaf_rewards: {paid.size} numbers; a tree of depth {depth} has {n_leaves} leaves.")
    entries = [
        (i, a, number[way + child], 1 - slip if child == action else slip)
        for i, way in enumerate(ways[:n_inner])
        for a, action in enumerate(ACTIONS)
        for child in ACTIONS
    ]
    state, action, next_state, prob = zip(*entries, strict=True)
    is_leaf = np.arange(len(ways)) >= n_inner
    mdp = TabularMDP.from_sparse(
        state=state,
        action=action,
        next_state=next_state,
        prob=prob,
        reward=np.where(is_leaf, np.r_[np.zeros(n_inner), paid], 0.0)[:, None].repeat(2, axis=1),
        reward_std=np.where(is_leaf, reward_std, 0.0)[:, None].repeat(2, axis=1),
        initial=np.eye(len(ways))[0],
        terminal=is_leaf,
        gamma=gamma,
        horizon=depth + 1,
        states=[way or "root" for way in ways],
        actions=list(ACTIONS),
    )
    shares = {"always-x": (1.0, 0.0), "always-y": (0.0, 1.0), "uniform": (0.5, 0.5), "mostly-y": (0.2, 0.8)}
    policies = {name: mdp.policy(np.tile(share, (len(ways), 1))) for name, share in shares.items()}
    return World(
        name="tree",
        mdp=mdp,
        behavior=mdp.policy(np.tile(behavior, (len(ways), 1))),
        policies={**policies, "optimal": mdp.optimal(infinite=True)},
        askable=np.ones((len(ways), 2, 2), dtype=bool),
        words=tuple(
            f"leaf {way}" if leaf else f"node {way or 'root'}" for way, leaf in zip(ways, is_leaf, strict=True)
        ),
        action_words=tuple(ACTIONS),
    )
