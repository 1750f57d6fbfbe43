"""The behavior policy fitted to features: out of fold, calibrated, and a policy whatever the logs."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

import semiope as so
from semiope._arrays import Floats
from semiope.models import behavior_model

pytestmark = pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")

ACTIONS = ["drug", "fluids", "wait"]
NAMES = ["pulse", "pressure"]


def true_probs(x: Floats) -> Floats:
    powers = np.exp(np.column_stack([1.5 * x[:, 0], x[:, 1], np.zeros(len(x))]))
    found: Floats = powers / powers.sum(axis=1, keepdims=True)
    return found


def logs(n: int, seed: int = 0, n_steps: int = 2) -> pd.DataFrame:
    """Episodes of some decisions and a last row without one; actions by `true_probs`."""
    rng = np.random.default_rng(seed)
    rows = n * (n_steps + 1)
    x = rng.normal(size=(rows, 2))
    action = (true_probs(x).cumsum(axis=1) < rng.uniform(size=(rows, 1))).sum(axis=1)
    step = np.tile(np.arange(n_steps + 1), n)
    return pd.DataFrame(
        {
            "episode": np.repeat(np.arange(n), n_steps + 1), "step": step, "pulse": x[:, 0], "pressure": x[:, 1],
            "action": np.where(step < n_steps, np.array(ACTIONS, dtype=object)[action], None),
            "reward": rng.normal(size=rows),
        }
    )  # fmt: skip


def fit(frame: Any, classifier: Any = "logistic", **options: Any) -> so.FittedBehavior:
    return so.fit_behavior(so.read_episodes(frame, features=NAMES), classifier, **options)


def uniform(x: Floats) -> Floats:
    return np.full((len(x), 3), 1 / 3)


@pytest.mark.parametrize("classifier", ["logistic", "boosting", RandomForestClassifier(5, random_state=0)])
def test_it_is_a_policy(classifier: Any) -> None:
    frame = logs(30)
    found = fit(frame, classifier)
    decided = frame.step.to_numpy() < 2
    assert found.probs[decided].sum(axis=1) == pytest.approx(np.ones(60), abs=1e-12)
    assert (found.probs[decided] > 0).all()
    assert not found.probs[~decided].any()
    assert found.folds == 5
    assert repr(found).startswith("FittedBehavior(")


@pytest.mark.parametrize("classifier", ["logistic", "boosting"])
def test_an_episode_does_not_tell_its_own_probabilities(classifier: str) -> None:
    """Whatever was done in it, its probabilities are the same: classifier and calibration saw others only."""
    frame = logs(30)
    own = (frame.episode == 7) & (frame.step < 2)
    changed = frame.copy()
    changed.loc[own, "action"] = np.where(frame.loc[own, "action"] == "wait", "drug", "wait")
    before, after = (fit(one, classifier).probs for one in (frame, changed))
    assert np.array_equal(before[own], after[own])
    assert not np.array_equal(before, after)


@pytest.mark.parametrize("classifier", ["logistic", "boosting"])
def test_the_order_of_rows_does_not_matter(classifier: str) -> None:
    frame = logs(30)
    shuffled = frame.sample(frac=1, random_state=1)
    assert np.array_equal(fit(shuffled, classifier).probs, fit(frame, classifier).probs)


def test_it_comes_close_to_the_true_one() -> None:
    frame = logs(1500)
    found = fit(frame)
    decided = frame.step.to_numpy() < 2
    truth = true_probs(frame[NAMES].to_numpy()[decided])
    # A right model of 6 parameters: the expected divergence is some 6 / 2 / 3000 = 0.001.
    assert np.mean(np.sum(truth * np.log(truth / found.probs[decided]), axis=1)) < 0.003
    assert found.exponents == pytest.approx(np.ones(5), abs=0.15)
    assert found.log_loss < found.log_loss_of_shares - 0.1
    predicted, observed, n = found.reliability
    assert n.sum() == 3 * 3000
    # Ten bins, each of which misses by more than four standard errors with a probability of 0.00006.
    assert (np.abs(predicted - observed) < 4 * np.sqrt(predicted * (1 - predicted) / n)).all()


class Sharp(LogisticRegression):  # type: ignore[misc]
    """A classifier that is too sure of itself: logits three times too large."""

    def predict_proba(self, x: Floats) -> Floats:
        powers = super().predict_proba(x) ** 3
        found: Floats = powers / powers.sum(axis=1, keepdims=True)
        return found


def test_a_classifier_too_sure_of_itself_is_calibrated() -> None:
    frame = logs(500)
    sharp = fit(frame, Sharp())
    assert sharp.exponents == pytest.approx(np.full(5, 1 / 3), abs=0.06)
    assert sharp.log_loss == pytest.approx(fit(frame, LogisticRegression()).log_loss, abs=0.005)


def test_large_logs_are_calibrated_on_two_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is enough, and as much out of fold."""
    frame = logs(300)
    whole = fit(frame).log_loss
    monkeypatch.setattr(behavior_model, "CALIBRATED_ON_ALL", 100)
    found = fit(frame)
    assert found.log_loss == pytest.approx(whole, abs=0.01)
    changed = frame.copy()
    changed.loc[frame.episode == 7, "action"] = ["wait", "wait", None]
    own = (frame.episode == 7).to_numpy()
    assert np.array_equal(fit(changed).probs[own], found.probs[own])


