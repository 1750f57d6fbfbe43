from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import semiope as so
from semiope.errors import quietly
from semiope.estimate.evidence import Evidence, augmented_probs, gather
from semiope.weights.augmented import mean_split_weights
from tests.contract.worlds import N_ACTIONS, N_STATES, random_logs


def evidence_of(seed: int, weights: Any, *, known: bool, cell: str = "state", full: bool = False) -> Evidence:
    logs = random_logs(seed, fully_annotated=full)
    annotations = so.Annotations.from_arrays(**logs.annotations) if len(logs.annotations["step"]) else None
    behavior = so.Policy.from_table(logs.behavior) if known else None
    policy = so.Policy.from_table(logs.evaluation)
    episodes = so.Episodes.from_arrays(**logs.episodes)
    return gather(episodes, annotations, {"e": policy}, behavior=behavior, cell=cell, weights=weights)


WEIGHTS = ["equal", "factual", "annotated", "column", "table"]


@pytest.mark.parametrize("weights", WEIGHTS)
@given(seed=st.integers(0, 10**6), known=st.booleans(), cell=st.sampled_from(["state", "step,state"]))
@settings(max_examples=25)
def test_the_augmented_policy_is_definition_1(weights: Any, seed: int, known: bool, cell: str) -> None:
    """pi_b+(a|s) = sum over a' of W(a|s, a') pi_b(a'|s), by the table of mean weights instead of by samples."""
    if weights == "table":
        weights = np.random.default_rng(seed).dirichlet(np.ones(N_ACTIONS), size=(N_STATES, N_ACTIONS))
    evidence = evidence_of(seed, weights, known=known, cell=cell)
    means = mean_split_weights(evidence.split_weights, evidence.cells, evidence.logbook)
    assert means.sum(axis=2) == pytest.approx(np.ones(means.shape[:2]))
    expected = np.einsum("sa,sab->sb", evidence.behavior.probs, means)
    found = augmented_probs(evidence)
    assert found == pytest.approx(expected, abs=1e-14)
    assert found.sum(axis=1) == pytest.approx(evidence.behavior.probs.sum(axis=1))


@pytest.mark.parametrize("weights", WEIGHTS)
@given(seed=st.integers(0, 10**6))
@settings(max_examples=25)
def test_every_sample_has_weight_one(weights: Any, seed: int) -> None:
    if weights == "table":
        weights = np.random.default_rng(seed).dirichlet(np.ones(N_ACTIONS), size=(N_STATES, N_ACTIONS))
    evidence = evidence_of(seed, weights, known=False)
    total = evidence.split_weights.taken.copy()
    np.add.at(total, evidence.logbook.annotations.row, evidence.split_weights.annotated)
    assert total == pytest.approx(np.ones(len(total)))
    assert (evidence.split_weights.taken >= 0).all()
    assert (evidence.split_weights.annotated >= 0).all()


@pytest.mark.parametrize(
    ("weights", "taken", "annotated"), [("equal", [1 / 3, 1.0], [1 / 3, 1 / 3]), ("annotated", [0.0, 1.0], [0.5, 0.5])]
)
def test_weights_by_what_is_annotated_at_the_step(weights: str, taken: list[float], annotated: list[float]) -> None:
    found = gather(
        so.Episodes.from_arrays(episode=[0, 1], step=[0, 0], state=[0, 0], action=[0, 0], reward=[1.0, 1.0]),
        so.Annotations.from_arrays(episode=[0, 0], step=[0, 0], action=[1, 2], value=[1.0, 2.0]),
        {"e": so.Policy.from_table(np.full((1, 3), 1 / 3))},
        behavior=None,
        cell="state",
        weights=weights,
    ).split_weights
    assert found.taken == pytest.approx(taken)
    assert found.annotated == pytest.approx(annotated)


def two_patients(weights: Any) -> so.Results:
    found: so.Results = so.evaluate(
        {"episode": [1, 2], "step": [0, 0], "state": ["s", "s"], "action": ["up", "up"], "reward": [1.0, 3.0]},
        so.read_policy({"state": ["s", "s"], "action": ["up", "down"], "prob": [0.5, 0.5]}),
        annotations={"episode": [1], "step": [0], "action": ["down"], "value": [5.0]},
        estimators=["c-is"],
        weights=weights,
    )
    return found


@pytest.mark.filterwarnings("ignore:there are only")
def test_a_table_by_label_leaves_the_rest_with_the_action_taken() -> None:
    """Sample 1 splits 0.8 and 0.2; sample 2 has no annotation, so that all its weight stays: means of 0.9 and 0.1."""
    table = {"state": ["s", "s"], "taken": ["up", "up"], "action": ["up", "down"], "weight": [0.8, 0.2]}
    expected = [0.8 * 0.5 / 0.9 * 1 + 0.2 * 0.5 / 0.1 * 5, 1.0 * 0.5 / 0.9 * 3]
    assert two_patients(table)["c-is"].values == pytest.approx(expected)


