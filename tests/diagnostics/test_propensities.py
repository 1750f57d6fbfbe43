"""Behavior policies against features: by hand where rivals are given, by error rates where they are fitted."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import t

import semiope as so
from semiope._arrays import Floats
from semiope.diagnostics import propensities
from semiope.diagnostics.findings import AMBER, GREEN, RED
from semiope.diagnostics.propensities import CHANCE, NAME, Checks, Rivals, checks_against, judge_propensities, rivals_of
from semiope.errors import MissingExtraError, NotEstimatedError
from semiope.estimate.evidence import Evidence, gather
from semiope.policies.array import ArrayPolicy
from tests.diagnostics.cases import diagnosed

STEPS, ACTIONS = 4, 3


def softmax(logits: Floats) -> Floats:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    found: Floats = powers / powers.sum(axis=1, keepdims=True)
    return found


def power(probs: Floats, exponent: float) -> Floats:
    return softmax(exponent * np.log(probs))


def acting(x: Floats, bent: bool = False) -> Floats:
    """Who acted: by a softmax of the features, or of their squares."""
    z = x**2 - 1 if bent else x
    return softmax(np.column_stack([1.5 * z[:, 0], z[:, 1] - z[:, 0], 0.3 - z[:, 1]]))


def logs(seed: int, n: int = 300, *, bent: bool = False) -> tuple[so.Episodes, Floats]:
    """Episodes of features drawn at random, and the probabilities by which actions were taken."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n * STEPS, 2))
    probs = acting(x, bent)
    action = (rng.random((len(x), 1)) > np.cumsum(probs, axis=1)[:, :-1]).sum(axis=1)
    episodes = so.Episodes.from_arrays(
        episode=np.repeat(np.arange(n), STEPS), step=np.tile(np.arange(STEPS), n), action=action,
        reward=rng.normal(size=len(x)), features=x,
    )  # fmt: skip
    return episodes, probs


def evidence_of(episodes: so.Episodes, behavior: Any) -> Evidence:
    given = ArrayPolicy.from_array(behavior, episodes) if isinstance(behavior, np.ndarray) else behavior
    return gather(episodes, None, {}, behavior=given, cell="state", weights="equal")


def logged(episodes: so.Episodes, probs: Floats) -> so.Episodes:
    return replace(episodes, behavior_prob=probs[np.arange(len(probs)), episodes.action])


def uniform(x: Floats) -> Floats:
    return np.full((len(x), ACTIONS), 1 / ACTIONS)


def by_hand() -> tuple[so.Episodes, Floats, Rivals]:
    """Four episodes of one decision each, two folds, and a rival that says 0.8 where 0.5 or 0.4 is given."""
    episodes = so.Episodes.from_arrays(
        episode=np.arange(4), step=np.zeros(4, int), action=[0, 0, 1, 1], reward=np.zeros(4),
        features=np.array([[0.0], [1.0], [2.0], [3.0]]),
    )  # fmt: skip
    probs = np.array([[0.5, 0.5], [0.4, 0.6], [0.5, 0.5], [0.1, 0.9]])
    rival = np.array([[0.8, 0.2], [0.8, 0.2], [0.2, 0.8], [0.1, 0.9]])
    place = np.arange(4)
    return (
        episodes,
        probs,
        Rivals(place, place, np.array([0, 0, 1, 1]), episodes.action.astype(int), {"boosting": rival}),
    )


def test_likelihood_is_the_mean_of_products_over_folds() -> None:
    episodes, probs, rivals = by_hand()
    likelihood = checks_against(evidence_of(episodes, probs), rivals).each[0]
    first, second = (1 + 1.6) / 2 * (1 + 2) / 2, (1 + 1.6) / 2 * 1.0
    assert likelihood.p_value == pytest.approx(1 / ((first + second) / 2))


def test_sureness_by_hand() -> None:
    """log p of the actions taken less its mean, over the standard error that p states or episodes show."""
    episodes, probs, rivals = by_hand()
    entropy = np.sum(probs * np.log(probs), axis=1)
    beyond = np.log(probs[np.arange(4), episodes.action]) - entropy
    stated = np.sum(probs * np.log(probs) ** 2) - np.sum(entropy**2)
    error = math.sqrt(max(stated, np.sum((beyond - beyond.mean()) ** 2)))
    sureness = checks_against(evidence_of(episodes, probs), rivals).each[1]
    assert sureness.p_value == pytest.approx(2 * t.sf(abs(beyond.sum()) / error, 3))


