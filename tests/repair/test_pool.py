"""Several annotators made one."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import semiope as so
from semiope.domains import tree
from semiope.repair.pool import pool
from tests.repair.measure import case_of

pytestmark = pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")

ANNOTATORS = [so.Annotator("ann", 0.0, 0.1), so.Annotator("bob", 0.2, 0.3), so.Annotator("cy", -0.3, 1.0)]


def shared_out(n: int, seed: int, overlap: float = 0.2) -> np.ndarray:
    """Who annotates which of n questions: one of three each, and a share of them a second one."""
    rng = np.random.default_rng(seed)
    first, both = rng.integers(3, size=n), rng.random(n) < overlap
    second = (first + 1 + rng.integers(2, size=n)) % 3
    return np.flatnonzero(np.concatenate([(first == j) | (both & (second == j)) for j in range(3)]))


def found_in(note: str) -> dict[str, tuple[float, float]]:
    """Offset and noise of each annotator, from the sentence that tells them."""
    pattern = r"(\w+) offset ([-+.\de]+) noise ([-+.\de]+)"
    return {name: (float(offset), float(noise)) for name, offset, noise in re.findall(pattern, note)}


@pytest.mark.parametrize("overlap", [0.2, 0.0])
def test_offsets_and_noise_are_found(overlap: float) -> None:
    """Offsets are relative to the mean of all; without shared questions, they come from the model's residuals."""
    world = tree.tree(4, slip=0.2)
    episodes = world.sample(2000, seed=1)
    everything = world.annotate(episodes, "uniform", annotators=ANNOTATORS, seed=2)
    some = everything.some(shared_out(len(everything) // 3, 3, overlap))
    case = case_of(episodes, world.policies["uniform"])
    _, note = pool(some, case)
    found = found_in(note)
    mean = np.mean([0.0, 0.2, -0.3])
    for one in ANNOTATORS:
        offset, noise = found[one.name]
        assert offset == pytest.approx(one.bias - mean, abs=0.06)
        assert noise == pytest.approx(one.std, rel=0.2)
    assert bool(case.doubts) == (overlap == 0)


def test_a_bias_that_all_share_stays() -> None:
    """Nothing tells it from the truth here, whatever the logs' model says."""
    world = tree.tree(3)
    episodes = world.sample(500, seed=1)
    alike = [so.Annotator("ann", 2.0, 0.1), so.Annotator("bob", 2.0, 0.1)]
    given = world.annotate(episodes, "uniform", annotators=alike, seed=2)
    pooled, _ = pool(given, case_of(episodes, world.policies["uniform"]))
    exact = world.annotate(episodes, "uniform")
    found = {(r["episode"], r["step"], r["action"]): r["value"] for r in pooled.to_arrow().to_pylist()}
    off = [found[r["episode"], r["step"], r["action"]] - r["value"] for r in exact.to_arrow().to_pylist()]
    assert np.mean(off) == pytest.approx(2.0, abs=0.02)
    assert pooled.std is not None
    assert (pooled.std > 0).all()
    assert pooled.annotator is None


def test_an_annotator_whose_questions_nobody_else_annotated_is_used_and_named() -> None:
    world = tree.tree(3)
    episodes = world.sample(400, seed=1)
    everything = world.annotate(episodes, "uniform", annotators=ANNOTATORS[:2], seed=2)
    n = len(everything) // 2
    keep = np.flatnonzero(np.concatenate([np.arange(n) % 2 == 0, np.arange(n) % 2 == 1]))
    case = case_of(episodes, world.policies["uniform"])
    pooled, _ = pool(everything.some(keep), case)
    assert len(pooled) == n
    assert "nobody else annotated what ann, bob did" in case.doubts[0]
    with pytest.warns(so.StatisticalWarning, match="nobody else annotated"):
        so.evaluate(
            episodes, world.policies["uniform"], annotations=everything.some(keep), repair="pool",
            estimators=["c-pdis"],
        )  # fmt: skip


@pytest.mark.parametrize("values", [(2e6, 2e6), (1e200, 1.0), (0.0, 0.0), (1e-200, 3e-200)])
@pytest.mark.parametrize("estimator", ["c-pdis", "pp-dr"])
def test_extreme_annotations_stay_numbers(values: tuple[float, float], estimator: str) -> None:
    rewards = [values[0] / 2, values[0]]
    episodes = so.Episodes.from_arrays(episode=[0, 1], step=[0, 0], state=["s", "s"], action=["a", "b"], reward=rewards)
    policy = so.Policy.from_arrow({"state": ["s"], "action": ["b"], "prob": [1.0]})
    answers = so.Annotations.from_arrays(
        episode=[0, 0], step=[0, 0], action=["b", "b"], value=list(values), annotator=["x", "y"]
    )
    found = so.evaluate(episodes, policy, annotations=answers, repair="pool", estimators=[estimator])[estimator].value
    assert np.isfinite(found)
    if values == (2e6, 2e6) and estimator == "c-pdis":
        assert found == pytest.approx(2e6)


def test_without_names_nothing_is_done() -> None:
    world = tree.tree(3)
    episodes = world.sample(50, seed=1)
    nameless = replace(world.annotate(episodes, "uniform", annotators=so.Annotator(bias=2.0), seed=1), annotator=None)
    same, note = pool(nameless, case_of(episodes, world.policies["uniform"]))
    assert same is nameless
    assert "nobody is named" in note


def test_pooling_needs_to_know_who() -> None:
    world = tree.tree(3)
    episodes = world.sample(50, seed=1)
    some = world.annotate(episodes, "uniform")
    gaps = replace(some, annotator=pa.array([None, *["ann"] * (len(some) - 1)]))
    with pytest.raises(so.SchemaError, match="column 'annotator' has gaps"):
        so.evaluate(episodes, world.policies["uniform"], annotations=gaps, repair="pool")


def test_annotations_of_actions_taken_alone() -> None:
    """There is nothing to pool into an estimate."""
    episodes = so.Episodes.from_arrays(episode=[0, 1], step=[0, 0], state=["s", "s"], action=["a", "b"], reward=[0, 1])
    policy = so.Policy.from_arrow({"state": ["s"], "action": ["b"], "prob": [1.0]})
    answers = so.Annotations.from_arrays(episode=[1], step=[0], action=["b"], value=[1.0], annotator=["ann"])
    found = so.evaluate(episodes, policy, annotations=answers, repair="pool", estimators=["c-pdis", "dm+-is+"])
    assert found["c-pdis"].value == pytest.approx(1.0)
    notes = " ".join(found.diagnostics["notes"])
    assert "c-pdis is pdis, dm+-is+ is dr" in notes
