"""What hangs on each answer, found by changing it, and estimates as `so.evaluate` makes them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import semiope as so
from semiope.data.logbook import Logbook
from semiope.planning.matters import Matters, what_matters
from tests.contract.worlds import N_ACTIONS, N_STATES, Logs, random_logs
from tests.planning.cases import Floats

pytestmark = pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")
KINDS = ("deterministic", "stochastic", "by step", "by row")
HORIZON = 5


def policy_of(kind: str, logs: Logs, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    if kind == "deterministic":
        return so.Policy.deterministic(rng.integers(N_ACTIONS, size=N_STATES), N_ACTIONS)
    if kind == "stochastic":
        return so.Policy.from_table(logs.evaluation)
    if kind == "by step":
        return so.Policy.from_table(rng.dirichlet(np.full(N_ACTIONS, 0.3), size=(HORIZON, N_STATES)))
    decided = logs.episodes["action"] >= 0
    episode, step = (np.repeat(logs.episodes[name][decided], N_ACTIONS) for name in ("episode", "step"))
    probs = rng.dirichlet(np.full(N_ACTIONS, 0.3), size=int(decided.sum()))
    action = np.tile(np.arange(N_ACTIONS), int(decided.sum()))
    return so.RowPolicy.from_arrays(episode=episode, step=step, action=action, prob=probs.ravel())


def matters_of(logs: Logs, policies: dict[str, Any], gamma: float) -> Matters:
    episodes = so.Episodes.from_arrays(**logs.episodes)
    known = {name: policy.actions for name, policy in policies.items()}
    return what_matters(Logbook.of(episodes, None, known), policies, gamma)


def values(logs: Logs, policy: Any, gamma: float) -> Floats:
    found = so.evaluate(
        so.Episodes.from_arrays(**logs.episodes), policy, annotations=so.Annotations.from_arrays(**logs.annotations),
        estimators=["c*-pdis"], gamma=gamma,
    )  # fmt: skip
    by_episode: Floats = found["c*-pdis"].values
    return by_episode


def changed(logs: Logs, answer: int, by: float) -> Logs:
    value = logs.annotations["value"].copy()
    value[answer] += by
    return replace(logs, annotations={**logs.annotations, "value": value})


@pytest.mark.parametrize("gamma", [0.0, 0.9, 1.0])
@pytest.mark.parametrize("kind", KINDS)
def test_shares_are_what_an_estimate_changes_by(kind: str, gamma: float) -> None:
    logs = random_logs(11, fully_annotated=True, every_pair=True)
    assert (logs.episodes["action"] < 0).any()
    policy = policy_of(kind, logs, 1)
    matters = matters_of(logs, {"policy": policy}, gamma)
    before = values(logs, policy, gamma)
    asked = zip(*(logs.annotations[name] for name in ("episode", "step", "action")), strict=True)
    for answer, (episode, step, action) in enumerate(asked):
        row = int(matters.logbook.episodes.offsets[episode] + step)
        place = int(matters.position(np.array([row]), np.array([action]))[0])
        share = matters.share[0, place] if place >= 0 else 0.0
        change = values(changed(logs, answer, 1.0), policy, gamma) - before
        np.testing.assert_allclose(change, np.where(np.arange(len(before)) == episode, share, 0.0), atol=1e-12)
    assert (matters.share > 0).all()


@pytest.mark.parametrize("gamma", [0.0, 0.9, 1.0])
@pytest.mark.parametrize("kind", KINDS)
def test_values_are_those_of_evaluate_with_the_same_answers(kind: str, gamma: float) -> None:
    logs = random_logs(5, fully_annotated=True)
    policy = policy_of(kind, logs, 2)
    matters = matters_of(logs, {"policy": policy}, gamma)
    cells = np.random.default_rng(3).normal(size=len(matters.cells.step))
    episodes, told = matters.logbook.episodes, logs.annotations
    row = episodes.offsets[told["episode"]] + told["step"]
    place = matters.position(row, told["action"])
    value = np.where(place >= 0, cells[matters.cell[place]], 99.0)
    expected = values(replace(logs, annotations={**told, "value": value}), policy, gamma)
    np.testing.assert_allclose(matters.values(0, cells), expected, atol=1e-12)
    assert matters.mass[0] @ cells + matters.kept[0].mean() == pytest.approx(expected.mean(), abs=1e-12)


def test_a_deterministic_policy_matters_where_episodes_first_leave_it() -> None:
    logs = random_logs(8, fully_annotated=True)
    policy = policy_of("deterministic", logs, 1)
    matters = matters_of(logs, {"policy": policy}, 1.0)
    episodes = matters.logbook.episodes
    chosen = policy.probs.reshape(N_STATES, N_ACTIONS).argmax(axis=1)[episodes.state]
    left = (episodes.action >= 0) & (chosen != episodes.action)
    first = [
        np.flatnonzero(left[a:b])[:1] + a for a, b in zip(episodes.offsets[:-1], episodes.offsets[1:], strict=True)
    ]
    np.testing.assert_array_equal(matters.row, np.concatenate(first))
    np.testing.assert_array_equal(matters.action, chosen[matters.row])
    np.testing.assert_array_equal(matters.share, 1.0)


def test_several_policies_share_questions_and_cells() -> None:
    logs = random_logs(4, fully_annotated=True)
    policies = {kind: policy_of(kind, logs, 7) for kind in KINDS}
    together = matters_of(logs, policies, 0.9)
    for k, (name, policy) in enumerate(policies.items()):
        alone = matters_of(logs, {name: policy}, 0.9)
        own = together.position(alone.row, alone.action)
        assert (own >= 0).all()
        np.testing.assert_allclose(together.share[k, own], alone.share[0])
        assert together.share[k].sum() == pytest.approx(alone.share.sum())
        np.testing.assert_allclose(together.kept[k], alone.kept[0])
    assert together.names == [*KINDS]
    np.testing.assert_array_equal(together.row, np.sort(together.row))
    state, step = together.logbook.episodes.state[together.row], together.logbook.episodes.step[together.row]
    np.testing.assert_array_equal(together.cells.state[together.cell], state)
    np.testing.assert_array_equal(together.cells.step[together.cell], step)
    np.testing.assert_array_equal(together.cells.action[together.cell], together.action)


def test_what_does_not_matter_has_no_place() -> None:
    logs = random_logs(8, fully_annotated=True)
    matters = matters_of(logs, {"policy": policy_of("deterministic", logs, 1)}, 1.0)
    np.testing.assert_array_equal(matters.position(matters.row, matters.action), np.arange(len(matters.row)))
    taken = matters.logbook.episodes.action[matters.row]
    np.testing.assert_array_equal(matters.position(matters.row, taken), -1)
