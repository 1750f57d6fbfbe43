"""Several annotators made one."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import semiope as so
from semiope.domains import sepsis, tree
from semiope.domains.world import World
from semiope.models.case import Case, Records
from semiope.repair.pool import pool, study
from semiope.repair.steps import repaired
from tests.repair.measure import rmse

pytestmark = pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")

EXPERTS = [so.Annotator("ann", 0.0, 0.1), so.Annotator("bob", 0.2, 0.3), so.Annotator("cy", -0.3, 1.0)]


def some_of(annotations: so.Annotations, keep: np.ndarray) -> so.Annotations:
    which = np.flatnonzero(keep)
    assert annotations.annotator is not None
    return replace(
        annotations, episode=annotations.episode[which], step=annotations.step[which],
        action=annotations.action[which], value=annotations.value[which],
        annotator=annotations.annotator.take(pa.array(which)),
    )  # fmt: skip


def shared_out(n: int, seed: int, overlap: float = 0.2) -> np.ndarray:
    """Who answers which of n questions: one of three each, and a share of them a second one."""
    rng = np.random.default_rng(seed)
    first, both = rng.integers(3, size=n), rng.random(n) < overlap
    second = (first + 1 + rng.integers(2, size=n)) % 3
    return np.concatenate([(first == j) | (both & (second == j)) for j in range(3)])


def test_biases_and_noises_are_found() -> None:
    """2000 questions, those shared among two; outcomes for none: biases are known up to what all have in common."""
    rng = np.random.default_rng(1)
    n, bias, noise = 6000, np.array([0.0, 0.2, -0.3]), np.array([0.1, 0.3, 1.0])
    missed, keep = rng.normal(scale=0.2, size=n), shared_out(n, 2)
    who, question = np.divmod(np.flatnonzero(keep), n)
    residual = missed[question] + bias[who] + noise[who] * rng.normal(size=len(who))
    known = np.ones(len(who), dtype=bool)
    found = study(residual, who, question, known, ["ann", "bob", "cy"])
    assert found.noise == pytest.approx(noise, rel=0.1)
    assert np.diff(found.bias) == pytest.approx(np.diff(bias), abs=0.06)
    assert abs(found.bias[0]) < 0.05
    # Answers that say how sure they are: noise in proportion.
    std = rng.uniform(0.5, 2.0, size=len(who))
    unequal = missed[question] + bias[who] + noise[who] * std * rng.normal(size=len(who))
    known_std = study(unequal, who, question, known, ["ann", "bob", "cy"], std)
    assert known_std.noise == pytest.approx(noise * np.sqrt(np.mean(std**2)), rel=0.1)


def test_who_answers_about_what_the_logs_do_not_know_is_not_biased_for_that() -> None:
    """ann is off by 1 and answers mostly what is unknown, where the model is off by 0.5; bob is not, and does not."""
    rng = np.random.default_rng(3)
    n = 3000
    known = rng.random(n) < 0.5
    asked = [rng.random(n) < np.where(known, 0.2, 0.8), rng.random(n) < np.where(known, 0.8, 0.2)]
    who, question = np.divmod(np.flatnonzero(np.concatenate(asked)), n)
    missed = rng.normal(scale=0.2, size=n) + np.where(known, 0.0, 0.5)
    residual = missed[question] + (who == 0) + 0.1 * rng.normal(size=len(who))
    found = study(residual, who, question, known[question], ["ann", "bob"])
    assert found.bias[0] - found.bias[1] == pytest.approx(1.0, abs=0.1)
    assert found.noise == pytest.approx([0.1, 0.1], abs=0.05)


def test_pooling_on_sepsis() -> None:
    """Three annotators, a fifth of the questions shared, ten datasets.

    Pooled (and filled in by the model) at most 1.5 times what the unbiased one alone would give on all questions, and
    below 0.6 times what the plain mean gives.
    """
    world = sepsis.world()
    policies = {name: world.policies[name] for name in list(world.policies)[::5]}
    measured: dict[str, list[float]] = {"alone": [], "mean": [], "pool": []}
    for k in range(10):
        episodes = world.sample(1000, seed=9, first=1000 * k)
        everything = world.annotate(episodes, policies, annotators=EXPERTS, seed=k)
        keep = shared_out(len(next(iter(everything.values()))) // 3, k)
        some = {name: some_of(one, keep) for name, one in everything.items()}
        alone = world.annotate(episodes, policies, annotators=EXPERTS[0], seed=k)
        for name, given, repair in (("alone", alone, None), ("mean", some, None), ("pool", some, "pool,model")):
            measured[name].append(rmse(world, policies, episodes, given, repair))
    alone_, mean, pooled = (float(np.mean(found)) for found in measured.values())
    assert pooled < 1.5 * alone_
    assert pooled < 0.6 * mean


def case_of(world: World, episodes: so.Episodes) -> Case:
    return Case(Records(episodes, ("x", "y"), 1.0), world.policies["uniform"], "uniform")


def test_outcomes_of_actions_taken_show_a_bias_that_all_share() -> None:
    world = tree.tree(3, reward_std=0.2)
    episodes = world.sample(3000, seed=1)
    experts = [so.Annotator("ann", 0.5, 0.1), so.Annotator("bob", 0.6, 0.1)]
    options: dict[str, Any] = {"annotators": experts, "seed": 2}
    with_taken = world.annotate(episodes, "uniform", of_action_taken=True, **options)
    pooled, told = pool(with_taken, case_of(world, episodes))
    assert "ann bias +0.5" in told
    exact = world.annotate(episodes, "uniform", of_action_taken=True)
    assert len(pooled) == len(exact)
    found = {(r["episode"], r["step"], r["action"]): r["value"] for r in pooled.to_arrow().to_pylist()}
    off = [found[r["episode"], r["step"], r["action"]] - r["value"] for r in exact.to_arrow().to_pylist()]
    assert abs(np.mean(off)) < 0.05
    assert pooled.std is not None
    assert pooled.annotator is None


def test_before_a_conversion_outcomes_are_those_of_todays_policy() -> None:
    """Answers about today's policy, one that differs from the one evaluated by a lot: no bias is found in them."""
    world = tree.tree(3, leaf_rewards=[0, 0, 0, 0, 5, 5, 5, 5], slip=0.0)
    episodes = world.sample(3000, seed=1)
    experts = [so.Annotator("ann", 0.0, 0.1), so.Annotator("bob", 0.2, 0.1)]
    today = world.annotate(episodes, "behavior", annotators=experts, of_action_taken=True, seed=2)
    case = Case(Records(episodes, ("x", "y"), 1.0), world.policies["always-y"], "always-y")
    told = repaired(today, case, [("pool", ""), ("convert", "")]).notes[0]
    assert re.search(r"ann bias [-+]0\.0\d* noise 0\.1", told)
    exact = so.evaluate(
        episodes, world.policies["always-y"], annotations=today, repair="pool,convert", estimators=["c-pdis"]
    )["c-pdis"]
    assert exact.value == pytest.approx(5.0, abs=0.1)


