"""From annotations of the behavior policy to annotations of the policy evaluated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import semiope as so
from semiope.domains import sepsis, tree
from semiope.repair.convert import convert
from tests.estimate.test_sepsis_golden import annotate, assert_golden, dataset, policy_of
from tests.repair.measure import case_of, rmse

pytestmark = pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")


@pytest.mark.parametrize("run", range(5))
def test_the_authors_conversion(run: int) -> None:
    """Their estimates on their own data for all 26 policies, to 1e-9."""
    episodes = dataset(run)
    annotations = annotate(episodes, sepsis.world().behavior)
    options: dict[str, Any] = {"cell": "step,state", "estimators": ["c-pdis", "c-pdwis"], "gamma": 0.99}
    policies = {str(number): policy_of(number) for number in range(26)}
    found = so.evaluate(episodes, policies, annotations=annotations, repair="convert:authors", **options)
    for number in range(26):
        result = found[str(number)]
        assert_golden("c-pdis (G=Qb->Qe)", number, run, result["c-pdis"], result["c-pdwis"])


@pytest.mark.parametrize("name", ["always-y", "uniform", "optimal"])
@pytest.mark.parametrize("option", ["", "authors"])
def test_where_the_model_is_right_the_conversion_is(name: str, option: str) -> None:
    """A tree without chance in which every pair is logged: the counted MDP is the true one."""
    world = tree.tree(3, slip=0.0, behavior=(0.5, 0.5))
    episodes = world.sample(400, seed=1)
    policy = world.policies[name]
    case = case_of(episodes, policy)
    # The counted behavior policy is not exactly one half: annotations of what the logs show.
    practice = so.annotate(episodes, case.records.empirical.mdp, case.model(behavior=True).returns())
    expected = so.annotate(episodes, world.mdp, policy)
    found, done = convert(practice, case, option)
    assert found.value == pytest.approx(expected.value, abs=1e-9)
    assert done.startswith("convert: ")
    assert "kept" not in done


def test_the_same_policy_changes_nothing() -> None:
    world = tree.tree(3)
    episodes = world.sample(300, seed=2)
    practice = world.annotate(episodes, "behavior", annotators=so.Annotator(std=0.5, ratio=0.3), seed=1)
    for option in ("", "authors"):
        same, _ = convert(practice, case_of(episodes, so.estimate_behavior(episodes)), option)
        assert same.value == pytest.approx(practice.value, abs=1e-9)


def test_pairs_never_logged_are_counted() -> None:
    """As the paper's code has it they are kept; else they change by what follows their state in general."""
    world = tree.tree(3, slip=0.0, behavior=(1.0, 0.0))
    episodes = world.sample(20, seed=1)
    practice, policy = world.annotate(episodes, "behavior"), world.policies["always-y"]
    options: dict[str, Any] = {"annotations": practice, "estimators": ["c-pdis"]}
    kept = so.evaluate(episodes, policy, repair="convert:authors", **options)
    assert "60 annotations of pairs never logged kept" in kept.diagnostics["notes"][0]
    assert kept["c-pdis"].value == so.evaluate(episodes, policy, **options)["c-pdis"].value
    found = so.evaluate(episodes, policy, repair=["convert"], **options)
    assert "60 of pairs never logged, by what follows their state in general" in found.diagnostics["notes"][0]
    assert found.settings["repair"] == ["convert"]


def test_by_hand() -> None:
    """Two steps; x leads to m; in m the policy changes from a to b, which the logs know to be worth 1 more."""
    rows = {
        "episode": [0, 0, 1, 1, 2, 2, 3, 3], "step": [0, 1] * 4, "state": ["x", "m"] * 4,
        "action": ["go", "a", "go", "b", "stay", "a", "stay", "b"], "reward": [0.0, 1.0, 0.0, 2.0, 0.0, 1.0, 0.0, 2.0],
    }  # fmt: skip
    episodes = so.Episodes.from_arrays(**rows)
    policy = so.Policy.from_arrow({"state": ["x", "m"], "action": ["go", "b"], "prob": [1.0, 1.0]})
    asked = so.Annotations.from_arrays(episode=[2, 0], step=[0, 1], action=["go", "b"], value=[1.5, 2.0])
    for option in ("", "authors"):
        found, _ = convert(asked, case_of(episodes, policy), option)
        # Before m half of the time a is taken in practice: 1.5 becomes 2. In m nothing follows.
        assert found.value.tolist() == pytest.approx([2.0, 2.0])


def test_on_sepsis_it_brings_the_estimate_closer() -> None:
    """Four datasets: RMSE over policies, ours below the authors', both far below none."""
    world = sepsis.world()
    policies = {name: world.policies[name] for name in list(world.policies)[::3]}
    measured: dict[str | None, list[float]] = {None: [], "convert:authors": [], "convert": []}
    for k in range(4):
        episodes = world.sample(1000, seed=3, first=1000 * k)
        annotations = world.annotate(episodes, "behavior")
        for repair, found in measured.items():
            found.append(rmse(world, policies, episodes, annotations, repair))
    none, theirs, ours = (float(np.mean(found)) for found in measured.values())
    assert ours < theirs < 0.6 * none
