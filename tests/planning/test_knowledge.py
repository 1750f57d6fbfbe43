"""What logs and answers say of answers still missing: as `so.evaluate` fills them in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import semiope as so
from semiope.domains import sepsis
from semiope.models.places import Places
from semiope.models.planning import rest
from semiope.planning.case import Case, Records
from semiope.planning.convert import turned
from semiope.planning.matters import at_steps_logged
from semiope.planning.planner import Planner
from semiope.planning.residuals import Prior, expected
from tests.contract.worlds import N_ACTIONS, N_STATES, random_logs
from tests.planning.cases import GAMMA, NAME, Floats, paths, patients, told

pytestmark = pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")


def planner(policies: Any, annotations: so.Annotations | None = None, **options: Any) -> Planner:
    plan = so.plan(patients(), policies, 10, annotations=annotations, gamma=GAMMA, least_gain=0, **options)
    found: Planner = plan.planner
    return found


def some_answers(name: str = NAME, std: float = 0.2) -> so.Annotations:
    first = so.plan(patients(), sepsis.world().policies[NAME], 40, gamma=GAMMA)
    return first.answers(told(name, std=std))


def places_of(found: Planner) -> Places:
    """Where the cells of a planner lie in its model."""
    assert found.records is not None
    cells = found.matters.cells
    ids = found.records.empirical.mdp.actions.positions_of(found.logbook.actions)
    return Places(cells.step, cells.state, ids[cells.action])


def test_without_answers_the_counted_model_is_all_there_is() -> None:
    policy = sepsis.world().policies[NAME]
    found = planner(policy)
    assert found.records is not None
    assert found.knowledge.parts == expected(found.records.prior)
    assert not found.knowledge.times.any()
    assert np.ptp(found.knowledge.answers) > 0.1


def test_an_answer_that_tells_nothing_changes_nothing() -> None:
    """Estimates with no answer and with the first have one formula."""
    policy, nothing = sepsis.world().policies[NAME], 1e6
    for about in ("policy", "behavior"):
        before = planner(policy, about=about)
        one = some_answers("behavior").some(np.arange(1))
        after = planner(policy, one, about=about, noise=nothing)
        np.testing.assert_allclose(after.estimates(), before.estimates(), atol=1e-6)


def test_the_noise_that_is_told_is_in_the_estimate_and_in_what_remains() -> None:
    policy, given = sepsis.world().policies[NAME], some_answers(std=0.2)
    found = {noise: planner(policy, given, noise=noise) for noise in (0.0, 0.2, 2.0)}
    for noise, one in found.items():
        assert one.knowledge.parts.noise == pytest.approx(noise**2, abs=1e-9)
    remaining = [one.each.remaining()[0] for one in found.values()]
    assert remaining == sorted(remaining)
    before = planner(policy).estimates()[0]
    moved = [abs(one.estimates()[0] - before) for one in found.values()]
    assert moved[2] < 0.5 * min(moved[:2])


def test_answers_about_usual_care_serve_each_policy_as_if_it_were_alone() -> None:
    policies = {name: sepsis.world().policies[name] for name in ("optimal", NAME, "flip-400-seed-42")}
    given = some_answers("behavior")
    together = planner(policies, given)
    for k, (name, policy) in enumerate(policies.items()):
        alone = planner({name: policy}, given, about="behavior")
        np.testing.assert_allclose(together.estimates()[k], alone.estimates()[0], atol=1e-9)
        assert together.knowledge.parts == alone.knowledge.parts


def test_answers_about_usual_care_need_no_turning_for_usual_care(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("semiope.planning.case.UNCANCELLED", 1.0)
    records = planner(sepsis.world().policies[NAME]).records
    assert records is not None
    mdp = records.empirical.mdp
    seen = records.behavior.sum(axis=1, keepdims=True) > 0
    probs = np.where(seen, records.behavior, 1 / mdp.n_actions)
    usual = so.Policy.from_table(probs, states=mdp.states, actions=mdp.actions)
    given = some_answers("behavior")
    today, turned = (
        Planner(
            patients(), {"usual": usual}, given, replace(planner(sepsis.world().policies[NAME]).wishes, about=about)
        )
        for about in ("policy", "behavior")
    )
    np.testing.assert_allclose(turned.knowledge.answers, today.knowledge.answers, atol=1e-9)
    np.testing.assert_allclose(turned.matters.mass, today.matters.mass, atol=1e-12)


def test_what_hangs_on_answers_about_usual_care_counts_those_that_others_are_turned_by() -> None:
    policies = {name: sepsis.world().policies[name] for name in ("optimal", "flip-400-seed-42")}
    found = planner(policies)
    matters, records = found.matters, found.records
    assert records is not None
    cells = places_of(found)
    today = np.zeros_like(records.behavior_returns)
    today[cells] = np.random.default_rng(0).normal(size=len(cells.step))
    for k, (name, policy) in enumerate(policies.items()):
        of_policy = cells.read(today + turned(Case(records, policy, name, about_today=True), today))
        value = matters.values(k, of_policy).mean() - matters.kept[k].mean()
        assert value == pytest.approx(matters.mass[k] @ cells.read(today), abs=1e-12)
        assert value != pytest.approx((matters.mass - matters.through)[k] @ cells.read(today), abs=1e-3)


def with_worth(found: Planner, policy: so.Policy, worth: Floats) -> float:
    """An estimate with answers as the model has them, if pairs never logged are worth this, (n_states, n_actions)."""
    assert found.records is not None
    case = Case(found.records, policy, NAME)
    base = found.records.behavior_values[:, :, None] + np.where(found.records.empirical.counts == 0, worth, 0.0)
    returns = found.records.empirical.mdp.evaluate_with(base, case.evaluation)
    return float(found.matters.values(0, places_of(found).read(returns)).mean())


@pytest.mark.parametrize("soft", [0.0, 0.2])
def test_what_hangs_on_pairs_never_logged_counts_where_paths_lead(soft: float) -> None:
    policy = sepsis.world().policies[NAME].soften(soft) if soft else sepsis.world().policies[NAME]
    found = planner(policy)
    assert found.records is not None
    counts, cells, matters = found.records.empirical.counts, places_of(found), found.matters
    worth = np.random.default_rng(0).normal(size=counts.shape)
    change = with_worth(found, policy, worth) - with_worth(found, policy, np.zeros_like(worth))
    unlogged = np.where(counts == 0, worth, 0.0)[cells.state, cells.action]
    assert change == pytest.approx(matters.mass[0] @ unlogged, abs=1e-12)
    assert change != pytest.approx(matters.own_mass[0] @ unlogged, abs=1e-3)
    # Answers about pairs that were logged enter by themselves only.
    assert not matters.through[0, counts[cells.state, cells.action] > 0].any()
    # Somebody came to each of these steps and states, and did something else.
    episodes = patients()
    assert (episodes.action[matters.row] >= 0).all()
    assert (matters.action != episodes.action[matters.row]).all()


@pytest.mark.parametrize("kind", ["deterministic", "stochastic", "by step", "silent"])
@pytest.mark.parametrize("gamma", [0.0, 0.9, 1.0])
def test_what_rests_on_the_unknown_is_what_returns_change_by(kind: str, gamma: float) -> None:
    """In models of random logs, with ends, cuts and rows that are mere observations."""
    rng = np.random.default_rng(len(kind))
    for seed in range(6):
        logs = random_logs(seed, fully_annotated=True)
        logs.episodes["reward"][logs.episodes["action"] < 0] = 0.0
        records = Records(so.Episodes.from_arrays(**logs.episodes), tuple(range(N_ACTIONS)), gamma)
        mdp = records.empirical.mdp
        probs = rng.dirichlet(np.full(N_ACTIONS, 0.3), size=(mdp.horizon if kind == "by step" else 1, N_STATES))
        if kind == "deterministic":
            probs = (probs == probs.max(axis=2, keepdims=True)).astype(float)
        probs = probs[:, : mdp.n_states] * (
            rng.random((len(probs), mdp.n_states, 1)) < (0.5 if kind == "silent" else 1)
        )
        shape = mdp.horizon, mdp.n_states, mdp.n_actions
        mass, change, found = rng.normal(size=shape), rng.normal(size=shape), np.zeros(shape)
        rest(mdp.dynamics, probs, gamma, mass, found, np.zeros(mass.shape[1:]))
        first, then = (mdp.evaluate_with(unknown, probs) for unknown in (np.zeros(shape), change))
        logged = mdp.available & ~mdp.terminal[:, None]
        assert np.sum((mass * (then - first))[:, logged]) == pytest.approx(np.sum(found * change), abs=1e-10)


def test_what_was_told_does_not_rest_on_the_model() -> None:
    """Nobody need be asked what becomes of paths if all that is wanted was told."""
    n, first = 50, np.zeros(50, dtype=int)
    episode, step = np.repeat(np.arange(n), 3), np.tile([0, 1, 2], n)
    reward = np.where(step == 2, np.random.default_rng(0).normal(size=3 * n), 0.0)
    episodes = so.Episodes.from_arrays(
        episode=episode, step=step, state=np.tile([0, 0, 1], n), action=np.tile([1, 0, 0], n), reward=reward
    )
    # Takes 0 where 1 was done, and in state 1 what nobody ever did: paths from (0, 0) lead there.
    policy = so.Policy.deterministic([0, 1], 2)
    found = so.plan(episodes, policy, 10, decoys=0, least_gain=0)
    assert found.planner.matters.through.sum() == pytest.approx(1.0)
    told = so.Annotations.from_arrays(episode=np.arange(n), step=first, action=first, value=np.full(n, 3.0))
    after = so.plan(episodes, policy, 100, annotations=told, decoys=0)
    assert after.n_needed == 0
    assert after.stop is not None
    assert after.decisions[0].call == "better"
    assert after.planner.each.remaining()[0] < 1e-3 * found.planner.each.remaining()[0]
    assert (
        found.planner.errors(after.planner.knowledge.times)[0] < 0.5 * found.planner.errors(found.planner.each.times)[0]
    )


def test_what_rests_on_steps_where_nobody_came_is_asked_where_somebody_did() -> None:
    """Rows without a decision cannot be asked about, and what rests on a step where somebody came stays there."""
    mass = np.zeros((4, 1, 2))
    mass[:, 0, 1] = [1.0, 2.0, 4.0, 8.0]
    rows = Places(np.array([0, 2, 3]), np.zeros(3, dtype=int), np.array([0, 0, -1]))
    found = at_steps_logged(mass, rows)
    np.testing.assert_allclose(found[:, 0], [[0, 6], [0, 0], [0, 9], [0, 0]])


def test_answers_about_usual_care_are_turned_towards_what_they_would_be_about_the_policy() -> None:
    name = "flip-400-seed-42"
    policy = sepsis.world().policies[name]
    exact = planner(policy, told(name)).estimates()[0]
    taken = planner(policy, told("behavior"), about="policy").estimates()[0]
    turned = planner(policy, told("behavior"), about="behavior").estimates()[0]
    assert abs(turned - exact) < 0.5 * abs(taken - exact)


def row_policy(episodes: so.Episodes) -> so.RowPolicy:
    table = episodes.to_arrow().to_pylist()
    decided = [row for row in table if row["action"] is not None]
    return so.RowPolicy.from_arrays(
        episode=[row["episode"] for row in decided], step=[row["step"] for row in decided],
        action=["y"] * len(decided), prob=[1.0] * len(decided),
    )  # fmt: skip


def test_plain_means_where_no_model_can_be_counted() -> None:
    episodes = paths()
    policy = row_policy(episodes)
    found = so.plan(episodes, policy, 5, gamma=0.9, design="best").planner
    assert found.records is None
    cells, returns = found.matters.cells, episodes.returns_to_go(0.9)
    decided = episodes.action >= 0
    means = [returns[decided & (episodes.step == t)].mean() for t in range(3)]
    np.testing.assert_allclose(found.knowledge.answers[0], np.array(means)[cells.step])
    assert found.knowledge.parts == expected(Prior(float(returns[decided].std()), episodes.n_episodes))


def test_plain_means_of_answers_where_there_are_some() -> None:
    episodes = paths()
    policy = row_policy(episodes)
    first = so.plan(episodes, policy, 5, decoys=0, design="best")
    asked = first.sealed.to_pylist()
    values = np.arange(5.0)
    given = so.Annotations.from_arrays(
        episode=[row["episode"] for row in asked], step=[row["step"] for row in asked],
        action=[row["action"] for row in asked], value=values,
    )  # fmt: skip
    found = first.next(given).planner
    cell = found.matters.cell[np.flatnonzero(found.times)]
    assert found.knowledge.times.sum() == 5
    answered = found.knowledge.answers[0, np.unique(cell)]
    assert answered.min() >= 0
    assert np.sum(answered * found.knowledge.times[np.unique(cell)]) == pytest.approx(values.sum())


def test_decisions_may_be_missing_at_a_whole_step() -> None:
    """Nobody decided at step 1; without a counted model, plans still go by steps."""
    table: dict[str, list[Any]] = {name: [] for name in ("episode", "step", "state", "action", "reward")}
    for episode in range(6):
        for step, action in enumerate([episode % 2, -1, 1 - episode % 2]):
            for column, entry in zip(table.values(), (episode, step, step, action, float(episode)), strict=True):
                column.append(entry)
    episodes = so.Episodes.from_arrays(**{name: np.array(column) for name, column in table.items()})
    policy = so.Policy.from_table(np.tile([0.4, 0.6], (3, 1)))
    found = so.plan(episodes, policy, 4, least_gain=0)
    assert found.planner.records is None
    assert any("no model can be counted from the logs" in note for note in found.notes)
    assert np.isfinite(found.planner.knowledge.answers).all()
    assert found.n_needed == 4


def test_noise_may_be_stated() -> None:
    policy = sepsis.world().policies[NAME]
    assert planner(policy, noise=0.3).knowledge.parts.noise == pytest.approx(0.09)
    assert planner(policy, some_answers(), noise=0.0).knowledge.parts.noise < 1e-12


def test_every_answer_to_a_cell_counts_also_if_its_question_does_not_matter() -> None:
    policy = sepsis.world().policies[NAME]
    everything = told(NAME)
    found = planner(policy, everything)
    matters, aligned = found.matters, found.logbook.annotations
    episodes = found.episodes
    for cell in range(0, len(matters.cells.step), 25):
        step, state, action = (part[cell] for part in matters.cells)
        row = aligned.row
        own = (episodes.step[row] == step) & (episodes.state[row] == state) & (aligned.action == action)
        assert found.knowledge.times[cell] == own.sum()


@pytest.mark.parametrize("n_states", [300, 250, 150])
def test_where_states_hardly_recur_nothing_is_taken_to_be_known(n_states: int) -> None:
    """Pairs logged once say nothing of how returns scatter: bounds must be wide enough for what nobody saw."""
    rng, n = np.random.default_rng(0), 300
    action = rng.integers(0, 2, n)
    episodes = so.Episodes.from_arrays(
        episode=np.arange(n), step=np.zeros(n, int), state=np.arange(n) % n_states, action=action,
        reward=rng.normal(size=n) + action,
    )  # fmt: skip
    found = so.plan(episodes, so.Policy.from_table([[0.0, 1.0]] * n_states), 40)
    assert found.stop is None
    assert found.n_needed == 40
    assert found.decisions[0].low < 0.5 < found.decisions[0].high
