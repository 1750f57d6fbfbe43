"""The worlds that every test of worlds goes through."""

from __future__ import annotations

from functools import cache

from semiope.domains import bandit, sepsis, tree
from semiope.domains.world import World


@cache
def all_worlds() -> dict[str, World]:
    return {
        "sepsis": sepsis.world(),
        "two-state bandit": bandit.two_state(behavior=(0.8, 0.2)),
        "one-state bandit": bandit.one_state(),
        "tree": tree.tree(depth=4, reward_std=0.3, gamma=0.9),
    }


NAMES = ("sepsis", "two-state bandit", "one-state bandit", "tree")
