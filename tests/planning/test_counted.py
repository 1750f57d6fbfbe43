"""What the model has wrong because it was counted from few: in errors, in bounds, and taken off by answers or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import semiope as so
from semiope.domains import sepsis
from semiope.planning.planner import Planner
from semiope.planning.stopping import decide
from semiope.planning.wishes import Wishes
from tests.planning.cases import GAMMA, NAME, patients, told

pytestmark = pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")


def planner(policies: Any, annotations: so.Annotations | None = None, **options: Any) -> Planner:
    plan = so.plan(patients(), policies, 10, annotations=annotations, gamma=GAMMA, least_gain=0, **options)
    found: Planner = plan.planner
    return found


def thinly_logged(n: int, share: float, seed: int) -> so.Episodes:
    """Two steps, all means 0: the first action leads, now and then, to where the policy's action is rare."""
    rng = np.random.default_rng(seed)
    first = (rng.random(n) < 0.1).astype(int)
    second = (rng.random(n) < np.where(first == 1, share, 0.5)).astype(int)
    return so.Episodes.from_arrays(
        episode=np.repeat(np.arange(n), 2), step=np.tile([0, 1], n),
        state=np.column_stack([np.zeros(n, int), 2 - first]).ravel(), action=np.column_stack([first, second]).ravel(),
        reward=rng.normal(size=2 * n) * np.tile([0.0, 1.0], n),
    )  # fmt: skip


def test_paths_that_are_thinly_logged_are_not_taken_to_be_known() -> None:
    """The claimed error is that of estimates, of a policy that equals today's: 60 datasets, so within a quarter."""
    policy = so.Policy.from_table([[0.0, 1.0], [0.0, 1.0], [0.5, 0.5]])
    off, claimed, pairs_alone = [], [], []
    for seed in range(60):
        found = so.plan(thinly_logged(400, 0.1, seed), policy, 5, least_gain=0).planner
        off.append(found.estimates()[0])
        claimed.append(found.errors(found.each.times)[0])
        pairs_alone.append(found.values[0].var() / 400 + found.each.remaining()[0])
    true = np.sqrt(np.mean(np.square(off)))
    assert 0.7 * true < np.sqrt(np.mean(claimed)) < 1.4 * true
    assert np.sqrt(np.mean(pairs_alone)) < 0.6 * true


def test_answers_take_off_what_thin_paths_leave_open() -> None:
    policy = so.Policy.from_table([[0.0, 1.0], [0.0, 1.0], [0.5, 0.5]])
    episodes = thinly_logged(400, 0.1, 1)
    first = so.plan(episodes, policy, 100, least_gain=0, noise=0.1)
    table = [row for row in first.sealed.to_pylist() if row["kind"] == "needed"]
    given = so.Annotations.from_arrays(
        **{name: [row[name] for row in table] for name in ("episode", "step", "action")}, value=np.zeros(len(table))
    )
    then = first.next(given).planner
    before, after = (one.remaining(one.each.times)[0] for one in (first.planner, then))
    assert 0 < first.planner.each.learnt < then.each.learnt < 1 or first.planner.each.learnt == 0 < then.each.learnt
    assert after < 0.3 * before


def test_what_turns_answers_about_usual_care_stays_open_however_much_is_answered() -> None:
    """Even with every answer, exact, the model says what follows; differences of policies have less of it."""
    policies = {name: sepsis.world().policies[name] for name in (NAME, "optimal")}
    found = planner(policies, told("behavior"), about="behavior", goal="ranking")
    often = np.full_like(found.each.times, 1e6)
    assert found.knowledge.returns is not None
    turning = found.matters.counting_errors(found.cases, found.knowledge.returns)
    assert found.each.remaining(often).max() < 0.05 * np.diag(turning).min()
    np.testing.assert_allclose(found.covariance(often), turning, rtol=0.1)
    assert 0 < turning[0, 1] < np.sqrt(turning[0, 0] * turning[1, 1])
    now, before = found.covariance(found.each.times), found.covariance(np.zeros_like(found.each.times))
    better = int(np.argmax(found.estimates()))
    weights = np.array([1.0, -1.0]) if better == 0 else np.array([-1.0, 1.0])
    difference = found.values[better] - found.values[1 - better]
    left, first = (float(weights @ one @ weights) for one in (now, before))
    names = found.matters.names
    expected = decide(names[better], names[1 - better], difference, left, first, 0.05)
    assert (found.decisions()[-1].low, found.decisions()[-1].high) == pytest.approx((expected.low, expected.high))


def test_where_answers_say_what_nobody_did_brings_turning_adds_what_leads_there() -> None:
    """By the model alone, what was never done is worth as much as its state, and turning would add nothing."""
    n, rng = 60, np.random.default_rng(3)
    fork = rng.integers(1, 3, n)
    episodes = so.Episodes.from_arrays(
        episode=np.repeat(np.arange(n), 2), step=np.tile([0, 1], n),
        state=np.column_stack([np.zeros(n, int), fork]).ravel(),
        action=np.column_stack([rng.integers(0, 2, n), np.zeros(n, int)]).ravel(), reward=np.zeros(2 * n),
    )  # fmt: skip
    policy = so.Policy.from_table([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    here = np.flatnonzero(fork == 1)
    pays = so.Annotations.from_arrays(
        episode=here, step=np.ones(len(here), int), action=np.ones(len(here), int), value=np.ones(len(here))
    )
    found = so.plan(episodes, policy, 100, annotations=pays, about="behavior", decoys=0, least_gain=0).planner
    left = found.remaining(found.each.times)[0] - found.each.remaining()[0]
    # One half, known from thirty, for the half of episodes in which the first action was another.
    assert left == pytest.approx(0.25 / 30 / 4, rel=0.4)


def test_errors_claimed_for_usual_care_are_those_of_estimates() -> None:
    """Exact answers to every question, 26 policies, 12 datasets: within a quarter, and not without what turns them."""
    world, off, claimed, sampling = sepsis.world(), [], [], []
    truth = np.array([world.mdp.value(policy) for policy in world.policies.values()])
    for seed in range(12):
        episodes = world.sample(500, seed=seed)
        wishes = Wishes(budget=1.0, about="behavior", goal="value", gamma=GAMMA, decoys=0.0, least_gain=0.0)
        found = Planner(episodes, world.policies, world.annotate(episodes, world.behavior), wishes)
        off.append(found.estimates() - truth)
        claimed.append(found.errors(found.each.times))
        sampling.append(found.values[:-1].var(axis=1) / 500 + found.each.remaining())
    true = np.sqrt(np.mean(np.square(off)))
    assert 0.75 * true < np.sqrt(np.mean(claimed)) < 1.25 * true
    assert np.sqrt(np.mean(sampling)) < 0.75 * true
