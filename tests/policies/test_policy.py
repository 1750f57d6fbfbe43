from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import semiope as so
from semiope.estimate.evidence import gather
from semiope.policies.cells import cells_of

EPISODES: dict[str, list[Any]] = {
    "episode": [0, 0, 0, 1, 1],
    "step": [0, 1, 2, 0, 1],
    "state": ["s", "t", "end", "s", "s"],
    "action": ["a", "b", None, "b", "b"],
    "reward": [0.0, 1.0, 0.0, 2.0, 3.0],
}
ANNOTATIONS = {"episode": [0, 1], "step": [0, 1], "action": ["b", "a"], "value": [1.0, 2.0]}
PER_STEP = {
    "step": [0, 0, 1, 1, 1],
    "state": ["s", "s", "t", "s", "s"],
    "action": ["a", "b", "b", "a", "b"],
    "prob": [0.2, 0.8, 1.0, 0.6, 0.4],
}
# The same policy, row by row.
PER_ROW: dict[str, list[Any]] = {
    "episode": [0, 0, 0, 1, 1, 1, 1],
    "step": [0, 0, 1, 0, 0, 1, 1],
    "action": ["a", "b", "b", "a", "b", "a", "b"],
    "prob": [0.2, 0.8, 1.0, 0.2, 0.8, 0.6, 0.4],
}

pytestmark = pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")


@pytest.mark.parametrize("cell", ["state", "step,state"])
@pytest.mark.parametrize("role", ["evaluation", "behavior"])
def test_a_policy_per_step_is_the_same_row_by_row(cell: str, role: str) -> None:
    other = so.read_policy({"state": ["s", "s", "t"], "action": ["a", "b", "b"], "prob": [0.5, 0.5, 1.0]})
    names = ["is", "wis", "pdis"]
    if (role, cell) != ("behavior", "state"):  # a behaviour policy per step also makes the cells per step
        names += ["c-pdis", "naive-weighted"]
    found = []
    for policy in (so.read_policy(PER_STEP), so.read_policy(PER_ROW)):
        pair = (policy, None) if role == "evaluation" else (other, policy)
        found.append(
            so.evaluate(EPISODES, pair[0], behavior=pair[1], annotations=ANNOTATIONS, cell=cell, estimators=names)
        )
    for name in names:
        assert found[0][name].values == pytest.approx(found[1][name].values, rel=1e-14)
    if role == "evaluation":
        assert found[0].diagnostics["unsupported_mass"] == pytest.approx(found[1].diagnostics["unsupported_mass"])


def test_tables_say_what_they_hold() -> None:
    policy = so.read_policy(PER_STEP)
    assert policy.to_arrow().sort_by("prob").column("prob").to_pylist() == [0.2, 0.4, 0.6, 0.8, 1.0]
    again = so.read_policy(policy)
    assert again.to_arrow().equals(policy.to_arrow())


def test_deterministic_and_softened() -> None:
    policy = so.Policy.deterministic([0, 2], 8).soften(0.01)
    assert policy.probs[1, 2] == pytest.approx(0.99)
    assert policy.probs[1, 3] == pytest.approx(0.01 / 7)


@given(st.floats(0, 1), st.integers(1, 5), st.integers(0, 100))
def test_softening_keeps_a_policy_a_policy(epsilon: float, n_actions: int, seed: int) -> None:
    probs = np.random.default_rng(seed).dirichlet(np.ones(n_actions), size=3)
    soft = so.Policy.from_table(probs).soften(epsilon).probs
    assert soft.sum(axis=1) == pytest.approx(np.ones(3))
    rows = so.RowPolicy.from_arrays(
        episode=np.repeat(range(3), n_actions),
        step=[0] * 3 * n_actions,
        action=[*range(n_actions)] * 3,
        prob=probs.ravel(),
    )
    assert rows.soften(epsilon).prob == pytest.approx(soft.ravel())


