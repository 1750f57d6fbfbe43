"""The empirical model of logged episodes."""

from __future__ import annotations

import numpy as np
import pytest

import semiope as so
from tests.models.test_tabular import dense, random_mdp, random_policy


def logs() -> so.Episodes:
    """Two states with decisions, a final one; two episodes end by themselves, one is cut at step 2."""
    rows = [
        ("a", 0, "x", "go", 0.0), ("a", 1, "y", "go", 1.0), ("a", 2, "end", None, 5.0),
        ("b", 0, "x", "go", 2.0), ("b", 1, "x", "stay", 1.0),
        ("c", 0, "x", "go", 1.0), ("c", 1, "y", "go", 3.0), ("c", 2, "x", "go", 1.0),
    ]  # fmt: skip
    names = ("episode", "step", "state", "action", "reward")
    return so.Episodes.from_arrow(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def test_by_hand() -> None:
    mdp, counts = so.empirical_mdp(logs(), gamma=0.5)
    assert mdp.states.words.to_pylist() == ["end", "x", "y"]
    assert mdp.actions.words.to_pylist() == ["go", "stay"]
    assert counts.tolist() == [[0, 0], [4, 1], [2, 0]]
    assert mdp.horizon == 3
    assert mdp.terminal.tolist() == [True, False, False]
    assert mdp.initial.tolist() == [0, 1, 0]
    assert mdp.reward[1].tolist() == [1.0, 1.0]
    assert mdp.reward_std[1].tolist() == pytest.approx([0.5**0.5, 0.0])
    assert mdp.reward[0].tolist() == [5.0, 5.0]
    # x, go: y twice, x once; the last row of c was cut and says nothing.
    assert dense(mdp)[1, 0] == pytest.approx([0, 1 / 3, 2 / 3])
    assert dense(mdp)[1, 1].sum() == 0.0  # b ended with it
    assert dense(mdp)[2, 0] == pytest.approx([0.5, 0.5, 0])
    assert mdp.available.tolist() == [[True, True], [True, True], [True, False]]


def test_a_cut_may_count_as_an_end() -> None:
    mdp, _ = so.empirical_mdp(logs(), truncated="end")
    assert dense(mdp)[1, 0] == pytest.approx([0, 1 / 4, 2 / 4])


def test_a_longer_horizon_makes_cuts_ends() -> None:
    mdp, _ = so.empirical_mdp(logs(), horizon=4)
    assert mdp.horizon == 4
    assert dense(mdp)[1, 0] == pytest.approx([0, 1 / 4, 2 / 4])


def test_pairs_seen_only_at_a_cut_end_there_and_final_rewards_scatter() -> None:
    rows = {"episode": [0, 0, 1, 1], "step": [0, 1, 0, 1], "state": ["x", "y", "x", "end"]}
    mdp, _ = so.empirical_mdp(so.Episodes.from_arrays(**rows, action=[0, 0, 0, -1], reward=[0.0, 3.0, 0.0, 1.0]))
    assert dense(mdp)[mdp.states.words.to_pylist().index("y"), 0].sum() == 0.0
    rows["state"] = ["x", "end", "x", "end"]
    mdp, _ = so.empirical_mdp(so.Episodes.from_arrays(**rows, action=[0, -1, 0, -1], reward=[0.0, 3.0, 0.0, 1.0]))
    assert (mdp.reward[0, 0], mdp.reward_std[0, 0]) == (2.0, 1.0)


def test_unseen_actions_may_be_given_a_reward() -> None:
    mdp, _ = so.empirical_mdp(logs(), unseen=-1.0)
    assert mdp.available.all()
    assert mdp.action_values(np.full((3, 2), 0.5))[0, 2, 1] == -1.0
    refused, _ = so.empirical_mdp(logs())
    with pytest.raises(so.SchemaError, match=r"not available in 1 pair. First: state 'y' action 'stay'"):
        refused.value(np.full((3, 2), 0.5))


def test_actions_that_nobody_took_may_exist() -> None:
    mdp, counts = so.empirical_mdp(logs(), actions=["run"], unseen=-2.0)
    assert mdp.actions.words.to_pylist() == ["go", "stay", "run"]
    assert counts[:, 2].tolist() == [0, 0, 0]
    policy = so.Policy.from_arrow({"state": ["x", "y"], "action": ["run", "run"], "prob": [1.0, 1.0]})
    assert mdp.value(policy) == -2.0
    with pytest.raises(so.SchemaError, match="the model has no action 'run'"):
        so.empirical_mdp(logs())[0].value(policy)


def test_it_comes_close_to_the_truth() -> None:
    """40,000 episodes: the values' standard errors, found by simulation, are below 0.006; four of them."""
    truth = random_mdp(1, horizon=4)
    behavior = random_policy(1, truth)
    mdp, _ = so.empirical_mdp(truth.sample(behavior, 40_000, seed=3), gamma=truth.gamma)
    other = random_policy(2, truth)
    assert mdp.value(truth.policy(behavior)) == pytest.approx(truth.value(behavior), abs=0.024)
    assert mdp.value(truth.policy(other)) == pytest.approx(truth.value(other), abs=0.024)


def test_its_behaviour_value_is_the_mean_return() -> None:
    """Where no state is met twice in an episode and nothing is cut: today's policy is worth the logs' mean return."""
    rows = {"episode": [0, 0, 1, 2, 2], "step": [0, 1, 0, 0, 1], "state": ["x", "u", "x", "x", "v"]}
    episodes = so.Episodes.from_arrays(**rows, action=[0, 1, 1, 0, 0], reward=[1.0, 2.0, 7.0, 3.0, 4.0])
    mdp, _ = so.empirical_mdp(episodes, truncated="end")
    assert mdp.value(so.estimate_behavior(episodes)) == pytest.approx((3 + 7 + 7) / 3)


def test_a_state_that_is_met_again_is_pooled_over_steps() -> None:
    """x, x, x and x with a reward of 1 each: from x it goes on with 1/2, up to three steps in all."""
    rows = {"episode": [0, 0, 0, 1], "step": [0, 1, 2, 0], "state": ["x"] * 4}
    mdp, _ = so.empirical_mdp(so.Episodes.from_arrays(**rows, action=[0] * 4, reward=[1.0] * 4), truncated="end")
    assert mdp.value([[1.0]]) == 1 + 1 / 2 + 1 / 4


def test_logs_that_cannot_be_counted() -> None:
    rows = {"episode": [0, 0], "step": [0, 1], "state": ["x", "y"]}
    with pytest.raises(so.SchemaError, match=r"state 'x'\) has no action but is not the end"):
        so.empirical_mdp(so.Episodes.from_arrays(**rows, action=[-1, 0], reward=[0.0, 1.0]))
    rows["state"] = ["x", "x"]
    with pytest.raises(so.SchemaError, match=r"state 'x'\) has no action and a reward"):
        so.empirical_mdp(so.Episodes.from_arrays(**rows, action=[0, -1], reward=[0.0, 1.0]))
    with pytest.raises(so.SchemaError, match="no decision"):
        so.empirical_mdp(so.Episodes.from_arrays(episode=[0], step=[0], state=[0], action=[-1], reward=[1.0]))
    with pytest.raises(so.OptionError, match="horizon"):
        so.empirical_mdp(logs(), horizon="x")  # type: ignore[arg-type]
    with pytest.raises(so.OptionError, match="Did you mean 'unknown'"):
        so.empirical_mdp(logs(), truncated="unknwon")
