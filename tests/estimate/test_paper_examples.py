"""The worked examples of section 3.1 and appendix B."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import semiope as so

UP, DOWN = "up", "down"
inside = st.floats(0.001, 0.999)

pytestmark = pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")


def two_states(weight: float | None = None) -> dict[str, Any]:
    episodes = {"episode": [1, 2], "step": [0, 0], "state": ["s1", "s2"], "action": [UP, UP], "reward": [1.0, 0.0]}
    annotations = {"episode": [1], "step": [0], "action": [DOWN], "value": [1.0]}
    policy = so.read_policy({"state": ["s1", "s2"], "action": [DOWN, UP], "prob": [1.0, 1.0]})
    if weight is not None:
        annotations["weight"] = [weight]
    return {"episodes": episodes, "policy": policy, "annotations": annotations}


def test_naive_gives_two_thirds() -> None:
    found = so.evaluate(**two_states(), estimators=["naive-unweighted"])
    assert found["naive-unweighted"].value == pytest.approx(2 / 3, abs=1e-15)


@given(share=inside)
@pytest.mark.parametrize("name", ["c-is", "c-pdis", "c-wis", "c-pdwis"])
def test_split_weights_give_one_half_for_every_split(name: str, share: float) -> None:
    found = so.evaluate(**two_states(1 - share), estimators=[name], weights="column")
    assert found[name].value == pytest.approx(0.5, abs=1e-14)


def test_logs_alone_are_blind_to_the_action_never_taken() -> None:
    with pytest.warns(so.StatisticalWarning, match=r"50\.0% of its decisions .* 's1' \(100%, mostly 'down'\)"):
        found = so.evaluate(**two_states() | {"annotations": None}, estimators=["is"])
    assert found["is"].value == 0.0


@given(share=inside)
def test_sample_specific_weights(share: float) -> None:
    """Appendix B.1: one sample annotated, the other not; the mean weights are (1 + alpha) / 2 and (1 - alpha) / 2."""
    found = so.evaluate(
        {"episode": [1, 2], "step": [0, 0], "state": ["s", "s"], "action": [UP, UP], "reward": [1.0, 1.0]},
        so.read_policy({"state": ["s"], "action": [DOWN], "prob": [1.0]}),
        annotations={"episode": [1], "step": [0], "action": [DOWN], "value": [1.0], "weight": [1 - share]},
        estimators=["c-is"],
        weights="column",
    )
    assert found["c-is"].value == pytest.approx(1.0, abs=1e-14)
    # Only the annotated sample counts, with weight (1 - alpha) against a mean of (1 - alpha) / 2.
    assert found["c-is"].values == pytest.approx([2.0, 0.0], abs=1e-14)
