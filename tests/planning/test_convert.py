"""What a plan knows of converting annotations of the behavior policy: by plain loops, and how far it may be off."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import semiope as so
from semiope._arrays import frozen
from semiope.domains import tree
from semiope.domains.world import World
from semiope.planning.case import Case, Records
from semiope.planning.convert import leading_to, turned, turning_errors, what_follows_brings
from semiope.planning.residuals import predict
from tests.models.test_tabular import dense

pytestmark = pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")


def everything_logged(n: int = 400) -> tuple[World, so.Episodes, Records]:
    """A tree without chance in which every pair is logged: the counted model is the true one."""
    world = tree.tree(3, slip=0.0, behavior=(0.5, 0.5))
    episodes = world.sample(n, seed=1)
    return world, episodes, Records(episodes, ("x", "y"), 1.0)


def random_logs(seed: int) -> so.Episodes:
    """Few states, three actions of which the last is rare, unequal lengths, some final rows without an action."""
    rng = np.random.default_rng(seed)
    rows: dict[str, list[Any]] = {name: [] for name in ("episode", "step", "state", "action", "reward")}
    for episode in range(12):
        length = int(rng.integers(1, 5))
        for step in range(length + 1):
            last = step == length
            state, action = ("end", -1) if last else (str(rng.integers(3)), int(rng.integers(2)))
            row = (episode, step, state, action, rng.normal())
            for column, entry in zip(rows.values(), row, strict=True):
                column.append(entry)
    return so.Episodes.from_arrays(**rows)


@pytest.mark.parametrize("seed", range(6))
def test_returns_and_conversion_by_plain_loops(seed: int) -> None:
    """gamma 0.5, a policy per step, an action that nobody took; everything from counts, in plain Python."""
    episodes, gamma = random_logs(seed), 0.5
    records = Records(episodes, (0, 1, 2), gamma)
    mdp, counts = records.empirical
    horizon, n, n_actions = mdp.horizon, mdp.n_states, 3
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(3), size=(horizon, n))
    case = Case(records, mdp.policy(probs), "p")
    behavior = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    following = dense(mdp)
    q_b, q_e, change = (np.zeros((horizon, n, n_actions)) for _ in range(3))
    v_b, v_e = np.zeros(n), np.zeros(n)
    asked = so.annotate(episodes, mdp, rng.normal(size=(horizon, n, n_actions)), of_action_taken=False)
    at, value = records.counterfactual(asked)
    for t in range(horizon - 1, -1, -1):
        now_b, now_e = np.zeros(n), np.zeros(n)
        for s in range(n):
            if mdp.terminal[s]:
                now_b[s] = now_e[s] = mdp.reward[s, 0]
                q_b[t, s] = q_e[t, s] = mdp.reward[s]
                continue
            for a in range(n_actions):
                if counts[s, a]:
                    q_b[t, s, a] = mdp.reward[s, a] + gamma * following[s, a] @ v_b
            now_b[s] = behavior[s] @ q_b[t, s]
            for a in range(n_actions):
                q_b[t, s, a] = q_b[t, s, a] if counts[s, a] else now_b[s]
                q_e[t, s, a] = mdp.reward[s, a] + gamma * following[s, a] @ v_e if counts[s, a] else now_b[s]
            now_e[s] = probs[t, s] @ q_e[t, s]
        v_b, v_e = now_b, now_e
    assert records.behavior_returns == pytest.approx(q_b, abs=1e-12)
    assert case.returns == pytest.approx(q_e, abs=1e-12)
    correction, _ = predict(at, value - at.read(q_b), counts, horizon, records.prior)
    told, ahead = q_b + correction, np.zeros(n)
    for t in range(horizon - 1, -1, -1):
        now = np.zeros(n)
        for s in np.flatnonzero(~mdp.terminal).tolist():
            own = gamma * following[s] @ ahead
            change[t, s] = (counts[s] * own + behavior[s] @ own) / (counts[s] + 1)
            now[s] = (probs[t, s] - behavior[s]) @ told[t, s] + probs[t, s] @ change[t, s]
        ahead = now
    assert turned(case, told) == pytest.approx(change, abs=1e-12)
    # Observed returns are discounted from their own row.
    last = int(episodes.offsets[1])
    expected = sum(gamma**k * episodes.reward[k] for k in range(last))
    assert records.returns_from(np.array([0]))[0] == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(6))
def test_what_hangs_on_returns_is_the_conversion_the_other_way_round(seed: int) -> None:
    records, rng = Records(random_logs(seed), (0, 1, 2), 0.5), np.random.default_rng(seed)
    mdp = records.empirical.mdp
    case = Case(records, mdp.policy(rng.dirichlet(np.ones(3), size=(mdp.horizon, mdp.n_states))), "p")
    returns, mass = rng.normal(size=(2, *records.behavior_returns.shape))
    change = turned(case, returns)
    assert np.abs(change).max() > 0.01
    assert np.sum(mass * change) == pytest.approx(np.sum(leading_to(case, mass) * returns), abs=1e-12)


def forking(n: int, seed: int, n_cut: int = 0) -> Records:
    """Whatever is done first leads to state 1 or 2 by chance; in state 1 the second action pays 1, all else nothing.

    In each of them, the second is taken every other time. `n_cut` more come to the first state when time is up.
    """
    rng = np.random.default_rng(seed)
    first, fork = rng.integers(0, 2, n), rng.integers(1, 3, n)
    second = np.where(fork == 1, np.cumsum(fork == 1), np.cumsum(fork == 2)) % 2
    more = np.arange(n_cut) % 2
    state = np.concatenate([np.column_stack([np.zeros(n, int), fork]), np.tile([3, 0], (n_cut, 1))])
    action = np.concatenate([np.column_stack([first, second]), np.column_stack([more, more])])
    episodes = so.Episodes.from_arrays(
        episode=np.repeat(np.arange(n + n_cut), 2), step=np.tile([0, 1], n + n_cut), state=state.ravel(),
        action=action.ravel(), reward=((state == 1) & (action == 1)).ravel().astype(float),
    )  # fmt: skip
    return Records(episodes, (0, 1), 0.9)


@pytest.mark.parametrize("seed", range(6))
def test_what_follows_brings_what_sums_change_by(seed: int) -> None:
    """For each probability in the model, by a small change of it; gamma 0.5, a policy per step, final states."""
    records, rng = Records(random_logs(seed), (0, 1, 2), 0.5), np.random.default_rng(seed)
    mdp = records.empirical.mdp
    case = Case(records, mdp.policy(rng.dirichlet(np.ones(3), size=(mdp.horizon, mdp.n_states))), "p", True)
    today, mass = rng.normal(size=(2, *records.behavior_returns.shape))
    brings, passing = what_follows_brings(case, mass, today)
    prob, change = mdp.dynamics.prob, []
    for i in range(len(prob)):
        both = []
        for shift in (1e-4, -1e-4):
            vars(mdp)["dynamics"] = mdp.dynamics._replace(
                prob=frozen(np.where(np.arange(len(prob)) == i, prob + shift, prob))
            )
            both.append(np.sum(mass * turned(case, today)))
        change.append((both[0] - both[1]) / 2e-4)
    assert np.abs(brings).max() > 0.01
    np.testing.assert_allclose(brings, change, atol=1e-6)
    assert passing.shape == (mdp.n_states * 3,)


ALWAYS, HALF, NEVER = ([[0.5, 0.5], [1 - share, share], [0.5, 0.5]] for share in (1.0, 0.75, 0.0))


def test_what_turning_adds_is_what_it_scatters_by() -> None:
    """Policies that gain, gain half as much, and lose: variances and covariances over 400 datasets, to a sixth."""
    mass = np.zeros((2, 3, 2))
    mass[0, 0] = 0.3, 0.7
    sums, claimed = [], []
    for seed in range(400):
        records = forking(60, seed)
        cases = [Case(records, so.Policy.from_table(probs), "p", True) for probs in (ALWAYS, HALF, NEVER)]
        # Today's returns as they are, so that hardly anything varies but how often each state followed.
        today = np.zeros((2, 3, 2))
        today[1, 1, 1] = 1.0
        sums.append([np.sum(mass * turned(case, today)) for case in cases])
        claimed.append(turning_errors(cases, [mass] * 3, today))
    seen = np.cov(np.transpose(sums))
    assert seen[0, 2] < 0 < seen[0, 1]
    np.testing.assert_allclose(np.mean(claimed, axis=0), seen, rtol=1 / 6, atol=seen.max() / 20)
    assert np.linalg.eigvalsh(np.mean(claimed, axis=0)).min() > -1e-12


def test_of_pairs_seen_once_something_is_expected() -> None:
    """Ten states, of which each action was taken once, lead to one of two by chance: nothing varies within a pair."""
    n, rng = 20, np.random.default_rng(0)
    fork = rng.integers(0, 2, n)
    second = np.where(fork == 0, np.cumsum(fork == 0), np.cumsum(fork == 1)) % 2
    episodes = so.Episodes.from_arrays(
        episode=np.repeat(np.arange(n), 2), step=np.tile([0, 1], n),
        state=np.column_stack([2 + np.arange(n) // 2, fork]).ravel(),
        action=np.column_stack([np.arange(n) % 2, second]).ravel(), reward=np.zeros(2 * n),
    )  # fmt: skip
    records = Records(episodes, (0, 1), 1.0)
    tables = ([[1 - share, share]] + [[0.5, 0.5]] * 11 for share in (1.0, 0.0))
    cases = [Case(records, so.Policy.from_table(table), "p", True) for table in tables]
    mass, today = np.zeros((2, 12, 2)), np.zeros((2, 12, 2))
    mass[0, 2:], today[1, 0, 1] = 1 / n, 1.0
    # A gain or a loss of about 1/2 in every other episode, of 20: a quarter of a quarter over 20.
    found = turning_errors(cases, [mass, mass], today)
    np.testing.assert_allclose(found, np.array([[1, -1], [-1, 1]]) / 320, rtol=0.3)


def test_what_followed_is_not_known_where_episodes_were_cut() -> None:
    """Episodes that come to a state when time is up say nothing of where it leads."""
    whole, cut, found = forking(40, 1), forking(40, 1, n_cut=100), []
    for records in (whole, cut):
        np.testing.assert_array_equal(records.followed[0], whole.empirical.counts[0])
        np.testing.assert_array_equal(records.followed[1:3], 0)
        n_states = records.empirical.mdp.n_states
        case = Case(records, so.Policy.from_table([*ALWAYS, [0.5, 0.5]][:n_states]), "p", True)
        mass, today = np.zeros((2, n_states, 2)), np.zeros((2, n_states, 2))
        mass[0, 0], today[1, 1, 1] = 0.5, 1.0
        found.append(turning_errors([case], [mass], today)[0, 0])
    assert cut.empirical.counts[0].sum() == 140
    assert found[1] == pytest.approx(found[0], rel=0.1)


def test_where_nothing_is_left_to_chance_turning_adds_nothing() -> None:
    world, _, records = everything_logged()
    case = Case(records, world.policies["always-y"], "always-y", True)
    found = turning_errors([case], [np.ones_like(records.behavior_returns)], records.behavior_returns)
    assert found[0, 0] == pytest.approx(0, abs=1e-20)
