"""Whether answers can be true: red where they cannot be, green where they are."""

from __future__ import annotations

import numpy as np
import pytest

import semiope as so
from semiope.diagnostics.findings import AMBER, GREEN, RED, Finding
from semiope.domains import bandit, sepsis
from semiope.errors import quietly

NAMES = ("answers beyond all returns", "bias that all answers share")


def found(bias: float, n: int = 600, **options: object) -> dict[str, Finding]:
    world = sepsis.world()
    episodes = world.sample(n, seed=0)
    answers = world.annotate(episodes, "optimal", annotators=so.Annotator(std=0.1, bias=bias), seed=1)
    with quietly():
        results = so.evaluate(
            episodes, world.policies["optimal"], annotations=answers, estimators="c-pdis", gamma=0.99, **options
        )  # type: ignore[call-overload]
    return {one.name: one for one in so.diagnose(results, refute=False)}


def test_right_answers_are_green() -> None:
    assert [found(0.0)[name].light for name in NAMES] == [GREEN] * 2


@pytest.mark.parametrize("bias", [3.0, -3.0])
def test_impossible_ones_are_red(bias: float) -> None:
    lights = found(bias)
    assert [lights[name].light for name in NAMES] == [RED] * 2
    assert "logs and answers" not in lights  # too few episodes count
    assert lights["answers beyond all returns"].figure == "100%"
    assert all(lights[name].way_out for name in NAMES)


def test_a_bias_within_reach_is_red_by_the_logs() -> None:
    lights = found(0.25, n=1000)
    assert lights["answers beyond all returns"].light == GREEN
    assert lights["bias that all answers share"].light == RED
    value = float(lights["bias that all answers share"].figure.split()[0])
    assert value == pytest.approx(0.25, abs=0.06)


def test_pooling_takes_it_off() -> None:
    lights = found(0.25, n=1000, repair="pool")
    assert "bias that all answers share" not in lights
    assert lights["repairs that intervals take as given"].light == AMBER


def test_what_cannot_be_told_is_amber() -> None:
    """No answer is about an action that was ever taken in its state: nothing to hold answers against."""
    n = 60
    rows = {
        "episode": range(n), "step": [0] * n, "state": [0, 1] * (n // 2), "action": [0] * n,
        "reward": np.random.default_rng(0).normal(size=n),
    }  # fmt: skip
    answers = {"episode": range(n), "step": [0] * n, "action": [1] * n, "value": np.linspace(-1, 1, n)}
    policy = so.Policy.from_table(np.array([[0.5, 0.5], [0.5, 0.5]]))
    with quietly():
        results = so.evaluate(rows, policy, annotations=answers, estimators="c-pdis")
    lights = {one.name: one for one in so.diagnose(results, refute=False)}
    assert lights["bias that all answers share"].light == AMBER
    assert lights["bias that all answers share"].figure == "not known"
    assert "logs and answers" not in lights


@pytest.mark.parametrize(("bias", "light"), [(0.0, GREEN), (2.0, RED)])
def test_logs_and_answers_must_agree_where_logs_can_tell(bias: float, light: str) -> None:
    world = bandit.two_state((1.0, 2.0), (0.5, 0.5))
    name, policy = next(iter(world.policies.items()))
    episodes = world.sample(400, seed=0)
    answers = world.annotate(episodes, name, annotators=so.Annotator(bias=bias, std=0.5), seed=1)
    with quietly():
        results = so.evaluate(episodes, policy, annotations=answers, estimators="c-pdis")
    finding = {one.name: one for one in so.diagnose(results, refute=False)}["logs and answers"]
    assert finding.light == light
    assert bool(finding.way_out) == (light == RED)