def test_pairs_that_a_table_does_not_list_keep_all_weight_on_the_action_taken() -> None:
    """Another state, another action taken, an action that the table does not know: factual there."""
    episodes = {"episode": [1, 2, 3, 4], "step": [0] * 4, "state": ["s", "t", "s", "s"]}
    episodes["action"] = ["up", "up", "down", "over"]
    answers = {"episode": [1, 1, 2, 3, 4], "step": [0] * 5, "action": ["down", "over", "down", "up", "down"]}
    answers["value"] = [5.0] * 5
    table = {"state": ["s", "s"], "taken": ["up", "up"], "action": ["up", "down"], "weight": [0.8, 0.2]}
    policy = so.read_policy(
        {"state": ["s", "s", "s", "t"], "action": ["up", "down", "over", "up"], "prob": [0.5, 0.25, 0.25, 1]}
    )
    logs, answered = so.read_episodes({**episodes, "reward": [1.0] * 4}), so.read_annotations(answers)
    split = gather(logs, answered, {"e": policy}, behavior=None, cell="state", weights=table).split_weights
    assert split.taken == pytest.approx([0.8, 1.0, 1.0, 1.0])
    assert split.annotated == pytest.approx([0.2, 0.0, 0.0, 0.0, 0.0])


def test_weights_that_exceed_one_by_rounding_are_accepted() -> None:
    shares = [0.1, 0.2, 0.7 + 1e-12]
    found = gather(
        so.Episodes.from_arrays(episode=[0], step=[0], state=[0], action=[0], reward=[1.0]),
        so.Annotations.from_arrays(episode=[0] * 3, step=[0] * 3, action=[1, 2, 3], value=[1.0] * 3, weight=shares),
        {"e": so.Policy.from_table(np.full((1, 4), 0.25))},
        behavior=None,
        cell="state",
        weights="column",
    )
    assert found.split_weights.taken.tolist() == [0.0]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"state": ["s"], "taken": ["up"], "action": ["down"], "weight": [0.2]}, "not in \\[0, 1\\] with sum 1"),
        ({"state": ["s"], "taken": ["up"], "action": ["over"], "weight": [1.0]}, "'over' occurs neither"),
        ({"state": ["s", "s"], "taken": ["up"] * 2, "action": ["up", "down"], "weight": [1.5, -0.5]}, "sum 1"),
        ({"state": ["s"], "taken": ["up"], "action": ["down"], "weight": [float("nan")]}, "'weight' is missing, NaN"),
        (
            {"state": ["s"] * 3, "taken": ["up"] * 3, "action": ["up", "up", "down"], "weight": [0.2, 0.3, 0.5]},
            "repeats",
        ),
        ({"state": ["x"], "taken": ["up"], "action": ["up"], "weight": [1.0]}, "none of its states occurs"),
        ([["a"]], "not an array of numbers"),
        (np.ones((0, 0, 0)), "give"),
        (np.ones((2, 2)), "give \\(n_states, n_actions, n_actions\\)"),
    ],
)
def test_wrong_tables_are_refused(table: Any, message: str) -> None:
    with pytest.raises(so.SchemaError, match=message):
        two_patients(table)


def test_unknown_names_are_refused_with_the_nearest() -> None:
    with pytest.raises(so.OptionError, match="Did you mean 'equal'"):
        two_patients("equl")


def test_logged_propensities_do_not_tell_of_actions_never_taken() -> None:
    """One cell, 40 actions of which a sample sees some: pi_b+ of annotated actions is that of all other actions."""
    rng = np.random.default_rng(0)
    n, n_actions = 30, 40
    action, other = rng.integers(n_actions, size=n), rng.integers(n_actions, size=n)
    keep = action != other
    rows = {
        "episode": np.arange(n), "step": np.zeros(n, int), "state": np.zeros(n, int), "action": action,
        "reward": np.ones(n), "behavior_prob": np.full(n, 1 / n_actions),
    }  # fmt: skip
    annotations = so.Annotations.from_arrays(
        episode=np.flatnonzero(keep), step=np.zeros(keep.sum(), int), action=other[keep], value=np.ones(keep.sum())
    )
    policy = so.Policy.from_table(np.full((1, n_actions), 1 / n_actions))
    with quietly():
        found = so.evaluate(rows, policy, annotations=annotations, estimators=["c-pdis"])["c-pdis"]
    # Everything is worth 1. Without the probability of actions never taken, it came to 2.
    assert found.value <= 1.1
