"""Inclusion probabilities: written down, or estimated by what questions are about."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import semiope as so
from semiope.errors import quietly
from semiope.estimate.problem import Problem
from semiope.models.folds import deal
from semiope.weights.inclusion import Inclusion

N = 1500


def asked_with(chance: Any, seed: int = 0, by_episode: bool = False) -> tuple[Problem, Any]:
    """One-step episodes of five states and three actions; `chance` of a question by state, action taken and action."""
    rng = np.random.default_rng(seed)
    state, action = rng.integers(5, size=N), rng.integers(3, size=N)
    rows = {"episode": np.arange(N), "step": np.zeros(N, int), "state": state, "action": action,
            "reward": rng.normal(size=N)}  # fmt: skip
    table = np.broadcast_to(chance, (5, 3, 3))
    episode, other = (column.ravel() for column in np.meshgrid(np.arange(N), np.arange(3), indexing="ij"))
    prob = table[state[episode], action[episode], other]
    drawn = rng.random(N)[episode] if by_episode else rng.random(len(episode))
    kept = (drawn < prob) & (other != action[episode])
    answers = so.Annotations.from_arrays(
        episode=episode[kept], step=0 * episode[kept], action=other[kept], value=rng.normal(size=kept.sum())
    )
    with quietly():
        results = so.evaluate(rows, so.Policy.from_table(np.full((5, 3), 1 / 3)), annotations=answers,
                              estimators=["pp-pdis"])  # fmt: skip
    problem = results.chosen("pp-pdis").problem
    return problem, prob[kept]


@pytest.mark.parametrize(
    ("chance", "strata"),
    [
        (0.2, ()),
        (np.array([0.05, 0.1, 0.2, 0.4, 0.8])[:, None, None], ("state",)),
        (np.array([0.1, 0.3, 0.9])[None, :, None], ("taken",)),
        (np.array([0.1, 0.3, 0.9])[None, None, :], ("action",)),
        (np.random.default_rng(1).uniform(0.05, 0.9, size=(5, 3, 3)), ("state", "taken", "action")),
    ],
)
def test_what_matters_is_found_out(chance: Any, strata: tuple[str, ...]) -> None:
    problem, truth = asked_with(chance)
    found = problem.inclusion
    assert set(strata) <= set(found.strata)
    assert np.sqrt(np.mean((found.prob / truth - 1) ** 2)) < 0.2
    # Weights by inverse probability count every question once.
    assert float(np.sum(1 / found.prob)) == pytest.approx(found.questions, rel=0.08)


def test_whole_episodes_do_not_make_themselves_likely() -> None:
    """All questions of an episode or none: what looks like strata is chance, and the share is the same for all."""
    problem, _ = asked_with(0.1, by_episode=True)
    assert np.sqrt(np.mean((problem.inclusion.prob / 0.1 - 1) ** 2)) < 0.2


def test_an_episodes_own_questions_do_not_count() -> None:
    """One question of a kind: its stratum's share comes from other folds, and is not 1."""
    problem, _ = asked_with(0.01, seed=3)
    assert problem.inclusion.prob.max() < 0.2


def test_everything_asked() -> None:
    problem, _ = asked_with(1.0)
    found = problem.inclusion
    assert isinstance(found, Inclusion)
    assert (found.prob == 1).all()
    assert found.words == "1, since everything was asked"


def evaluated(inclusion_prob: Any) -> so.Results:
    rows = {"episode": [0, 1, 2], "step": [0] * 3, "state": [0] * 3, "action": [0, 0, 1], "reward": [0.0, 1.0, 2.0]}
    answers = {"episode": [0, 1], "step": [0, 0], "action": [1, 1], "value": [2.0, 2.0]}
    answers["inclusion_prob"] = inclusion_prob
    with quietly():
        found: so.Results = so.evaluate(
            rows, so.Policy.from_table([[0.5, 0.5]]), annotations=answers, estimators="pp-pdis"
        )
    return found


def test_as_written_down() -> None:
    found = evaluated([0.5, 0.25]).chosen("pp-pdis").problem.inclusion
    assert found.prob.tolist() == [0.5, 0.25]
    assert found.words == "as written down in inclusion_prob"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([0.0, 0.5], r"'inclusion_prob' is not a probability of a question asked in 1 row. First: row 0"),
        ([0.5, 1.5], r"'inclusion_prob' is not a probability of a question asked in 1 row. First: row 1"),
        ([0.5, None], r"'inclusion_prob' is missing, NaN or infinite in 1 row. First: row 1"),
        (["high", "low"], "column 'inclusion_prob' is string, not numbers"),
    ],
)
def test_bad_probabilities(given: Any, message: str) -> None:
    with pytest.raises(so.SchemaError, match=message):
        evaluated(given)


def test_two_rows_of_a_question_state_one_probability() -> None:
    with pytest.raises(so.SchemaError, match="differs from that of an earlier row of the same question"):
        so.Annotations.from_arrays(
            episode=[0, 0], step=[0, 0], action=[1, 1], value=[1.0, 2.0], inclusion_prob=[0.5, 0.25]
        )


def test_being_asked_because_of_the_outcome_is_found() -> None:
    """Episodes that went badly are asked about: the assumption is wrong, and a finding is red."""
    rng = np.random.default_rng(5)
    n = 2000
    action, reward = rng.integers(2, size=n), rng.normal(size=n)
    rows = {"episode": np.arange(n), "step": np.zeros(n, int), "state": np.zeros(n, int), "action": action,
            "reward": reward}  # fmt: skip
    for chance, light in ((0.2, ("green", "amber")), (np.where(reward < 0, 0.35, 0.05), ("red",))):
        asked = np.flatnonzero(rng.random(n) < chance)
        answers = so.Annotations.from_arrays(
            episode=asked, step=0 * asked, action=1 - action[asked], value=np.zeros(len(asked))
        )
        with quietly():
            results = so.evaluate(rows, so.Policy.from_table([[0.5, 0.5]]), annotations=answers)
        finding = {one.name: one for one in so.diagnose(results, refute=False)}["how questions were chosen"]
        assert finding.light in light
        assert bool(finding.way_out) == (finding.light != "green")


def test_a_few_annotated_episodes_do_not_seem_unlikely() -> None:
    """Two of 200 episodes have all questions asked, both of one fold: each counts as one in a hundred all the same."""
    n = 200
    rng = np.random.default_rng(0)
    state, action = rng.integers(5, size=n), rng.integers(3, size=n)
    rows = {"episode": np.arange(n), "step": np.zeros(n, int), "state": state, "action": action,
            "reward": rng.normal(size=n)}  # fmt: skip
    few = np.flatnonzero(deal(n) == 2)[:2]
    episode, other = (column.ravel() for column in np.meshgrid(few, np.arange(3), indexing="ij"))
    kept = other != action[episode]
    answers = so.Annotations.from_arrays(
        episode=episode[kept], step=0 * episode[kept], action=other[kept], value=rng.normal(size=kept.sum())
    )
    with quietly():
        results = so.evaluate(rows, so.Policy.from_table(np.full((5, 3), 1 / 3)), annotations=answers,
                              estimators=["pp-pdis"])  # fmt: skip
    assert results.chosen("pp-pdis").problem.inclusion.prob == pytest.approx(0.01, rel=0.2)
