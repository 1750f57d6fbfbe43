"""Plans whose questions are drawn: whole studies, what they promise, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import semiope as so
from semiope.data.asked import keys
from semiope.data.batches import effective_inclusion
from semiope.domains import tree
from semiope.errors import quietly
from semiope.planning import random_plan
from semiope.planning.random_design import UNIFORM, Pool, design
from semiope.planning.random_plan import RandomPlanner, level, sized

ACTIONS = ("wait", "treat", "operate")
# An annotation to a question that nobody asked.
ONE = {"episode": [0], "step": [7], "action": ["wait"], "value": [1.0]}


@cache
def logs(n: int = 120, seed: int = 0) -> pa.Table:
    """Two measurements, up to three decisions, three actions."""
    rng = np.random.default_rng(seed)
    columns: dict[str, list[Any]] = {name: [] for name in ("episode", "step", "action", "reward", "x", "y")}
    for episode in range(n):
        x, y = rng.normal(size=2)
        for step in range(int(rng.integers(1, 4))):
            action = int(rng.integers(3))
            reward = x * (action - 1) + 0.3 * y + rng.normal(0, 0.3)
            for name, entry in zip(columns, (episode, step, ACTIONS[action], reward, x, y), strict=True):
                columns[name].append(entry)
            x, y = 0.7 * x + 0.3 * rng.normal(), rng.normal()
    return pa.table(columns)


def episodes(n: int = 120) -> so.Episodes:
    return so.read_episodes(logs(n), features=["x", "y"])


def eager(x: Any) -> Any:
    """Mostly operates where x is large."""
    return probabilities(2.0 * x[:, 0])


def patient(x: Any) -> Any:
    return probabilities(0.5 * x[:, 0] - 1.0)


def probabilities(score: Any) -> Any:
    odds = np.exp(np.outer(score, [-1.0, 0.0, 1.0]))
    return odds / odds.sum(axis=1, keepdims=True)


eager_policy = so.FeaturePolicy(eager, actions=list(ACTIONS))
patient_policy = so.FeaturePolicy(patient, actions=list(ACTIONS))


def annotated(plan: so.Plan, seed: int = 0, share: float = 1.0) -> pa.Table:
    """What annotators say to all questions of a plan and those before it: a value by the question alone."""
    parts = []
    for table in plan.asked:
        rng = np.random.default_rng([seed, table.num_rows])
        kept = np.flatnonzero(rng.random(table.num_rows) < share)
        own = table.take(pa.array(kept))
        number = np.array([ACTIONS.index(a) for a in own.column("action").to_pylist()])
        value = 0.3 * number - 0.1 * own.column("step").to_numpy() + rng.normal(0, 0.1, size=len(kept))
        columns = ["episode", "step", "action", *(["policy"] if "policy" in own.column_names else [])]
        parts.append(
            own.select(columns).append_column("value", pa.array(value)).append_column("annotator", own.column("expert"))
        )
    return pa.concat_tables(parts)


def study(policy: Any, budget: float, batch: float, **options: Any) -> list[so.Plan]:
    """All batches of a study, until the plan says stop."""
    with quietly():
        plans = [so.plan(episodes(), policy, budget, batch=batch, least_gain=0.0, **options)]
        while plans[-1].stop is None:
            plans.append(plans[-1].next(annotated(plans[-1])))
    return plans


def test_features_need_no_states_and_are_drawn_at_random() -> None:
    plans = study(eager_policy, 24, 8, goal="value")
    assert [one.n_needed for one in plans] == [8, 8, 8, 0]
    assert plans[-1].stop is not None
    assert plans[-1].stop.reason == "budget"
    assert plans[-1].used == 24
    first = plans[0].sealed
    assert {"inclusion_prob", "episode_prob", "question_prob", "batch_weight"} <= set(first.column_names)
    needed = first.filter(pc.equal(first.column("kind"), "needed"))
    prob = needed.column("inclusion_prob").to_numpy()
    assert ((prob > 0) & (prob <= 1)).all()


def test_no_question_comes_after_a_later_step_of_its_episode_was_shown() -> None:
    plans = study(eager_policy, 60, 20, experts=3, overlap=0.3, goal="value")
    shown: dict[tuple[str, int], int] = {}
    seen = 0
    for table in plans[-1].asked:
        for row in table.to_pylist():
            key = row["expert"], row["episode"]
            assert row["step"] >= shown.get(key, 0)
            seen += key in shown
            shown[key] = max(row["step"], shown.get(key, 0))
    assert seen > 10  # several questions about one episode do come to one annotator


def test_an_episode_is_drawn_in_one_batch_only() -> None:
    plans = study(eager_policy, 60, 20, goal="value")
    drawn = [set(table.column("episode").to_pylist()) for table in plans[-1].asked]
    assert not drawn[0] & drawn[1]
    assert not (drawn[0] | drawn[1]) & drawn[2]


def test_the_same_seed_gives_the_same_plan() -> None:
    first, again, other = (so.plan(episodes(), eager_policy, 10, seed=seed) for seed in (3, 3, 4))
    assert first.sealed.equals(again.sealed)
    assert not first.sealed.equals(other.sealed)


def test_evaluation_takes_the_probabilities_from_the_plan() -> None:
    plan = study(eager_policy, 40, 20, goal="value")[-1]
    given = so.read_annotations(annotated(plan))
    with quietly():
        results = so.evaluate(episodes(), eager_policy, annotations=given, plan=plan, estimators=["pp-dr", "pp-pdis"])
    inclusion = results.origin.weighed.problem.inclusion
    assert inclusion.origin == "column inclusion_prob"
    expected = effective_inclusion(given, plan.asked, "policy")
    assert expected is not None
    assert set(np.round(inclusion.prob, 12)) <= set(np.round(expected, 12))


def test_estimates_are_unbiased_over_draws() -> None:
    """The mean over many draws of a first batch is the estimate with all annotations; predictions are useless here.

    Exact annotations of a tree, where pp-pdis with all of them is c*-pdis. The mean of 150 draws is within four of its
    standard errors, which chance exceeds with a probability of 1e-4.
    """
    world = tree.tree(2, seed=1)
    episodes = world.sample(60, seed=2)
    policy = world.mdp.policy(world.mdp.probs(next(iter(world.policies.values())))[0])
    exact = world.annotate(episodes, policy, annotators=so.Annotator(), seed=1)
    states, actions = world.mdp.states.words.to_pylist(), world.mdp.actions.words.to_pylist()
    nothing = pa.table({
        "state": np.repeat(states, len(actions)), "action": np.tile(actions, len(states)),
        "value": np.zeros(len(states) * len(actions)),
    })  # fmt: skip
    whole = so.evaluate(episodes, policy, annotations=exact, estimators="c*-pdis", gamma=world.mdp.gamma)
    found = []
    with quietly():
        for seed in range(150):
            plan = so.plan(
                episodes, policy, 12, gamma=world.mdp.gamma, design="random", decoys=0.5, model=nothing, seed=seed
            )
            given = plan.answers(exact)
            results = so.evaluate(
                episodes, policy, annotations=given, plan=plan, estimators="pp-pdis", gamma=world.mdp.gamma,
                model=nothing,
            )  # fmt: skip
            found.append(results["pp-pdis"].value)
    error = np.std(found, ddof=1) / np.sqrt(len(found))
    assert error > 0
    assert abs(np.mean(found) - whole["c*-pdis"].value) < 4 * error


def test_error_rates_of_all_looks_add_up() -> None:
    plan = so.plan(episodes(), eager_policy, 40, batch=10, alpha=0.05)
    rates = [level(plan.planner.wishes, look) for look in range(1, 200_000)]
    assert rates[0] == pytest.approx(0.05 * 4 / 20)
    assert 0.0499 < sum(rates) < 0.05
    single = so.plan(episodes(), eager_policy, 40).planner.wishes
    assert level(single, 1) == pytest.approx(0.025)


def test_bounds_are_open_before_there_are_annotations() -> None:
    plan = so.plan(episodes(), eager_policy, 10)
    decision = plan.to_dict()["decisions"][0]
    assert (decision["low"], decision["high"], decision["call"]) == (None, None, "open")
    assert "once there are annotations" in repr(plan)


def test_several_policies_are_asked_about_in_the_same_episodes() -> None:
    several = {"eager": eager_policy, "patient": patient_policy}
    plans = study(several, 32, 16, goal="ranking")
    first = plans[0].sealed
    needed = first.filter(pc.equal(first.column("kind"), "needed"))
    assert sorted(needed.column("policy").to_pylist()) == ["eager"] * 8 + ["patient"] * 8
    assert plans[0].questions["expert"].column_names == ["episode", "step", "action", "policy"]
    assert len(plans[-1].decisions) == 3
    with quietly():
        results = so.evaluate(episodes(), several, annotations=annotated(plans[-1]), plan=plans[-1])
    assert results["eager"]["pp-dr"].value != results["patient"]["pp-dr"].value


def test_annotations_name_policies_that_exist() -> None:
    several = {"eager": eager_policy, "patient": patient_policy}
    plan = so.plan(episodes(), several, 8)
    given = annotated(plan)
    wrong = given.set_column(given.column_names.index("policy"), "policy", pa.array(["egaer"] * given.num_rows))
    with pytest.raises(so.SemiopeError, match=r"column 'policy' names 'egaer'.*eager"):
        plan.next(wrong)


def test_missing_annotations_are_made_up_for_and_noted() -> None:
    plan = so.plan(episodes(), eager_policy, 40, batch=20, goal="value", least_gain=0.0)
    with quietly():
        after = plan.next(annotated(plan, share=0.6))
    assert any("taken as missing at random" in note for note in after.notes)
    assert after.used < 20
    # The weight of a batch is what was planned, whatever came back of the one before.
    assert after.sealed.column("batch_weight")[0] == plan.sealed.column("batch_weight")[0]


def test_bounds_are_those_of_a_comparison_at_the_rate_of_the_look() -> None:
    plan = so.plan(episodes(), eager_policy, 40, batch=20, least_gain=0.0)
    with quietly():
        after = plan.next(annotated(plan))
        assert isinstance(after.planner, RandomPlanner)
        assert after.planner.results is not None
        compared = so.compare(after.planner.results, alpha=level(after.planner.wishes, 1))
    trusting = {name: random_plan._trusting(one) for name, one in compared.estimates.items()}
    low, high = replace(compared, estimates=trusting)["policy"].difference.interval
    assert (after.decisions[0].low, after.decisions[0].high) == pytest.approx((low, high), rel=1e-12)


def test_the_next_batch_goes_by_what_was_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Probabilities of a batch are those of the sizes that earlier annotations tell."""
    plan = so.plan(episodes(), eager_policy, 40, batch=20, goal="value", least_gain=0.0)
    with quietly():
        by_missed = plan.next(annotated(plan)).sealed
        monkeypatch.setattr(random_plan, "sized", lambda planner: planner.pool)
        by_influence = plan.next(annotated(plan)).sealed
    assert not by_missed.equals(by_influence)


