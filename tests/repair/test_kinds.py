"""Answers that are rewards or preferences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import semiope as so
from semiope.domains import sepsis, tree
from semiope.models.case import Case, Records
from semiope.models.places import Places
from semiope.repair.kinds import as_returns
from semiope.repair.preferences import Comparisons, _newton, fitted
from tests.repair.measure import rmse

pytestmark = pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")


def tree_case(n: int = 2000, name: str = "uniform") -> tuple[Any, so.Episodes, Case]:
    world = tree.tree(3, slip=0.2, reward_std=0.1)
    episodes = world.sample(n, seed=1)
    return world, episodes, Case(Records(episodes, ("x", "y"), 1.0), world.policies[name], name)


def questions(episodes: so.Episodes) -> tuple[Any, Any]:
    """Every decision, and the action that was not taken there."""
    rows = np.flatnonzero(episodes.action >= 0)
    other = ["y" if episodes.actions[int(a)] == "x" else "x" for a in episodes.action[rows]]
    return rows, np.array(other)


def columns(episodes: so.Episodes, rows: Any, action: Any, **more: Any) -> so.Annotations:
    episode = np.searchsorted(episodes.offsets, rows, side="right") - 1
    labels = episodes.labels.decode(episode)
    return so.Annotations.from_arrays(episode=labels, step=episodes.step[rows], action=action, **more)


def test_rewards_are_completed_by_the_model() -> None:
    """The tree pays in its final states only: a reward of 0 becomes what usually follows."""
    world, episodes, case = tree_case()
    rows, other = questions(episodes)
    exact = world.mdp.action_values(world.policies["uniform"])
    state = world.mdp.states.positions_of(episodes.states)[episodes.state[rows]]
    ids = np.where(other == "x", *(np.flatnonzero(np.array(world.mdp.actions.words.to_pylist()) == a)[0] for a in "xy"))
    rewards = world.mdp.reward[state, ids]
    given = columns(episodes, rows, other, value=rewards, kind=["reward"] * len(rows))
    found, notes = as_returns(given, case)
    assert found.said is None
    assert "answers completed" in notes[0]
    assert found.std is not None
    off = found.value - exact[episodes.step[rows], state, ids]
    assert np.abs(off).mean() < 0.05
    # The uncertainty is of the size of the error.
    assert 1 / 3 < np.sqrt(np.mean(off**2) / np.mean(found.std**2)) < 3


def test_preferences_find_scale_and_order() -> None:
    """Experts who tell returns apart that differ by 0.5: found, and answers near the truth."""
    world, episodes, case = tree_case(4000)
    rows, other = questions(episodes)
    exact = world.mdp.action_values(world.policies["uniform"])
    state = world.mdp.states.positions_of(episodes.states)[episodes.state[rows]]
    words = np.array(world.mdp.actions.words.to_pylist())
    ids = np.array([np.flatnonzero(words == a)[0] for a in other])
    step = episodes.step[rows]
    ahead = exact[step, state, ids] - exact[step, state, 1 - ids]
    surely = 1 / (1 + np.exp(-ahead / 0.5))
    value = (np.random.default_rng(1).random(len(rows)) < surely).astype(float)
    given = columns(episodes, rows, other, value=value, kind=["preference"] * len(rows))
    found, notes = as_returns(given, case)
    scale = float(notes[0].split("beta ")[1].rstrip("."))
    assert scale == pytest.approx(0.5, rel=0.25)
    answers = {(r["episode"], r["step"], r["action"]): r["value"] for r in found.to_arrow().to_pylist()}
    episode = np.searchsorted(episodes.offsets, rows, side="right") - 1
    for i in range(0, len(rows), 97):
        told = answers[episodes.labels[int(episode[i])], int(step[i]), other[i]]
        assert told == pytest.approx(exact[step[i], state[i], ids[i]], abs=0.35)


def test_preferences_on_sepsis() -> None:
    """Noisy preferences against the action taken alone bring c-pdis far below pdis."""
    world = sepsis.world()
    name = "flip-100-seed-42"
    policy = world.policies[name]
    episodes = world.sample(1000, seed=3)
    exact = world.annotate(episodes, policy)
    row = episodes.rows_of(exact.labels, exact.episode, exact.step, "answers")
    returns = world.mdp.action_values(policy)
    state = world.mdp.states.positions_of(episodes.states)[episodes.state[row]]
    taken = world.mdp.actions.positions_of(episodes.actions)[episodes.action[row]]
    ahead = exact.value - returns[exact.step, state, taken]
    value = (np.random.default_rng(1).random(len(row)) < 1 / (1 + np.exp(-ahead / 0.1))).astype(float)
    table = exact.to_arrow().set_column(3, "value", [value]).append_column("kind", [["preference"] * len(row)])
    preferences = so.Annotations.from_arrow(table)
    only = {name: policy}
    with_them = rmse(world, only, episodes, {name: preferences}, None)
    without = rmse(world, only, episodes, None, None, estimator="pdis")
    assert with_them < 0.6 * without


def test_circles_are_allowed_and_separate_sets_reported() -> None:
    episodes = so.Episodes.from_arrays(
        episode=range(8), step=[0] * 8, state=["s"] * 8, action=list("abcdabcd"), reward=[1.0, 2.0, 3.0, 4.0] * 2
    )
    policy = so.Policy.from_arrow({"state": ["s"], "action": ["a"], "prob": [1.0]})
    case = Case(Records(episodes, tuple("abcd"), 1.0), policy, "p")
    at = Places(np.zeros(3, dtype=int), np.zeros(3, dtype=int), np.array([0, 1, 2]))
    known = np.ones((1, 4), dtype=bool)
    circle = fitted(case, case.expected, Comparisons(at, np.array([1, 2, 0]), np.ones(3)), known)
    assert np.isfinite(circle.correction).all()
    assert len(circle.apart) == 0
    at = Places(np.zeros(2, dtype=int), np.zeros(2, dtype=int), np.array([0, 2]))
    apart = fitted(case, case.expected, Comparisons(at, np.array([1, 3]), np.zeros(2)), known)
    assert apart.apart.tolist() == [0]
    answers = so.Annotations.from_arrays(
        episode=[0, 0], step=[0, 0], action=["b", "c"], versus=["a", "d"], value=[0, 0], kind=["preference"] * 2
    )
    warned = so.evaluate(episodes, policy, annotations=answers, estimators=["c-pdis"]).warnings
    assert any("sets that no comparison connects (first: 's')" in warning for warning in warned)


def test_kinds_may_be_mixed() -> None:
    """Returns, rewards and preferences together, by several annotators; empty means return and the action taken."""
    world, episodes, case = tree_case(300)
    rows, other = questions(episodes)
    kinds = np.array(["return", "reward", "preference", None], dtype=object)[np.arange(len(rows)) % 4]
    value = np.where(kinds == "preference", 0.9, 1.5)
    who = np.where(np.arange(len(rows)) % 2 == 0, "ann", "bob")
    given = columns(episodes, rows, other, value=value, kind=pa.array(list(kinds)), annotator=who)
    again = so.Annotations.from_arrow(given.to_arrow())
    assert given.said is not None
    assert again.said is not None
    assert again.said.kind.tolist() == given.said.kind.tolist()
    found, notes = as_returns(given, case)
    assert len(notes) == 2
    assert len(found) == len(rows)
    assert found.annotator is not None
    assert set(found.annotator.to_pylist()) == {"ann", "bob", "(preferences)"}
    result = so.evaluate(
        episodes, world.policies["uniform"], annotations=given, repair="pool,model", estimators=["c-pdis"]
    )
    assert np.isfinite(result["c-pdis"].value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": ["returns"]}, "column 'kind' is not known in 1 row.*Use return, reward, preference"),
        ({"kind": ["preference"], "value": [2.0]}, "column 'value' is not in"),
        ({"kind": ["preference"], "versus": ["b"]}, "column 'versus' is the action itself"),
        ({"kind": ["reward"], "versus": ["a"]}, "column 'versus' is given"),
        ({"kind": ["preference"], "versus": [1]}, "column 'versus' holds integers"),
        ({"kind": ["preference"], "versus": ["nobody"]}, "nobody"),
        ({"kind": ["preference"], "action": ["a"]}, "of the action taken to itself"),
        ({"std": [0.0]}, "column 'std' is not positive"),
        ({"std": [-1.0]}, "column 'std' is not positive"),
    ],
)
def test_bad_kinds(change: dict[str, Any], message: str) -> None:
    episodes = so.Episodes.from_arrays(
        episode=[0, 1], step=[0, 0], state=["s", "s"], action=["a", "b"], reward=[0.0, 1.0]
    )
    policy = so.Policy.from_arrow({"state": ["s"], "action": ["b"], "prob": [1.0]})
    answer: dict[str, Any] = {"episode": [0], "step": [0], "action": ["b"], "value": [1.0], **change}
    with pytest.raises(so.SchemaError, match=message):
        so.evaluate(episodes, policy, annotations=so.Annotations.from_arrays(**answer))


def test_preferences_leave_no_room_for_weights() -> None:
    _, episodes, case = tree_case(50)
    rows, other = questions(episodes)
    n = len(rows)
    given = columns(episodes, rows, other, value=np.ones(n), kind=["preference"] * n, weight=np.full(n, 0.5))
    with pytest.raises(so.SchemaError, match="Leave the column out"):
        as_returns(given, case)
    with pytest.raises(so.SchemaError, match="no returns yet"):
        case.records.aligned(given)


@pytest.mark.parametrize("agreeing", [1, 10, 100])
def test_agreement_about_an_action_never_logged_does_not_carry_it_away(agreeing: int) -> None:
    """a pays 0, b pays 1, all prefer b to a and c to b: c is just above 1, however many say so."""
    n = 200
    rewards = np.where(np.arange(n) % 2 == 0, 0.0, 1.0) + 0.1 * np.random.default_rng(1).normal(size=n)
    episodes = so.Episodes.from_arrays(
        episode=range(n), step=[0] * n, state=["s"] * n, action=["a", "b"] * (n // 2), reward=rewards
    )
    policy = so.Policy.from_arrow({"state": ["s"], "action": ["c"], "prob": [1.0]})
    some = 2 * np.arange(agreeing) + 1  # b was taken
    told = so.Annotations.from_arrays(
        episode=[*range(0, n, 2), *some], step=[0] * (n // 2 + agreeing), action=["b"] * (n // 2) + ["c"] * agreeing,
        value=np.ones(n // 2 + agreeing), kind=["preference"] * (n // 2 + agreeing),
    )  # fmt: skip
    found = so.evaluate(episodes, policy, annotations=told, estimators=["dm+"])["dm+"].value
    assert 0.9 < found < 1.4


def test_preferences_need_no_std() -> None:
    _, episodes, case = tree_case(200)
    rows, other = questions(episodes)
    kinds = np.where(np.arange(len(rows)) % 2 == 0, "preference", "return")
    std = pa.array([None if kind == "preference" else 0.5 for kind in kinds], pa.float64())
    given = columns(episodes, rows, other, value=np.ones(len(rows)), kind=kinds, std=std)
    found, _ = as_returns(given, case)
    assert found.std is not None
    assert (found.std > 0).all()


def two_actions(n: int = 20) -> tuple[so.Episodes, so.Policy, Case]:
    """One state, one step: a pays 0 or 1, b pays 1 or 2."""
    rewards = np.tile([0.0, 1.0, 1.0, 2.0], n // 4)
    episodes = so.Episodes.from_arrays(
        episode=range(n), step=[0] * n, state=["s"] * n, action=["a", "b"] * (n // 2), reward=rewards
    )
    policy = so.Policy.from_arrow({"state": ["s"], "action": ["b"], "prob": [1.0]})
    return episodes, policy, Case(Records(episodes, ("a", "b"), 1.0), policy, "p")


def test_the_mode_and_spread_of_preferences_are_those_of_a_grid() -> None:
    """Two actions, 7 of 10 prefer a: posterior mode and standard deviation by brute force over both corrections."""
    _, _, case = two_actions()
    at = Places(np.zeros(10, dtype=int), np.zeros(10, dtype=int), np.zeros(10, dtype=int))
    value = np.array([1.0] * 7 + [0.0] * 3)
    found = fitted(case, case.expected, Comparisons(at, np.ones(10, dtype=int), value), np.ones((1, 2), dtype=bool))
    prior = case.records.scatter**2 / 10  # ten logs each
    ahead = float(case.expected[0, 0, 0] - case.expected[0, 0, 1])
    grid = np.linspace(-1.5, 1.5, 601)
    a, b = np.meshgrid(grid, grid, indexing="ij")
    x = (ahead + a - b) / found.beta
    log = -(a**2 + b**2) / (2 * prior) + 7 * x - 10 * np.logaddexp(0, x)
    mode = np.unravel_index(log.argmax(), log.shape)
    assert found.correction[0] == pytest.approx([grid[mode[0]], grid[mode[1]]], abs=0.006)
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    spread = [float(np.sqrt((weight * (z - (weight * z).sum()) ** 2).sum())) for z in (a, b)]
    assert found.std[0] == pytest.approx(spread, rel=0.05)
    assert found.correction[0, 0] > 0 > found.correction[0, 1]


def test_the_scale_is_not_taken_from_noise() -> None:
    """Few noisy logs a pair: differences of means overstate those of returns, and beta must not follow them."""
    rng = np.random.default_rng(1)
    states, logs, beta = 300, 8, 1.0
    truth = rng.normal(size=(states, 2))
    state = np.repeat(np.arange(states), 2 * logs)
    action = np.tile(np.repeat([0, 1], logs), states)
    n = len(state)
    episodes = so.Episodes.from_arrays(
        episode=range(n), step=[0] * n, state=state, action=action, reward=truth[state, action] + 2 * rng.normal(size=n)
    )
    ahead = truth[state, 1 - action] - truth[state, action]
    value = (rng.random(n) < 1 / (1 + np.exp(-ahead / beta))).astype(float)
    given = so.Annotations.from_arrays(
        episode=range(n), step=[0] * n, action=1 - action, value=value, kind=["preference"] * n
    )
    policy = so.Policy.from_table(np.full((states, 2), 0.5))
    case = Case(Records(episodes, (0, 1), 1.0), policy, "p")
    found, notes = as_returns(given, case)
    assert float(notes[0].split("beta ")[1].rstrip(".")) == pytest.approx(beta, rel=0.3)
    row = found.episode
    before = case.expected[0, state[row], 1 - action[row]] - truth[state[row], 1 - action[row]]
    after = found.value - truth[state[row], 1 - action[row]]
    assert np.mean(after**2) < 0.8 * np.mean(before**2)


def test_sharp_experts_move_the_returns_as_far_as_it_takes() -> None:
    """Logs say b by 1, 100 experts say a, and tell returns apart that differ by 0.001: a it is, and no further."""
    n = 100
    prior, correction, variance = np.full((1, 2), 0.25), np.zeros((1, 2)), np.zeros((1, 2))
    ids = np.zeros(n, dtype=np.int64)
    _newton(
        np.array([0]), np.array([0, n]), ids, ids + 1, np.full(n, -1.0), np.ones(n), 1e-3, prior, correction, variance
    )
    ahead = -1.0 + correction[0, 0] - correction[0, 1]
    assert 0 < ahead < 0.05


def test_rewards_before_the_end_by_hand() -> None:
    """Two steps, gamma 0.5: x leads to y (worth 4) or z (worth 0); the answer's reward replaces the logs'."""
    episodes = so.Episodes.from_arrays(
        episode=[0, 0, 1, 1, 2, 2, 3, 3], step=[0, 1] * 4, state=["x", "y", "x", "z", "x", "y", "x", "z"],
        action=["a", "a", "a", "a", "b", "a", "a", "a"], reward=[1.0, 4.0, 1.0, 0.0, 9.0, 4.0, 1.0, 0.0],
    )  # fmt: skip
    policy = so.Policy.from_arrow({"state": ["x", "y", "z"], "action": ["a"] * 3, "prob": [1.0] * 3})
    case = Case(Records(episodes, ("a", "b"), 0.5), policy, "p")
    given = so.Annotations.from_arrays(episode=[2], step=[0], action=["a"], value=[3.0], std=[0.1], kind=["reward"])
    found, _ = as_returns(given, case)
    assert found.value == pytest.approx([3 + 0.5 * 4 / 3])
    assert found.std is not None
    # V of y and z is 4, 0: variance of 0.5 V over three transitions 32/9/4; in general, over the rows, x worth 5/3.
    worth = np.array([5 / 3, 4, 5 / 3, 0, 5 / 3, 4, 5 / 3, 0])
    spread = (3 * 0.25 * 32 / 9 + 0.25 * worth.var()) / 4
    assert found.std == pytest.approx([np.sqrt(0.01 + spread / 3)])