@pytest.mark.parametrize("classifier", ["logistic", "boosting"])
def test_an_action_of_one_fold_only(classifier: str) -> None:
    """The classifiers of its fold do not know it: its probability is small, and above 0."""
    frame = logs(30)
    frame.loc[(frame.episode == 4) & (frame.step == 0), "action"] = "surgery"
    found = fit(frame, classifier)
    rows = frame.step.to_numpy() < 2
    assert found.probs.shape[1] == 4
    assert found.probs[rows].sum(axis=1) == pytest.approx(np.ones(60))
    taken = found.probs[rows][np.arange(60), found.episodes.action[rows]]
    assert 1 / (4 * 60) < taken.min() < 0.1
    assert np.isfinite(so.evaluate(found.episodes, lambda x: np.full((len(x), 4), 0.25), behavior=found)["is"].value)


def test_one_action_and_folds_without_another() -> None:
    frame = logs(10)
    frame.loc[frame.step < 2, "action"] = "wait"
    assert fit(frame).probs[0].tolist() == [1.0]
    frame.loc[(frame.episode == 2) & (frame.step == 0), "action"] = "drug"
    found = fit(frame).probs[frame.step.to_numpy() < 2]
    assert found.sum(axis=1) == pytest.approx(np.ones(20))
    assert (found > 0).all()


def test_it_is_the_default_where_there_are_features_alone() -> None:
    frame = logs(40)
    episodes = so.read_episodes(frame, features=NAMES)
    plain = so.evaluate(episodes, uniform, estimators=["is", "pdis"])
    assert plain.settings["behavior"] == "fitted"
    fitted = so.fit_behavior(episodes)
    for behavior in ("logistic", fitted, fitted.policy):
        found = so.evaluate(episodes, uniform, behavior=behavior, estimators=["is", "pdis"])
        assert np.array_equal(found["pdis"].values, plain["pdis"].values)
    own = so.evaluate(episodes, uniform, behavior=LogisticRegression(C=0.01), estimators="is")
    assert own["is"].value != plain["is"].value
    known = so.read_episodes(frame.assign(behavior_prob=0.5), features=NAMES)
    assert so.evaluate(known, uniform, estimators="is").settings["behavior"] == "column behavior_prob"
    states = so.read_episodes(frame.assign(state="s"), features=NAMES)
    assert so.evaluate(states, uniform, estimators="is").settings["behavior"] == "counted"