def test_logged_propensities_by_hand() -> None:
    """Ratios of the rival and of its square to p, over the larger of two standard errors."""
    episodes, probs, rivals = by_hand()
    rival, place = rivals.probs["boosting"], (np.arange(4), episodes.action)
    squares = rival**2 / np.sum(rival**2, axis=1, keepdims=True)
    found = checks_against(evidence_of(logged(episodes, probs), None), rivals).each[1:]
    numbers = [(squares - rival)[place] / probs[place], squares[place] / probs[place] - 1]
    stated = [np.sum((squares - rival) ** 2 / rival), np.sum(squares**2 / rival - rival)]
    for one, ratios, variance in zip(found, numbers, stated, strict=True):
        z = ratios.sum() / math.sqrt(max(4 * ratios.var(ddof=1), variance))
        assert one.p_value == pytest.approx(2 * t.sf(abs(z), 3))


def test_all_tests_together() -> None:
    """Bonferroni: the smallest, times how many there are, and at most 1."""
    one, other = propensities.Check(0.01, "a"), propensities.Check(0.6, "b")
    assert Checks((one, other), None).p_value == pytest.approx(0.02)
    assert Checks((other, other), None).p_value == 1
    assert Checks((other, one), None).worst is one
    assert math.isnan(Checks((), None).p_value)


def test_a_rival_that_says_the_same_says_nothing() -> None:
    episodes, probs, rivals = by_hand()
    same = rivals._replace(probs={"boosting": probs})
    assert checks_against(evidence_of(episodes, probs), same).each[0].p_value == 1


def test_the_policy_that_acted_is_seldom_accused_and_wrong_ones_are() -> None:
    """Ten datasets of 1,200 decisions. At an error probability of 5%, four or more ambers come once in 1,000 times."""
    right: dict[str, list[str]] = {"all actions": [], "actions taken": []}
    for seed in range(10):
        episodes, probs = logs(seed)
        rivals = rivals_of(episodes)
        share = np.bincount(episodes.action, minlength=ACTIONS) / len(episodes.action)
        wrong = {
            "sharpened": power(probs, 1.6), "flattened": power(probs, 1 / 1.6),
            "without features": np.tile(share, (len(probs), 1)),
        }  # fmt: skip
        for name, stated in {"right": probs, **wrong}.items():
            evidence = evidence_of(episodes, stated), evidence_of(logged(episodes, stated), None)
            for known, one in zip(right, evidence, strict=True):
                light = CHANCE.light(checks_against(one, rivals).p_value)
                if name == "right":
                    right[known].append(light)
                else:
                    assert light == RED, (name, known, seed)
    for lights in right.values():
        assert RED not in lights
        assert lights.count(GREEN) >= 7


def test_probabilities_fitted_to_the_same_rows_are_red() -> None:
    from sklearn.ensemble import RandomForestClassifier

    for seed in range(3):
        episodes, _ = logs(seed)
        assert episodes.features is not None
        forest = RandomForestClassifier(50, random_state=0).fit(episodes.features.matrix, episodes.action)
        probs = 0.999 * forest.predict_proba(episodes.features.matrix) + 0.001 / ACTIONS
        found = judge_propensities(evidence_of(episodes, probs))
        assert found.light == RED
        assert "fitted to these very rows" in found.sentence
        assert "cross-fitted" in found.way_out
        assert judge_propensities(evidence_of(logged(episodes, probs), None)).light == RED


def test_what_is_said_of_too_sure_a_policy() -> None:
    episodes, probs = logs(1)
    found = judge_propensities(evidence_of(episodes, power(probs, 1.6)))
    assert (found.name, found.light, found.figure) == (NAME, RED, "p < 0.001")
    assert "too sure of itself" in found.sentence
    assert "0.1%" in found.rule
    assert "behavior='logistic'" in found.way_out