@pytest.mark.parametrize("answered", [("needed", "decoy"), ("needed",)])
def test_probabilities_hold_whichever_kind_is_answered(answered: tuple[str, ...]) -> None:
    """Over many draws, the influence of annotated questions over p_i adds up to that of all questions."""
    some, totals = episodes(40), []
    for seed in range(60):
        plan = so.plan(some, eager_policy, 12, goal="value", least_gain=0.0, seed=seed)
        assert isinstance(plan.planner, RandomPlanner)
        kind = dict(zip(keys(plan.sealed), plan.sealed.column("kind").to_pylist(), strict=True))
        whole = annotated(plan, seed, share=0.7)
        given = whole.filter(pa.array([kind[key] in answered for key in keys(whole)]))
        found = effective_inclusion(so.read_annotations(given), [plan.sealed], "policy")
        assert found is not None
        pool, words = plan.planner.pool, plan.planner.logbook.actions.words.to_pylist()
        labels = some.labels.words.to_pylist()
        size = {
            (str(labels[e]), int(some.step[row]), str(words[action])): one
            for e, row, action, one in zip(pool.episode, pool.row, pool.action, pool.size, strict=True)
        }
        totals.append(sum(size.get(key, 0.0) / prob for key, prob in zip(keys(given), found, strict=True)))
    error = np.std(totals, ddof=1) / np.sqrt(len(totals))
    assert abs(np.mean(totals) - sum(size.values())) < 3.5 * error
    assert error < 0.1 * sum(size.values())


