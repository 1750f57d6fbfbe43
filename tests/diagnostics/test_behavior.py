"""Calibration of the behaviour policy: by hand where it is given, by error rates where it is counted or logged."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import semiope as so
from semiope.diagnostics.behavior import BINS, Calibration, behavior_calibration
from tests.diagnostics.cases import diagnosed, evaluated, everywhere, one_step, problem_of

NAME = "calibration of the behaviour policy"


def calibration(episodes: so.Episodes, policy: so.Policy, **options: Any) -> Calibration:
    return behavior_calibration(problem_of(evaluated(episodes, policy, estimators="pdis", **options)).evidence)


def test_given_probabilities_by_hand() -> None:
    """Stated 0.25 and 0.75 in both states; action 0 was taken in 60 of 100 decisions, whatever the halves."""
    logs = one_step([0] * 60 + [1] * 40, state=[0] * 30 + [1] * 70)
    found = calibration(logs, everywhere(0.5, 0.5, n_states=2), behavior=everywhere(0.25, 0.75, n_states=2))
    assert found.number[0, 2] == found.number[1, 7] == 100
    assert found.number.sum() == 200
    assert found.stated[0, 2] == pytest.approx(0.25)
    assert found.taken[0, 2] == pytest.approx(0.6)
    assert found.taken[1, 7] == pytest.approx(0.4)
    assert found.error == pytest.approx(0.35)
    assert found.beyond == pytest.approx(0.35 - 2 * math.sqrt(0.25 * 0.75 / 100))
    assert found.unseen == 0
    assert found.stated.shape == (2, BINS)


def test_a_uniform_policy_is_no_alibi() -> None:
    """Over all actions together, what is stated sums to what was done: only action by action does it show."""
    found = diagnosed(one_step([0] * 180 + [1] * 20), everywhere(0.5, 0.5), behavior=everywhere(0.5, 0.5))[NAME]
    assert found.light == "red"
    assert "behavior='count'" in found.way_out


def test_counted_probabilities_are_those_of_the_other_half() -> None:
    """Each state is seen once: whatever is counted there, it says nothing of any other episode."""
    found = calibration(one_step([0, 1] * 20, state=np.arange(40)), everywhere(0.5, 0.5, n_states=40))
    assert found.unseen == 1
    diagnosis = diagnosed(one_step([0, 1] * 20, state=np.arange(40)), everywhere(0.5, 0.5, n_states=40))[NAME]
    assert diagnosis.figure == "100.0%"
    assert diagnosis.light == "red"
    assert "nan" not in diagnosis.sentence


@pytest.mark.parametrize("origin", ["counted", "given", "logged"])
def test_the_policy_that_acted_is_seldom_accused(origin: str) -> None:
    """Forty datasets of 150 decisions by the policy stated: not red, and green but for a few."""
    lights = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        state = rng.integers(3, size=150)
        probs = np.array([[0.5, 0.5], [0.2, 0.8], [0.9, 0.1]])
        action = (rng.random(150) > probs[state, 0]).astype(int)
        logged = {"behavior_prob": probs[state, action]} if origin == "logged" else {}
        stated: dict[str, Any] = {"behavior": so.Policy.from_table(probs)} if origin == "given" else {}
        logs = one_step(action, state=state, **logged)
        lights.append(diagnosed(logs, everywhere(0.5, 0.5, n_states=3), "pdis", **stated)[NAME].light)
    assert lights.count("red") <= 2
    assert lights.count("green") >= 32


def test_logged_propensities_are_not_judged_by_the_actions_they_are_of() -> None:
    """States seen twice each: beside its own decision, a propensity of one half would always seem too small."""
    rng = np.random.default_rng(0)
    state = np.repeat(np.arange(300), 2)
    logs = one_step(rng.integers(2, size=600), state=state, behavior_prob=np.full(600, 0.5))
    found = calibration(logs, everywhere(0.5, 0.5, n_states=300))
    assert found.error < 0.1
    assert found.unseen == 0
    wrong = calibration(
        one_step(np.zeros(600, int), state=state, behavior_prob=np.full(600, 0.5)), everywhere(0.5, 0.5, n_states=300)
    )
    assert wrong.error == pytest.approx(0.5)


def test_what_cannot_be_checked_is_amber() -> None:
    logs = one_step([0, 1] * 20, state=np.arange(40), behavior_prob=np.full(40, 0.5))
    found = diagnosed(logs, everywhere(0.5, 0.5, n_states=40))[NAME]
    assert (found.light, found.figure) == ("amber", "-")
    assert "cannot be checked" in found.sentence


def test_alternating_episodes_are_divided_fairly() -> None:
    assert diagnosed(one_step([0, 1] * 100), everywhere(0.5, 0.5))[NAME].light == "green"
