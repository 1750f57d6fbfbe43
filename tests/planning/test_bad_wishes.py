"""What cannot be meant, or not be done, is said; nothing is silently something else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import semiope as so
from semiope.domains import sepsis, tree
from tests.planning.cases import GAMMA, NAME, both, keys, patients, told

TWO = ("optimal", NAME)


def plan(budget: Any = 10, **options: Any) -> so.Plan:
    return so.plan(patients(), sepsis.world().policies[NAME], budget, **{"gamma": GAMMA, **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": None}, "budget: how many questions may be asked"),
        ({"budget": 0}, "budget: 0 is not a number of at least 1"),
        ({"budget": 0.5}, "budget: 0.5 is not a number of at least 1"),
        ({"budget": -3}, "budget: -3 is not"),
        ({"budget": float("nan")}, "budget: nan is not"),
        ({"budget": "many"}, "budget: 'many' is not"),
        ({"budget": 10**400}, "is not a number of at least 1"),
        ({"budget": True}, "budget: True is not"),
        ({"noise": 1e200}, "noise: 1e+200 is not"),
        ({"seed": 2**64}, "is not a whole number from 0"),
        ({"experts": 10**8}, "experts: 100,000,000 are more than can be asked"),
        ({"experts": "Ann,ann"}, "experts: Ann, ann: give each a name of its own"),
        ({"experts": ["a\udcff"]}, "give each a name of its own that a file can have"),
        ({"batch": 0}, "batch: 0 is not a number of at least 1"),
        ({"goal": "rank"}, "goal: 'rank' is not known"),
        ({"about": "behaviour"}, "about: 'behaviour' is not known. Did you mean 'behavior'?"),
        ({"about": ""}, "about: '' is not known"),
        ({"seed": -1}, "seed: -1 is not one of 0, 1, 2"),
        ({"seed": 1.5}, "seed: 1.5 is not a whole number from 0"),
        ({"seed": np.random.default_rng(1)}, "is not a whole number from 0"),
        ({"experts": 0}, "experts: 0 is not a whole number of at least 1"),
        ({"experts": ""}, "experts: nobody: give each a name of its own"),
        ({"experts": []}, "experts: nobody: give each a name"),
        ({"experts": "ann,ann"}, "experts: ann, ann: give each a name of its own"),
        ({"experts": ["a/b"]}, "experts: a/b: give each a name of its own that a file can have"),
        ({"experts": 1.5}, "experts: 1.5 is neither a number of experts nor a list of their names"),
        ({"overlap": 0.5}, "overlap: one expert alone shares no questions"),
        ({"overlap": 1.5, "experts": 2}, "overlap: 1.5 is not a number between 0 and 1"),
        ({"overlap": 0.5, "experts": 2, "shared_by": 3}, "shared_by: 3, but there are only 2 experts"),
        ({"shared_by": 1}, "shared_by: 1 is not a whole number of at least 2"),
        ({"decoys": -1}, "decoys: -1 is not a number between 0 and 10"),
        ({"decoys": float("nan")}, "decoys: nan is not"),
        ({"per_episode": 0}, "per_episode: 0 is not a whole number of at least 1"),
        ({"per_expert": 0}, "per_expert: 0 is not a whole number of at least 1"),
        ({"per_expert": 1}, "per_expert: with at most 1 for each expert there is no room for a needed question"),
        ({"noise": -0.1}, "noise: -0.1 is not a number of at least 0"),
        ({"target_width": 0}, "target_width: 0 is not a number above 0"),
        ({"least_gain": 2}, "least_gain: 2 is not a number between 0 and 1"),
        ({"alpha": 0}, "alpha"),
        ({"gamma": 1.5}, "gamma"),
        ({"cost": "hours"}, "cost: the episodes have no column 'hours'. Further columns: none."),
        ({"cost": 0.0}, "are missing, zero or negative"),
        ({"cost": lambda asked: np.ones(3)}, "cost: (3,) numbers for"),
        ({"cost": lambda asked: np.where(np.arange(asked.num_rows) < 2, np.nan, 1.0)}, "cost: 2 of"),
        (
            {"cost": lambda asked: np.where(np.arange(asked.num_rows) < 2, -1.0, 1.0)},
            "missing, zero or negative. First",
        ),
        ({"cost": lambda asked: ["dear"] * asked.num_rows}, "cost"),
    ],
)
def test_wishes_that_cannot_be_meant(options: dict[str, Any], message: str) -> None:
    with pytest.raises(so.SemiopeError) as refused:
        plan(**options)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([None, 0.0], "are missing, zero or negative. First: episode 0 step"),
        (["dear", "cheap"], "cost: column 'hours' holds string, not numbers"),
    ],
)
def test_costs_in_a_column_that_are_no_costs(column: list[Any], message: str) -> None:
    table = patients().to_arrow()
    hours = pa.array([column[i % 2] for i in range(table.num_rows)])
    with pytest.raises(so.OptionError, match=message):
        so.plan(table.append_column("hours", hours), sepsis.world().policies[NAME], 10, cost="hours")
    with pytest.raises(so.OptionError, match=r"no column 'hour'. Did you mean 'hours'"):
        so.plan(table.append_column("hours", hours), sepsis.world().policies[NAME], 10, cost="hour")


def test_whole_costs_with_gaps_are_refused_too() -> None:
    table = patients().to_arrow()
    hours = pa.array([1, None] * (table.num_rows // 2) + [1] * (table.num_rows % 2))
    with pytest.raises(so.OptionError, match=r"missing, zero or negative. First: .* nan"):
        so.plan(table.append_column("hours", hours), sepsis.world().policies[NAME], 10, cost="hours")


def test_a_budget_above_what_can_be_asked_is_noted() -> None:
    found = plan(100_000, least_gain=0)
    n = len(found.planner.matters.row)
    assert found.n_needed == n
    exist = found.planner.n_questions
    assert exist > n
    assert f"of {exist:,} questions that exist, {n:,} matter to an estimate" in found.notes[0]
    assert not any("more than can be asked" in note for note in plan(n, least_gain=0).notes)


def test_there_is_nothing_to_ask_where_policies_do_what_was_done() -> None:
    episodes = so.Episodes.from_arrays(
        episode=[0, 0, 1, 1], step=[0, 1, 0, 1], state=[0, 1, 0, 1], action=[1, 0, 1, 0], reward=[0.0, 1.0, 0.0, 2.0]
    )
    same = so.Policy.from_table([[0.0, 1.0], [1.0, 0.0]])
    with pytest.raises(so.OptionError, match=r"policy: there is nothing to ask. In every step logged, the policy does"):
        so.plan(episodes, same, 3)
    with pytest.raises(so.OptionError, match="the policies do what was done"):
        so.plan(episodes, {"a": same, "b": same}, 3)


def test_one_episode_is_too_few() -> None:
    episodes = so.Episodes.from_arrays(episode=[0], step=[0], state=[0], action=[1], reward=[1.0])
    with pytest.raises(so.OptionError, match="there is only one"):
        so.plan(episodes, so.Policy.from_table([[1.0, 0.0]]), 3)


def test_answers_about_one_policy_do_not_serve_several() -> None:
    policies = {name: sepsis.world().policies[name] for name in TWO}
    with pytest.raises(so.OptionError, match="says nothing of another"):
        so.plan(patients(), policies, 3, about="policy")
    with pytest.raises(so.OptionError, match="annotations: one answer serves all policies of a plan"):
        so.plan(patients(), policies, 3, annotations={NAME: told("behavior")})
    assert so.plan(patients(), policies, 3).planner.wishes.about == "behavior"
    found = so.plan(
        patients(), {NAME: policies[NAME]}, 3, annotations={NAME: told(NAME).some(np.arange(3))}, least_gain=0
    )
    assert len(found.planner.logbook.annotations.row) == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"episode": 999_999}, "names 1 episode not in the logs"),
        ({"step": 77}, "about steps that were not logged"),
        ({"action": 99}, "occurs neither in the logs nor in a policy"),
    ],
)
def test_answers_about_what_was_never_logged(change: dict[str, Any], message: str) -> None:
    row = {"episode": 0, "step": 0, "action": 0, "value": 0.5} | change
    with pytest.raises(so.SchemaError, match=message):
        plan(annotations=so.Annotations.from_arrays(**{name: [entry] for name, entry in row.items()}))


def test_with_decoys_off_experts_are_said_not_to_be_blind() -> None:
    notes = plan(decoys=0).notes
    assert any(note.startswith("experts are NOT blind") for note in notes)
    assert not keys(plan(decoys=0), "decoy")
    assert not any("NOT blind" in note for note in plan().notes)


def test_answers_about_the_policy_itself_need_experts_who_know_it() -> None:
    assert any("need experts who know it" in note for note in plan(about="policy").notes)
    assert not any("need experts who know it" in note for note in plan(about="behavior").notes)


def test_logs_without_any_scatter_are_planned_for_all_the_same() -> None:
    episodes = so.Episodes.from_arrays(
        episode=np.arange(8), step=np.zeros(8, int), state=np.zeros(8, int), action=np.arange(8) % 2, reward=np.zeros(8)
    )
    found = so.plan(episodes, so.Policy.from_table([[0.0, 1.0]]), 3)
    assert np.isfinite(found.error).all()
    assert found.n_needed == 3


def test_policies_by_row_have_no_model_that_turns_answers_about_usual_care() -> None:
    episodes = patients()
    decided = np.flatnonzero(episodes.action >= 0)
    labels = np.array(episodes.labels.words.to_pylist())
    by_row = so.RowPolicy.from_arrays(
        episode=labels[episodes.episode_of(decided)], step=episodes.step[decided], action=np.zeros(len(decided), int),
        prob=np.ones(len(decided)),
    )  # fmt: skip
    with pytest.raises(so.SemiopeError, match="about: answers about usual care are turned to a policy by a model"):
        so.plan(episodes, by_row, 5, about="behavior", design="best")
    assert so.plan(episodes, by_row, 5, design="best").n_needed == 5


def test_rewards_beyond_what_can_be_squared_are_refused() -> None:
    episodes = so.Episodes.from_arrays(
        episode=np.arange(20), step=np.zeros(20, int), state=np.zeros(20, int), action=np.arange(20) % 2,
        reward=1e200 * np.arange(20),
    )  # fmt: skip
    with np.errstate(all="ignore"), pytest.raises(so.SemiopeError, match="too large to tell an error"):
        so.plan(episodes, so.Policy.from_table([[0.0, 1.0]]), 5)


def test_sealed_tables_that_are_none() -> None:
    for step in (["one"], [None]):
        table = pa.table({"episode": [1], "step": step, "action": [2]})
        with pytest.raises(so.SemiopeError, match="plan: a step is not a number, or something is missing"):
            plan(earlier=table)


@pytest.mark.parametrize("logged", [True, False])
def test_there_is_nothing_to_ask_about_todays_policy(logged: bool) -> None:
    """As it was logged or, if it was not, as counted; though it takes actions that were not taken in each step."""
    world = tree.tree(depth=3)
    episodes = world.sample(60, seed=1)
    today = so.estimate_behavior(episodes)
    if logged:
        today = world.behavior
        prob = {(row["state"], row["action"]): row["prob"] for row in today.to_arrow().to_pylist()}
        table = episodes.to_arrow()
        taken = [prob.get((row["state"], row["action"])) for row in table.to_pylist()]
        episodes = so.read_episodes(table.append_column("behavior_prob", pa.array(taken, pa.float64())))
    with pytest.raises(so.OptionError, match=r"'policy' is what is done today.*nothing to ask"):
        so.plan(episodes, today, 10)
    found = so.plan(episodes, {"today": today, "new": world.policies["always-y"]}, 10)
    assert any("policy 'today' is what is done today" in note for note in found.notes)


def test_answers_given_twice_are_noted() -> None:
    given = told("flip-200-seed-0").some(np.arange(5))
    twice = both(given, given)
    policy = sepsis.world().policies["flip-200-seed-0"]
    for answers, words in ((given, False), (twice, True)):
        found = so.plan(patients(), policy, 50, annotations=answers, gamma=GAMMA)
        assert any("5 say again what the same expert said" in note for note in found.notes) == words


def test_costs_by_a_function_that_fails() -> None:
    with pytest.raises(so.OptionError, match=r"cost: the function failed.*columns episode, step, action, state"):
        so.plan(patients(), sepsis.world().policies["optimal"], 5, gamma=GAMMA, cost=lambda asked: asked["minutes"])


def test_names_that_are_the_same_as_text() -> None:
    policies = list(sepsis.world().policies.values())
    with pytest.raises(so.OptionError, match="same name as text"):
        so.plan(patients(), {1: policies[0], "1": policies[1]}, 5, gamma=GAMMA)
