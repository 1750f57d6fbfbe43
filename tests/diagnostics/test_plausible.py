"""Whether annotations can be true: red where they cannot be, not where they may."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import semiope as so
from semiope.diagnostics.findings import AMBER, GREEN, RED, Finding
from semiope.domains import bandit, sepsis
from semiope.errors import quietly

BEYOND, AGAINST = "annotations beyond all returns", "annotations against logs"


def found(bias: float, n: int = 600, estimator: str = "pp-dr") -> dict[str, Finding]:
    world = sepsis.world()
    episodes = world.sample(n, seed=0)
    answers = world.annotate(episodes, "optimal", annotators=so.Annotator(std=0.1, bias=bias), seed=1)
    with quietly():
        results = so.evaluate(
            episodes, world.policies["optimal"], annotations=answers, estimators=estimator, gamma=0.99
        )
    return {one.name: one for one in so.diagnose(results, refute=False)}


def test_right_annotations_are_not_red() -> None:
    lights = found(0.0)
    assert lights[BEYOND].light == GREEN
    assert lights[AGAINST].light in (GREEN, AMBER)


@pytest.mark.parametrize("bias", [3.0, -3.0])
@pytest.mark.parametrize("estimator", ["pp-dr", "c-pdis"])
def test_impossible_ones_are_red(bias: float, estimator: str) -> None:
    lights = found(bias, estimator=estimator)
    assert lights[BEYOND].light == RED
    assert lights[BEYOND].figure == "100%"
    assert lights[BEYOND].way_out


def test_what_nothing_checks_is_red() -> None:
    """No annotation is of an action that was ever taken in its state: nothing to hold annotations against."""
    n = 60
    rows = {
        "episode": range(n), "step": [0] * n, "state": [0, 1] * (n // 2), "action": [0] * n,
        "reward": np.random.default_rng(0).normal(size=n),
    }  # fmt: skip
    answers = {"episode": range(n), "step": [0] * n, "action": [1] * n, "value": np.linspace(-1, 1, n)}
    policy = so.Policy.from_table(np.array([[0.5, 0.5], [0.5, 0.5]]))
    with quietly():
        results = so.evaluate(rows, policy, annotations=answers)
    finding = {one.name: one for one in so.diagnose(results, refute=False)}[AGAINST]
    assert (finding.light, finding.figure) == (RED, "not known")
    assert "their word is taken for 50% of the estimate" in finding.sentence
    assert "actions that were taken" in finding.way_out


@pytest.mark.parametrize("never", [True, False])
@pytest.mark.parametrize("how", ["convert", "rewards"])
def test_what_follows_actions_never_logged_is_not_known(how: str, never: bool) -> None:
    """Two steps; the policy repairs, which the logs never do or at times do: conversion and rewards need the logs."""
    rng = np.random.default_rng(0)
    n = 200
    action = rng.integers(2, size=(n, 2)) + (0 if never else rng.integers(2, size=(n, 2)))
    episode, step = (column.ravel() for column in np.indices((n, 2)))
    rows = {
        "episode": episode, "step": step, "state": rng.integers(2, size=2 * n), "action": action.ravel(),
        "reward": rng.normal(size=2 * n),
    }  # fmt: skip
    asked = np.flatnonzero(rng.random(2 * n) < 0.3)
    answers: dict[str, Any] = {
        "episode": episode[asked], "step": step[asked], "action": (rows["action"][asked] + 1) % 3,
        "value": rng.normal(size=len(asked)),
    }  # fmt: skip
    if how == "rewards":
        answers["kind"] = ["reward"] * len(asked)
    policy = so.Policy.from_table(np.array([[0.4, 0.3, 0.3], [0.4, 0.3, 0.3]]))
    with quietly():
        results = so.evaluate(rows, policy, annotations=answers, repair="convert" if how == "convert" else None)
        plain = so.evaluate(rows, policy, annotations={**answers, "kind": ["return"] * len(asked)})
    finding = so.diagnose(results, refute=False)["what follows annotated actions"]
    assert finding.light == (RED if never else GREEN)
    assert "what follows annotated actions" not in {one.name for one in so.diagnose(plain, refute=False)}


@pytest.mark.parametrize("estimator", ["pp-dr", "c-pdis", "pp-pdis"])
@pytest.mark.parametrize(("bias", "red"), [(0.0, False), (2.0, True)])
def test_logs_and_annotations_must_agree_where_logs_can_tell(bias: float, red: bool, estimator: str) -> None:
    world = bandit.two_state((1.0, 2.0), (0.5, 0.5))
    name, policy = "0.1-0.9", world.policies["0.1-0.9"]
    episodes = world.sample(400, seed=0)
    answers = world.annotate(episodes, name, annotators=so.Annotator(bias=bias, std=0.5), seed=1)
    with quietly():
        results = so.evaluate(episodes, policy, annotations=answers, estimators=estimator)
    finding = {one.name: one for one in so.diagnose(results, refute=False)}[AGAINST]
    assert (finding.light == RED) == red
    assert finding.way_out or not red