def test_an_annotator_whose_questions_nobody_else_answered_is_used_and_named() -> None:
    world = tree.tree(3)
    episodes = world.sample(400, seed=1)
    everything = world.annotate(episodes, "uniform", annotators=EXPERTS[:2], seed=2)
    n = len(everything) // 2
    keep = np.concatenate([np.arange(n) % 2 == 0, np.arange(n) % 2 == 1])
    case = case_of(world, episodes)
    pooled, _ = pool(some_of(everything, keep), case)
    assert len(pooled) == n
    assert "nobody else answered what ann, bob did" in case.doubts[0]
    with pytest.warns(so.StatisticalWarning, match="nobody else answered"):
        so.evaluate(
            episodes, world.policies["uniform"], annotations=some_of(everything, keep), repair="pool",
            estimators=["c-pdis"],
        )  # fmt: skip


@pytest.mark.parametrize("values", [(2e6, 2e6), (1e200, 1.0), (0.0, 0.0), (1e-200, 3e-200)])
def test_extreme_answers_stay_numbers(values: tuple[float, float]) -> None:
    rewards = [values[0] / 2, values[0]]
    episodes = so.Episodes.from_arrays(episode=[0, 1], step=[0, 0], state=["s", "s"], action=["a", "b"], reward=rewards)
    policy = so.Policy.from_arrow({"state": ["s"], "action": ["b"], "prob": [1.0]})
    answers = so.Annotations.from_arrays(
        episode=[0, 0], step=[0, 0], action=["b", "b"], value=list(values), annotator=["x", "y"]
    )
    found = so.evaluate(episodes, policy, annotations=answers, repair="pool", estimators=["c-pdis"])["c-pdis"].value
    assert np.isfinite(found)
    if values == (2e6, 2e6):
        assert found == pytest.approx(2e6)


def test_answers_without_names_are_taken_for_one_annotators() -> None:
    world = tree.tree(3)
    episodes = world.sample(2000, seed=1)
    nameless = replace(world.annotate(episodes, "uniform", annotators=so.Annotator(bias=2.0), seed=1), annotator=None)
    found = so.evaluate(episodes, world.policies["uniform"], annotations=nameless, repair="pool", estimators=["c-pdis"])
    assert re.search(r"all answers bias \+(1\.9|2)", found.diagnostics["notes"][0])
    assert found["c-pdis"].value == pytest.approx(world.mdp.value(world.policies["uniform"]), abs=0.15)


def test_pooling_needs_to_know_who() -> None:
    world = tree.tree(3)
    episodes = world.sample(50, seed=1)
    some = world.annotate(episodes, "uniform")
    gaps = replace(some, annotator=pa.array([None, *["ann"] * (len(some) - 1)]))
    with pytest.raises(so.SchemaError, match="column 'annotator' has gaps"):
        so.evaluate(episodes, world.policies["uniform"], annotations=gaps, repair="pool")


def test_answers_about_actions_taken_alone() -> None:
    """One of them says nothing about a level, several do; there is nothing to pool into an estimate."""
    episodes = so.Episodes.from_arrays(episode=[0, 1], step=[0, 0], state=["s", "s"], action=["a", "b"], reward=[0, 1])
    policy = so.Policy.from_arrow({"state": ["s"], "action": ["b"], "prob": [1.0]})
    answers = so.Annotations.from_arrays(episode=[1], step=[0], action=["b"], value=[1.0])
    found = so.evaluate(episodes, policy, annotations=answers, repair="pool", estimators=["c-pdis", "dm+-is+"])
    assert found["c-pdis"].value == pytest.approx(1.0)
    notes = " ".join(found.diagnostics["notes"])
    assert "c-pdis is pdis, dm+-is+ is dr" in notes