def test_features_named_later() -> None:
    frame = logs(20)
    expected = fit(frame).probs
    assert np.array_equal(so.fit_behavior(frame, features=NAMES).probs, expected)
    plain = so.read_episodes(frame.assign(state="s"))
    assert np.array_equal(so.fit_behavior(plain, features="pulse, pressure").probs, expected)


class Broken(LogisticRegression):  # type: ignore[misc]
    def fit(self, x: Floats, y: Any) -> Any:
        raise RuntimeError("out of\nluck")


class Logits(LogisticRegression):  # type: ignore[misc]
    def predict_proba(self, x: Floats) -> Floats:
        found: Floats = self.decision_function(x)
        return found


FITTED = LogisticRegression().fit([[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize(
    ("classifier", "message"),
    [
        ("logisitc", r"behavior: 'logisitc' is not known. Did you mean 'logistic'\? Use 'count', 'logistic'"),
        (LogisticRegression, r"behavior: LogisticRegression is a class. Give an object of it: LogisticRegression\(\)"),
        (SVC(), r"behavior: a SVC gives no probabilities \(predict_proba\)"),
        (FITTED, "behavior: the LogisticRegression is fitted already. Give one that is not"),
        (Broken(), "behavior: the classifier Broken failed: RuntimeError: out of luck"),
        (Logits(), "behavior: the classifier Logits predicts no probabilities"),
        (5, "behavior: a int gives no probabilities"),
    ],
)
def test_what_cannot_be_fitted(classifier: Any, message: str) -> None:
    with pytest.raises(so.OptionError, match=message) as error:
        fit(logs(20), classifier)
    assert "\n" not in str(error.value)


def test_too_few_episodes() -> None:
    few = so.read_episodes(logs(4), features=NAMES)
    way_out = r"4 episodes cannot be dealt into 5 folds.*column behavior_prob; or fewer folds: so.fit_behavior"
    for call in (
        lambda: so.fit_behavior(few),
        lambda: so.evaluate(few, uniform),
        lambda: so.fit_behavior(few, folds=5),
    ):
        with pytest.raises(so.SupportError, match=way_out):
            call()
    assert so.fit_behavior(few, folds=2).folds == 2
    one = so.read_episodes(logs(1), features=NAMES)
    with pytest.raises(so.SupportError, match=r"1 episode cannot be dealt into 2 folds.*column behavior_prob\.$"):
        so.fit_behavior(one, folds=2)
    for folds in (1, 2.5, "many"):
        with pytest.raises(so.OptionError, match=r"folds: .* is not a whole number of at least 2"):
            so.fit_behavior(few, folds=folds)  # type: ignore[arg-type]


def test_what_is_left_out_in_turn_may_leave_fewer_than_folds() -> None:
    """Standard errors by leaving groups out fit to fewer episodes than were given."""
    five = so.read_episodes(logs(5, n_steps=4), features=NAMES)
    low, high = so.evaluate(five, uniform, estimators=["dm"])["dm"].interval()
    assert low < high


def test_without_features_or_decisions() -> None:
    frame = logs(20)
    with pytest.raises(so.OptionError, match=r"needs features. Name them: so.read_episodes\(..., features=\[...\]\)"):
        so.fit_behavior(frame.assign(state="s"))
    with pytest.raises(so.OptionError, match="there is no decision"):
        fit(frame.assign(action=pd.Series([None] * len(frame), dtype="string")))


def test_a_behavior_policy_of_other_episodes() -> None:
    with pytest.raises(so.SchemaError, match="behavior: its probabilities belong to other episodes"):
        so.evaluate(so.read_episodes(logs(20), features=NAMES), uniform, behavior=fit(logs(21)))


def test_without_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    episodes, call, missing_extra = so.read_episodes(logs(20), features=NAMES), so.fit_behavior, so.MissingExtraError

    def missing(module: str) -> Any:
        raise ModuleNotFoundError(name="sklearn")

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(missing_extra, match=r'needs sklearn: pip install "semiope\[models\]"'):
        call(episodes)
