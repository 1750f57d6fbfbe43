"""The report says what the state was, which models were fitted, and how well they predict."""

from __future__ import annotations

import re
import sys
from html import unescape
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import semiope as so
from semiope.cli import main
from semiope.errors import quietly
from semiope.example import vitals
from semiope.reporting.models import r_squared, state_and_models
from tests.reporting.browser import Opener, assert_sound


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    found = pd.DataFrame(vitals.logs(300))
    found.loc[found.index % 25 == 0, "lactate"] = np.nan
    return found


@pytest.fixture(scope="module")
def results(frame: pd.DataFrame) -> so.Results:
    annotations = vitals.ask(vitals.logs(300), vitals.senior, 0.1)
    episodes = so.read_episodes(frame, features=vitals.FEATURES, missing="impute")
    with quietly():
        return so.evaluate(episodes, senior, annotations=annotations)


def senior(x: np.ndarray) -> np.ndarray:
    return vitals.senior(np.delete(x, 4, axis=1))  # without the column that flags gaps


def told(results: so.Results) -> dict[str, str]:
    """What is said under each heading."""
    found = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", state_and_models(results))
    return {head: unescape(words) for head, words in found}


def test_the_state_is_named_feature_by_feature(results: so.Results) -> None:
    words = told(results)["State"]
    assert "5 features of each decision" in words
    assert "4 numbers (heart_rate, pressure, oxygen, lactate)" in words
    assert "the category ward (medical, surgical)" in words
    assert "lactate at 60 of 1,200 decisions (5%)" in words


def test_models_and_how_well_they_predict(results: so.Results) -> None:
    said, run = told(results), results.origin
    fitted = run.weighed.problem.evidence.fitted
    assert fitted is not None
    assert "by a logistic regression; 5 folds" in said["Behavior policy"]
    assert f"Log loss {fitted.log_loss:.3f}" in said["Behavior policy"]
    assert f"the {fitted.log_loss_of_shares:.3f} of the overall shares" in said["Behavior policy"]
    problem = run.weighed.problem
    answers = problem.annotations
    explained = r_squared(problem, problem.modelled.annotated_returns.of(answers.row, answers.action))
    assert 0 < explained < 1
    assert f"It explains {explained:.0%}." in said["Annotation model"]
    assert said["Outcome model"].startswith("Regression on features")
    asked = problem.inclusion
    assert f"{asked.asked:,} of {asked.questions:,} questions" in said["Inclusion probabilities"]


def test_annotators_are_told_apart_by_their_names(results: so.Results) -> None:
    """The one with most noise (0.25 against 0.10 and 0.15) is the one that is said to have most."""
    noise = dict(re.findall(r"(ana|ben|cem) (\d\.\d+)", told(results)["Annotation model"]))
    assert max(noise, key=lambda name: float(noise[name])) == "cem"


def test_exact_predictions_explain_everything_and_wrong_ones_nothing(results: so.Results) -> None:
    problem = results.origin.weighed.problem
    values = problem.modelled.annotated_values
    assert r_squared(problem, values) == pytest.approx(1)
    assert r_squared(problem, values + 5) < 0


def test_states_that_recur_and_counted_policies(tmp_path: Path) -> None:
    logs = {
        "episode": [0, 1, 2, 3], "step": [0] * 4, "state": ["a", "a", "b", "b"], "action": ["x", "y", "x", "y"],
        "reward": [0.0, 1.0, 0.5, 1.0],
    }  # fmt: skip
    policy = so.read_policy({"state": ["a", "b"], "action": ["x", "x"], "prob": [1.0, 1.0]})
    with quietly():
        found = told(so.evaluate(logs, policy, estimators=["pdis"]))
    assert found == {
        "State": "2 states that recur.",
        "Behavior policy": "Counted: the shares of actions in each cell (state).",
    }


def test_the_report_holds_it_and_shows_features(results: so.Results, tmp_path: Path, opened: Opener) -> None:
    path = tmp_path / "page.html"
    so.report(results, path)
    page = path.read_text()
    assert 'id="state-and-models"' in page
    assert "read_episodes(episodes, features=[&#x27;heart_rate&#x27;" in page
    assert "missing=&quot;impute&quot;" in page
    assert "(features)</td>" not in page
    assert "behaviour policy is fitted to the features" in page
    for width in (390, 1440):
        found = opened(path, width)
        found.page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
        assert_sound(found)


def test_support_is_shown_by_regions_of_features(frame: pd.DataFrame) -> None:
    """A policy of the heart rate, beside practice that hardly ever does the same."""
    episodes = so.read_episodes(frame.drop(columns="lactate"), features=["heart_rate", "pressure"])

    def fast(x: np.ndarray) -> np.ndarray:
        return np.column_stack([np.zeros(len(x)), x[:, 0] > 100, x[:, 0] <= 100])

    def practice(x: np.ndarray) -> np.ndarray:
        return np.tile([0.5, 0.01, 0.49], (len(x), 1))

    with quietly():
        results = so.evaluate(episodes, fast, behavior=practice)
    shown = so.plot.support(results).content
    assert "heart_rate &gt; 100" in shown
    assert "<td>pressors</td>" in shown
    with quietly():
        same = so.evaluate(episodes, practice, behavior=practice)
    assert "nothing that was hardly ever done" in so.plot.support(same).content


def test_the_command_line_writes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = vitals.logs(100)
    pd.DataFrame(logs).to_csv(tmp_path / "vitals.csv", index=False)
    rows = pd.DataFrame(logs).dropna(subset="action")[["episode", "step"]]
    rows.assign(action="fluids", prob=1.0).to_csv(tmp_path / "policy.csv", index=False)
    page = tmp_path / "page.html"
    command = ["semiope", "evaluate", str(tmp_path / "vitals.csv"), "--policy", str(tmp_path / "policy.csv")]
    command += ["--features", ",".join(vitals.FEATURES), "--report", str(page)]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code
    assert "by a logistic regression" in page.read_text()
