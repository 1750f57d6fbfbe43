"""Refutations: the placebo by hand and under the truth, annotators left out, and evaluating again."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import semiope as so
from semiope.domains import sepsis, tree
from semiope.errors import quietly
from semiope.pipeline.clustered import annotators_left_out
from semiope.pipeline.evaluate import again
from semiope.pipeline.refute import leave_one_out, placebo
from tests.diagnostics.cases import evaluated, everywhere, one_step


def test_the_placebo_by_hand() -> None:
    """Ratios are the share of other episodes that took the same action, over the probability stated."""
    action, reward = [0, 0, 0, 1], [1.0, 2.0, 3.0, 4.0]
    results = evaluated(one_step(action, np.array(reward)), everywhere(0.5, 0.5), behavior=everywhere(0.5, 0.5))
    value = sum(reward[i] * (2 / 3) / 0.5 for i in range(3)) / 4
    assert placebo(results).figure == f"{value:.4g} against 2.5"


def test_an_episode_does_not_count_itself() -> None:
    """One episode of two steps in a state that no other visits: nothing is known, and its ratios are 1."""
    logs = so.Episodes.from_arrays(
        episode=[0, 0, 1], step=[0, 1, 0], state=[0, 0, 1], action=[0, 1, 0], reward=[1.0, 1.0, 5.0]
    )
    results = evaluated(logs, everywhere(0.5, 0.5, n_states=2), behavior=everywhere(0.5, 0.5, n_states=2))
    assert placebo(results).figure == "3.5 against 3.5"


@pytest.mark.parametrize(
    ("world", "cell"), [(tree.tree(4), "state"), (sepsis.world(), "state"), (sepsis.world(), "step,state")]
)
def test_the_policy_that_acted_passes_as_its_own_placebo(world: Any, cell: str) -> None:
    """Ten datasets each, however few visits a cell has."""
    for seed in range(10):
        logs = world.sample(200, seed=seed)
        results = evaluated(logs, world.behavior, behavior=world.behavior, cell=cell, estimators="pdis", gamma=0.99)
        assert placebo(results).light == "green"


def test_a_placebo_of_nothing() -> None:
    """Returns that are 0 but for rounding scatter by nothing."""
    n = 30
    logs = so.Episodes.from_arrays(
        episode=np.repeat(np.arange(n), 3), step=np.tile(np.arange(3), n), state=np.zeros(3 * n, int),
        action=np.zeros(3 * n, int), reward=np.tile([0.1, 0.2, -0.3], n),
    )  # fmt: skip
    assert placebo(evaluated(logs, everywhere(1.0), behavior=everywhere(1.0), gamma=1.0)).light == "green"
    assert placebo(evaluated(logs, everywhere(1.0), gamma=0.0)).figure == "0.1 against 0.1"


def with_answers(n: int = 40, experts: int = 4, off: float = 0.0) -> so.Results:
    rng = np.random.default_rng(0)
    action = rng.integers(2, size=n)
    logs = one_step(action, action + rng.normal(size=n))
    who = [f"expert {i % experts}" for i in range(n)]
    value = (1.0 - action) + off * np.array([name == "expert 1" for name in who])
    answers = so.Annotations.from_arrays(
        episode=np.arange(n), step=np.zeros(n, int), action=1 - action, value=value, annotator=who
    )
    return evaluated(logs, everywhere(0.3, 0.7), annotations=answers, estimators=["c-pdis", "c*-pdis"])


def test_leaving_out_annotators_is_the_jackknife() -> None:
    results = with_answers(off=2.0)
    found = annotators_left_out(results, "c-pdis")
    assert found.annotators == [f"expert {i}" for i in range(4)]
    answers = results.origin.annotations
    assert answers is not None
    assert answers.annotator is not None
    values = []
    for name in found.annotators:
        keep = [i for i, who in enumerate(answers.annotator.to_pylist()) if who != name]
        others = so.Annotations.from_arrow(answers.to_arrow().take(keep))
        one = evaluated(results.origin.episodes, everywhere(0.3, 0.7), annotations=others, estimators="c-pdis")
        values.append(one["c-pdis"].value)
    assert found.values == pytest.approx(values)
    spread = math.sqrt(3 / 4 * sum((v - sum(values) / 4) ** 2 for v in values))
    assert found.std_error == pytest.approx(spread)
    own = results["c-pdis"]
    finding = leave_one_out(results, "c-pdis")
    apart = max(abs(v - own.value) for v in values) / own.std_error
    assert finding.figure == f"{apart:.1f} standard errors"
    assert f"is {math.hypot(own.std_error, spread):.2g} instead of {own.std_error:.2g}" in finding.sentence


def test_estimators_that_need_everybody() -> None:
    finding = leave_one_out(with_answers(), "c*-pdis")
    assert finding.light == "amber"
    assert "nan" not in repr(finding)


def test_evaluating_again_with_something_changed() -> None:
    results = with_answers()
    same = again(results)
    assert {name: one.value for name, one in same.items()} == {name: one.value for name, one in results.items()}
    assert list(again(results, estimators="is")) == ["is"]
    other = again(results, policy=everywhere(1.0, 0.0))
    assert other["c-pdis"].value != results["c-pdis"].value
    # Warnings are kept, not shown.
    assert again(results, annotations=None, estimators="pdis", policy=everywhere(0.0, 0.0, 1.0)).warnings
    with pytest.raises(so.OptionError, match="do not know their data"):
        again(so.Results("p", results.estimates, {}))


def test_again_keeps_every_option() -> None:
    """One of several policies, with answers and a model of its own, comes out as it did among them."""
    world = tree.tree(3, reward_std=0.3, gamma=0.9)
    logs = world.sample(60, seed=2)
    answers = {name: world.annotate(logs, name, annotators=so.Annotator(std=0.3), seed=1) for name in world.policies}
    options: dict[str, Any] = {"cell": "step,state", "weights": "inverse-variance", "repair": "pool", "gamma": 0.9}
    with quietly():
        results = so.evaluate(
            logs, world.policies, annotations=answers, behavior=world.behavior, estimators=["c-pdis", "dm+"], **options
        )
    for one in results.values():
        repeated = again(one)
        assert repeated.policy == one.policy
        assert repeated.settings == one.settings
        for name in one:
            assert repeated[name].value == pytest.approx(one[name].value, rel=1e-12)
            assert repeated[name].std_error == pytest.approx(one[name].std_error, rel=1e-12)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0])
def test_what_is_observed_is_the_mean_discounted_return(gamma: float) -> None:
    logs = {
        "episode": [0, 0, 1, 1, 1], "step": [0, 1, 0, 1, 2], "state": [0] * 5, "action": [0, 0, 0, 0, None],
        "reward": [1.0, 2.0, 3.0, 4.0, 5.0],
    }  # fmt: skip
    observed = evaluated(logs, everywhere(1.0), gamma=gamma).origin.observed
    returns = [1 + gamma * 2, 3 + gamma * 4 + gamma**2 * 5]
    assert observed.values == pytest.approx(returns)
    assert observed.value == pytest.approx(sum(returns) / 2)


def test_results_as_plain_objects_and_as_a_frame() -> None:
    results = with_answers()
    found = results.to_dict(alpha=0.1)
    assert found["policy"] == "policy"
    assert [row["estimator"] for row in found["estimates"]] == list(results)
    row = found["estimates"][0]
    assert (row["ci_low"], row["ci_high"]) == results["c-pdis"].interval(0.1)
    assert row["ess"] == results["c-pdis"].ess
    assert found["settings"] == results.settings
    assert found["warnings"] == results.warnings
    frame = results.to_frame(alpha=0.1)
    assert frame.to_dict("records") == found["estimates"]


def test_some_answers_keep_all_that_was_said() -> None:
    answers = so.read_annotations(
        {
            "episode": ["p", "q", "q"], "step": [0, 1, 2], "action": ["x", "y", "x"], "value": [0.5, 1.0, 0.0],
            "annotator": ["ann", None, "bob"], "std": [1.0, 2.0, 3.0], "weight": [0.1, 0.2, 0.3],
            "kind": ["return", "reward", "preference"], "versus": [None, None, "z"], "ward": ["a", "b", "c"],
        }
    )  # fmt: skip
    for rows in ([2, 0], [1], []):
        part = answers.some(np.array(rows, dtype=np.int64))
        assert part.to_arrow().equals(answers.to_arrow().take(np.array(rows, dtype=np.int64)))
        assert len(part) == len(rows)
