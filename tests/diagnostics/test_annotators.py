"""Lights on annotators: red where they must be, green where they must be."""

from __future__ import annotations

import numpy as np
import pytest

import semiope as so
from semiope.diagnostics.annotators import judge_annotators
from semiope.diagnostics.findings import AMBER, GREEN, RED, Finding
from semiope.diagnostics.quality import annotator_quality
from semiope.domains import bandit

WORLD = bandit.two_state((1.0, 2.0), (0.5, 0.5))


def judged(*experts: so.Annotator, n: int = 400) -> dict[str, Finding]:
    episodes = WORLD.sample(n, seed=0)
    answers = WORLD.annotate(episodes, WORLD.behavior, annotators=experts, of_action_taken=True, seed=1)
    scatter = float(np.std(np.add.reduceat(episodes.reward, episodes.offsets[:-1])))
    return {one.name: one for one in judge_annotators(annotator_quality(episodes, answers, 1.0), scatter)}


def test_good_annotators_are_green() -> None:
    found = judged(so.Annotator("ann", std=0.2, stated_std=0.2), so.Annotator("bob", std=0.2, stated_std=0.2))
    names = ("bias", "noise", "agreement", "stated std")
    assert {found[f"{name} of annotators"].light for name in names} == {GREEN}
    assert not any(one.way_out for one in found.values())


@pytest.mark.parametrize(
    ("name", "expert"),
    [
        ("bias of annotators", so.Annotator("bob", bias=2.0, std=0.2)),
        ("noise of annotators", so.Annotator("bob", std=4.0)),
        ("agreement of annotators", so.Annotator("bob", std=4.0)),
        ("stated std of annotators", so.Annotator("bob", std=1.0, stated_std=0.1)),
    ],
)
def test_bad_ones_are_red(name: str, expert: so.Annotator) -> None:
    found = judged(so.Annotator("ann", std=0.2, stated_std=expert.stated_std and 0.2), expert)[name]
    assert found.light == RED
    assert found.way_out
    assert "bob" in found.figure or "ICC" in found.figure or "times" in found.figure


def test_bias_that_may_be_the_policys_is_amber_at_most() -> None:
    """Over several steps, outcomes follow today's policy, and answers another one."""
    from semiope.domains import sepsis

    world = sepsis.world()
    episodes = world.sample(200, seed=0)
    expert = so.Annotator("ann", bias=1.5)
    answers = world.annotate(episodes, "optimal", annotators=expert, of_action_taken=True, seed=1)
    quality = annotator_quality(episodes, answers, 0.99)
    found = {one.name: one for one in judge_annotators(quality, 0.7)}
    expected = RED if quality.annotators[0].basis == "last step" else AMBER
    assert found["bias of annotators"].light == expected


def test_nothing_is_said_that_data_cannot_tell() -> None:
    episodes = WORLD.sample(10, seed=0)
    answers = WORLD.annotate(episodes, WORLD.behavior, seed=1)
    assert judge_annotators(annotator_quality(episodes, answers, 1.0), 1.0) == []
