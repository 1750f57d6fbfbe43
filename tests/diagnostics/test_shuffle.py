"""Whether questions explain the answers: against a plain computation, and what must not be called red."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import semiope as so
from semiope.diagnostics.shuffle import explained, judge_shuffled
from semiope.domains import sepsis
from semiope.errors import quietly


def test_explained_is_the_share_between_groups(rng: np.random.Generator) -> None:
    group, value = rng.integers(3, size=40), rng.normal(size=40)
    found = explained(value, group)
    f = stats.f_oneway(*(value[group == g] for g in range(3))).statistic
    assert found == pytest.approx(2 * f / (2 * f + 37))
    assert explained(value + 1e6, group) == pytest.approx(found, rel=1e-6)


@pytest.mark.parametrize("group", [[0, 0, 0], [0, 1, 2]])
def test_nothing_to_exchange(group: list[int]) -> None:
    assert math.isnan(explained(np.array([1.0, 2.0, 4.0]), np.array(group)))
    assert math.isnan(explained(np.full(3, 0.1), np.array([0, 0, 1])))


@pytest.mark.parametrize("policy", ["optimal", "flip-200-seed-42"])
def test_right_answers_are_green_whatever_they_do_to_the_standard_error(policy: str) -> None:
    """Exchanged answers are more alike between patients: of the second policy they make the standard error smaller."""
    world = sepsis.world()
    logs = world.sample(200, seed=0)
    answers = world.annotate(logs, policy, annotators=so.Annotator(std=0.1))
    with quietly():
        results = so.evaluate(logs, world.policies[policy], annotations=answers, estimators="c-pdis", gamma=0.99)
    found = so.diagnose(results)["shuffled answers"]
    assert found.light == "green"


def test_answers_given_to_the_wrong_episodes_are_found_out() -> None:
    """By the permutation test's own rate: at most 5% + 4 standard deviations of them stay green."""
    world = sepsis.world()
    green = 0
    for seed in range(20):
        logs = world.sample(60, seed=seed)
        answers = world.annotate(logs, "optimal")
        order = np.random.default_rng(seed).permutation(len(answers))
        mixed = so.Annotations.from_arrow(answers.to_arrow().set_column(3, "value", [answers.value[order]]))
        with quietly():
            results = so.evaluate(logs, world.policies["optimal"], annotations=mixed, estimators="c-pdis", gamma=0.99)
        green += so.diagnose(results)["shuffled answers"].light == "green"
    assert green <= 1 + 4


@pytest.mark.parametrize(("right", "light"), [(True, "green"), (False, "red")])
def test_answers_about_features_are_told_from_mismatched_ones(right: bool, light: str) -> None:
    """What was asked is features, step and action: they explain the right answers, and not those of other rows."""
    rng = np.random.default_rng(3)
    n = 60
    x = rng.normal(size=(n, 2))
    episodes = so.read_episodes(
        {"episode": np.arange(n), "step": np.zeros(n, dtype=int), "action": rng.choice(["a", "b"], size=n),
         "reward": x[:, 0] + rng.normal(size=n), "x": x[:, 0], "y": x[:, 1]},
        features=["x", "y"],
    )  # fmt: skip
    taken = np.array(episodes.to_arrow().column("action").to_pylist())
    value = x[:, 0] + 0.2 * rng.normal(size=n)
    annotations = {
        "episode": np.arange(n), "step": np.zeros(n, dtype=int), "action": np.where(taken == "a", "b", "a"),
        "value": value if right else rng.permutation(value),
    }  # fmt: skip
    results = so.evaluate(
        episodes, lambda rows: np.full((len(rows), 2), 0.5), annotations=annotations, estimators="pp-dr"
    )
    assert judge_shuffled(results.origin.weighed.problem).light == light
