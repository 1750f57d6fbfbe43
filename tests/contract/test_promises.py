"""Promises that every registered estimator keeps, on random logs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import semiope as so
from semiope.data.tables import write_table
from semiope.estimate import problem
from tests.contract.worlds import N_ACTIONS, N_STATES, Logs, random_logs

pytestmark = pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")

ALL = list(so.ESTIMATORS)
NAIVE = [name for name, estimator in so.ESTIMATORS.items() if estimator.naive]
LEARNING = [name for name, estimator in so.ESTIMATORS.items() if estimator.recipe.critic == "annotated"]
CELLS = st.sampled_from(["state", "step,state"])
seeds = st.integers(0, 10**6)
every_estimator = pytest.mark.parametrize("name", ALL)
few = settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])


def logs_for(name: str, seed: int) -> Logs:
    """Random logs that the estimator can use: the closed forms need every action annotated."""
    return random_logs(seed, fully_annotated=so.ESTIMATORS[name].requires is not None)


def assert_same(one: so.Estimate, other: so.Estimate, rel: float = 1e-9) -> None:
    for field in ("value", "std_error", "ess"):
        expected = getattr(one, field)
        assert getattr(other, field) == pytest.approx(expected, rel=rel, abs=1e-11, nan_ok=True), field


@pytest.mark.parametrize("name", [name for name in ALL if name.startswith("c-")])
@given(seed=seeds, cell=CELLS, known=st.booleans())
@few
def test_without_annotations_c_x_is_x(name: str, seed: int, cell: str, known: bool) -> None:
    logs = logs_for(name, seed)
    plain = name.removeprefix("c-")
    options: dict[str, Any] = {"cell": cell} if known else {"cell": cell, "behavior": "count"}
    expected = logs.evaluate([plain], **options)[plain]
    for found in (
        logs.without_annotations().evaluate([name], **options),
        logs.evaluate([name], weights="factual", **options),
    ):
        assert found[name].values == pytest.approx(expected.values, rel=1e-12)
        assert_same(expected, found[name])


@given(seed=seeds)
@few
def test_without_annotations_logged_propensities_are_kept_row_by_row(seed: int) -> None:
    logs = random_logs(seed, fully_annotated=False)
    propensity = np.random.default_rng(seed).uniform(0.05, 1, size=len(logs.episodes["step"]))
    logs = replace(logs, episodes={**logs.episodes, "behavior_prob": propensity})
    found = logs.evaluate(["pdis", "c-pdis"], weights="factual", behavior=None)
    assert found["c-pdis"].values == pytest.approx(found["pdis"].values, rel=1e-12)


@pytest.mark.parametrize("closed", [name for name in ALL if name.startswith("c*")])
@given(seed=seeds)
@few
def test_all_annotated_with_equal_weights_is_the_closed_form(closed: str, seed: int) -> None:
    logs = random_logs(seed, fully_annotated=True, every_pair=True)
    name = closed.replace("*", "")
    found = logs.evaluate([closed, name], weights="equal")
    assert found[name].values == pytest.approx(found[closed].values, rel=1e-11, abs=1e-12)
    assert found[closed].normalizers == pytest.approx(np.ones(len(found[closed].values)))


@every_estimator
@given(seed=seeds, cell=CELLS)
@few
def test_row_order_does_not_matter(name: str, seed: int, cell: str) -> None:
    logs = logs_for(name, seed)
    rng = np.random.default_rng(seed + 1)
    shuffled = replace(logs, episodes=permuted(logs.episodes, rng), annotations=permuted(logs.annotations, rng))
    one, other = logs.evaluate([name], cell=cell)[name], shuffled.evaluate([name], cell=cell)[name]
    assert np.array_equal(one.values, other.values)
    assert np.array_equal(one.normalizers, other.normalizers)
    assert one.value == pytest.approx(other.value, rel=0, abs=0, nan_ok=True)


@every_estimator
@given(seed=seeds, cell=CELLS)
@few
def test_labels_do_not_matter(name: str, seed: int, cell: str) -> None:
    """States and actions permuted and called by strings."""
    logs = logs_for(name, seed)
    rng = np.random.default_rng(seed + 1)
    states = np.array([f"state {letter}" for letter in "xyz"])[rng.permutation(N_STATES)]
    actions = np.array(["left", "right", "none"])[rng.permutation(N_ACTIONS)]
    taken = logs.episodes["action"]
    episodes = {
        **logs.episodes,
        "episode": np.array([f"e{label}" for label in logs.episodes["episode"]]),
        "state": states[logs.episodes["state"]],
        "action": pa.array(actions[taken], mask=taken < 0),
    }
    annotations = {
        **logs.annotations,
        "episode": np.array([f"e{label}" for label in logs.annotations["episode"]], dtype=object),
        "action": actions[logs.annotations["action"]],
    }
    found = so.evaluate(
        so.Episodes.from_arrow(episodes),
        policy_table(logs.evaluation, states, actions),
        annotations=so.Annotations.from_arrow(annotations) if len(annotations["step"]) else None,
        behavior=policy_table(logs.behavior, states, actions),
        cell=cell,
        estimators=[name],
        gamma=0.9,
    )
    assert_same(logs.evaluate([name], cell=cell)[name], found[name])


@every_estimator
@given(seed=seeds, cell=CELLS, rows=st.integers(1, 7))
@few
def test_parts_do_not_matter(
    name: str, seed: int, cell: str, rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables cut anywhere into a folder of parts, episodes merged from parts, passes in slabs of any size."""
    logs = logs_for(name, seed)
    expected = logs.evaluate([name], cell=cell)[name]
    whole = so.Episodes.from_arrays(**logs.episodes)
    table = whole.to_arrow()
    folder = tmp_path / f"{seed} {rows} {cell}"
    folder.mkdir(exist_ok=True)
    for number, start in enumerate(range(0, len(table), rows)):
        write_table(table.slice(start, rows), folder / f"part-{number:03d}.parquet")
    half = logs.episodes["episode"] < np.median(logs.episodes["episode"]) + 0.5
    parts = [
        so.Episodes.from_arrays(**{column: values[side] for column, values in logs.episodes.items()})
        for side in (half, ~half)
        if side.any()
    ]
    monkeypatch.setattr(problem, "ROWS_PER_SLAB", rows)
    annotations = so.Annotations.from_arrays(**logs.annotations) if len(logs.annotations["step"]) else None
    for episodes in (so.read_episodes(folder), so.Episodes.concat(parts)):
        found = so.evaluate(
            episodes,
            so.Policy.from_table(logs.evaluation),
            annotations=annotations,
            behavior=so.Policy.from_table(logs.behavior),
            cell=cell,
            estimators=[name],
            gamma=0.9,
        )[name]
        assert found.values == pytest.approx(expected.values, rel=1e-12, abs=1e-14)
        assert_same(expected, found, rel=1e-12)


