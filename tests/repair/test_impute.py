"""Missing annotations filled in by the mean of their kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import semiope as so
from semiope.domains import tree
from semiope.repair.impute import impute
from tests.repair.measure import case_of

pytestmark = pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")

EPISODES = so.Episodes.from_arrays(
    episode=[0, 0, 1, 1, 2, 2], step=[0, 1] * 3, state=["s", "s", "s", "u", "s", "s"],
    action=["a", "a", "a", "a", "b", "a"], reward=[1.0] * 6,
)  # fmt: skip
POLICY = so.Policy.from_arrow({"state": ["s", "u"], "action": ["b", "b"], "prob": [1.0, 1.0]})
CASE = case_of(EPISODES, POLICY)


def rows(annotations: so.Annotations) -> dict[tuple[Any, ...], float]:
    return {(row["episode"], row["step"], row["action"]): row["value"] for row in annotations.to_arrow().to_pylist()}


def test_by_hand() -> None:
    """(s, b) was annotated twice; (u, b) never; (s, a) is imputed where b was taken only if it was annotated."""
    asked = so.Annotations.from_arrays(episode=[0, 1], step=[0, 0], action=["b", "b"], value=[4.0, 6.0])
    found, done = impute(asked, CASE)
    assert rows(found) == {(0, 0, "b"): 4.0, (0, 1, "b"): 5.0, (1, 0, "b"): 6.0, (2, 1, "b"): 5.0}
    assert done == "impute: 2 answers filled in beside 2 answers given."


def test_by_step() -> None:
    asked = so.Annotations.from_arrays(episode=[0, 0, 2], step=[0, 1, 0], action=["b", "b", "a"], value=[4.0, 6.0, 1.0])
    found, _ = impute(asked, CASE, "step")
    assert rows(found) == {(0, 0, "b"): 4.0, (0, 1, "b"): 6.0, (1, 0, "b"): 4.0, (2, 0, "a"): 1.0, (2, 1, "b"): 6.0}


def test_what_is_there_stays_in_whatever_order_it_came() -> None:
    world = tree.tree(4)
    episodes = world.sample(200, seed=1)
    some = world.annotate(episodes, "uniform", annotators=so.Annotator(std=1.0, ratio=0.3), seed=2)
    order = np.random.default_rng(0).permutation(len(some))
    shuffled = so.Annotations.from_arrow(some.to_arrow().take(order))
    case = case_of(episodes, world.policies["uniform"])
    for given in (some, shuffled):
        found = rows(impute(given, case)[0])
        assert all(found[key] == value for key, value in rows(some).items())
        assert len(found) > 2 * len(some)


@pytest.mark.parametrize(
    ("repair", "message"),
    [
        ("imptue", r"'imptue' is no step. Did you mean 'impute'\?"),
        ("impute:steps", r"impute has no option 'steps'. Did you mean 'step'\?"),
        ("convert:x", "Known: authors"),
        ("pool:x", "Known: none"),
        ("pool,pool", "pool is there twice"),
        (5, "is no list of steps"),
        (["convert", "pol"], "Did you mean 'pool'"),
        ("model", "pp-dr and pp-pdis complete annotations by themselves"),
    ],
)
def test_steps_that_do_not_exist(repair: Any, message: str) -> None:
    with pytest.raises(so.OptionError, match=message):
        so.evaluate(EPISODES, POLICY, repair=repair)


def test_annotations_of_actions_taken_alone_teach_nothing() -> None:
    taken = so.Annotations.from_arrays(episode=[0], step=[0], action=["a"], value=[4.0])
    with pytest.raises(so.SchemaError, match="about actions that were taken"):
        so.evaluate(EPISODES, POLICY, annotations=taken, repair="impute")


def test_what_cannot_be_repaired() -> None:
    with pytest.raises(so.OptionError, match="no annotations to repair"):
        so.evaluate(EPISODES, POLICY, repair="impute")
    asked = so.Annotations.from_arrays(episode=[0], step=[0], action=["b"], value=[4.0])
    by_row = so.RowPolicy.from_arrays(episode=[0, 0, 1, 1, 2, 2], step=[0, 1] * 3, action=["b"] * 6, prob=[1.0] * 6)
    with pytest.raises(so.OptionError, match="given row by row"):
        so.evaluate(EPISODES, by_row, annotations=asked, repair="convert")