def test_batches_of_several_policies_are_unbiased_over_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over many studies of two batches, influence over p_i adds up to the whole, for each of two policies.

    The second policy departs from the logs in two of fourteen episodes, so that many a batch asks nothing about it.
    """
    monkeypatch.setattr(RandomPlanner, "results", None)  # nothing is evaluated: only draws matter here
    monkeypatch.setattr(random_plan, "decide", lambda _: [])
    n, words = 14, ["a", "b"]
    taken = np.array([0] * 12 + [1] * 2)
    some = so.read_episodes(
        {"episode": np.arange(n), "step": np.zeros(n, dtype=int), "action": [words[k] for k in taken],
         "reward": np.arange(n) % 3, "x": np.arange(n)},
        features=["x"],
    )  # fmt: skip
    two = {name: np.tile(np.eye(2)[k], (n, 1)) for name, k in (("often", 1), ("seldom", 0))}
    totals: dict[str, list[float]] = {name: [] for name in two}
    for seed in range(300):
        plan = so.plan(some, two, 8, batch=4, decoys=0, goal="value", least_gain=0.0, seed=seed)
        plan = plan.next(annotated_plainly(plan))
        assert len(plan.asked) == 2
        given = annotated_plainly(plan)
        for name in two:
            about = given.filter(pc.equal(given.column("policy"), name))
            if not about.num_rows:
                totals[name].append(0.0)
                continue
            prob = effective_inclusion(so.read_annotations(about), plan.asked, name)
            assert prob is not None
            totals[name].append(float(np.sum(1 / prob)))
    for name, whole in (("often", 12), ("seldom", 2)):
        error = np.std(totals[name], ddof=1) / np.sqrt(len(totals[name]))
        assert abs(np.mean(totals[name]) - whole) < 4 * error
        assert error < 0.1 * whole


def annotated_plainly(plan: so.Plan) -> pa.Table:
    """The value 1 for every question asked so far."""
    asked = pa.concat_tables([table.select(["episode", "step", "action", "policy"]) for table in plan.asked])
    return asked.append_column("value", pa.array(np.ones(asked.num_rows)))


def test_dear_questions_are_put_less_often() -> None:
    """q_i goes by influence over the square root of the cost; no other probabilities that cost as much do better."""
    n = 50
    unit, cost = np.repeat(np.arange(n), 2), np.tile([1.0, 25.0], n)
    pool = Pool(unit, unit, np.arange(2 * n), np.zeros(2 * n, int), np.full(2 * n, -1), np.ones(2 * n), cost)
    known = np.zeros(n, dtype=np.bool_)
    found = design(pool, known, 50.0, 50.0, 1)
    assert found.question_prob[0] == pytest.approx(0.9 * 5 / 6 + 0.05)
    same = design(pool._replace(size=np.sqrt(cost)), known, 50.0, 50.0, 1)  # as if cost did not matter
    expected = float(np.sum(1 / (same.question_prob * same.episode_prob[unit])))
    assert found.variance < expected


def test_nothing_is_called_by_decoys_or_by_few_annotations() -> None:
    plan = so.plan(episodes(), eager_policy, 40, batch=20, least_gain=0.0)
    kind = dict(zip(keys(plan.sealed), plan.sealed.column("kind").to_pylist(), strict=True))
    given = annotated(plan)
    of_kind = {name: given.filter(pa.array([kind[key] == name for key in keys(given)])) for name in ("needed", "decoy")}
    with quietly():
        with pytest.raises(so.OptionError, match="none is to a needed question of batch 1"):
            plan.next(of_kind["decoy"])
        few = plan.next(of_kind["needed"].slice(0, 9))
    assert few.decisions[0].call == "open"


def test_plans_stay_within_their_budget() -> None:
    for n, budget in ((120, 90), (120, 200), (4, 3), (4, 5), (2, 3)):
        for seed in range(5):
            plan = so.plan(episodes(n), eager_policy, budget, goal="value", least_gain=0.0, seed=seed)
            assert plan.sealed.column("kind").to_pylist().count("needed") <= budget


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.drop_columns(["kind"]), "lacks the column 'kind'"),
        (lambda table: table.drop_columns(["episode_prob"]), "lacks the column 'episode_prob'"),
        (lambda table: table.set_column(0, "batch_weight", pa.array([-1.0] * table.num_rows)), "which is no size"),
        (lambda table: table.set_column(0, "question_prob", pa.array([0.0] * table.num_rows)), "is 0 in row 0"),
        (lambda table: table.set_column(0, "kind", pa.array(["foo"] * table.num_rows)), "holds 'foo'"),
    ],
)
def test_sealed_tables_that_were_changed_are_refused(change: Any, message: str) -> None:
    plan = so.plan(episodes(), eager_policy, 20)
    table = plan.sealed
    name = "batch_weight" if "size" in message else "question_prob" if "is 0" in message else "kind"
    last = table.select([name, *(other for other in table.column_names if other != name)])
    with pytest.raises(so.SchemaError, match=message):
        so.evaluate(episodes(), eager_policy, annotations=annotated(plan), plan=change(last))


def test_questions_whose_annotations_were_missed_by_more_are_likelier() -> None:
    """Annotations about one action scatter, those of others do not: the next batch asks about it more often."""
    plan = so.plan(episodes(), eager_policy, 80, batch=40, goal="value", least_gain=0.0, decoys=0)
    given, rng = annotated(plan), np.random.default_rng(1)
    treat = np.array(given.column("action").to_pylist()) == "treat"
    value = given.column("value").to_numpy() + np.where(treat, rng.choice([-9.0, 9.0], size=len(treat)), 0.0)
    scattered = given.set_column(given.column_names.index("value"), "value", pa.array(value))
    with quietly():
        planners = [plan.next(one).planner for one in (given, scattered)]
    shares = []
    for planner in planners:
        assert isinstance(planner, RandomPlanner)
        pool, sizes = planner.pool, sized(planner).size
        about = pool.action == planner.logbook.actions.words.to_pylist().index("treat")
        shares.append(float(sizes[about].sum() / sizes.sum()))
        assert np.all(sizes >= UNIFORM * pool.size)
    assert shares[1] > 1.5 * shares[0]


def test_batches_survive_files(tmp_path: Path) -> None:
    plan = so.plan(episodes(), eager_policy, 20, batch=10, goal="value", least_gain=0.0, seed=2)
    plan.save(tmp_path / "study")
    given = annotated(plan)
    with quietly():
        straight = plan.next(given)
        from_files = so.plan(
            episodes(), eager_policy, 20, batch=10, goal="value", least_gain=0.0, seed=2, annotations=given,
            earlier=tmp_path / "study",
        )  # fmt: skip
    assert straight.sealed.equals(from_files.sealed)
    assert straight.decisions == from_files.decisions


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"design": "bset"}, "design: 'bset' is not known.*best"),
        ({"design": "best"}, "design: 'best' chooses by what states have in common.*design='random'"),
        (
            {"annotations": {"episode": [0], "step": [0], "action": ["wait"], "value": [1.0]}},
            "no plan given here asked",
        ),
    ],
)
def test_what_cannot_be_planned_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(so.SemiopeError, match=message):
        so.plan(episodes(), eager_policy, 10, **options)


def test_a_batch_without_annotations_is_waited_for() -> None:
    plan = so.plan(episodes(), eager_policy, 20, batch=10, least_gain=0.0, goal="value")
    with pytest.raises(so.SemiopeError, match="none is to a needed question of batch 1"):
        plan.next(ONE)


def test_best_questions_of_later_batches_respect_what_was_shown() -> None:
    world = tree.tree(3, seed=1)
    episodes = world.sample(200, seed=2)
    policy = next(iter(world.policies.values()))
    given = world.annotate(episodes, policy, annotators=so.Annotator(std=0.1), of_action_taken=True, seed=1)
    with quietly():
        plan = so.plan(episodes, policy, 60, batch=20, gamma=world.mdp.gamma, least_gain=0.0, goal="value", experts=2)
        while plan.stop is None:
            plan = plan.next(plan.answers(given))
    shown: dict[tuple[str, Any], int] = {}
    for table in plan.asked:
        for row in table.to_pylist():
            key = row["expert"], row["episode"]
            assert row["step"] >= shown.get(key, 0)
            shown[key] = max(row["step"], shown.get(key, 0))