def test_counting_per_state_and_per_step() -> None:
    episodes = so.read_episodes(EPISODES)
    per_state = so.estimate_behavior(episodes)
    assert per_state.to_arrow().to_pydict() == {
        "state": ["s", "s", "t"],
        "action": ["a", "b", "b"],
        "prob": [pytest.approx(1 / 3), pytest.approx(2 / 3), 1.0],
    }
    per_step = so.estimate_behavior(episodes, cell="step,state")
    assert per_step.to_arrow().to_pydict() == {
        "step": [0, 0, 1, 1],
        "state": ["s", "s", "s", "t"],
        "action": ["a", "b", "b", "b"],
        "prob": [0.5, 0.5, 1.0, 1.0],
    }


def test_counted_by_hand_or_by_evaluate_is_the_same() -> None:
    episodes = so.read_episodes(EPISODES)
    policy = so.read_policy(PER_STEP)
    for cell in ("state", "step,state"):
        counted = so.evaluate(episodes, policy, annotations=ANNOTATIONS, cell=cell)
        given_ = so.evaluate(
            episodes, policy, annotations=ANNOTATIONS, cell=cell, behavior=so.estimate_behavior(episodes, cell=cell)
        )
        assert "pp-dr" in counted
        for name in set(counted) - {"pp-dr"}:  # which counts within folds, unless a policy is given
            assert counted[name].values == pytest.approx(given_[name].values, rel=1e-14)


def test_logged_propensities_are_used_unless_counting_is_asked_for() -> None:
    propensities = [0.5, 0.25, None, 0.5, 0.8]
    policy = so.read_policy({"state": ["s", "t"], "action": ["b", "b"], "prob": [1.0, 1.0]})
    episodes = so.read_episodes({**EPISODES, "behavior_prob": propensities})
    assert so.evaluate(episodes, policy)["is"].normalizers == pytest.approx([0.0, 1 / 0.5 / 0.8])
    counted = so.evaluate(episodes, policy, behavior="count")["is"]
    assert counted.normalizers == pytest.approx([0.0, 1.5 * 1.5])


def test_many_cells_without_a_table_of_all_pairs() -> None:
    """Long episodes over many states: cells exist only where a pair occurs."""
    n = 3000
    episodes = so.Episodes.from_arrays(
        episode=np.zeros(n, int), step=np.arange(n), state=np.arange(n) * 7, action=np.zeros(n, int), reward=np.ones(n)
    )
    cells = cells_of(episodes, "step,state")
    assert len(cells) == n
    assert cells.step is not None
    assert np.array_equal(cells.step[cells.of_row], episodes.step)
    assert np.array_equal(cells.state[cells.of_row], episodes.state)


@pytest.mark.parametrize(
    "probs",
    [
        [["a", "b"]],
        [[0.5, 0.5], [1.0]],
        [[0.5 + 1j, 0.5]],
        np.ma.masked_array([[0.5, 0.5]], mask=[[True, False]]),
        [0.5, 0.5],
        np.zeros((0, 2)),
        [[np.nan, 1.0]],
    ],
)
def test_what_is_no_table_of_probabilities(probs: object) -> None:
    with pytest.raises(so.SchemaError, match="policy"):
        so.Policy.from_table(probs)


def test_a_table_out_of_proportion_is_refused_before_it_is_made() -> None:
    n = 20_000
    columns = {"episode": np.arange(n), "step": np.zeros(n, int), "state": np.arange(n), "action": np.arange(n)}
    episodes = so.Episodes.from_arrays(**columns, reward=np.zeros(n))
    with pytest.raises(so.SchemaError, match="20,000 states times 20,000 actions are too many"):
        so.estimate_behavior(episodes)


