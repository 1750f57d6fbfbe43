"""Policies as arrays, functions of features and classifiers: one answer whatever the form, one message where wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

import semiope as so
from semiope._arrays import Floats
from semiope.data.repeat import Resample
from semiope.policies import array

pytestmark = pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")

ACTIONS = ["drug", "fluids", "wait"]
NAMES = ["pulse", "pressure"]
ESTIMATORS = ("is", "pdwis", "c-pdis")


def softmax(logits: Floats) -> Floats:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    found: Floats = powers / powers.sum(axis=1, keepdims=True)
    return found


def by_pulse(x: Floats) -> Floats:
    """A policy: probabilities of drug, fluids and wait."""
    return softmax(np.column_stack([x[:, 0], x[:, 1], np.zeros(len(x))]))


class Ward:
    """Patients with two measurements, three actions, two steps and a last row without a decision."""

    def __init__(self, n: int = 40, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(3 * n, 2))
        action = (by_pulse(x).cumsum(axis=1) < rng.uniform(size=(3 * n, 1))).sum(axis=1)
        self.frame = pd.DataFrame(
            {
                "episode": np.repeat(np.arange(n), 3), "step": np.tile([0, 1, 2], n), "pulse": x[:, 0],
                "pressure": x[:, 1], "ward": np.where(rng.uniform(size=3 * n) < 0.5, "icu", "home"),
                "action": np.array(ACTIONS, dtype=object)[action],
                "reward": x[:, 0] * (action == 0) + rng.normal(size=3 * n),
            }
        )  # fmt: skip
        self.frame.loc[self.frame.step == 2, ["action", "pulse", "pressure", "ward"]] = None
        self.decisions = self.frame[self.frame.step < 2]
        self.x = self.decisions[NAMES].to_numpy()
        asked = self.decisions[::3]
        other = np.where(asked.action == "wait", "drug", "wait")
        self.annotations = pd.DataFrame(
            {"episode": asked.episode, "step": asked.step, "action": other, "value": rng.normal(size=len(asked))}
        )

    @property
    def episodes(self) -> so.Episodes:
        return so.read_episodes(self.frame, features=NAMES)

    def rows(self, probs: Floats, actions: list[str] = ACTIONS) -> so.RowPolicy:
        """The per-row table with these probabilities of the decisions."""
        table = so.read_policy(
            {
                "episode": np.repeat(self.decisions.episode, len(actions)),
                "step": np.repeat(self.decisions.step, len(actions)),
                "action": np.tile(np.array(actions, dtype=object), len(probs)),
                "prob": probs.ravel(),
            }
        )
        assert isinstance(table, so.RowPolicy)
        return table

    def evaluate(
        self, policy: Any, episodes: Any = None, estimators: Sequence[str] = ESTIMATORS, **options: Any
    ) -> dict[str, Floats]:
        logs = self.episodes if episodes is None else episodes
        found = so.evaluate(logs, policy, annotations=self.annotations, estimators=estimators, **options)
        return {name: found[name].values for name in estimators}


def assert_same(found: dict[str, Floats], expected: dict[str, Floats]) -> None:
    for name, values in expected.items():
        assert found[name] == pytest.approx(values, rel=1e-12, abs=1e-12)


@pytest.fixture(scope="module")
def ward() -> Ward:
    return Ward()


@pytest.fixture(scope="module")
def classifier(ward: Ward) -> Any:
    return LogisticRegression().fit(ward.decisions[NAMES], ward.decisions.action)


@pytest.mark.parametrize("role", ["policy", "behavior"])
def test_one_answer_whatever_the_form(ward: Ward, classifier: Any, role: str) -> None:
    probs = classifier.predict_proba(ward.decisions[NAMES])
    everywhere = np.full((len(ward.frame), 3), np.nan)  # rows without a decision need none
    everywhere[ward.frame.step < 2] = probs
    by_array = LogisticRegression().fit(ward.x, ward.decisions.action)
    named = so.FeaturePolicy(lambda x: by_array.predict_proba(x)[:, [2, 0, 1]], actions=["wait", "drug", "fluids"])
    forms = {
        "classifier": classifier, "fitted to an array": by_array, "method": classifier.predict_proba,
        "array": everywhere, "lists": everywhere.tolist(), "function": lambda x: by_array.predict_proba(x),
        "with actions": named,
    }  # fmt: skip

    def given(form: Any) -> dict[str, Any]:
        if role == "policy":
            return {"policy": form, "estimators": [*ESTIMATORS, "pp-dr"]}
        return {"policy": by_pulse, "behavior": form}

    expected = ward.evaluate(**given(ward.rows(probs)))
    for form in forms.values():
        assert_same(ward.evaluate(**given(form)), expected)


def test_several_by_name(ward: Ward, classifier: Any) -> None:
    found = so.evaluate(ward.episodes, {"new": by_pulse, "old": classifier}, estimators=["pdis"])
    assert found["new"]["pdis"].value == so.evaluate(ward.episodes, by_pulse, estimators=["pdis"])["pdis"].value
    assert found["old"]["pdis"].value != found["new"]["pdis"].value


def test_an_array_goes_by_the_rows_of_the_table(ward: Ward) -> None:
    """A table in any order, and an array in the same, give what both give when sorted; so does a function."""
    order = np.random.default_rng(3).permutation(len(ward.frame))
    probs = by_pulse(np.nan_to_num(ward.frame[NAMES].to_numpy(dtype=float)))
    shuffled = so.read_episodes(ward.frame.iloc[order], features=NAMES)
    expected = ward.evaluate(probs)
    assert_same(ward.evaluate(probs[order], shuffled), expected)
    assert_same(ward.evaluate(by_pulse, shuffled), expected)
    assert_same(ward.evaluate(probs[order], shuffled, behavior=probs[order]), ward.evaluate(probs, behavior=probs))


def test_in_chunks_as_at_once(ward: Ward, classifier: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    told: list[tuple[int, int]] = []

    def counting(x: Floats) -> Floats:
        asked.append(len(x))
        return by_pulse(x)

    whole, by_classifier = ward.evaluate(counting), ward.evaluate(classifier)
    assert asked == [80]
    asked.clear()
    monkeypatch.setattr(array, "ROWS_AT_ONCE", 30)
    assert_same(ward.evaluate(counting), whole)
    assert asked == [30, 30, 20]
    assert_same(ward.evaluate(classifier), by_classifier)
    so.FeaturePolicy(counting).at(ward.episodes, progress=lambda done, total: told.append((done, total)))
    assert told == [(30, 80), (60, 80), (80, 80)]
    told.clear()
    so.evaluate(ward.episodes, by_pulse, estimators="is", progress=lambda done, total: told.append((done, total)))
    assert told[:3] == [(30, 80), (60, 80), (80, 80)]


def test_what_a_function_does_to_its_input_changes_nothing(ward: Ward) -> None:
    def careless(x: Floats) -> Floats:
        found = by_pulse(x)
        x[:] = 0
        return found

    assert_same(ward.evaluate(careless), ward.evaluate(by_pulse))


class Reordered:
    """A classifier with classes in an order of its own, and one that was never logged."""

    classes_ = np.array(["wait", "surgery", "drug", "fluids"])

    def predict_proba(self, x: Floats) -> Floats:
        known = by_pulse(x)
        return np.column_stack([known[:, 2] / 2, known[:, 2] / 2, known[:, 0], known[:, 1]])


def test_classes_in_another_order_and_of_actions_never_logged(ward: Ward) -> None:
    probs = Reordered().predict_proba(ward.x)
    found = so.evaluate(ward.episodes, Reordered(), estimators=["pdis", "is"])
    expected = so.evaluate(ward.episodes, ward.rows(probs, Reordered.classes_.tolist()), estimators=["pdis", "is"])
    assert_same({name: found[name].values for name in found}, {name: expected[name].values for name in expected})
    assert found.diagnostics["unsupported_mass"] == pytest.approx(expected.diagnostics["unsupported_mass"])
    assert found.diagnostics["unsupported_mass"]["logged"] > 0


@pytest.mark.parametrize("labels", [np.array([0, 1]), np.array([0.0, 1.0]), np.array([False, True])])
def test_classes_that_are_numbers(labels: Any) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(30, 1))
    action = rng.integers(2, size=30)
    episodes = so.Episodes.from_arrays(
        episode=np.arange(30), step=np.zeros(30, int), action=action, reward=rng.normal(size=30), features=x
    )
    found = so.evaluate(episodes, LogisticRegression().fit(x, labels[action]), estimators="is")["is"]
    assert found.value == so.evaluate(episodes, LogisticRegression().fit(x, action), estimators="is")["is"].value


def test_a_pipeline_gets_the_columns_it_was_fitted_to(ward: Ward) -> None:
    """Raw words, columns beyond the features, and the step."""
    columns = ["ward", "step"]
    pipeline = make_pipeline(OneHotEncoder(), LogisticRegression()).fit(ward.decisions[columns], ward.decisions.action)
    probs = pipeline.predict_proba(ward.decisions[columns])
    assert_same(ward.evaluate(pipeline), ward.evaluate(ward.rows(probs)))


def test_fitted_to_a_frame_of_polars(ward: Ward) -> None:
    frame = pl.DataFrame({name: ward.decisions[name].to_numpy() for name in NAMES})
    fitted = make_pipeline(StandardScaler(), LogisticRegression()).fit(frame, ward.decisions.action.to_numpy())
    assert_same(ward.evaluate(fitted), ward.evaluate(ward.rows(fitted.predict_proba(frame))))


def test_fitted_to_the_features_as_encoded(ward: Ward) -> None:
    """By their names in the matrix: words, and what flags gaps."""
    frame = ward.frame.copy()
    frame.loc[frame.index[::4], "pulse"] = None
    episodes = so.read_episodes(frame, features=["pulse", "ward"], missing="impute")
    assert episodes.features is not None
    assert episodes.features.names == ("pulse", "pulse missing", "ward=home", "ward=icu")
    matrix = episodes.features.matrix[episodes.action >= 0]
    by_frame = LogisticRegression().fit(pd.DataFrame(matrix, columns=episodes.features.names), ward.decisions.action)
    by_array = LogisticRegression().fit(matrix, ward.decisions.action)
    assert_same(ward.evaluate(by_frame, episodes), ward.evaluate(by_array, episodes))


def test_resamples_and_softening(ward: Ward) -> None:
    episodes = ward.episodes
    policy = so.FeaturePolicy(by_pulse).at(episodes)
    by = Resample(episodes, np.arange(episodes.n_episodes) % 3)
    found = so.evaluate(by.episodes, policy.resampled(by), estimators="pdis")["pdis"].values
    assert found == pytest.approx(so.evaluate(by.episodes, by_pulse, estimators="pdis")["pdis"].values, rel=1e-12)
    soft = policy.soften(0.3).probs
    assert soft.sum(axis=1) == pytest.approx((episodes.action >= 0).astype(float))
    probs = policy.probs[episodes.action >= 0]
    assert soft[episodes.action >= 0] == pytest.approx(0.7 * probs + 0.3 * (1 - probs) / 2)


def test_a_policy_of_other_episodes(ward: Ward) -> None:
    policy = so.FeaturePolicy(by_pulse).at(Ward(39).episodes)
    with pytest.raises(so.SchemaError, match="policy 'policy': its probabilities belong to other episodes"):
        ward.evaluate(policy)


def uniform(x: Floats) -> Floats:
    return np.full((len(x), 3), 1 / 3)


def failing(x: Floats) -> Floats:
    raise RuntimeError("no\nGPU")


VECTORS: Any = [["drug"], ["wait"]]
BAD: dict[str, tuple[Any, str]] = {
    "raises": (failing, r"failing failed on features of shape \(80, 2\): RuntimeError: no GPU"),
    "one dimension": (lambda x: np.ones(len(x)), r"returned an array of shape \(80,\) for 80 rows.*\(80, 3\)"),
    "an action short": (lambda x: np.full((len(x), 2), 0.5), r"shape \(80, 2\).*\(80, 3\): one column for each action"),
    "a row for all": (lambda x: np.full((1, 3), 1 / 3), r"shape \(1, 3\) for 80 rows"),
    "nothing": (lambda x: None, "returned an array of shape"),
    "words": (lambda x: ["wait"] * len(x), "returned a list, not an array of numbers"),
    "a frame": (lambda x: pd.DataFrame(uniform(x), columns=ACTIONS), r"returned a DataFrame. Return an array \(its to"),
    "masked": (lambda x: np.ma.masked_array(uniform(x), mask=True), "returned a MaskedArray, not an array of numbers"),
    "NaN": (lambda x: uniform(x) * np.nan, "not a finite number at 80 decisions. First: episode 0 step 0: .nan, nan, "),
    "logits": (lambda x: x @ np.ones((2, 3)), r"is below 0 or above 1 \(are these logits\?\) at"),
    "sums": (lambda x: uniform(x) * 0.9, "do not sum to 1 at 80 decisions. First: episode 0 step 0: .0.3, 0.3, 0.3"),
    "a class": (LogisticRegression, "LogisticRegression is a class. Give an object of it, fitted"),
    "not fitted": (LogisticRegression(), "LogisticRegression is not fitted: it has no classes_. Fit it first"),
    "not fitted, piped": (make_pipeline(StandardScaler(), RandomForestClassifier()), "Pipeline is not fitted"),
    "no probabilities": (SVC(), r"a SVC gives no probabilities \(predict_proba\)"),
    "a regression": (LinearRegression(), "a LinearRegression gives no probabilities"),
    "array of other rows": (np.full((80, 3), 1 / 3), r"shape \(80, 3\), but there are 120 rows and 3 actions \('drug'"),
    "array of other actions": (np.full((120, 2), 0.5), r"shape \(120, 2\), but there are 120 rows and 3 actions"),
    "array of chosen actions": (np.zeros(120), r"an array of shape \(120,\)"),
    "array of logits": (np.tile([-1.0, 1.0, 1.0], (120, 1)), r"below 0 or above 1 \(are these logits\?\) at 80 "),
    "array off one": (np.tile([0.1, 0.1, 0.1], (120, 1)), "do not sum to 1 at 80 decisions. First: episode 0 step 0"),
    "array of NaN": (np.full((120, 3), np.nan), "is not a finite number at 80 decisions"),
    "array of words": (np.full((120, 3), "a"), "not an array of numbers"),
    "an action twice": (so.FeaturePolicy(uniform, actions=["drug", "wait", "wait"]), "name an action twice: 'drug'"),
    "other actions": (so.FeaturePolicy(uniform, actions=["a", "b", "c"]), "the actions of uniform are 'a', 'b', 'c'"),
    "no actions": (so.FeaturePolicy(uniform, actions=VECTORS), "are no labels of actions"),
    "a table over states": (
        so.read_policy({"state": ["s"], "action": ["wait"], "prob": [1.0]}),
        "a table over states, and the episodes have features alone. Give a function of features, a classifier, or",
    ),
    "a pickle": ("policy.pkl", "policy.pkl is a pickle, and reading one runs whatever code it holds. Export the model"),
}  # fmt: skip


@pytest.mark.parametrize(("policy", "message"), BAD.values(), ids=BAD.keys())
def test_what_is_no_policy(ward: Ward, policy: Any, message: str) -> None:
    with pytest.raises(so.SemiopeError, match=f"^policy 'new': .*{message}") as error:
        so.evaluate(ward.episodes, {"new": policy})
    assert "\n" not in str(error.value)


def test_the_first_wrong_rows_are_shown_in_every_chunk(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array, "ROWS_AT_ONCE", 30)
    late = ward.x[70, 0]
    with pytest.raises(so.SchemaError, match=r"at 1 decision. First: episode 35 step 0: \[0.5, 0, 0\]"):
        ward.evaluate(lambda x: np.where(x[:, :1] == late, [[0.5, 0, 0]], [[1.0, 0, 0]]))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (
            [0, 1, 2],
            "classes_ of LogisticRegression are 0, 1, 2, and the logs have the actions 'drug', 'fluids', 'wait'",
        ),
        (["a", "b", "c"], "are 'a', 'b', 'c', and the logs have the actions 'drug', 'fluids', 'wait'. Use the same"),
    ],
)
def test_classes_that_are_not_the_actions(ward: Ward, labels: list[Any], message: str) -> None:
    classes = np.array(labels)[ward.decisions.action.map(ACTIONS.index).to_numpy(dtype=int)]
    with pytest.raises(so.OptionError, match=message):
        ward.evaluate(LogisticRegression().fit(ward.x, classes))


def test_a_classifier_of_several_outputs(ward: Ward) -> None:
    both = np.column_stack([ward.decisions.action, ward.decisions.action])
    with pytest.raises(so.OptionError, match="classes_ of RandomForestClassifier are no labels of actions"):
        ward.evaluate(RandomForestClassifier(2).fit(ward.x, both))


def test_a_classifier_fitted_to_other_features(ward: Ward) -> None:
    renamed = ward.decisions[NAMES].rename(columns={"pressure": "presure"})
    fitted = LogisticRegression().fit(renamed, ward.decisions.action)
    with pytest.raises(so.OptionError, match=r"do not have: 'presure'. Did you mean 'pressure'\? The features are"):
        ward.evaluate(fitted)
    fitted = LogisticRegression().fit(ward.x[:, :1], ward.decisions.action)
    with pytest.raises(so.OptionError, match="fitted to 1 features, and the episodes have 2: pulse, pressure"):
        ward.evaluate(fitted)


def test_functions_need_features(ward: Ward, classifier: Any) -> None:
    logs = so.read_episodes(ward.frame.drop(columns=NAMES).assign(state="s"))
    for policy in (by_pulse, classifier):
        with pytest.raises(
            so.OptionError, match=r"function of features, and the episodes have none. Name them: so.read"
        ):
            so.evaluate(logs, policy)


def test_features_named_in_evaluate(ward: Ward) -> None:
    found = so.evaluate(ward.frame, by_pulse, features=NAMES, estimators="pdis")["pdis"].value
    assert found == so.evaluate(ward.episodes, by_pulse, estimators="pdis")["pdis"].value
    for logs in (ward.frame, ward.episodes):
        with pytest.raises(so.SchemaError, match=r"there is no column 'puls' for a feature. Did you mean 'pulse'\?"):
            so.evaluate(logs, by_pulse, features=["puls", "pressure"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"cell": "step,state"},
            "cell: 'step,state' groups rows by step and state, and the episodes have features and",
        ),
        ({"repair": "impute"}, "repair: impute counts over states, .* Leave it out: pp-dr completes annotations"),
        ({"repair": "pool,impute:step"}, "repair: impute counts over states"),
        ({"repair": "convert:authors"}, "repair: convert counts over states, .* 'convert' without an option works"),
        ({"behavior": "count"}, r"behavior: the episodes have features and no states.*so.fit_behavior\(episodes, feat"),
        ({"model": "empirical", "estimators": ["dr"]}, "a model counted from the logs needs one over states"),
    ],
)
def test_what_needs_states(ward: Ward, options: dict[str, Any], message: str) -> None:
    with pytest.raises(so.OptionError, match=message):
        ward.evaluate(by_pulse, **options)


def test_the_best_questions_need_states(ward: Ward) -> None:
    with pytest.raises(so.OptionError, match=r"design: 'best' chooses by what states have in common.*design='random'"):
        so.plan(ward.episodes, by_pulse, 10, design="best")
    assert so.plan(ward.episodes, by_pulse, 10).n_needed > 0


def test_counting_the_behavior_policy_needs_states(ward: Ward) -> None:
    for features in (NAMES, None):
        with pytest.raises(so.OptionError, match=r"so.fit_behavior\(episodes, features="):
            so.estimate_behavior(ward.episodes, features=features)


def test_models_by_name_take_the_features_of_the_episodes(ward: Ward) -> None:
    found = so.evaluate(ward.episodes, by_pulse, model="linear", estimators="dm")["dm"].values
    named = so.evaluate(ward.frame, by_pulse, model="linear", features=NAMES, estimators="dm")["dm"].values
    assert np.array_equal(found, named)
    with_words = so.read_episodes(ward.frame, features=["pulse", "ward"])
    two = so.evaluate(with_words, uniform, model="linear", estimators="dm")["dm"].value
    assert np.isfinite(two)
