"""`semiope evaluate`: what goes in, what comes out."""

from __future__ import annotations

import json

import pytest

import semiope as so
from tests.cli.desk import ANNOTATIONS, EPISODES, POLICY, Desk


def test_json_is_as_the_contract_says(desk: Desk) -> None:
    found = desk.evaluate("--json", "-", "--gamma", "0.9", "--cell", "step,state")
    assert found.status == 0
    content = json.loads(found.out)
    assert content["semiope"] == so.__version__
    assert (content["gamma"], content["episodes"], content["steps"]) == (0.9, 3, 5)
    assert [row["estimator"] for row in content["estimates"]] == [
        "is",
        "wis",
        "pdis",
        "pdwis",
        "c-pdis",
        "c-pdwis",
        "pp-dr",
    ]
    keys = {"policy", "estimator", "value", "std_error", "ci_low", "ci_high", "ess"}
    assert all(set(row) == keys for row in content["estimates"])
    assert all(row["policy"] == "policy" for row in content["estimates"])
    assert isinstance(content["diagnostics"], dict)
    assert isinstance(content["warnings"], list)


@pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")
def test_the_numbers_are_those_of_python(desk: Desk) -> None:
    options = [
        "--weights",
        "factual",
        "--gamma",
        "0.5",
        "--alpha",
        "0.2",
        "--ci",
        "normal",
        "--estimators",
        "c-pdis,wis",
    ]
    rows = json.loads(desk.evaluate("--json", "-", *options).out)["estimates"]
    expected = so.evaluate(
        EPISODES,
        so.read_policy(POLICY),
        annotations=ANNOTATIONS,
        weights="factual",
        gamma=0.5,
        estimators=["c-pdis", "wis"],
    )
    for row in rows:
        estimate = expected[row["estimator"]]
        assert row["value"] == estimate.value
        assert (row["ci_low"], row["ci_high"]) == estimate.interval(0.2, "normal")


@pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")
def test_means_by_prefix_and_weights_on_annotations(desk: Desk) -> None:
    options = ["--means", "prefix", "--weights", "annotated", "--estimators", "c-pdis"]
    content = json.loads(desk.evaluate("--json", "-", *options).out)
    expected = so.evaluate(
        EPISODES,
        so.read_policy(POLICY),
        annotations=ANNOTATIONS,
        means="prefix",
        weights="annotated",
        estimators="c-pdis",
    )
    assert content["estimates"][0]["value"] == expected["c-pdis"].value
    settings = content["diagnostics"]["settings"]
    assert (settings["means"], settings["cell"], settings["weights"]) == ("prefix", "step,state", "annotated")
    plain = json.loads(desk.evaluate("--json", "-").out)["diagnostics"]["settings"]
    assert (plain["means"], plain["cell"]) == ("cell", "state")


def test_without_annotations_the_offline_estimators(desk: Desk) -> None:
    rows = json.loads(desk.evaluate("--json", "-", annotated=False).out)["estimates"]
    assert [row["estimator"] for row in rows] == ["is", "wis", "pdis", "pdwis"]


def test_table_files_and_report(desk: Desk) -> None:
    found = desk.evaluate("--json", "out.json", "--report", "out.html", "--policy", "again=policy.parquet")
    assert found.status == 0
    assert "c-pdwis" in found.out
    assert "95% interval" in found.out
    content = json.loads((desk.folder / "out.json").read_text())
    assert {row["policy"] for row in content["estimates"]} == {"policy", "again"}
    page = (desk.folder / "out.html").read_text()
    assert '<th scope="row"><bdi>again</bdi><br><small>pp-dr</small></th>' in page
    assert "http" not in page


def test_warnings_go_to_standard_error_and_into_the_json(desk: Desk) -> None:
    desk.change("policy", state=["s", "s", "t", "t"], action=["a", "b", "b", "c"], prob=[0.3, 0.7, 0.5, 0.5])
    found = desk.evaluate("--json", "out.json", "--estimators", "pdis")
    assert found.status == 0
    assert "warning: policy 'policy': 25.0% of its decisions" in found.err
    assert "'t' (50%, mostly 'c'). Nobody ever took or annotated 'c'." in found.err
    assert json.loads((desk.folder / "out.json").read_text())["warnings"][0].startswith("policy 'policy': 25.0%")


def test_annotations_by_the_name_of_a_policy(desk: Desk) -> None:
    names = ["--policy", "one=policy.parquet", "--policy", "two=policy.parquet"]
    base = ["evaluate", "episodes.parquet", *names, "--estimators", "pdis,c-pdis", "--json", "-"]
    content = json.loads(desk.run(*base, "--annotations", "two=annotations.parquet").out)
    values = {(row["policy"], row["estimator"]): row["value"] for row in content["estimates"]}
    assert values["one", "c-pdis"] == values["one", "pdis"] == values["two", "pdis"]
    assert values["two", "c-pdis"] != values["two", "pdis"]
    shared = json.loads(desk.run(*base, "--annotations", "annotations.parquet").out)
    assert any("used for several policies" in note for note in shared["diagnostics"]["notes"])


def test_annotations_of_the_action_taken_are_noted(desk: Desk) -> None:
    desk.change("annotations", action=["a", "a", "b"])
    found = desk.evaluate()
    assert found.status == 0
    assert "note: 1 annotation of the action that was taken: kept apart" in found.err


def test_files_and_seeds(desk: Desk) -> None:
    desk.put("behavior", {"state": ["s", "s", "t", "t"], "action": ["a", "b", "a", "b"], "prob": [0.5] * 4}, ".csv")
    desk.put("weights", {"state": ["s", "s"], "taken": ["a", "a"], "action": ["a", "b"], "weight": [0.6, 0.4]}, ".csv")
    options = ["--behavior", "behavior.csv", "--weights", "weights.csv", "--ci", "bootstrap", "--json", "-"]
    one, other = (desk.evaluate(*options, "--seed", "3").out for _ in range(2))
    assert one == other
    settings = json.loads(one)["diagnostics"]["settings"]
    assert (settings["behavior"], settings["weights"], settings["seed"]) == ("given", "weights.csv", 3)