def test_a_policy_per_step_from_an_array() -> None:
    """The order of the axes: steps, states, actions."""
    rng = np.random.default_rng(2)
    probs = rng.dirichlet(np.ones(2), size=(3, 4))
    episodes = so.Episodes.from_arrays(
        episode=[0, 0, 0, 1, 1], step=[0, 1, 2, 0, 1], state=[3, 1, 0, 2, 2], action=[0, 1, 1, 0, 0], reward=[1.0] * 5
    )
    found = so.evaluate(episodes, so.Policy.from_table(probs), behavior=so.Policy.from_table(np.full((4, 2), 0.5)))
    expected = [8 * probs[0, 3, 0] * probs[1, 1, 1] * probs[2, 0, 1], 4 * probs[0, 2, 0] * probs[1, 2, 0]]
    assert found["is"].normalizers == pytest.approx(expected)


@pytest.mark.parametrize(
    ("total", "accepted"), [(1 - 1e-6, True), (1 + 1e-6, True), (1 - 1e-4, False), (1 + 1e-4, False)]
)
def test_how_far_probabilities_may_miss_one(total: float, accepted: bool) -> None:
    table = {"state": [0, 0], "action": [0, 1], "prob": [0.5, total - 0.5]}
    rows = {"episode": [0, 0], "step": [0, 0], "action": [0, 1], "prob": [0.5, total - 0.5]}
    for columns in (table, rows):
        if accepted:
            assert so.read_policy(columns) is not None
        else:
            with pytest.raises(so.SchemaError, match="sum to"):
                so.read_policy(columns)


def test_row_by_row_in_any_order_with_gaps_and_rows_without_decision() -> None:
    """Actions that are not listed have probability 0; rows without a decision may be listed, and count for nothing."""
    shuffled = {name: [values[i] for i in (3, 0, 6, 1, 5, 2, 4)] for name, values in PER_ROW.items()}
    more: dict[str, list[Any]] = {"episode": [0], "step": [2], "action": ["a"], "prob": [1.0]}
    listed = so.read_policy({name: shuffled[name] + more[name] for name in shuffled})
    names = ["is", "pdis", "c-pdis", "naive-weighted"]
    for role in ("policy", "behavior"):
        found, expected = (
            so.evaluate(
                EPISODES,
                policy if role == "policy" else so.read_policy(PER_STEP),
                behavior=policy if role == "behavior" else None,
                annotations=ANNOTATIONS,
                estimators=names,
            )
            for policy in (listed, so.read_policy(PER_ROW))
        )
        for name in names:
            assert found[name].values == pytest.approx(expected[name].values, rel=1e-14)
        assert found.diagnostics == expected.diagnostics
    only_b = so.read_policy({"episode": [0, 0, 1, 1], "step": [0, 1, 0, 1], "action": ["b"] * 4, "prob": [1.0] * 4})
    assert so.evaluate(EPISODES, only_b, estimators=["is"])["is"].normalizers[0] == 0.0


def test_closed_forms_for_a_policy_row_by_row() -> None:
    """An action listed with probability 0 need not be annotated."""
    rows = {
        "episode": [0, 0, 0, 0, 1, 1, 1],
        "step": [0, 0, 1, 1, 0, 0, 1],
        "action": ["a", "b", "a", "b", "a", "b", "b"],
        "prob": [0.2, 0.8, 0.0, 1.0, 0.0, 1.0, 1.0],
    }
    found = so.evaluate(EPISODES, so.read_policy(rows), annotations=ANNOTATIONS, estimators=["c*-pdis"])
    assert found["c*-pdis"].values == pytest.approx([0.2 * (0 + 1 * (1 + 0)) + 0.8 * 1.0, 2.0 + 3.0])


