"""Support by state, on an example by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import semiope as so
from semiope.diagnostics.coverage import support_map
from tests.diagnostics.cases import evaluated, problem_of

LOGS, ALL = "decisions without support by the logs alone", "decisions without support by logs and answers"


def by_hand(**options: Any) -> so.Results:
    """State a: 6 decisions, all x; b: 3, x and y; c: 1, y. The policy does y in a and c, both in b."""
    states, actions = ["a"] * 6 + ["b"] * 3 + ["c"], ["x"] * 6 + ["x", "y", "y"] + ["y"]
    logs = so.Episodes.from_arrays(
        episode=np.arange(10), step=np.zeros(10, int), state=states, action=actions, reward=np.ones(10)
    )
    policy = so.read_policy(
        {
            "state": ["a", "a", "b", "b", "c", "c"],
            "action": ["x", "y", "x", "z", "y", "z"],
            "prob": [0.25, 0.75, 0.5, 0.5, 0.9, 0.1],
        }
    )
    return evaluated(logs, policy, **options)  # type: ignore[arg-type]


def test_the_map_by_hand() -> None:
    found = support_map(problem_of(by_hand(estimators="pdis")))
    assert found.state == ["a", "b", "c"]
    assert found.decisions.tolist() == [6, 3, 1]
    assert found.logged == pytest.approx([0.75, 0.5, 0.1])
    assert found.augmented == pytest.approx([0.75, 0.5, 0.1])


def test_the_sentence_by_hand() -> None:
    """Without support: 4.5 decisions in a, 1.5 in b, 0.1 in c, 6.1 of 10. All ten steps may be asked about."""
    found = so.diagnose(by_hand(estimators="pdis"), refute=False)[LOGS]
    assert found.figure == "61.0%"
    assert found.light == "red"
    assert found.sentence == (
        "61.0% of the policy's decisions at the logged steps are actions that were never taken there, in 3 states "
        "(first 'a', 'b', 'c'). Estimates leave out what they bring."
    )
    assert found.way_out == "Annotating 10 steps in these states, one action each, would cover 100% of it."


def test_answers_mend_what_they_are_about() -> None:
    answers = so.Annotations.from_arrays(episode=[0, 6], step=[0, 0], action=["y", "z"], value=[1.0, 2.0])
    results = by_hand(estimators="c-pdis", annotations=answers)
    found = support_map(problem_of(results))
    assert found.logged == pytest.approx([0.75, 0.5, 0.1])
    assert found.augmented == pytest.approx([0, 0, 0.1])
    diagnosis = so.diagnose(results, refute=False)
    before, after = diagnosis[LOGS], diagnosis[ALL]
    assert (before.light, before.figure, before.way_out) == ("green", "61.0%", "")
    assert (after.light, after.figure) == ("amber", "1.0%")
    assert "never taken or answered for there, in 1 state (first 'c')" in after.sentence
    assert after.way_out == "Annotating this 1 step, one action each, would cover 100% of it."


def test_many_steps_are_asked_about_forty_at_a_time() -> None:
    """Of 100 steps in 20 states, the first 8 states are worth asking about."""
    state = np.repeat(np.arange(20), 5)
    logs = so.Episodes.from_arrays(
        episode=np.arange(100), step=np.zeros(100, int), state=state, action=np.zeros(100, int), reward=np.ones(100)
    )
    results = evaluated(logs, so.Policy.from_table(np.tile([0.5, 0.5], (20, 1))), estimators="pdis")
    found = so.diagnose(results, refute=False)[LOGS]
    assert found.figure == "50.0%"
    assert found.way_out == "Annotating 40 steps in these states, one action each, would cover 40% of it."


def test_full_support_needs_no_questions() -> None:
    logs = so.Episodes.from_arrays(episode=[0, 1], step=[0, 0], state=[0, 0], action=[0, 1], reward=[1.0, 2.0])
    found = so.diagnose(evaluated(logs, so.Policy.from_table([[0.5, 0.5]])), estimator="is", refute=False)[LOGS]
    assert (found.figure, found.light, found.way_out) == ("0%", "green", "")
    assert found.sentence == "Everything that the policy would do has support by the logs."
