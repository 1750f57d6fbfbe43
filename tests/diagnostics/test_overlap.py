"""Overlap by features: regions, shares and words on logs whose worst place is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import semiope as so
from semiope._arrays import Booleans, Floats
from semiope.diagnostics import overlap
from semiope.diagnostics.findings import AMBER, GREEN, RED, Finding
from semiope.diagnostics.overlap import NAME, overlap_by_features
from semiope.errors import MissingExtraError, NotEstimatedError
from tests.diagnostics.cases import diagnosed, evaluated, problem_of

N, STEPS = 400, 3
DRUG, WAIT = "vasopressor", "wait"


def sick(x: Floats) -> Booleans:
    found: Booleans = (x[:, 0] > 110) & (x[:, 1] > 2.3)
    return found


def two(drug: Floats) -> Floats:
    return np.column_stack([drug, 1 - drug])


def practice(x: Floats) -> Floats:
    return two(np.where(sick(x), 0.02, 0.3))


def candidate(x: Floats) -> Floats:
    return two(np.where(sick(x), 0.81, 0.3))


def policy(function: Any = candidate) -> Any:
    return so.FeaturePolicy(function, actions=[DRUG, WAIT])


def logs(share: float = 0.1, **more: Any) -> so.Episodes:
    """Patients of whom a share is sick, and hardly ever gets the drug."""
    rng = np.random.default_rng(0)
    ill = rng.random(N * STEPS) < share
    x = np.column_stack([np.where(ill, rng.uniform(111, 140, len(ill)), rng.uniform(60, 109, len(ill))),
                         np.where(ill, rng.uniform(2.4, 6, len(ill)), rng.uniform(0.5, 6, len(ill)))])  # fmt: skip
    healthy = ~ill & (rng.random(len(ill)) < 0.3)
    x[healthy] = np.column_stack([rng.uniform(111, 140, healthy.sum()), rng.uniform(0.5, 2.2, healthy.sum())])
    probs = practice(x)
    action = np.where(rng.random(len(x)) < probs[:, 0], DRUG, WAIT)
    return so.Episodes.from_arrays(
        episode=np.repeat(np.arange(N), STEPS), step=np.tile(np.arange(STEPS), N), action=action,
        reward=rng.normal(size=len(x)), features={"heart_rate": x[:, 0], "lactate": x[:, 1], **more},
    )  # fmt: skip


def behavior() -> Any:
    return policy(practice)


def matrix(episodes: so.Episodes) -> Floats:
    assert episodes.features is not None
    return episodes.features.matrix


def finding(episodes: so.Episodes, estimator: str = "pdis", **options: Any) -> Finding:
    given: dict[str, Any] = {"behavior": behavior(), **options}
    return diagnosed(episodes, policy(), estimator, **given)[NAME]  # type: ignore[no-any-return]


def test_the_worst_place_by_name() -> None:
    episodes = logs()
    ill = sick(matrix(episodes))
    found = overlap_by_features(problem_of(evaluated(episodes, policy(), estimators="pdis", behavior=behavior())))
    assert found is not None
    assert found.rare == found.open == pytest.approx(0.81 * ill.mean())
    worst = found.regions[0]
    assert sorted(part.split()[:2] for part in worst.where.split(" and ")) == [["heart_rate", ">"], ["lactate", ">"]]
    assert worst.share == pytest.approx(ill.mean())
    assert (worst.action, worst.annotated) == (DRUG, 0)
    assert worst.wanted == worst.rare == pytest.approx(0.81)
    assert worst.taken == pytest.approx(np.mean(episodes.actions.decode(episodes.action).to_numpy(False)[ill] == DRUG))
    assert sum(one.share for one in found.regions) == pytest.approx(1)
    assert sum(one.share * one.rare for one in found.regions) == pytest.approx(found.rare)


@pytest.mark.parametrize(("share", "light"), [(0.02, GREEN), (0.1, AMBER), (0.4, RED)])
def test_lights(share: float, light: str) -> None:
    found = finding(logs(share))
    assert found.light == light
    assert bool(found.way_out) == (light != GREEN)
    assert "takes 'vasopressor' with probability 81% and it was taken in " in found.sentence


def test_the_behavior_policy_itself_overlaps_however_many_actions() -> None:
    """Fifty actions of 2% each are rare, but the policy takes them no more often than they were taken."""

    def even(x: Floats) -> Floats:
        return np.full((len(x), 50), 0.02)

    rng = np.random.default_rng(0)
    episodes = so.Episodes.from_arrays(
        episode=np.arange(200), step=np.zeros(200, int), action=np.arange(200) % 50, reward=np.zeros(200),
        features=rng.normal(size=(200, 2)),
    )  # fmt: skip
    same: Any = so.FeaturePolicy(even)
    found = diagnosed(episodes, same, behavior=same)[NAME]
    assert (found.light, found.figure) == (GREEN, "0%")


def annotated(episodes: so.Episodes, where: Booleans, n: int) -> so.Annotations:
    """The drug, annotated at a few decisions where it was not given."""
    waited = episodes.actions.decode(episodes.action).to_numpy(False) == WAIT
    rows = np.flatnonzero(where & waited)[:n]
    return so.Annotations.from_arrays(
        episode=rows // STEPS, step=rows % STEPS, action=[DRUG] * n, value=np.linspace(0, 1, n)
    )


def test_annotations_cover_what_was_hardly_ever_done() -> None:
    """Where annotations are used, it is red only where there are none."""
    episodes = logs(0.4)
    ill = sick(matrix(episodes))
    assert finding(episodes, "c-pdis", annotations=annotated(episodes, ~ill, 20)).light == RED
    covered = finding(episodes, "c-pdis", annotations=annotated(episodes, ill, 40))
    assert (covered.light, covered.figure) == (GREEN, "0.0%")
    assert "annotated" in covered.sentence
    assert finding(episodes, "pdis", annotations=annotated(episodes, ill, 40)).light == RED


def test_categories_gaps_and_steps_in_words() -> None:
    ward = np.where(np.arange(N * STEPS) % 2 == 0, "icu", "er")

    def everyone(x: Floats) -> Floats:
        return two(np.full(len(x), 0.9))

    def seldom_in_the_icu(x: Floats) -> Floats:
        return two(np.where(x[:, 2] > 0, 0.3, 0.01))

    episodes = logs(ward=ward)
    assert episodes.features is not None
    assert episodes.features.names[2:] == ("ward=er", "ward=icu")
    given: Any = policy(seldom_in_the_icu)
    found = diagnosed(episodes, policy(everyone), behavior=given)[NAME]
    assert "ward is 'icu' (50% of decisions)" in found.sentence or "ward is not 'er' (50%" in found.sentence

    probs = two(np.where(episodes.step == 2, 0.01, 0.3))
    found = diagnosed(logs(), policy(everyone), behavior=probs)[NAME]
    assert "step > 1.5 (33% of decisions)" in found.sentence

    features = so.Episodes.from_arrays(
        episode=[0, 1], step=[0, 0], action=[0, 1], reward=[0, 0], features={"a": [0, 1], "b": [1, 2]}
    ).features
    assert features is not None
    assert overlap._condition("a missing", 0.5, np.inf, features) == "a is missing"
    assert overlap._condition("a missing", -np.inf, 0.5, features) == "a is known"
    assert overlap._condition("b", 1.0, 2.5, features) == "b from 1 to 2.5"


def test_not_where_only_propensities_of_actions_taken_are_known() -> None:
    rng = np.random.default_rng(0)
    episodes = so.Episodes.from_arrays(
        episode=np.arange(50), step=np.zeros(50, int), action=np.arange(50) % 2, reward=np.zeros(50),
        features=rng.normal(size=(50, 1)), behavior_prob=np.full(50, 0.5),
    )  # fmt: skip
    with pytest.raises(NotEstimatedError):
        diagnosed(episodes, so.FeaturePolicy(lambda x: two(np.full(len(x), 0.5))))[NAME]  # type: ignore[arg-type]


def test_some_decisions_stand_for_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap, "MOST_DECISIONS", 600)
    found = finding(logs(0.4))
    assert found.light == RED
    assert abs(float(found.figure.rstrip("%")) - 81 * 0.4) < 6


def test_without_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The share is known, the place is not."""

    def missing(*_: Any, **__: Any) -> Any:
        raise MissingExtraError("scikit-learn")

    monkeypatch.setattr(overlap, "need", missing)
    found = finding(logs(0.4))
    assert found.light == RED
    assert "everywhere (100% of decisions)" in found.sentence