def test_a_logistic_policy_is_red_only_where_it_does_not_suit() -> None:
    straight, bent = (judge_propensities(evidence_of(logs(0, bent=b)[0], "logistic")) for b in (False, True))
    assert straight.light == GREEN, straight
    assert not straight.way_out
    assert bent.light == RED
    assert "Boosting fitted to other episodes predicts the actions taken better" in bent.sentence
    assert "behavior='boosting'" in bent.way_out


def test_where_it_does_not_matter_it_is_for_information() -> None:
    episodes, probs = logs(1)
    found = judge_propensities(evidence_of(episodes, power(probs, 1.6)), matters=False)
    assert found.light == GREEN
    assert "for information" in found.rule
    assert "does not fit" in found.sentence
    assert not found.way_out


def test_uniform_probabilities_are_no_alibi() -> None:
    """Their logarithm does not vary; rivals see what they leave out."""
    episodes, probs = logs(0)
    evidence = evidence_of(episodes, np.full_like(probs, 1 / ACTIONS))
    assert len(evidence.derived(propensities.behavior_checks).each) == 1
    assert judge_propensities(evidence).light == RED


def test_rivals_are_fitted_to_some_whole_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(propensities, "MOST_DECISIONS", 100)
    episodes, _ = logs(0)
    rivals = rivals_of(episodes)
    assert len(rivals.row) == 100
    chosen = np.unique(episodes.episode_of(rivals.row))
    assert len(chosen) == 25
    assert np.array_equal(np.sort(rivals.row), np.flatnonzero(np.isin(episodes.episode_of(np.arange(1200)), chosen)))
    assert np.array_equal(rivals.action, episodes.action[rivals.row])
    assert all(len(np.unique(rivals.fold[rivals.episode == one])) == 1 for one in range(25))


def test_steps_without_a_decision_are_left_out() -> None:
    episodes, probs = logs(0, n=50)
    action = np.where(np.arange(200) % STEPS == 3, -1, episodes.action)
    assert episodes.features is not None
    watched = so.Episodes.from_arrays(
        episode=np.repeat(np.arange(50), STEPS), step=episodes.step, action=action, reward=episodes.reward,
        features=episodes.features.matrix,
    )  # fmt: skip
    rivals = rivals_of(watched)
    assert len(rivals.row) == 150
    assert judge_propensities(evidence_of(watched, probs)).light != RED


def test_many_actions_have_a_forest_for_a_rival(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(propensities, "MOST_ACTIONS", 2)
    assert set(rivals_of(logs(0, n=40)[0]).probs) == {"logistic regression", "random forest"}
    assert set(rivals_of(logs(0, n=40)[0]).probs) <= set(propensities.OPTION)


def test_without_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    """What needs no classifier is still tested; if that is nothing, it says so."""

    def missing(*_: Any, **__: Any) -> Any:
        raise MissingExtraError("scikit-learn")

    monkeypatch.setattr(propensities, "fit_behavior", missing)
    episodes, probs = logs(0)
    assert judge_propensities(evidence_of(episodes, power(probs, 1.6))).light == RED
    found = judge_propensities(evidence_of(logged(episodes, probs), None))
    assert (found.light, found.figure) == (AMBER, "-")
    assert "pip install" in found.way_out


def test_a_single_episode_is_not_tested_by_rivals() -> None:
    episodes, probs = logs(0, n=1)
    assert not rivals_of(episodes).probs
    assert judge_propensities(evidence_of(episodes, probs)).light in (GREEN, AMBER)


def test_diagnoses_show_the_finding_that_fits_and_make_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """States that recur are judged by state, features by features; both if both are there and pi_b was given."""
    by_state = "calibration of the behaviour policy"
    episodes, probs = logs(0, n=60)
    policy: Any = so.FeaturePolicy(uniform)
    found = diagnosed(episodes, policy, behavior=probs)
    assert found[NAME].light == GREEN
    with pytest.raises(NotEstimatedError):
        found[by_state]
    both = replace(episodes, has_states=True)
    names = [one.name for one in diagnosed(both, policy, behavior=probs)]
    assert NAME in names
    assert by_state in names
    names = [one.name for one in diagnosed(both, policy, behavior="count")]
    assert NAME not in names
    assert by_state in names

    results = so.evaluate(episodes, policy, behavior=probs, estimators="pdis")
    so.diagnose(results)
    monkeypatch.setattr(propensities, "rivals_of", None)
    assert so.diagnose(results)[NAME].light == GREEN
