"""The tree: its shape, its values by hand, its labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import semiope as so
from semiope.domains import bandit, tree


def test_values_by_hand() -> None:
    world = tree.tree(2, leaf_rewards=[1.0, 2.0, 3.0, 4.0], slip=0.0, gamma=0.5)
    assert world.mdp.states.words.to_pylist() == ["root", "x", "y", "xx", "xy", "yx", "yy"]
    assert world.mdp.value(world.policies["always-y"]) == 0.25 * 4.0
    assert world.mdp.value(world.policies["uniform"]) == 0.25 * 2.5
    assert world.mdp.value(world.policies["optimal"]) == 0.25 * 4.0
    slipping = tree.tree(2, leaf_rewards=[1.0, 2.0, 3.0, 4.0], slip=0.25)
    assert slipping.mdp.value(slipping.policies["always-x"]) == pytest.approx(1 + 2 * 0.25 + 0.25)


def test_shape() -> None:
    world = tree.tree(5)
    assert (world.mdp.n_states, world.mdp.horizon) == (63, 6)
    episodes = world.sample(100, seed=0)
    assert set(episodes.lengths.tolist()) == {6}
    # A row's state is named by the way to it.
    depth = [0 if word == "root" else len(word) for word in episodes.states.decode(episodes.state).to_pylist()]
    assert np.array_equal(depth, episodes.step)


def test_the_deepest_tree_fits() -> None:
    world = tree.tree(tree.LARGEST_DEPTH)
    assert world.mdp.n_states == 2**17 - 1
    assert world.sample(10).lengths.tolist() == [17] * 10


def test_annotations_make_it_exact_without_noise() -> None:
    """Rewards, transitions and annotations without randomness: C*-PDIS of a deterministic policy is exact."""
    world = tree.tree(3, slip=0.0)
    episodes = world.sample(20, seed=0)
    found = so.evaluate(
        episodes, world.policies["always-y"], annotations=world.annotate(episodes, "always-y"), estimators=["c*-pdis"]
    )["c*-pdis"]
    assert found.values == pytest.approx(np.full(20, world.mdp.value(world.policies["always-y"])))


def test_the_seed_draws_the_leaves() -> None:
    assert np.array_equal(tree.tree(seed=1).mdp.reward, tree.tree(seed=1).mdp.reward)
    assert not np.array_equal(tree.tree(seed=1).mdp.reward, tree.tree(seed=2).mdp.reward)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"depth": 0}, "depth: 0"),
        ({"depth": 17}, "doubles with each step"),
        ({"depth": 2, "leaf_rewards": [1.0]}, "4 leaves"),
        ({"slip": 1.5}, "slip: 1.5"),
        ({"slip": "often"}, "slip: often"),
        ({"behavior": (0.5, 0.6)}, "sum to 1.1"),
        ({"behavior": (1.0,)}, r"give \(15, 2\)"),
        ({"reward_std": -1.0}, "reward_std: negative"),
    ],
)
def test_bad_trees(options: dict[str, Any], message: str) -> None:
    with pytest.raises(so.SemiopeError, match=message):
        tree.tree(**options)


def test_a_bandit_of_ones_own() -> None:
    world = bandit.bandit([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], 0.1, initial=[0.25, 0.75])
    assert list(world.policies) == ["always-a1", "always-a2", "always-a3"]
    assert world.mdp.value(world.policies["always-a2"]) == pytest.approx(0.25 * 1 + 0.75 * 4)
    assert world.mdp.value(world.behavior) == pytest.approx(0.25 * 1 + 0.75 * 4)
    with pytest.raises(so.SchemaError, match="initial"):
        bandit.bandit([[0.0, 1.0]], 0.1, initial=[0.5])
    with pytest.raises(so.SchemaError, match="reward"):
        bandit.bandit([0.0, 1.0], 0.1)
    for wrong in (1.0, (), None):
        with pytest.raises(so.SchemaError, match="reward_means"):
            bandit.bandit(wrong, 0.1)
    with pytest.raises(so.SchemaError, match=r"give \(1, 2\)"):
        bandit.bandit([[0.0, 1.0]], 0.1, behavior=[[1.0]])
    with pytest.raises(so.SchemaError, match="askable"):
        bandit.bandit([[0.0, 1.0]], 0.1, askable=np.ones((2, 2), dtype=bool))
