"""Decoys, and how much readers of the questions alone learn of the policy."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest

import semiope as so
from semiope.domains import bandit, sepsis
from semiope.planning.blind import BLIND, Asked, guessed, n_decoys
from tests.planning.cases import GAMMA, Floats, keys, patients, places, rows, told

N = 1000
ALL = "all 26"
POLICIES = ("optimal", "flip-50-seed-42", "flip-200-seed-0", "flip-400-seed-10000", ALL)
BUDGETS = (50, 200, 400)


@cache
def planned(name: str, budget: int, **options: Any) -> so.Plan:
    policies: Any = sepsis.world().policies
    policy = policies if name == ALL else policies[name]
    return so.plan(patients(N), policy, budget, gamma=GAMMA, least_gain=0, **options)


def chances(plan: so.Plan) -> Floats:
    """How likely each policy takes the action asked about, question by question."""
    planner = plan.planner
    row, action = places(planner, keys(plan))
    state = planner.episodes.state[row]
    actions, states = planner.logbook.actions.words.to_pylist(), planner.episodes.states.words.to_pylist()
    found = []
    for policy in planner.policies.values():
        assert isinstance(policy, so.Policy)
        table = policy.probs.reshape(len(policy.states), len(policy.actions))
        at = [policy.states.words.to_pylist().index(states[s]) for s in state]
        of = [policy.actions.words.to_pylist().index(actions[a]) for a in action]
        found.append(table[at, of])
    return np.stack(found)


def read(plan: so.Plan, yes: Floats, *, crowds: bool) -> float:
    """How often a forest, fitted to four fifths of the questions with what is right, is right on the last fifth.

    It sees episode, step and action, and with `crowds` how many questions there are in the episode and about the step,
    and which come before and after.
    """
    forest = pytest.importorskip("sklearn.ensemble").RandomForestClassifier(40, min_samples_leaf=5, random_state=0)
    selection = pytest.importorskip("sklearn.model_selection")
    asked = keys(plan)
    episode, step, action = (np.array(column) for column in zip(*asked, strict=True))
    features = [*(action == label for label in np.unique(action)), step, episode]
    if crowds:
        of_episode, of_step = Counter(episode.tolist()), Counter(zip(episode.tolist(), step.tolist(), strict=True))
        steps = {one: step[episode == one] for one in of_episode}
        features += [
            [of_episode[one] for one in episode.tolist()],
            [of_step[one] for one in zip(episode.tolist(), step.tolist(), strict=True)],
            [t - steps[one].min() for one, t in zip(episode.tolist(), step.tolist(), strict=True)],
            [steps[one].max() - t for one, t in zip(episode.tolist(), step.tolist(), strict=True)],
        ]
    folds = selection.StratifiedKFold(5, shuffle=True, random_state=0)
    right = yes > 0.5
    return float((selection.cross_val_predict(forest, np.column_stack(features), right, cv=folds) == right).mean())


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("name", POLICIES)
def test_readers_guess_little_more_than_by_chance(name: str, budget: int) -> None:
    plan = planned(name, budget)
    assert plan.n_needed == budget
    assert plan.sealed.num_rows == budget + n_decoys(1.25 if name == ALL else 1, budget)
    assert plan.guess.share <= BLIND
    assert not any("hardly blind" in note for note in plan.notes)
    # Who knows what was done learns more, if there are many policies to hide.
    most = (0.82 if budget == BUDGETS[0] else 0.8) if name == ALL else BLIND
    assert plan.guess.share <= plan.guess.knowing <= most
    yes = chances(plan)[::12]
    read_by = [read(plan, own, crowds=False) for own in yes]
    crowded = [read(plan, own, crowds=True) for own in yes] if budget <= 200 else [0.5]
    # What a forest is right in of 100 questions has a standard error of 0.05: there, only the mean over policies.
    assert max(np.mean(read_by), np.mean(crowded)) <= BLIND
    if budget > BUDGETS[0]:
        assert max(*read_by, *crowded) <= BLIND


def test_readers_would_guess_without_decoys() -> None:
    """The bar above could be missed: questions of several policies, without decoys, are read by action."""
    plan = planned("flip-200-seed-0", 200, decoys=0)
    assert plan.guess.share == 1.0
    assert any("experts are NOT blind" in note and "100%" in note for note in plan.notes)
    plan = planned(ALL, 400, decoys=0)
    assert plan.guess.share > 0.75
    assert max(read(plan, own, crowds=False) for own in chances(plan)[:2]) > 0.7


@pytest.mark.parametrize("seed", [14, 27])  # among thirty, those with most to learn from
def test_a_thousand_questions_for_all_policies(seed: int) -> None:
    plan = so.plan(patients(N, seed), sepsis.world().policies, 1000, gamma=GAMMA, least_gain=0, seed=seed)
    assert plan.n_needed == 1000
    assert plan.guess.share <= BLIND
    assert read(plan, chances(plan)[0], crowds=False) <= BLIND


@pytest.mark.parametrize("name", ["flip-50-seed-42", ALL])
def test_no_estimate_has_of_decoys_and_calibration_is_about_what_was_done(name: str) -> None:
    plan = planned(name, 200)
    planner = plan.planner
    for kind in ("decoy", "calibration"):
        row, action = places(planner, keys(plan, kind))
        assert len(row) >= 0.2 * (plan.sealed.num_rows - plan.n_needed)
        place = planner.matters.position(row, action)
        assert not planner.matters.share[:, place[place >= 0]].any()
        assert name == ALL or (place == -1).all()
        taken = planner.episodes.action[row] == action
        assert taken.all() if kind == "calibration" else not taken.any()
        assert (planner.episodes.action[row] >= 0).all()
    row, action = places(planner, keys(plan, "needed"))
    assert (planner.matters.position(row, action) >= 0).all()
    assert len(set(keys(plan))) == plan.sealed.num_rows


def test_nothing_is_asked_twice() -> None:
    """Batch after batch, answers to decoys and about actions taken among them."""
    policy = sepsis.world().policies["flip-200-seed-0"]
    everything = told("flip-200-seed-0", taken=True)
    plan = so.plan(patients(), policy, 60, batch=20, gamma=GAMMA, least_gain=0)
    given, asked = plan.answers(everything), keys(plan)
    for _ in range(2):
        plan = plan.next(given)
        assert plan.n_needed == 20
        assert not set(keys(plan)) & set(asked)
        given, asked = plan.answers(everything), asked + keys(plan)
    assert len(given) == len(asked) == 120
    assert plan.next(given).used == 60


@pytest.mark.parametrize("per_episode", [1, 2])
def test_decoys_honour_the_cap_per_episode(per_episode: int) -> None:
    policy = sepsis.world().policies["flip-200-seed-0"]
    everything = told("flip-200-seed-0", taken=True)
    plan = so.plan(patients(), policy, 60, batch=30, gamma=GAMMA, least_gain=0, per_episode=per_episode)
    asked = Counter(episode for episode, *_ in keys(plan))
    assert max(asked.values()) <= per_episode
    later = plan.next(plan.answers(everything))
    assert later.n_needed == 30
    asked.update(episode for episode, *_ in keys(later))
    assert max(asked.values()) <= per_episode


@pytest.mark.parametrize("rate", [0.5, 1.0, 2.5])
def test_decoys_come_at_the_rate_stated(rate: float) -> None:
    plan = so.plan(patients(), sepsis.world().policies["optimal"], 21, gamma=GAMMA, decoys=rate)
    assert Counter(row["kind"] == "needed" for row in rows(plan)) == {True: 21, False: int(np.ceil(21 * rate))}
    assert n_decoys(0.1, 30) == 3  # though 0.1 * 30 is a little more


def test_a_plan_says_how_many_decoys_were_found() -> None:
    world = bandit.one_state(behavior=(0.5, 0.5))
    episodes = world.sample(20, seed=1)
    plan = so.plan(episodes, world.policies["0-1"], 20, decoys=10, least_gain=0)
    n = len(keys(plan)) - plan.n_needed
    assert 0 < n < 10 * plan.n_needed
    assert any(f"only {n} decoys of {10 * plan.n_needed} could be found" in note for note in plan.notes)


def test_readers_judge_by_other_questions() -> None:
    matters = planned("optimal", 50).planner.matters
    # By all: two of three are right. By the action: who is alone in a group is left to chance.
    asked = Asked(np.array([0, 1, 2]), np.array([0, 0, 1]), np.zeros(3, dtype=np.int64))
    assert guessed(matters.logbook, matters.names, asked, np.array([[1.0, 1.0, 0.0]])).share == pytest.approx(
        (1 + 1 + 0.5) / 3
    )
    assert guessed(matters.logbook, matters.names, asked, np.full((1, 3), 0.5)) == (0.5, "policy", "chance", 0.5)
    nothing = Asked(*(np.zeros(0, dtype=np.int64) for _ in range(3)))
    assert guessed(matters.logbook, matters.names, nothing, np.zeros((1, 0))).share == 0.5


def test_large_plans_are_made_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("semiope.planning.blind.PART", 30)
    monkeypatch.setattr("semiope.planning.blind.POOL", 500)
    policy = sepsis.world().policies["flip-200-seed-0"]
    plan = so.plan(patients(), policy, 100, gamma=GAMMA, least_gain=0)
    assert len(set(keys(plan))) == 200
    assert plan.guess.share <= BLIND


def test_each_reader_finds_what_it_goes_by() -> None:
    """Yes or no by something else each time: the best reader is the one who goes by it."""
    matters = planned("optimal", 50).planner.matters
    episodes = matters.logbook.episodes
    decided = np.flatnonzero(episodes.action >= 0)
    rng = np.random.default_rng(1)
    # One question an episode, but for every third, which has several.
    episode = episodes.episode_of(decided)
    first = np.unique(episode, return_index=True)[1]
    many = decided[(episode % 3 == 0) & (rng.random(len(decided)) < 0.5)]
    row = np.unique(np.concatenate([decided[first], many]))
    action = episodes.action[row] ^ rng.integers(0, 2, len(row))  # half of them as taken
    of_episode = np.bincount(episodes.episode_of(row))[episodes.episode_of(row)]
    taken, step = episodes.action[row] == action, episodes.step[row] % 2 == 1
    asked = Asked(row, action, np.zeros(len(row), dtype=np.int64))

    def guess(yes: Any) -> tuple[str, float, float]:
        found = guessed(matters.logbook, matters.names, asked, np.asarray(yes, dtype=np.float64)[None])
        return found.by, found.share, found.knowing

    one = action % 2 == 1
    assert guess(one)[0] == "the action"
    by, share, _ = guess(one ^ step)
    assert by == "action and step"
    assert share > 0.95
    assert guess(one ^ (of_episode > 1))[0] == "action and how many questions there are"
    _, share, knowing = guess(taken)
    assert knowing == 1.0
    assert share < 0.8
