"""What is wanted and decided: goals, widths, bounds, and why a plan stops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import semiope as so
from semiope.domains import sepsis
from semiope.planning.stopping import bound
from tests.planning.cases import GAMMA, NAME, patients, plan, posterior, repeated, rows, told

pytestmark = pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")


def test_a_target_width_says_what_budget_it_takes() -> None:
    found = plan(None, target_width=0.16, goal="value")
    assert found.stop is None
    assert 0 < found.budget < len(found.planner.matters.row)
    assert found.n_needed == found.budget
    width = 2 * 1.959964 * found.error[1]
    assert width <= 0.16 < 2 * 1.959964 * plan(found.budget - 1, goal="value").error[1]
    assert plan(5, target_width=0.16, goal="value").n_needed == 5
    reached = plan(None, target_width=5.0)
    assert reached.stop is not None
    assert reached.stop.reason == "width"
    with pytest.raises(
        so.OptionError, match=r"target_width: with all \d+ questions that can be asked, intervals would"
    ):
        plan(None, target_width=0.001)


def test_plans_stop_and_say_why() -> None:
    everything = told(NAME)
    first = plan(30)
    used = first.next(first.answers(everything))
    assert used.stop is not None
    assert used.stop.reason == "budget"
    assert used.sealed.num_rows == 0
    assert used.error[0] == used.error[1] < first.error[0]
    little = plan(1, least_gain=0.9)
    assert little.stop is not None
    assert little.stop.reason == "gain"
    done = plan(10_000, annotations=everything, goal="value")
    assert done.stop is not None
    assert done.stop.reason == "nothing"


def test_a_decision_is_settled_by_a_few_answers_at_least() -> None:
    """A policy that pays much more than what was done is called better, once answers have put the model to the test."""
    n = 60
    episodes = so.Episodes.from_arrays(
        episode=np.arange(n), step=np.zeros(n, int), state=np.zeros(n, int), action=np.arange(n) % 2,
        reward=np.where(np.arange(n) % 2, 5.0, 0.0) + 0.1 * np.random.default_rng(1).normal(size=n),
    )  # fmt: skip
    policy = so.Policy.from_table([[0.0, 1.0]])
    first = so.plan(episodes, policy, 30, batch=12)
    assert first.stop is None
    assert first.decisions[0].low > 0  # by the logs and what is expected of answers: not yet a call
    assert first.decisions[0].call == "open"
    assert any("nothing is called better or worse before 10" in note for note in first.notes)
    table = rows(first, "needed")
    given = so.Annotations.from_arrays(
        **{name: [row[name] for row in table] for name in ("episode", "step", "action")}, value=np.full(len(table), 5.0)
    )
    then = first.next(given)
    assert then.stop is not None
    assert then.stop.reason == "settled"
    few = so.plan(episodes, policy, 30, annotations=given.some(np.arange(9)), least_gain=0)
    assert few.stop is None
    assert so.plan(episodes, policy, 30, annotations=given, goal="value", least_gain=0).stop is None


def test_rankings_are_settled_by_what_is_not_known_of_differences() -> None:
    """Two policies that do the same: whatever answers are missing, nothing is unknown of their difference."""
    policies = {name: sepsis.world().policies[NAME] for name in ("a", "b")}
    found = so.plan(patients(), policies, 10, gamma=GAMMA, goal="ranking")
    between = next(one for one in found.decisions if one.than is not None)
    assert (between.low, between.difference, between.high) == (0.0, 0.0, 0.0)


def test_the_widest_interval_must_be_as_narrow_as_wanted() -> None:
    world = sepsis.world()
    policies = {name: world.policies[name] for name in ("optimal", "flip-400-seed-42")}
    alone = {
        name: so.plan(patients(), {name: policy}, gamma=GAMMA, about="behavior", target_width=0.5).planner
        for name, policy in policies.items()
    }
    together = so.plan(patients(), policies, gamma=GAMMA, target_width=0.5).planner
    nothing = np.zeros(0, dtype=np.int64)
    assert together._width(nothing) == pytest.approx(max(one._width(nothing) for one in alone.values()))


@pytest.mark.parametrize("goal", ["difference", "ranking"])
def test_candidates_of_which_nothing_is_to_be_learnt_do_not_stand_in_the_way(goal: str) -> None:
    """One does what was logged, one is there twice: questions are about the others all the same."""
    n = 40
    episodes = so.Episodes.from_arrays(
        episode=np.arange(n), step=np.zeros(n, int), state=np.arange(n) % 2, action=np.zeros(n, int),
        reward=np.random.default_rng(1).normal(size=n),
    )  # fmt: skip
    tables = {"same": [[1.0, 0.0]] * 2, "new": [[0.0, 1.0]] * 2, "twin": [[0.0, 1.0]] * 2}
    policies = {name: so.Policy.from_table(probs) for name, probs in tables.items()}
    found = so.plan(episodes, policies, 10, goal=goal)
    assert found.n_needed == 10
    names = [(one.policy, one.than) for one in found.decisions]
    assert names[:3] == [("same", None), ("new", None), ("twin", None)]
    assert len(names) == (3 if goal == "difference" else 5)


def test_differences_are_wanted_as_far_as_they_are_open() -> None:
    world = sepsis.world()
    policies = {name: world.policies[name] for name in ("optimal", NAME, "flip-400-seed-42")}
    planner = so.plan(patients(), policies, 10, gamma=GAMMA, annotations=told("behavior", std=0.1)).planner
    returns = patients().returns(GAMMA)
    differences = planner.values[:-1] - returns
    variance = differences.var(axis=1, ddof=1) / len(returns) + planner.remaining(planner.each.times)
    far = np.abs(differences.mean(axis=1)) / np.sqrt(variance)
    weight = np.exp(-(np.minimum(far, 4.0) ** 2) / 2) / np.sqrt(variance)
    assert weight.max() / weight.min() > 1.5
    expected = np.sqrt(weight / weight.max())[:, None] * planner.matters.mass
    np.testing.assert_allclose(planner.design.mass, expected, rtol=1e-9)


def test_decisions_have_what_is_not_known_of_answers_in_their_bounds() -> None:
    found = plan(40, annotations=told(NAME).some(np.arange(40)))
    planner, one = found.planner, found.decisions[0]
    differences = planner.values[0] - planner.values[1]
    error = differences.std(ddof=1) / np.sqrt(len(differences))
    before = replace(planner.each, times=np.zeros_like(planner.each.times), mass=planner.matters.mass)
    now = posterior(planner.each, repeated(planner.each.times))[0, 0]
    of_answers = bound(now, posterior(before, [])[0, 0], 0.01)
    assert of_answers > 0.5 * error
    assert one.high - one.difference == pytest.approx(1.7602 * error + of_answers, rel=1e-3)  # t of 199 degrees, 96%


def test_rankings_go_from_the_better_to_the_worse() -> None:
    policies = {name: sepsis.world().policies[name] for name in ("flip-400-seed-42", "optimal", NAME)}
    found = so.plan(patients(), policies, 10, gamma=GAMMA, goal="ranking")
    ordered = [one for one in found.decisions if one.than is not None]
    values = dict(zip(policies, found.planner.estimates(), strict=True))
    assert len(ordered) == 2
    for one in ordered:
        assert one.than is not None
        assert one.difference == pytest.approx(values[one.policy] - values[one.than])
        assert one.difference >= 0


def test_widths_are_those_of_what_is_wanted() -> None:
    by_goal = {goal: plan(5, goal=goal).planner for goal in ("difference", "value")}
    for goal, planner in by_goal.items():
        wanted = planner.values[0] - (planner.values[1] if goal == "difference" else 0.0)
        square = wanted.var(ddof=1) / len(wanted) + planner.each.remaining()[0]
        nothing = np.zeros(0, dtype=np.int64)
        assert planner._width(nothing) == pytest.approx(2 * 1.959964 * np.sqrt(square), rel=1e-6)
    assert by_goal["difference"].values[1].std() > 0
