"""Choosing repairs and weights by what annotations look like."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import semiope as so
from semiope.domains import tree

pytestmark = pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")


def reasons(result: so.Results) -> str:
    return " ".join(result.diagnostics["notes"])


@pytest.mark.parametrize(
    ("annotators", "steps"),
    [
        (so.Annotator(), []),
        (so.Annotator(std=0.2, ratio=0.1), []),
        (so.Annotator(bias=0.3), []),
        ([so.Annotator("a", 0.2, 0.1), so.Annotator("b", 0.0, 0.3)], ["pool"]),
    ],
)
def test_choices(annotators: Any, steps: list[str]) -> None:
    """Nothing is chosen by how annotations compare with a model: neither noise nor a bias is a reason."""
    world = tree.tree(3)
    episodes = world.sample(300, seed=5)
    answers = world.annotate(episodes, "uniform", annotators=annotators, seed=5)
    options: dict[str, Any] = {"annotations": answers, "estimators": ["c-pdis", "pp-dr"]}
    found = so.evaluate(episodes, world.policies["uniform"], repair="auto", weights="auto", **options)
    assert found.settings["repair"] == steps
    assert found.settings["weights"] == "optimal"
    assert f"repair: {steps[0] if steps else 'none'}, because" in reasons(found)
    plain = so.evaluate(episodes, world.policies["uniform"], repair=steps or None, **options)
    assert found["pp-dr"].unshrunk == pytest.approx(plain["pp-dr"].unshrunk)


def test_nothing_to_choose_from() -> None:
    world = tree.tree(3)
    episodes = world.sample(200, seed=1)
    policy = world.policies["uniform"]
    options: dict[str, Any] = {"estimators": ["c-pdis"], "weights": "auto"}
    assert "there are no annotations" in reasons(so.evaluate(episodes, policy, **options))
    few = world.sample(20, seed=1)
    answers = world.annotate(few, "uniform")
    assert "20 episodes are too few" in reasons(so.evaluate(few, policy, annotations=answers, **options))
    with pytest.raises(so.OptionError, match="It stands alone"):
        so.evaluate(episodes, policy, annotations=world.annotate(episodes, "uniform"), repair="auto,pool")


def test_a_policy_given_row_by_row_is_no_obstacle() -> None:
    world = tree.tree(3)
    episodes = world.sample(200, seed=1)
    rows = np.flatnonzero(episodes.action >= 0)
    by_row = so.RowPolicy.from_arrays(
        episode=np.repeat(episodes.episode_of(rows), 2), step=np.repeat(episodes.step[rows], 2),
        action=np.tile(["x", "y"], len(rows)), prob=np.full(2 * len(rows), 0.5),
    )  # fmt: skip
    two = [so.Annotator("a", 0.2, 0.1), so.Annotator("b", 0.0, 0.3)]
    answers = world.annotate(episodes, "uniform", annotators=two, seed=1)
    found = so.evaluate(episodes, by_row, annotations=answers, repair="auto")
    assert found.settings["repair"] == ["pool"]
    low, high = found[found.headline].interval()
    assert low < world.mdp.value(world.policies["uniform"]) < high
