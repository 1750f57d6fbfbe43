"""Exact answers of tabular models, against brute force and by hand."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import semiope as so

Floats = NDArray[np.float64]


def random_mdp(
    seed: int, *, n_states: int = 4, n_actions: int = 3, horizon: int = 3, gamma: float = 0.9
) -> so.TabularMDP:
    """The last state is terminal; episodes may end after any step."""
    rng = np.random.default_rng(seed)
    following = rng.dirichlet(np.ones(n_states + 1), size=(n_states - 1, n_actions))
    state, action, target = np.indices(following.shape)
    reward = rng.normal(size=(n_states, n_actions))
    reward[-1] = reward[-1, 0]
    return so.TabularMDP.from_sparse(
        state=state, action=action, next_state=target - 1, prob=following, reward=reward,
        initial=rng.dirichlet(np.ones(n_states)), terminal=np.arange(n_states) == n_states - 1,
        gamma=gamma, horizon=horizon,
    )  # fmt: skip


def random_policy(seed: int, mdp: so.TabularMDP, *, per_step: bool = False) -> Floats:
    size = (mdp.horizon, mdp.n_states) if per_step else (mdp.n_states,)
    return np.random.default_rng(seed).dirichlet(np.ones(mdp.n_actions), size=size)


def dense(mdp: so.TabularMDP) -> Floats:
    """Transition probabilities (state, action, next state), with what ends left out."""
    t = mdp.transitions
    table = np.zeros((mdp.n_states * mdp.n_actions, mdp.n_states + 1))
    table[np.repeat(np.arange(len(table)), np.diff(t.offsets)), t.following] = t.prob
    return table[:, :-1].reshape(mdp.n_states, mdp.n_actions, mdp.n_states)


def walk(mdp: so.TabularMDP, policy: Floats, state: int, step: int) -> float:
    """The value of a state by going through every path, in plain Python."""
    if step == mdp.horizon:
        return 0.0
    if mdp.terminal[state]:
        return float(mdp.reward[state, 0])
    probs = policy[step] if policy.ndim == 3 else policy
    total = 0.0
    for action in range(mdp.n_actions):
        ahead = sum(p * walk(mdp, policy, s, step + 1) for s, p in enumerate(dense(mdp)[state, action]))
        total += probs[state, action] * (mdp.reward[state, action] + mdp.gamma * ahead)
    return total


@pytest.mark.parametrize("per_step", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_values_equal_those_of_every_path(seed: int, per_step: bool) -> None:
    mdp = random_mdp(seed)
    policy = random_policy(seed, mdp, per_step=per_step)
    expected = [walk(mdp, policy, s, 0) for s in range(mdp.n_states)]
    assert mdp.values(policy)[0] == pytest.approx(expected, abs=1e-12)
    assert mdp.value(policy) == pytest.approx(float(mdp.initial @ expected), abs=1e-12)
    spread = float(mdp.initial @ (np.array(expected) - mdp.initial @ expected) ** 2)
    assert mdp.initial_std(policy) == pytest.approx(spread**0.5, abs=1e-12)


def test_action_values_are_discounted_from_their_own_step() -> None:
    mdp = random_mdp(3)
    policy = random_policy(3, mdp)
    q, v = mdp.action_values(policy), mdp.values(policy)
    assert q[-1] == pytest.approx(mdp.reward)
    assert q[1, 0] == pytest.approx(mdp.reward[0] + 0.9 * dense(mdp)[0] @ v[2])


def test_several_policies_at_once() -> None:
    mdp = random_mdp(4)
    policies = {"a": random_policy(1, mdp), "b": random_policy(2, mdp, per_step=True)}
    found = mdp.action_values(policies)
    assert list(found) == ["a", "b"]
    for name, policy in policies.items():
        assert np.array_equal(found[name], mdp.action_values(policy))


@pytest.mark.parametrize("seed", range(3))
def test_the_optimal_policy_beats_every_other(seed: int) -> None:
    mdp = random_mdp(seed, n_states=3, n_actions=2, horizon=2)
    choices = itertools.product(range(2), repeat=3 * 2)
    best = max(mdp.value(np.eye(2)[np.reshape(choice, (2, 3))]) for choice in choices)
    assert mdp.value(mdp.optimal()) == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_the_infinite_horizon_optimum_satisfies_bellmans_equation(seed: int) -> None:
    mdp = random_mdp(seed, gamma=0.95)
    best = mdp.optimal(infinite=True).probs.argmax(axis=1)
    rows = np.arange(mdp.n_states)
    following, reward = dense(mdp)[rows, best], mdp.reward[rows, best]
    v = np.linalg.solve(np.eye(mdp.n_states) - mdp.gamma * following, reward)
    q = mdp.reward + mdp.gamma * dense(mdp) @ v
    assert q.max(axis=1) == pytest.approx(v, abs=1e-9)


def test_ties_go_to_the_lowest_action() -> None:
    mdp = so.TabularMDP.one_step([[0.0, 1.0, 1.0 + 1e-14]], initial=[1.0])
    assert mdp.optimal().probs.argmax() == 1
    assert mdp.optimal(infinite=True).probs.argmax() == 1


@pytest.mark.parametrize("unit", [1e-11, 1.0, 1e11])
def test_small_differences_are_no_ties_in_any_unit(unit: float) -> None:
    """A gap of 1e-7 of the rewards decides; over an infinite horizon only once the values have settled."""
    mdp = so.TabularMDP.from_dense(
        [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]],
        reward=np.array([[1.0, 0.0], [1.0 / 0.99 + 2e-7, 0.0]]) * unit,
        initial=[1.0, 0.0], gamma=0.99, horizon=3,
    )  # fmt: skip
    assert mdp.optimal(infinite=True).probs.argmax(axis=1).tolist() == [1, 0]
    assert mdp.optimal().probs.reshape(3, 2, 2)[-1].argmax(axis=1).tolist() == [0, 0]


def test_an_optimum_that_does_not_settle_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("semiope.models.planning.MOST_SWEEPS_UNDISCOUNTED", 1000)
    mdp = so.TabularMDP.from_dense([[[1.0]]], reward=[[1.0]], initial=[1.0], horizon=5)
    with pytest.raises(so.OptionError, match="smaller gamma"):
        mdp.optimal(infinite=True)


@pytest.mark.parametrize("per_step", [False, True])
def test_state_distributions(per_step: bool) -> None:
    mdp = random_mdp(6, horizon=4)
    policy = random_policy(6, mdp, per_step=per_step)
    found, here = mdp.state_distributions(policy), mdp.initial.copy()
    for step in range(4):
        assert found[step] == pytest.approx(here, abs=1e-14)
        probs = policy[step] if per_step else policy
        here = np.einsum("s,sa,sap->p", here * ~mdp.terminal, probs, dense(mdp))
    assert found[1].sum() < 1


def test_labels_lead_through_everything() -> None:
    mdp = so.TabularMDP.from_dense(
        [[[0, 1.0], [1.0, 0]], [[0, 0], [0, 0]]],
        reward=[[0.0, 1.0], [5.0, 5.0]],
        initial=[1.0, 0.0],
        terminal=np.array([False, True]),
        horizon=2,
        states=["sick", "well"],
        actions=["treat", "wait"],
    )
    policy = so.Policy.from_arrow({"state": ["sick"], "action": ["treat"], "prob": [1.0]})
    assert mdp.value(policy) == 5.0
    assert mdp.value(mdp.optimal()) == 5.0
    assert mdp.optimal().to_arrow().to_pylist()[0] == {"step": 0, "state": "sick", "action": "treat", "prob": 1.0}
    episodes = mdp.sample(policy, 2)
    assert episodes.to_arrow().to_pylist()[1] == {
        "episode": 0,
        "step": 1,
        "state": "well",
        "action": None,
        "reward": 5.0,
    }
    assert repr(mdp) == "TabularMDP(2 states, 2 actions, 2 transitions, gamma 1, horizon 2)"


def test_actions_that_are_not_available() -> None:
    options: dict[str, Any] = {"initial": [1.0], "horizon": 1, "available": np.array([[True, False]])}
    mdp = so.TabularMDP.from_sparse(
        state=[0], action=[0], next_state=[-1], prob=[1.0], reward=[[1.0, np.nan]], **options
    )
    assert np.isnan(mdp.action_values([[1.0, 0.0]])[0, 0, 1])
    assert mdp.value([[1.0, 0.0]]) == 1.0
    assert mdp.optimal().probs.tolist() == [[1.0, 0.0]]
    with pytest.raises(so.SchemaError, match=r"not available in 1 pair. First: state 0 action 1"):
        mdp.value([[0.5, 0.5]])


def test_what_cannot_be_reached_does_not_spoil_the_value() -> None:
    """An action that is not available, taken only where the policy never comes: value known, and no value there."""
    mdp = so.TabularMDP.from_sparse(
        state=[0, 0, 1], action=[0, 1, 0], next_state=[1, 1, -1], prob=[1, 1, 1], reward=[[1.0, 1.0], [2.0, np.nan]],
        initial=[1, 0], horizon=2, available=np.array([[True, True], [True, False]]),
    )  # fmt: skip
    policy = np.array([[[0.5, 0.5], [0.5, 0.5]], [[0.5, 0.5], [1.0, 0.0]]])
    assert mdp.value(policy) == 3.0
    assert mdp.initial_std(policy) == 0.0
    silent = so.Policy.from_arrow({"step": [0, 1], "state": [0, 1], "action": [0, 0], "prob": [1.0, 1.0]})
    assert np.isnan(mdp.values(silent)[0, 1])


def test_a_policy_per_step_needs_only_what_can_be_reached_then() -> None:
    """Two states in a chain: at step 0 only the first, at step 1 only the second."""
    mdp = so.TabularMDP.from_sparse(
        state=[0, 1], action=[0, 0], next_state=[1, -1], prob=[1, 1], reward=[[1.0], [2.0]], initial=[1, 0], horizon=2
    )
    policy = so.Policy.from_arrow({"step": [0, 1], "state": [0, 1], "action": [0, 0], "prob": [1.0, 1.0]})
    assert mdp.value(policy) == 3.0
    short = so.Policy.from_arrow({"step": [0], "state": [0], "action": [0], "prob": [1.0]})
    with pytest.raises(so.SchemaError, match=r"nothing at step 1 about 1 state. First: state 1"):
        mdp.value(short)
