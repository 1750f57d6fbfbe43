"""Annotations that are rewards or preferences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import semiope as so
from semiope.domains import tree
from semiope.repair.kinds import as_returns
from tests.repair.measure import case_of

pytestmark = pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")


def questions(episodes: so.Episodes) -> tuple[Any, Any]:
    """Every decision, and the action that was not taken there."""
    rows = np.flatnonzero(episodes.action >= 0)
    other = ["y" if episodes.actions[int(a)] == "x" else "x" for a in episodes.action[rows]]
    return rows, np.array(other)


def columns(episodes: so.Episodes, rows: Any, action: Any, **more: Any) -> so.Annotations:
    labels = episodes.labels.decode(episodes.episode_of(rows))
    return so.Annotations.from_arrays(episode=labels, step=episodes.step[rows], action=action, **more)


def test_rewards_are_completed_by_what_the_logs_say_follows() -> None:
    """The tree pays in its final states only: a reward of 0 becomes what follows under the policy."""
    world = tree.tree(3, slip=0.2, reward_std=0.1)
    episodes = world.sample(2000, seed=1)
    case = case_of(episodes, world.policies["uniform"])
    rows, other = questions(episodes)
    given = columns(episodes, rows, other, value=np.zeros(len(rows)), kind=["reward"] * len(rows))
    found, notes = as_returns(given, case)
    assert found.said is None
    assert f"{len(rows):,} annotations completed" in notes[0]
    exact = so.annotate(episodes, world.mdp, world.policies["uniform"])
    assert not case.doubts
    off = found.value - exact.value
    assert np.abs(off).mean() < 0.05


def test_rewards_of_pairs_never_logged_are_left_out_and_named() -> None:
    """Nobody knows what follows them; the estimate says so, and is not taken for one."""
    world = tree.tree(3, behavior=(1.0, 0.0), slip=0.0)
    episodes, policy = world.sample(50, seed=1), world.policies["uniform"]
    rows, other = questions(episodes)
    given = columns(episodes, rows, other, value=np.zeros(len(rows)), kind=["reward"] * len(rows))
    with pytest.raises(so.SchemaError, match="not one is a return, or can be made one"):
        so.evaluate(episodes, policy, annotations=given)
    kind = np.where(np.arange(len(rows)) % 2 == 0, "reward", "return").tolist()
    mixed = columns(episodes, rows, other, value=np.zeros(len(rows)), kind=kind)
    with pytest.warns(so.StatisticalWarning, match="actions never logged in their state left out"):
        found = so.evaluate(episodes, policy, annotations=mixed)
    assert found.diagnostics["annotations"] == kind.count("return")


def test_at_the_last_step_a_reward_is_a_return() -> None:
    """A bandit: nothing follows, and pairs never logged can be annotated by their reward."""
    rows = {"episode": range(40), "step": [0] * 40, "state": [0] * 40, "action": [0] * 40, "reward": [1.0] * 40}
    policy = so.Policy.from_table([[0.0, 1.0]])
    given = so.Annotations.from_arrays(
        episode=range(40), step=[0] * 40, action=[1] * 40, value=[3.0] * 40, kind=["reward"] * 40
    )
    found = so.evaluate(rows, policy, annotations=given, estimators=["c-pdis", "pp-dr"])
    assert found["pp-dr"].value == pytest.approx(3.0)
    assert found["c-pdis"].value == pytest.approx(3.0)


def test_intervals_contain_what_completed_rewards_rest_on() -> None:
    """What follows comes from the logs: without each group of episodes in turn it is another."""
    world = tree.tree(3, slip=0.3, reward_std=1.0)
    episodes = world.sample(200, seed=1)
    rows, other = questions(episodes)
    given = columns(episodes, rows, other, value=np.zeros(len(rows)), kind=["reward"] * len(rows))
    estimate = so.evaluate(episodes, world.policies["mostly-y"], annotations=given, estimators=["pp-dr"])["pp-dr"]
    assert estimate.groups is not None
    assert estimate.std_error == estimate.groups.std_error > 1.2 * estimate.over_episodes


def test_preferences_are_left_out_and_named() -> None:
    """They have no scale: beside returns nothing changes, alone they are no answer."""
    world = tree.tree(3)
    episodes, policy = world.sample(200, seed=1), world.policies["uniform"]
    rows, other = questions(episodes)
    returns = world.annotate(episodes, "uniform", annotators=so.Annotator(ratio=0.3), seed=2)
    alone = so.evaluate(episodes, policy, annotations=returns)
    preferences = columns(episodes, rows, other, value=np.ones(len(rows)), kind=["preference"] * len(rows))
    table = so.read_annotations
    both = table(
        {
            name: [
                *returns.to_arrow().column(name).to_pylist(),
                *preferences.to_arrow().column(name).to_pylist(),
            ]
            for name in ("episode", "step", "action", "value")
        }
        | {"kind": ["return"] * len(returns) + ["preference"] * len(preferences)}
    )
    with pytest.warns(so.StatisticalWarning, match="not by how much. Ask for returns"):
        found = so.evaluate(episodes, policy, annotations=both)
    assert found["pp-dr"].unshrunk == pytest.approx(alone["pp-dr"].unshrunk)
    with pytest.raises(so.SchemaError, match="not one is a return"):
        so.evaluate(episodes, policy, annotations=preferences)


def test_preferences_beside_features_are_left_out_and_counted() -> None:
    """They change nothing, and a warning says how many were left out, and how many remain."""
    rng = np.random.default_rng(1)
    n, few = 200, 60
    x, action = rng.normal(size=n), rng.integers(2, size=n)
    table = {"episode": range(n), "step": [0] * n, "action": action, "reward": x + action, "x": x}
    episodes = so.read_episodes(table, features=["x"])
    policy = so.FeaturePolicy(lambda z: np.tile([0.2, 0.8], (len(z), 1)), actions=[0, 1])
    kind = np.where(np.arange(n) < few, "return", "preference")
    value = np.where(np.arange(n) < few, x + 1 - action, 1.0)
    both, returns = (
        so.Annotations.from_arrays(
            episode=np.arange(m), step=[0] * m, action=1 - action[:m], value=value[:m], kind=kind[:m].tolist()
        )
        for m in (n, few)
    )
    with pytest.warns(so.StatisticalWarning, match="preference: 140 annotations left out.* 60 annotations remain"):
        found = so.evaluate(episodes, policy, annotations=both)
    alone = so.evaluate(episodes, policy, annotations=returns)
    for name in ("pp-dr", "c-pdis"):
        assert found[name].value == pytest.approx(alone[name].value, abs=1e-12)
    some = np.flatnonzero(kind == "preference")
    with pytest.raises(so.SchemaError, match="140 preferences among them say which action is better, not by how much"):
        so.evaluate(episodes, policy, annotations=both.some(some))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": ["wish"] * 2}, "column 'kind' is not known"),
        ({"kind": ["preference"] * 2, "value": [0.5, 2.0]}, "column 'value' is not in"),
        ({"kind": ["preference"] * 2, "versus": ["y", "y"]}, "column 'versus' is the action itself"),
        ({"kind": ["return"] * 2, "versus": ["x", None]}, "column 'versus' is given"),
    ],
)
def test_bad_kinds(changes: dict[str, Any], message: str) -> None:
    given = {"episode": [0, 1], "step": [0, 0], "action": ["y", "y"], "value": [0.5, 0.5], **changes}
    with pytest.raises(so.SchemaError, match=message):
        so.Annotations.from_arrays(**given)


def test_rewards_need_states_that_recur() -> None:
    rows = {"episode": range(6), "step": [0] * 6, "state": range(6), "action": [0, 1] * 3, "reward": [1.0] * 6}
    listed = {"episode": range(6), "step": [0] * 6, "action": [1] * 6, "prob": [1.0] * 6}
    given = so.Annotations.from_arrays(episode=[0], step=[0], action=[1], value=[1.0], kind=["reward"])
    with pytest.raises(so.OptionError, match="needs a policy over states that recur"):
        so.evaluate(rows, so.read_policy(listed), annotations=given)
