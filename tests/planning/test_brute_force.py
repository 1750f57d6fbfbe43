"""Where every set of questions can be tried, no set is much better than the one planned, whatever the budget."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

import semiope as so
from semiope.domains import bandit, tree
from semiope.domains.world import World
from tests.planning.cases import Floats, covariance, keys, places

MOST = 12  # questions


def random_bandit(seed: int) -> World:
    rng = np.random.default_rng(seed)
    n_states, n_actions = rng.integers(1, 6), rng.integers(2, 5)
    behavior = rng.dirichlet(np.full(n_actions, 0.5), size=n_states)
    return bandit.bandit(rng.normal(size=(n_states, n_actions)), float(rng.uniform(0.1, 1)), behavior=behavior)


def random_tree(seed: int) -> World:
    share = float(np.random.default_rng(seed).uniform(0.2, 0.8))
    return tree.tree(1 + seed % 3, reward_std=0.5, seed=seed, behavior=(share, 1 - share))


WORLDS: dict[str, World] = {
    "one state": bandit.one_state(),
    "two states": bandit.two_state(behavior=(0.8, 0.2)),
    **{f"bandit {seed}": random_bandit(seed) for seed in range(5)},
    **{f"tree {seed}": random_tree(seed) for seed in range(6)},
}
OPTIONS: list[dict[str, Any]] = [
    {"goal": "value", "noise": 0.01},
    {"goal": "difference", "noise": None},
    {"goal": "ranking", "noise": 1.0},
]


def variances(planner: Any, sets: Any) -> Floats:
    """What remains of all that is wanted after each set of questions, (n_sets, size), by whole matrices."""
    design, cell = planner.design, planner.matters.cell.astype(int)
    whole = covariance(design)
    told = whole[np.ix_(cell, cell)] + design.noise * np.eye(len(cell))
    wanted = design.mass @ whole[:, cell]
    parts = np.moveaxis(wanted[:, sets], 0, 1)
    solved = np.linalg.solve(told[sets[:, :, None], sets[:, None, :]], np.swapaxes(parts, 1, 2))
    found: Floats = np.trace(design.mass @ whole @ design.mass.T) - np.einsum("nwq,nqw->n", parts, solved)
    return found


def ratios(episodes: so.Episodes, policy: Any, **options: Any) -> list[float]:
    """Of the expected error of the plan to that of the best set, for every budget."""
    found = []
    for budget in range(1, MOST + 1):
        plan = so.plan(episodes, policy, budget, decoys=0, least_gain=0, **options)
        matters = plan.planner.matters
        n = len(matters.row)
        assert n <= MOST
        if budget > n:
            break
        assert plan.n_needed == budget
        own = matters.position(*places(plan.planner, keys(plan)))
        best = variances(plan.planner, np.array([*combinations(range(n), budget)])).min()
        found.append(float(np.sqrt(variances(plan.planner, own[None])[0] / best)))
    return found


def few(world: World, policies: Any, seed: int) -> so.Episodes:
    """As many episodes as have at most twelve questions."""
    for n in range(12, 1, -1):
        episodes = world.sample(n, seed=seed)
        try:
            matters = so.plan(episodes, policies, 1, least_gain=0).planner.matters
        except so.OptionError:
            continue
        if len(matters.row) <= MOST:
            return episodes
    raise AssertionError("there is nothing to ask")


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: options["goal"])
@pytest.mark.parametrize("name", WORLDS)
def test_no_set_of_questions_is_much_better(name: str, options: dict[str, Any]) -> None:
    world = WORLDS[name]
    policies = dict([*world.policies.items()][:3])
    one = [*world.policies.values()][1].soften(0.2)
    for policy in (one, policies):
        found = ratios(few(world, policy, seed=3), policy, **options)
        assert found
        assert max(found) < 1.1


def test_the_best_set_is_at_least_as_good_as_any_other() -> None:
    """That the ratios could tell: the worst sets are far worse than the best."""
    world = WORLDS["two states"]
    policy = [*world.policies.values()][1].soften(0.2)
    planner = so.plan(few(world, policy, seed=3), policy, 1, noise=0.01).planner
    found = variances(planner, np.array([*combinations(range(len(planner.matters.row)), 2)]))
    assert np.sqrt(found.max() / found.min()) > 1.1
