"""The logged path by a plain loop, and what the finding on thin evidence counts."""

from __future__ import annotations

import numpy as np
import pytest

import semiope as so
from semiope.diagnostics.path import logged_path, states_that_matter
from tests.contract.worlds import random_logs
from tests.diagnostics.cases import diagnosed, evaluated, everywhere, problem_of


@pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")
@pytest.mark.parametrize("seed", range(4))
def test_the_logged_path_by_a_loop(seed: int) -> None:
    logs = random_logs(seed, fully_annotated=False)
    found = logged_path(problem_of(logs.evaluate(["pdis"])))
    columns = [logs.episodes[name] for name in ("episode", "step", "state", "action")]
    on, there, shares = np.zeros(9), np.zeros(9), []
    for episode in range(int(columns[0].max()) + 1):
        product, following, decisions = 1.0, 0.0, 0
        for e, t, s, a in zip(*columns, strict=True):
            if e != episode:
                continue
            if a >= 0:
                product *= min(1.0, logs.evaluation[s, a] / logs.behavior[s, a])
                following, decisions = following + product, decisions + 1
            on[t] += product
            there[t] += 1
        shares.append(following / decisions if decisions else 1.0)
    steps = len(found.follows)
    assert found.follows == pytest.approx(on[:steps] / there[:steps])
    assert found.share == pytest.approx(np.mean(shares))


def test_a_deterministic_policy_leaves_where_it_differs() -> None:
    """Of four decisions each, the first episode follows all, the second one, the third none."""
    action = np.array([[0, 0, 0, 0], [0, 1, 0, 0], [1, 0, 0, 0]])
    logs = so.Episodes.from_arrays(
        episode=np.repeat(np.arange(3), 4), step=np.tile(np.arange(4), 3), state=np.zeros(12, int),
        action=action.ravel(), reward=np.zeros(12),
    )  # fmt: skip
    found = logged_path(problem_of(evaluated(logs, everywhere(1.0, 0.0))))
    assert found.share == pytest.approx((1 + 0.25 + 0) / 3)
    assert found.follows == pytest.approx([2 / 3, 1 / 3, 1 / 3, 1 / 3])


def test_todays_policy_never_leaves_the_path() -> None:
    rng = np.random.default_rng(0)
    logs = so.Episodes.from_arrays(
        episode=np.repeat(np.arange(50), 20), step=np.tile(np.arange(20), 50), state=np.zeros(1000, int),
        action=rng.integers(4, size=1000), reward=np.zeros(1000),
    )  # fmt: skip
    found = diagnosed(logs, everywhere(*[0.25] * 4), behavior=everywhere(*[0.25] * 4))
    assert found["steps on the logged path"].figure == "100%"


def test_answers_take_over_where_the_policy_leaves() -> None:
    logs = so.Episodes.from_arrays(
        episode=np.arange(60), step=np.zeros(60, int), state=np.zeros(60, int), action=np.zeros(60, int),
        reward=np.zeros(60),
    )  # fmt: skip
    answers = so.Annotations.from_arrays(
        episode=np.arange(60), step=np.zeros(60, int), action=np.ones(60, int), value=np.ones(60)
    )
    alone, heard = (
        diagnosed(logs, everywhere(0.0, 1.0), name, annotations=answers)["steps on the logged path"]
        for name in ("pdis", "c-pdis")
    )
    assert (alone.light, heard.light) == ("red", "green")
    assert "nothing was logged" in alone.sentence
    assert "answers take over" in heard.sentence


def test_thin_evidence_by_hand() -> None:
    """State 0 saw the policy's action six times, state 1 four times, of twelve decisions; answers add to that."""
    state, action = [0] * 7 + [1] * 5, [0] * 6 + [1] + [0] * 4 + [1]
    logs = so.Episodes.from_arrays(
        episode=np.arange(12), step=np.zeros(12, int), state=state, action=action, reward=np.ones(12)
    )
    results = evaluated(logs, everywhere(1.0, 0.0, n_states=2), estimators="pdis")
    found = so.diagnose(results)["decisions on thin evidence"]
    assert found.figure == f"{5 / 12:.0%}"
    assert found.light == "red"
    assert "States that matter most: 0 (58%, 7 visits), 1 (42%, 5 visits)." in found.sentence
    matters = states_that_matter(problem_of(results), shown=1)
    assert matters.state == [0]
    assert matters.share == pytest.approx([7 / 12])
    answers = so.Annotations.from_arrays(episode=[11], step=[0], action=[0], value=[1.0])
    heard = diagnosed(logs, everywhere(1.0, 0.0, n_states=2), "c-pdis", annotations=answers)
    assert heard["decisions on thin evidence"].figure == "0%"
