from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import semiope as so
from semiope.policies.cells import cells_of

EPISODES = {
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
PER_ROW = {
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
        for name in counted:
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
