"""`semiope evaluate --features`: per-row tables, ONNX files, fitted behavior policies, and one message where wrong."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import semiope as so
from semiope._arrays import Floats
from semiope.policies import array
from tests.cli.desk import Desk, Outcome, assert_refused

pytestmark = pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")

N = 20


def new_policy(x: Floats) -> Floats:
    """Probabilities of treat and wait."""
    treat = 1 / (1 + np.exp(-x[:, 0]))
    return np.column_stack([treat, 1 - treat])


class Ward:
    """Tables of a ward without states beside the command line."""

    def __init__(self, desk: Desk) -> None:
        rng = np.random.default_rng(5)
        self.desk, rows = desk, 2 * N
        self.x = rng.normal(size=(rows, 2)).round(3)
        action = np.where(rng.uniform(size=rows) < 0.5, "treat", "wait")
        self.columns: dict[str, Any] = {
            "episode": np.repeat(np.arange(N), 2), "step": np.tile([0, 1], N), "pulse": self.x[:, 0],
            "pressure": self.x[:, 1], "ward": np.where(rng.uniform(size=rows) < 0.5, "icu", "home").tolist(),
            "action": action.tolist(), "reward": rng.normal(size=rows).round(3),
        }  # fmt: skip
        probs = new_policy(self.x)
        self.policy: dict[str, Any] = {
            "episode": np.repeat(self.columns["episode"], 2), "step": np.repeat(self.columns["step"], 2),
            "action": ["treat", "wait"] * rows, "prob": probs.ravel(),
        }  # fmt: skip
        self.write()
        desk.put("rows", self.policy)
        asked = slice(0, rows, 3)
        desk.put(
            "annotations",
            {
                "episode": self.columns["episode"][asked], "step": self.columns["step"][asked],
                "action": np.where(action == "treat", "wait", "treat")[asked].tolist(),
                "value": rng.normal(size=len(range(rows)[asked])),
            },
        )  # fmt: skip

    def write(self, **changes: Any) -> None:
        columns = {name: values for name, values in (self.columns | changes).items() if values is not None}
        self.desk.put("ward", columns)

    def evaluate(self, *options: str, features: str | None = "pulse,pressure", policy: str = "rows.parquet") -> Outcome:
        named = [] if features is None else ["--features", features]
        return self.desk.run("evaluate", "ward.parquet", "--policy", f"new={policy}", *named, *options)

    def values(self, *options: str, **named: Any) -> dict[str, float]:
        found = self.evaluate(*options, "--json", "-", **named)
        assert found.status == 0, found.err
        return {row["estimator"]: row["value"] for row in json.loads(found.out)["estimates"]}


@pytest.fixture
def ward(desk: Desk) -> Ward:
    return Ward(desk)


def test_a_table_by_row_and_a_fitted_behavior_policy(ward: Ward) -> None:
    episodes = so.read_episodes(ward.columns, features=["pulse", "pressure"])
    policy = so.read_policy(ward.policy)
    for behavior in ("logistic", "boosting"):
        expected = so.evaluate(episodes, policy, behavior=behavior, estimators=["is", "pdwis"])
        found = ward.values("--behavior", behavior, "--estimators", "is,pdwis")
        assert found == pytest.approx({name: expected[name].value for name in expected}, rel=1e-12)
    assert ward.values("--estimators", "is,pdwis") == ward.values("--behavior", "logistic", "--estimators", "is,pdwis")
    given = ward.values("--behavior", "rows.parquet", "--estimators", "is,pdwis")
    assert given["is"] == pytest.approx(np.mean(episodes.returns(1.0)))


def test_everything_there_is_to_write(ward: Ward) -> None:
    found = ward.evaluate("--annotations", "annotations.parquet", "--json", "out.json", "--report", "out.html")
    assert found.status == 0, found.err
    content = json.loads((ward.desk.folder / "out.json").read_text())
    assert content["diagnostics"]["settings"]["behavior"] == "fitted"
    assert content["diagnostics"]["policies"]["new"]["headline"] == "pp-dr"
    assert "new" in (ward.desk.folder / "out.html").read_text()


def test_words_and_gaps(ward: Ward) -> None:
    pulse = [None if i % 7 == 3 else value for i, value in enumerate(ward.columns["pulse"])]
    ward.write(pulse=pulse)
    assert_refused(
        ward.evaluate(features="pulse,ward"),
        "column 'pulse' is missing in 6 rows. First: row 3 (episode 1, step 1, action",
    )
    found = ward.values("--impute", "--estimators", "is", features="pulse,ward")
    episodes = so.read_episodes({**ward.columns, "pulse": pulse}, features=["pulse", "ward"], missing="impute")
    assert found["is"] == so.evaluate(episodes, so.read_policy(ward.policy), estimators="is")["is"].value
    linear = ward.values("--impute", "--estimators", "dm", "--model", "linear", features="pulse,ward")
    assert np.isfinite(linear["dm"])


def test_a_model_by_regression_beside_states(ward: Ward) -> None:
    ward.write(state=["s"] * 2 * N)
    found = ward.values("--model", "linear", "--estimators", "dm")
    episodes = so.read_episodes({**ward.columns, "state": ["s"] * 2 * N})
    options: dict[str, Any] = {"model": "linear", "features": ["pulse", "pressure"], "estimators": "dm"}
    assert found["dm"] == so.evaluate(episodes, so.read_policy(ward.policy), **options)["dm"].value


Break = Callable[[Ward], Outcome]

BAD_INPUT: dict[str, tuple[Break, str]] = {
    "no features": (
        lambda w: w.evaluate(features=None),
        "'state' is missing. If measurements make up the state, name all that were known before a decision: "
        "features=['pulse', 'pressure'",
    ),
    "no such feature": (
        lambda w: w.evaluate(features="puls,pressure"),
        "there is no column 'puls' for a feature. Did you mean 'pulse'?",
    ),
    "a feature twice": (lambda w: w.evaluate(features="pulse,pulse"), "features: column 'pulse' is named twice"),
    "an empty list": (lambda w: w.evaluate(features=""), "features: name at least one column"),
    "the action": (lambda w: w.evaluate(features="pulse,action"), "features: 'action' is no measurement of the state"),
    "gaps filled in nothing": (
        lambda w: w.evaluate("--impute", features=None),
        "--impute: gaps are filled in features",
    ),
    "an unknown behavior policy": (
        lambda w: w.evaluate("--behavior", "logit"),
        "behavior: 'logit' is not known. Did you mean 'logistic'?",
    ),
    "counting without states": (
        lambda w: w.evaluate("--behavior", "count"),
        "behavior: the episodes have features and no states",
    ),
    "cells without states": (lambda w: w.evaluate("--cell", "step,state"), "cell: 'step,state' groups rows by step"),
    "a policy over states": (
        lambda w: w.evaluate(policy="policy.parquet"),
        "policy 'new': the policy is a table over states, and the episodes have features alone. Give a function",
    ),
    "a pickle": (
        lambda w: w.evaluate(policy="policy.pkl"),
        "policy 'new': policy.pkl is a pickle, and reading one runs whatever code it holds. Export the model as .onnx",
    ),
    "a pickle of joblib": (
        lambda w: w.evaluate("--behavior", "old.joblib"),
        "behavior: old.joblib is a pickle",
    ),
    "an ONNX file that is not there": (lambda w: w.evaluate(policy="no.onnx"), "policy 'new': no.onnx does not exist"),
}


def changed(**changes: Any) -> Break:
    def call(ward: Ward) -> Outcome:
        ward.write(**changes)
        return ward.evaluate()

    return call


def episodes_only(n: int) -> Break:
    def call(ward: Ward) -> Outcome:
        ward.write(**{name: values[: 2 * n] for name, values in ward.columns.items()})
        ward.desk.put("rows", {name: values[: 4 * n] for name, values in ward.policy.items()})
        return ward.evaluate()

    return call


def with_probs(factor: float) -> Break:
    def call(ward: Ward) -> Outcome:
        ward.desk.put("rows", {**ward.policy, "prob": ward.policy["prob"] * factor})
        return ward.evaluate()

    return call


BAD_INPUT |= {
    "a constant feature": (changed(pulse=[5.0] * 2 * N), "column 'pulse' is 5 in every row with a decision"),
    "an infinite feature": (changed(pulse=[np.inf, 1.0] * N), f"column 'pulse' is infinite in {N} rows. First: row 0"),
    "a missing feature": (changed(pulse=[None, 1.0] * N), f"column 'pulse' is missing in {N} rows. First: row 0"),
    "numbers as text": (changed(pulse=["1.5", "2.5"] * N), "column 'pulse' holds numbers written as text"),
    "continuous actions": (changed(action=[0.5, 1.0] * N), "Continuous actions are not supported: group them"),
    "four episodes": (episodes_only(4), "behavior: 4 episodes cannot be dealt into 5 folds"),
    "one episode": (episodes_only(1), "behavior: 1 episode cannot be dealt into 5 folds"),
    "probabilities off one": (with_probs(0.9), "column 'prob' does not sum to 1 over its step"),
    "logits": (with_probs(-3.0), "column 'prob' is negative"),
}


@pytest.mark.parametrize(("call", "message"), BAD_INPUT.values(), ids=BAD_INPUT.keys())
def test_bad_input_ends_in_one_message(ward: Ward, call: Break, message: str) -> None:
    before = sorted(path.name for path in ward.desk.folder.iterdir())
    assert_refused(call(ward), message)
    assert sorted(path.name for path in ward.desk.folder.iterdir()) == before


class Port(NamedTuple):
    """An input or output of an ONNX file."""

    name: str
    type: str
    shape: tuple[Any, ...]


FLOAT, DOUBLE, WORDS = "tensor(float)", "tensor(double)", "tensor(string)"
MAP = "seq(map(string,tensor(float)))"
X = Port("X", FLOAT, (None, 2))
LABEL = Port("label", WORDS, (None,))
PROBABILITIES = Port("probabilities", FLOAT, (None, 2))


class Session:
    """What onnxruntime would make of an ONNX file."""

    def __init__(self, inputs: list[Port], outputs: dict[Port, Callable[[Floats], Any]]) -> None:
        self.inputs, self.outputs = inputs, outputs

    def get_inputs(self) -> list[Port]:
        return self.inputs

    def get_outputs(self) -> list[Port]:
        return list(self.outputs)

    def run(self, names: list[str], given: dict[str, Floats]) -> list[Any]:
        (x,) = given.values()
        assert list(given) == [self.inputs[0].name]
        assert x.dtype == (np.float32 if self.inputs[0].type == FLOAT else np.float64)
        return [call(x) for name in names for port, call in self.outputs.items() if port.name == name]


def opened(ward: Ward, session: Session) -> str:
    """An ONNX file that onnxruntime opens as this session."""

    def open_file(path: str, options: Any, providers: list[str]) -> Session:
        assert providers == ["CPUExecutionProvider"]
        return session

    fake = SimpleNamespace(SessionOptions=SimpleNamespace, InferenceSession=open_file)
    ward.desk.monkeypatch.setitem(sys.modules, "onnxruntime", fake)
    (ward.desk.folder / "model.onnx").write_bytes(b"onnx")
    return "model.onnx"


def labels(words: list[str]) -> Callable[[Floats], Any]:
    return lambda x: np.array(words, dtype=object)[new_policy(x).argmax(axis=1)]


def as_maps(x: Floats) -> list[dict[str, float]]:
    """Labels in an order of their own."""
    return [{"wait": float(wait), "treat": float(treat)} for treat, wait in new_policy(x)]


def ports(*outputs: tuple[Port, Callable[[Floats], Any]], inputs: tuple[Port, ...] = (X,)) -> Session:
    return Session(list(inputs), dict(outputs))


GOOD = {
    "probabilities": ports((PROBABILITIES, new_policy)),
    "labels and probabilities": ports((LABEL, labels(["treat", "wait"])), (PROBABILITIES, new_policy)),
    "maps": ports((LABEL, labels(["treat", "wait"])), (Port("prob", MAP, ()), as_maps)),
    "double": ports((Port("out", DOUBLE, (None, 2)), new_policy), inputs=(Port("X", DOUBLE, ("n", "d")),)),
    "two of numbers": ports((Port("scores", FLOAT, (None, 2)), lambda x: x), (PROBABILITIES, new_policy)),
}  # fmt: skip


@pytest.mark.parametrize("session", GOOD.values(), ids=GOOD.keys())
def test_an_onnx_file_is_the_policy_it_holds(ward: Ward, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array, "ROWS_AT_ONCE", 16)
    expected = ward.values("--estimators", "is,pdis")
    found = ward.values("--estimators", "is,pdis", policy=opened(ward, session))
    assert found == pytest.approx(expected, rel=1e-5)  # of single precision
    assert np.isfinite(ward.values("--estimators", "is", "--behavior", "model.onnx")["is"])


def failing(x: Floats) -> Floats:
    raise RuntimeError("a kernel\nis missing")


BAD_ONNX = {
    "logits": (ports((PROBABILITIES, lambda x: 9 * x)), "is below 0 or above 1 (are these logits?) at"),
    "off one": (ports((PROBABILITIES, lambda x: new_policy(x) / 2)), "probabilities do not sum to 1 at 40 decisions"),
    "other actions": (
        ports((PROBABILITIES, new_policy), (LABEL, labels(["wait", "treat"]))),
        "model.onnx calls the class of its column ",
    ),
    "maps of other actions": (
        ports((Port("p", MAP, ()), lambda x: [{"a": 0.5, "b": 0.5}] * len(x))),
        "the actions of model.onnx are 'a', 'b', and the logs have the actions 'treat', 'wait'",
    ),
    "three actions": (
        ports((PROBABILITIES, lambda x: np.full((len(x), 3), 1 / 3))),
        "model.onnx returned an array of shape (40, 3) for 40 rows. Return shape (40, 2)",
    ),
    "three features": (
        ports((PROBABILITIES, new_policy), inputs=(Port("X", FLOAT, (None, 3)),)),
        "model.onnx takes 3 features, and the episodes have 2: pulse, pressure",
    ),
    "two inputs": (
        ports((PROBABILITIES, new_policy), inputs=(X, Port("Y", WORDS, (None, 1)))),
        "It must take one matrix of numbers (rows, features)",
    ),
    "an image": (
        ports((PROBABILITIES, new_policy), inputs=(Port("X", FLOAT, (None, 3, 8, 8)),)),
        "It must take one matrix of numbers",
    ),
    "labels alone": (
        ports((LABEL, labels(["treat", "wait"]))),
        "model.onnx gives label (tensor(string)). One output must be the probabilities of actions",
    ),
    "a failure": (ports((PROBABILITIES, failing)), "failed on features of shape (40, 2): a kernel is missing"),
}  # fmt: skip


@pytest.mark.parametrize(("session", "message"), BAD_ONNX.values(), ids=BAD_ONNX.keys())
def test_what_is_no_policy_in_an_onnx_file(ward: Ward, session: Session, message: str) -> None:
    found = ward.evaluate("--json", "out.json", policy=opened(ward, session))
    assert_refused(found, message)
    assert not (ward.desk.folder / "out.json").exists()


def test_an_onnx_file_needs_features(ward: Ward) -> None:
    file = opened(ward, GOOD["probabilities"])
    ward.write(state=["s"] * 2 * N)
    assert_refused(ward.evaluate(features=None, policy=file), "function of features, and the episodes have none")


def test_without_onnxruntime(ward: Ward) -> None:
    (ward.desk.folder / "model.onnx").write_bytes(b"onnx")
    real = importlib.import_module

    def missing(module: str, *more: Any) -> Any:
        if module == "onnxruntime":
            raise ModuleNotFoundError(name="onnxruntime")
        return real(module, *more)

    ward.desk.monkeypatch.setattr(importlib, "import_module", missing)
    message = 'A policy as an ONNX file needs onnxruntime: pip install "semiope[onnx]"'
    assert_refused(ward.evaluate(policy="model.onnx"), message)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_a_classifier_exported_and_read(ward: Ward, tmp_path: Path) -> None:
    """With onnxruntime and skl2onnx themselves."""
    pytest.importorskip("onnxruntime", reason="needs semiope[onnx]")
    skl2onnx = pytest.importorskip("skl2onnx")
    from sklearn.linear_model import LogisticRegression

    classifier = LogisticRegression().fit(ward.x, ward.columns["action"])
    episodes = so.read_episodes(ward.columns, features=["pulse", "pressure"])
    expected = so.evaluate(episodes, classifier, estimators=["is", "pdis"])
    for options in ({}, {"zipmap": False}):
        exported = skl2onnx.to_onnx(classifier, ward.x[:1].astype(np.float32), options={id(classifier): options})
        (tmp_path / "model.onnx").write_bytes(exported.SerializeToString())
        found = ward.values("--estimators", "is,pdis", policy="model.onnx")
        assert found == pytest.approx({name: expected[name].value for name in expected}, rel=1e-5)
    (tmp_path / "model.onnx").write_text("hello")
    assert_refused(ward.evaluate(policy="model.onnx"), "policy 'new': cannot read model.onnx as ONNX")
