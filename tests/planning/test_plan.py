"""Plans: the same for the same seed, continued as if made in one go, dealt to experts, and within all caps."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import semiope as so
from semiope.data.tables import write_table
from semiope.domains import sepsis, tree
from tests.planning.cases import GAMMA, NAME, both, keys, paths, patients, places, plan, rows, told

pytestmark = pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")


def words(table: pa.Table) -> pa.Table:
    """The same with strings as labels."""
    for name in ("episode", "state", "action"):
        column = pa.array([None if label is None else f"{name} {label}" for label in table.column(name).to_pylist()])
        table = table.set_column(table.column_names.index(name), name, column)
    return table


@pytest.mark.parametrize("labels", ["integers", "strings"])
@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_the_order_of_rows_and_the_kind_of_file_do_not_matter(tmp_path: Path, suffix: str, labels: str) -> None:
    table = patients(60).to_arrow()
    policy = sepsis.world().policies[NAME].to_arrow()
    if labels == "strings":
        table = words(table)
        policy = words(policy.append_column("episode", pa.array(["0"] * policy.num_rows))).drop_columns(["episode"])
    shuffled = table.take(np.random.default_rng(1).permutation(table.num_rows))
    write_table(shuffled, tmp_path / f"episodes{suffix}")
    write_table(policy, tmp_path / f"policy{suffix}")
    options: dict[str, Any] = {"gamma": GAMMA, "experts": 2, "overlap": 0.5, "least_gain": 0.0}
    expected = so.plan(so.read_episodes(table), so.read_policy(policy), 20, **options)
    found = so.plan(tmp_path / f"episodes{suffix}", tmp_path / f"policy{suffix}", 20, **options)
    assert found.sealed.to_pylist() == expected.sealed.to_pylist()
    assert {name: own.to_pylist() for name, own in found.questions.items()} == {
        name: own.to_pylist() for name, own in expected.questions.items()
    }


def test_the_seed_moves_decoys_and_order_only() -> None:
    first, again, other = plan(seed=1), plan(seed=1), plan(seed=2)
    assert first.sealed.equals(again.sealed)
    assert keys(first, "calibration") != keys(other, "calibration")
    cells = [
        [(row["step"], row["speaks_for"], row["remaining"]) for row in rows(one, "needed")] for one in (first, other)
    ]
    assert cells[0] == cells[1]  # questions of one cell may change places with each other
    assert set(first.sealed.column("seed").to_pylist()) == {1}


@pytest.mark.parametrize("about", ["policy", "behavior"])
def test_continued_from_half_of_the_answers_equals_one_go_with_the_same_answers(about: str) -> None:
    everything = told(NAME if about == "policy" else "behavior", std=0.1)
    first = plan(60, batch=30, about=about)
    half = first.answers(everything)
    then = first.next(half)
    at_once = plan(60, batch=30, about=about, annotations=half, earlier=first)
    assert then.sealed.equals(at_once.sealed)
    assert then.n_needed == 30
    assert (then.used, then.error, then.decisions) == (at_once.used, at_once.error, at_once.decisions)
    full = then.answers(everything)
    assert then.next(full).error == plan(60, batch=30, about=about, annotations=full, earlier=[first, then]).error
    order = np.random.default_rng(1).permutation(len(half))
    assert plan(60, batch=30, about=about, annotations=half.some(order), earlier=first).sealed.equals(at_once.sealed)


def test_experts_see_episode_step_and_action_in_an_order_of_their_own() -> None:
    found = plan(experts="ann,bo", overlap=1.0)
    assert list(found.questions) == ["ann", "bo"]
    ann, bo = (table.to_pylist() for table in found.questions.values())
    assert set(ann[0]) == {"episode", "step", "action"}
    in_order = sorted(ann, key=lambda row: tuple(row.values()))
    assert in_order == sorted(bo, key=lambda row: tuple(row.values()))
    assert ann != bo
    assert ann != in_order
    assert plan(experts="bo,cy", overlap=1.0).questions["bo"].to_pylist() == bo  # by the name, not the place


def test_a_share_of_questions_goes_to_several_experts() -> None:
    found = plan(40, experts=5, overlap=0.3, shared_by=3, decoys=0.5)
    times = Counter(keys(found))
    asked_of = {
        key: {row["expert"] for row in rows(found) if (row["episode"], row["step"], row["action"]) == key}
        for key in times
    }
    assert all(len(experts) == times[key] for key, experts in asked_of.items())  # never the same one twice
    assert Counter(times.values()) == {3: round(0.3 * len(times)), 1: len(times) - round(0.3 * len(times))}
    hands = [table.num_rows for table in found.questions.values()]
    assert max(hands) - min(hands) <= 1
    # The budget pays for each answer: 24 questions and 2 more answers to 7 of them; 25 would take 41.
    assert found.n_needed == 24
    answers_wanted = sum(row["kind"] == "needed" for row in rows(found))
    assert answers_wanted == 24 + 2 * 7


@pytest.mark.parametrize("seed", range(4))
def test_needed_questions_and_decoys_are_shared_alike(seed: int) -> None:
    found = plan(40, experts=2, overlap=0.5, seed=seed, decoys=1.0)
    for kind in ("needed", None):
        times = Counter(keys(found, kind))
        assert sum(n == 2 for n in times.values()) == round(0.5 * len(times))


def test_answers_on_another_scale_settle_nothing() -> None:
    given = told(NAME)
    wild = replace(given, value=100 * given.value)
    options: dict[str, Any] = {"goal": "difference", "least_gain": 0}
    assert any("far beyond every return" in note for note in plan(200, annotations=wild, **options).notes)
    stop = plan(200, annotations=wild, **options).stop
    assert stop is None or stop.reason != "settled"
    assert not any("far beyond" in note for note in plan(200, annotations=given, **options).notes)


def test_answers_of_several_experts_count_each() -> None:
    first = plan(40, batch=20, experts=2, overlap=1.0, decoys=0)
    assert first.n_needed == 10
    given = first.answers(told(NAME))
    assert first.next(both(given, given)).used == 20
    assert first.next(given).used == 10


def test_answers_to_decoys_cost_nothing() -> None:
    first = plan(40, batch=20, about="behavior")
    given = first.answers(told("behavior", taken=True))
    assert len(given) == 40
    assert first.next(given).used == 20
    # Without the plan, nobody knows what was a decoy: every answer on which something hangs counts.
    assert 20 < plan(40, batch=20, about="behavior", annotations=given).used < 40


@pytest.mark.parametrize("cost", [None, lambda asked: np.full(asked.num_rows, 0.5)])
@pytest.mark.parametrize(("overlap", "decoys"), [(0.0, 1.0), (0.5, 0.7), (0.33, 0.0)])
def test_no_expert_gets_more_than_the_cap(overlap: float, decoys: float, cost: Any) -> None:
    found = plan(100, experts=3, per_expert=7, overlap=overlap, decoys=decoys, cost=cost)
    hands = [table.num_rows for table in found.questions.values()]
    assert max(hands) <= 7
    assert sum(hands) >= 18
    assert any("at most 7 for each expert" in note for note in found.notes)
    assert not any("for each expert" in note for note in plan(5, experts=3, per_expert=7, decoys=0).notes)


def test_episodes_have_a_cap() -> None:
    many = paths(20)
    policy = tree.tree(depth=3).policies["uniform"]
    assert max(Counter(episode for episode, *_ in keys(so.plan(many, policy, 60, decoys=0))).values()) > 1
    found = so.plan(many, policy, 60, per_episode=1, least_gain=0, decoys=0, goal="value")
    assert Counter(Counter(episode for episode, *_ in keys(found)).values()) == {1: 20}
    later = found.next(_said(found))
    assert later.stop is not None
    assert later.stop.reason == "nothing"


def _said(asked: so.Plan) -> so.Annotations:
    table = rows(asked)
    return so.Annotations.from_arrays(
        **{name: [row[name] for row in table] for name in ("episode", "step", "action")}, value=np.zeros(len(table))
    )


def test_costs_by_a_column_and_by_a_function() -> None:
    table = patients().to_arrow()
    table = table.append_column("hours", pa.array(1.0 + np.array(table.column("step").to_pylist())))
    by_column = so.plan(table, sepsis.world().policies[NAME], 30, cost="hours", gamma=GAMMA, least_gain=0)

    def hours(asked: pa.Table) -> Any:
        assert asked.column_names == ["episode", "step", "action", "state"]
        return [1.0 + step for step in asked.column("step").to_pylist()]

    by_function = plan(30, cost=hours)
    assert by_column.sealed.equals(by_function.sealed)
    spent = sum(1 + step for _, step, _ in keys(by_column, "needed"))
    assert 25 < spent <= 30
    assert by_column.next(by_column.answers(told(NAME))).used == spent
    steps = [np.mean([step for _, step, _ in keys(one, "needed")]) for one in (by_column, plan(30))]
    assert steps[0] < steps[1]
    assert plan(30, cost=2.0).n_needed == 15


def test_a_budget_too_small_for_the_next_question_is_said_to_be() -> None:
    found = plan(3, cost=lambda asked: np.full(asked.num_rows, 5.0))
    assert found.stop is not None
    assert found.stop.reason == "budget"
    assert "the next question costs 5 at least" in found.stop.sentence


def test_a_policy_by_step_may_be_silent_where_nothing_is_decided() -> None:
    """Its last step has no action; the plan, and the model that fills in, are as if it said something there."""
    rng, n = np.random.default_rng(2), 40
    episodes = so.Episodes.from_arrays(
        episode=np.repeat(np.arange(n), 3), step=np.tile([0, 1, 2], n), state=np.tile([0, 1, 1], n),
        action=np.where(np.tile([0, 1, 2], n) < 2, rng.integers(2, size=3 * n), -1),
        reward=np.tile([1.0, 1.0, 0.0], n) * rng.normal(size=3 * n),
    )  # fmt: skip
    table = np.tile([0.0, 1.0], (3, 2, 1))
    told_, silent = so.Policy.from_table(table), so.Policy.from_table(table[:2])
    found = [so.plan(episodes, policy, 8, least_gain=0) for policy in (told_, silent)]
    assert found[0].n_needed == found[1].n_needed == 8
    assert np.isfinite(found[1].error).all()
    asked = rows(found[1], "needed")
    given = so.Annotations.from_arrays(
        **{name: [row[name] for row in asked] for name in ("episode", "step", "action")}, value=np.ones(8)
    )
    assert np.isfinite(so.evaluate(episodes, silent, annotations=given, estimators=["pp-dr"])["pp-dr"].values).all()


def test_logs_in_which_nothing_differs_are_named() -> None:
    n, rng = 60, np.random.default_rng(0)
    columns: dict[str, Any] = {"episode": np.arange(n), "step": np.zeros(n, int), "state": rng.integers(0, 3, n)}
    columns["action"] = rng.integers(0, 2, n)
    policy = so.Policy.from_table([[0.0, 1.0]] * 3)
    for reward in (np.zeros(n), rng.normal(size=n)):
        found = so.plan(so.Episodes.from_arrays(**columns, reward=reward), policy, 10)
        assert any("same return" in note for note in found.notes) == (not reward.any())


def test_a_plan_speaks() -> None:
    found = plan(20, experts=2)
    assert repr(found).startswith("Plan(20 questions; 0 of 20 used; with decoys expert-1 20, expert-2 20)")
    summary = found.to_dict()
    assert summary["needed"] == 20
    assert summary["questions"] == {"expert-1": 20, "expert-2": 20}
    assert summary["expected_error"]["after"] < summary["expected_error"]["now"]
    assert summary["settings"]["about"] == "policy"
    reasons = Counter(row["reason"].split(":")[0] for row in rows(found) if row["kind"] != "needed")
    assert set(reasons) == {"the action taken", "not needed"}
    assert all(row["reason"].startswith(("speaks for", "tells what others lead to")) for row in rows(found, "needed"))


@pytest.mark.parametrize("value", [-50.0, 50.0])
def test_answers_far_off_on_either_side_are_noticed(value: float) -> None:
    one = rows(plan(1), "needed")[0]
    given = so.Annotations.from_arrays(**{name: [one[name]] for name in ("episode", "step", "action")}, value=[value])
    assert any("1 answer far beyond every return" in note for note in plan(40, annotations=given).notes)


def test_what_remains_is_told_with_costs_too() -> None:
    found = plan(30, cost=lambda asked: 1.0 + np.asarray(asked["step"]), goal="value")
    planner, last = found.planner, rows(found, "needed")[-1]
    place = planner.matters.position(*places(planner, keys(found, "needed")))
    times = np.bincount(planner.matters.cell[place], minlength=len(planner.design.times)).astype(float)
    assert last["remaining"] == pytest.approx(planner.design.remaining(times).sum(), rel=1e-9)


def test_questions_of_a_cell_come_by_what_hangs_on_them() -> None:
    world = sepsis.world()
    soft = world.mdp.policy(0.7 * world.policies[NAME].probs + 0.3 * world.behavior.probs)
    planner = so.plan(patients(), soft, 10, gamma=GAMMA).planner
    weight, supply = planner.matters.share.sum(axis=0), planner.supply
    falls = 0
    for low, high in zip(supply.first[:-1], supply.first[1:], strict=True):
        own = weight[supply.question[low:high]]
        assert (np.diff(own) <= 1e-12).all()
        falls += len(own) > 1 and own[0] > own[-1]
    assert falls > 10


def test_a_plan_is_known_by_its_logs_and_policies() -> None:
    def digest(found: so.Plan) -> str:
        return str(found.to_dict()["digest"])

    first = plan()
    known = digest(first)
    strange = so.Annotations.from_arrays(episode=[0], step=[0], action=[7], value=[0.0])  # an action nobody took
    assert digest(first.next(first.answers(told(NAME)))) == digest(plan(annotations=strange)) == known
    assert digest(plan(gamma=0.9)) != known
    others = {"policy": sepsis.world().policies["flip-200-seed-42"]}, sepsis.world().policies["optimal"]
    assert all(digest(so.plan(patients(), other, 40, gamma=GAMMA)) != known for other in others)
    assert digest(so.plan(patients(seed=2), sepsis.world().policies[NAME], 40, gamma=GAMMA)) != known