@every_estimator
@given(seed=seeds, factor=st.floats(-100, 100).filter(lambda x: abs(x) > 1e-3))
@few
def test_scaling_rewards_and_annotations_scales_values(name: str, seed: int, factor: float) -> None:
    logs = logs_for(name, seed)
    scaled = replace(
        logs,
        episodes={**logs.episodes, "reward": factor * logs.episodes["reward"]},
        annotations={**logs.annotations, "value": factor * logs.annotations["value"]},
    )
    one, other = logs.evaluate([name])[name], scaled.evaluate([name])[name]
    assert other.value == pytest.approx(factor * one.value, rel=1e-9, abs=1e-9, nan_ok=True)
    assert other.std_error == pytest.approx(abs(factor) * one.std_error, rel=1e-7, abs=1e-7, nan_ok=True)
    assert other.ess == pytest.approx(one.ess)


@pytest.mark.parametrize("name", [name for name in ALL if name not in (*NAIVE, *LEARNING)])
@given(seed=seeds, cell=CELLS)
@few
def test_an_irrelevant_annotation_of_weight_zero_changes_nothing(name: str, seed: int, cell: str) -> None:
    """The naive estimators make an episode of it whatever its weight, a model learns from it: these do not count."""
    logs = logs_for(name, seed)
    never = N_ACTIONS
    wider = replace(
        logs,
        behavior=np.pad(logs.behavior, ((0, 0), (0, 1))),
        evaluation=np.pad(logs.evaluation, ((0, 0), (0, 1))),
    )
    decided = np.flatnonzero(logs.episodes["action"] >= 0)
    if not len(decided):
        return
    new = {"episode": logs.episodes["episode"][decided], "step": logs.episodes["step"][decided]}
    n = len(decided)
    new |= {"action": np.full(n, never), "value": np.full(n, 1e6), "weight": np.zeros(n)}
    more = {column: np.concatenate([logs.annotations[column], new[column]]) for column in new}
    options = {"weights": "column", "cell": cell}
    found = replace(wider, annotations=more).evaluate([name], **options)[name]
    assert found.values == pytest.approx(logs.evaluate([name], **options)[name].values, rel=1e-12, abs=1e-14)


def permuted(columns: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    order = rng.permutation(len(columns["step"]))
    return {name: column[order] for name, column in columns.items()}


def policy_table(probs: np.ndarray[Any, Any], states: Any, actions: Any) -> so.Policy:
    state, action = np.nonzero(probs)
    return so.Policy.from_arrow({"state": states[state], "action": actions[action], "prob": probs[state, action]})