@pytest.mark.parametrize("cell", ["state", "step,state"])
def test_propensities_that_do_not_vary_in_a_cell_are_the_policy(cell: str) -> None:
    """behavior_prob, empty on rows without a decision, gives what the table it comes from gives."""
    table = {("s", "a"): 0.3, ("s", "b"): 0.7, ("t", "b"): 1.0}
    logged = [table.get((state, action)) for state, action in zip(EPISODES["state"], EPISODES["action"], strict=True)]
    behavior = so.read_policy(
        {"state": [s for s, _ in table], "action": [a for _, a in table], "prob": list(table.values())}
    )
    names = ["is", "pdis", "c-is", "c-pdis", "c-pdwis"]
    answers = {"episode": [0], "step": [0], "action": ["b"], "value": [1.0]}
    options: dict[str, Any] = {"annotations": answers, "cell": cell, "estimators": names}
    policy = so.read_policy(PER_STEP)
    column = so.evaluate({**EPISODES, "behavior_prob": logged}, policy, **options)
    given_ = so.evaluate(EPISODES, policy, behavior=behavior, **options)
    for name in names:
        if cell == "state" or not name.startswith("c-"):
            assert column[name].values == pytest.approx(given_[name].values, rel=1e-12)


def test_propensities_that_vary_in_a_cell_average_to_the_policy_they_imply() -> None:
    """Two loggers took a with 0.2 and 0.8: among those who took it, the mean of 1 / pi_b is 1 over the mean, 0.5."""
    n = 1000
    propensity = np.where(np.arange(n) % 2, 0.2, 0.8)
    took_a = np.random.default_rng(0).random(n) < propensity
    logs = {
        "episode": np.arange(n),
        "step": np.zeros(n, int),
        "state": np.zeros(n, int),
        "action": (~took_a).astype(int),
    }
    logs |= {"reward": np.ones(n), "behavior_prob": np.where(took_a, propensity, 1 - propensity)}
    evidence = gather(so.read_episodes(logs), None, {}, behavior=None, cell="state", weights="equal")
    expected = [took_a.sum() / (1 / propensity[took_a]).sum(), (~took_a).sum() / (1 / (1 - propensity[~took_a])).sum()]
    assert evidence.behavior.probs[0] == pytest.approx(expected, rel=1e-12)
    assert evidence.behavior.probs[0] == pytest.approx([0.5, 0.5], abs=0.05)


def test_finer_cells_average_by_how_often_they_occur() -> None:
    """A policy per step on cells per state: the share without support counts each decision once."""
    episodes = {"episode": [0, 0, 1, 2], "step": [0, 1, 0, 0], "state": [0] * 4, "action": [0] * 4, "reward": [0.0] * 4}
    policy = so.Policy.from_table([[[0.5, 0.5]], [[0.0, 1.0]]])
    found = so.evaluate(episodes, policy, estimators=["pdis"])
    assert found.diagnostics["unsupported_mass"]["logged"] == pytest.approx((3 * 0.5 + 1.0) / 4)


def test_the_worst_states_come_first() -> None:
    n = np.array([1, 5, 3, 2])
    state = np.repeat(np.arange(4), n)
    episodes = {"episode": np.arange(11), "step": np.zeros(11, int), "state": state, "action": np.zeros(11, int)}
    policy = so.Policy.from_table([[0.0, 1.0], [0.5, 0.5], [1.0, 0.0], [0.1, 0.9]])
    found = so.evaluate({**episodes, "reward": np.ones(11)}, policy, estimators=["pdis"])
    assert "Worst states: 1 (50%, mostly 1), 3 (90%, mostly 1), 0 (100%, mostly 1)." in found.warnings[0]


def test_rows_without_decision_do_not_enter_the_mean_of_a_cell() -> None:
    episodes = so.read_episodes(
        {"episode": [0, 0], "step": [0, 1], "state": ["s", "s"], "action": ["a", None], "reward": [0.0, 1.0]}
    )
    policy = so.read_policy(
        {"episode": [0, 0, 0], "step": [0, 0, 1], "action": ["a", "b", "b"], "prob": [0.25, 0.75, 1.0]}
    )
    evidence = gather(episodes, None, {}, behavior=policy, cell="state", weights="equal")
    assert evidence.behavior.probs[0] == pytest.approx([0.25, 0.75])
