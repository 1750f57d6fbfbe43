"""Models that are not ones are refused, by the names of state and action; so is what would not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import semiope as so
from semiope import _memory
from tests.models.test_tabular import random_mdp, random_policy

GOOD: dict[str, Any] = {
    "transitions": [[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.25, 0.75]]],
    "reward": [[0.0, 1.0], [2.0, 3.0]],
    "initial": [0.5, 0.5],
    "horizon": 3,
    "states": ["calm", "storm"],
    "actions": ["stay", "go"],
}


def changed(table: Any, index: tuple[int, ...], value: float) -> Any:
    array = np.array(table, dtype=float)
    array[index] = value
    return array


def test_the_good_model_is_one() -> None:
    assert so.TabularMDP.from_dense(**GOOD).n_states == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"transitions": changed(GOOD["transitions"], (1, 1, 0), 0.2)},
            r"sum to 0.95, not 1, for 1 pair. First: state 'storm' action 'go'",
        ),
        (
            {"transitions": changed(GOOD["transitions"], (0, 0, 0), -0.5)},
            r"negative: 1 transition. First: state 'calm' action 'stay' to 'calm'",
        ),
        (
            {"transitions": changed(GOOD["transitions"], (0, 1, 0), np.nan)},
            r"not a finite number: 1 transition. First: state 'calm' action 'go'",
        ),
        (
            {"transitions": changed(GOOD["transitions"], (0, 1, 0), 0.0)},
            r"none is given for 1 pair. First: state 'calm' action 'go'",
        ),
        ({"transitions": [[0.5, 0.5]]}, r"transitions: an array of shape \(1, 2\)"),
        (
            {"reward": [[0.0, np.inf], [2.0, 3.0]]},
            r"reward: not a finite number in 1 pair. First: state 'calm' action 'go'",
        ),
        ({"reward": [1.0, 2.0]}, r"reward: an array of shape \(2,\)"),
        (
            {"reward_std": [[0.0, 0.0], [0.0, -1.0]]},
            r"reward_std: negative in 1 pair. First: state 'storm' action 'go'",
        ),
        ({"reward_std": [1.0, 2.0, 3.0]}, r"reward_std: an array of shape \(3,\)"),
        ({"initial": [0.5, 0.4]}, r"initial: the probabilities sum to 0.9, not 1"),
        ({"initial": [1.5, -0.5]}, r"initial: .* 1 state. First: state 'storm'"),
        ({"initial": [np.nan, 1.0]}, r"initial: .* state 'calm'"),
        ({"initial": [1.0]}, r"initial: an array of shape \(1,\); give \(2,\)"),
        ({"gamma": 1.5}, r"gamma: 1.5"),
        ({"horizon": 0}, r"horizon: 0"),
        ({"horizon": 2.5}, r"horizon: 2.5"),
        ({"states": ["calm", "calm"]}, r"states: give 2 different labels"),
        ({"states": ["calm", None]}, r"states: labels are integers or strings, and none is missing"),
        ({"states": [1.5, 2.5]}, r"states: labels are integers or strings"),
        ({"states": ["calm", 1]}, r"states: labels are integers or strings"),
        ({"states": [1, 2**70]}, r"states: labels are integers or strings"),
        ({"states": 5}, r"states: labels are integers or strings"),
        ({"horizon": 10**400}, r"horizon: more than"),
        ({"actions": ["stay"]}, r"actions: give 2 different labels"),
        (
            {"terminal": np.array([False, True])},
            r"terminal: the reward depends on the action in 1 state. First: state 'storm'",
        ),
        (
            {"terminal": np.array([False, True]), "reward": [[0.0, 1.0], [1.0, 1.0]]},
            r"terminal: something is still paid after 1 state",
        ),
        ({"terminal": [0, 1]}, r"terminal: int64 of shape \(2,\); give booleans"),
        (
            {"available": np.array([[True, True], [False, False]])},
            r"available: no action is available in 1 state. First: state 'storm'",
        ),
    ],
)
def test_bad_models(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(so.SemiopeError, match=message):
        so.TabularMDP.from_dense(**{**GOOD, **changes})


SPARSE: dict[str, Any] = {
    "state": [0, 1], "action": [0, 0], "next_state": [1, -1], "prob": [1.0, 1.0],
    "reward": [[0.0], [1.0]], "initial": [1.0, 0.0], "horizon": 2,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"next_state": [2, -1]},
            r"'next_state' does not exist; ids go from 0 to 1 \(or -1, if nothing follows\): 1 transition.",
        ),
        ({"next_state": [-2, -1]}, r"'next_state' does not exist"),
        ({"state": [0, 5]}, r"'state' does not exist; ids go from 0 to 1: 1 transition. First: state 5 action 0"),
        ({"action": [0, 1]}, r"'action' does not exist; ids go from 0 to 0"),
        ({"state": [0.5, 1.0]}, r"'state' holds float64"),
        ({"prob": [1.0]}, r"the columns differ in length"),
        ({"state": [0, 0], "next_state": [1, 1], "prob": [0.5, 0.5]}, r"state 0 action 0 lists next state 1 twice"),
        ({"next_state": [-1, -1]}, r"states: no policy can come to 1 state. First: state 1. .*allow_unreachable"),
    ],
)
def test_bad_sparse_models(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(so.SchemaError, match=message):
        so.TabularMDP.from_sparse(**{**SPARSE, **changes})


def test_unreachable_states_may_be_allowed() -> None:
    mdp = so.TabularMDP.from_sparse(**{**SPARSE, "next_state": [-1, -1]}, allow_unreachable=True)
    assert mdp.reachable.tolist() == [True, False]
    # A policy need not speak about what cannot be reached.
    assert mdp.value(so.Policy.from_arrow({"state": [0], "action": [0], "prob": [1.0]})) == 0.0


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"state": ["calm"], "action": ["go"], "prob": [1.0]}, r"says nothing about 1 state. First: state 'storm'"),
        ({"state": [0, 1], "action": ["go", "go"], "prob": [1.0, 1.0]}, r"labels are integers for states"),
        ({"state": ["calm", "storm"], "action": ["run", "go"], "prob": [1.0, 1.0]}, r"'run'"),
    ],
)
def test_policies_that_do_not_fit(policy: dict[str, Any], message: str) -> None:
    with pytest.raises(so.SchemaError, match=message):
        so.TabularMDP.from_dense(**GOOD).value(so.Policy.from_arrow(policy))


def test_arrays_that_do_not_fit() -> None:
    mdp = so.TabularMDP.from_dense(**GOOD)
    with pytest.raises(so.SchemaError, match=r"shape \(1, 2\); give \(2, 2\) or \(n_steps, 2, 2\)"):
        mdp.value([[0.5, 0.5]])
    with pytest.raises(so.SchemaError, match=r"sum to 0.5, not 1.*state 'calm'"):
        mdp.value([[0.5, 0.0], [1.0, 0.0]])


@pytest.mark.parametrize("shape", [(3, 1), (3, 3), (5, 2), (2,), (1, 1, 2)])
def test_policies_of_another_shape_are_no_policies(shape: tuple[int, ...]) -> None:
    mdp = so.TabularMDP.from_dense(**GOOD)
    with pytest.raises(so.SchemaError, match=r"give \(2, 2\) or \(n_steps, 2, 2\)"):
        mdp.policy(np.ones(shape))


def test_exact_answers_need_exact_probabilities() -> None:
    with pytest.raises(so.SchemaError, match=r"sum to 1 to 1e-09; they do not in 1 state. First: state 'calm'"):
        so.TabularMDP.from_dense(**GOOD).value([[0.5, 0.499995], [1.0, 0.0]])


def test_a_terminal_states_reward_is_checked_whatever_is_available() -> None:
    options = {**GOOD, "transitions": [[[0.5, 0.5], [0.5, 0.5]], [[0.0, 0.0], [0.0, 0.0]]]}
    options |= {"terminal": np.array([False, True]), "available": np.array([[True, True], [False, False]])}
    with pytest.raises(so.SchemaError, match=r"reward: not a finite number in 2 pairs. First: state 'storm'"):
        so.TabularMDP.from_dense(**{**options, "reward": [[0.0, 0.0], [np.inf, np.inf]]})


def test_what_does_not_fit_in_memory_is_refused_before_it_is_allocated(monkeypatch: pytest.MonkeyPatch) -> None:
    mdp, policy = random_mdp(0), random_policy(0, random_mdp(0))
    monkeypatch.setattr(_memory, "machine_memory", lambda: 1000.0)
    for work in (
        lambda: mdp.action_values(dict.fromkeys("abcdefgh", policy)),
        lambda: mdp.sample(policy, 1000),
    ):
        with pytest.raises(so.OptionError, match="GiB, more than half of this machine's memory"):
            work()


def test_a_long_horizon_is_refused_at_once() -> None:
    mdp = so.TabularMDP.from_dense([[[1.0]]], reward=[[1.0]], initial=[1.0], horizon=10**13)
    for work in (
        lambda: mdp.action_values([[1.0]]),
        lambda: mdp.state_distributions([[1.0]]),
        lambda: mdp.sample([[1.0]], 10),
        lambda: mdp.probs(np.ones((2, 1, 1))),
        mdp.optimal,
    ):
        with pytest.raises(so.OptionError, match="GiB"):
            work()


def test_a_containers_memory_counts_if_it_is_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sysconf", lambda _: 2**16)  # 4 GiB: pages times their size
    for said, expected in (("1073741824\n", 2.0**30), ("max\n", 2.0**32), ("99999999999\n", 2.0**32)):
        monkeypatch.setattr("pathlib.Path.read_text", lambda _, said=said: said)
        assert _memory.machine_memory() == expected


@pytest.mark.parametrize(
    "options",
    [
        {"n_episodes": 0},
        {"n_episodes": 1.5},
        {"n_episodes": 10**400},
        {"n_episodes": 5, "first": 2**63},
        {"n_episodes": 5, "first": -1},
        {"n_episodes": 5, "seed": -1},
    ],
)
def test_bad_sampling(options: dict[str, Any]) -> None:
    with pytest.raises(so.OptionError):
        random_mdp(0).sample(random_policy(0, random_mdp(0)), **options)
