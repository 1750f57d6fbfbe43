"""What the command line says when the input is wrong: one message, exit status 2, nothing written."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import semiope as so
from semiope.data.tables import write_table
from tests.cli.desk import ANNOTATIONS, EPISODES, Desk, assert_refused

Break = Callable[[Desk], Any]

BAD_INPUT: dict[str, tuple[Break, str]] = {
    "a missing column": (lambda d: d.change("episodes", reward=None), "column 'reward' is missing"),
    "a misnamed column": (
        lambda d: d.change("episodes", reward=None, rewards=EPISODES["reward"]),
        "column 'reward' is missing. Is it 'rewards'?",
    ),
    "a misspelt optional column": (
        lambda d: d.change("episodes", behaviour_prob=[0.5] * 5),
        "column 'behaviour_prob' looks like 'behavior_prob'",
    ),
    "NaN rewards": (
        lambda d: d.change("episodes", reward=[0.0, np.nan, 0.0, np.nan, 0.0]),
        "column 'reward' is missing, NaN or infinite in 2 rows. First: row 1 (episode 1, step 1",
    ),
    "infinite rewards": (lambda d: d.change("episodes", reward=[0.0, np.inf, 0, 0, 0]), "column 'reward' is infinite"),
    "opposite infinities": (
        lambda d: d.change("episodes", reward=[-np.inf, np.inf, 0, 0, 0]),
        "'reward' is infinite in 2 rows",
    ),
    "empty rewards": (lambda d: d.change("episodes", reward=[None, 1.0, 0, 0, 0]), "column 'reward' is missing, NaN"),
    "rewards in words": (lambda d: d.change("episodes", reward=["1", "2", "good", "0", "0"]), "for example 'good'"),
    "a gap in step": (
        lambda d: d.change("episodes", step=[0, 2, 0, 1, 0]),
        "'step' skips a number in 1 row. First: row 1",
    ),
    "steps from one": (lambda d: d.change("episodes", step=[1, 2, 1, 2, 1]), "'step' does not start at 0 in 3 rows"),
    "a repeated step": (lambda d: d.change("episodes", step=[0, 0, 0, 1, 0]), "'step' repeats an episode's step"),
    "negative steps": (lambda d: d.change("episodes", step=[-1, 0, 0, 1, 0]), "'step' is negative"),
    "fractional steps": (lambda d: d.change("episodes", step=[0.5, 1, 0, 1, 0]), "'step' is not a whole number"),
    "steps in words": (
        lambda d: d.change("episodes", step=["x", "y", "x", "y", "x"]),
        "column 'step' is string; steps are the whole numbers",
    ),
    "duplicate rows": (
        lambda d: d.put("episodes", {name: [*values, values[0]] for name, values in EPISODES.items()}),
        "'step' repeats an episode's step in 1 row. First: row 5",
    ),
    "an empty state": (lambda d: d.change("episodes", state=["s", None, "s", "t", "t"]), "column 'state' is empty"),
    "dates as states": (
        lambda d: d.change("episodes", state=pa.array([1] * 5, pa.timestamp("s"))),
        "labels are integers or strings",
    ),
    "an annotation of an unknown episode": (
        lambda d: d.change("annotations", episode=[1, 2, 9]),
        "1 episode not in the logs. First: 9",
    ),
    "an annotation of an unknown step": (
        lambda d: d.change("annotations", step=[0, 7, 0]),
        "episode 2 step 7, but that episode has the steps 0 to 1",
    ),
    "an annotation of an unknown action": (
        lambda d: d.change("annotations", action=["b", "a", "bb"]),
        "the action 'bb' occurs neither in the logs nor in a policy",
    ),
    "an annotation where nothing was decided": (
        lambda d: d.change("annotations", step=[0, 1, 0]),
        "steps without a decision cannot be annotated (1 row). First: episode 2 step 1",
    ),
    "annotations without a value": (lambda d: d.change("annotations", value=[None, None, None]), "'value' is missing"),
    "an annotation with a negative std": (
        lambda d: d.change("annotations", std=[1.0, -1.0, 0.0]),
        "'std' is not positive",
    ),
    "an annotation with a wrong weight": (
        lambda d: d.change("annotations", weight=[0.1, 2.0, 0.0]),
        "'weight' is not in",
    ),
    "probabilities that do not sum to one": (
        lambda d: d.change("policy", prob=[0.3, 0.6, 1.0]),
        "the probabilities sum to 0.9, not 1 in 1 state. First: state 's'",
    ),
    "negative probabilities": (lambda d: d.change("policy", prob=[-0.3, 1.3, 1.0]), "column 'prob' is negative"),
    "a probability given twice": (lambda d: d.change("policy", action=["a", "a", "b"]), "repeats an earlier row"),
    "a policy that misses a state": (
        lambda d: d.put("policy", {"state": ["s"], "action": ["a"], "prob": [1.0]}),
        "the policy says nothing about 1 state in which decisions were logged. First: state 't'",
    ),
    "a policy with other labels": (
        lambda d: d.change("policy", state=[1, 1, 2]),
        "column 'state' holds integers, that of the episodes strings",
    ),
    "a policy with other action labels": (
        lambda d: d.change("policy", action=[0, 1, 1]),
        "column 'action' holds integers, that of the episodes strings",
    ),
    "annotations with other episode labels": (
        lambda d: d.change("annotations", episode=["1", "2", "3"]),
        "column 'episode' holds strings, that of the episodes integers",
    ),
    "a propensity of zero": (
        lambda d: d.change("episodes", behavior_prob=[0.5, 0.0, 0.5, None, 1.0]),
        "'behavior_prob' is not a probability of an action taken in 1 row. First: row 1",
    ),
    "a propensity above one": (
        lambda d: d.change("episodes", behavior_prob=[0.5, 1.5, 0.5, None, 1.0]),
        "'behavior_prob' is not a probability of an action taken",
    ),
    "a policy whose actions are misspelt": (
        lambda d: d.change("policy", action=["A", "B", "B"]),
        "policy 'policy': no action of it occurs in logs or annotations. First: 'A'. Did you mean 'a'?",
    ),
    "a propensity too small to divide by": (
        lambda d: d.change("episodes", behavior_prob=[0.5, 5e-324, 0.5, None, 1.0]),
        "'behavior_prob' is so small that one over it is no number in 1 row. First: row 1",
    ),
    "rewards too large to add up": (
        lambda d: d.change("episodes", reward=[1e308, 0.0, 1e308, 2.0, -1.0]),
        "'reward' is so large that sums leave the range of numbers in 2 rows. First: row 0",
    ),
    "a label of a hundred thousand characters": (
        lambda d: d.change("annotations", action=["b", "a", "b" * 100_000]),
        "... (100,00",
    ),
    "a propensity that is missing": (
        lambda d: d.change("episodes", behavior_prob=[0.5, None, 0.5, None, 1.0]),
        "'behavior_prob' is missing, NaN or infinite in 1 row",
    ),
    "an empty table": (lambda d: d.put("episodes", pa.table(EPISODES).slice(0, 0)), "the table has no rows"),
    "one episode only": (
        lambda d: (
            d.put("episodes", {name: values[:1] for name, values in EPISODES.items()}),
            d.put("annotations", {name: values[:1] for name, values in ANNOTATIONS.items()}),
        ),
        "there is only one episode",
    ),
    "a file that is missing": (lambda d: (d.folder / "policy.parquet").unlink(), "policy.parquet does not exist"),
    "a file that is not Parquet": (
        lambda d: (d.folder / "policy.parquet").write_text("state,action,prob"),
        "cannot read policy.parquet",
    ),
    "a file cut in half": (
        lambda d: (d.folder / "episodes.parquet").write_bytes((d.folder / "episodes.parquet").read_bytes()[:900]),
        "cannot read episodes.parquet",
    ),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_ends_in_one_message(case: str, desk: Desk) -> None:
    spoil, message = BAD_INPUT[case]
    spoil(desk)
    found = desk.evaluate("--json", "out.json", "--report", "out.html")
    assert_refused(found, message)
    assert not (desk.folder / "out.json").exists()
    assert not (desk.folder / "out.html").exists()


def test_mixed_label_types(desk: Desk) -> None:
    desk.put("p", {"state": [1, 2], "action": ["a", "b"], "prob": [1.0, 1.0]})
    found = desk.run("evaluate", "episodes.parquet", "--policy", "p.parquet")
    assert_refused(found, "policy 'p': column 'state' holds integers, that of the episodes strings")


def test_csv_does_not_tell_a_number_from_its_text(desk: Desk) -> None:
    (desk.folder / "e.csv").write_text(
        "episode,step,state,action,reward\n1,0,7,0,1\n1,1,end,,0\n2,0,7,1,0\n2,1,end,,1\n"
    )
    (desk.folder / "p.csv").write_text("state,action,prob\n7,0,0.5\n7,1,0.5\n")
    rows = json.loads(desk.run("evaluate", "e.csv", "--policy", "p.csv", "--json", "-").out)["estimates"]
    assert rows[0]["value"] == 1.0


def test_mixed_label_types_in_python() -> None:
    with pytest.raises(so.SchemaError, match="column 'state' mixes types"):
        so.Episodes.from_arrow(EPISODES | {"state": ["s", 1, "s", "t", "t"]})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reward": [1, 2]}, "column 'reward' is int64 in 1.parquet but double in 0.parquet"),
        ({"ward": ["x", "y"]}, "1.parquet and 0.parquet differ in the columns ward"),
        ({"action": None}, "differ in the columns action"),
    ],
)
def test_parts_of_different_schemas(change: dict[str, Any], message: str, desk: Desk) -> None:
    folder = desk.folder / "parts"
    folder.mkdir()
    write_table(pa.table(EPISODES), folder / "0.parquet")
    columns = {name: values[:2] for name, values in EPISODES.items()} | {"episode": [8, 8]} | change
    write_table(
        pa.table({name: values for name, values in columns.items() if values is not None}), folder / "1.parquet"
    )
    assert_refused(desk.run("evaluate", "parts", "--policy", "policy.parquet"), message)


@pytest.mark.parametrize("stranger", ["b.csv", "b.parquet.gz", "sub"])
def test_a_folder_with_more_than_parts(stranger: str, desk: Desk) -> None:
    folder = desk.folder / "parts"
    folder.mkdir()
    write_table(pa.table(EPISODES), folder / "a.parquet")
    (folder / "_SUCCESS").touch()
    assert desk.run("evaluate", "parts", "--policy", "policy.parquet").status == 0
    (folder / stranger).mkdir() if stranger == "sub" else (folder / stranger).touch()
    assert_refused(
        desk.run("evaluate", "parts", "--policy", "policy.parquet"), f"holds {stranger} beside Parquet parts"
    )


def test_parts_by_any_suffix_of_parquet(desk: Desk) -> None:
    folder = desk.folder / "parts"
    folder.mkdir()
    for number, name in enumerate(["a.parquet", "b.pq", "c.PARQUET"]):
        write_table(pa.table(EPISODES).slice(2 * number, 2), folder / name)
    rows = json.loads(desk.run("evaluate", "parts", "--policy", "policy.parquet", "--json", "-").out)
    assert rows["episodes"] == 3


def test_a_folder_without_parts(desk: Desk) -> None:
    (desk.folder / "parts").mkdir()
    assert_refused(desk.run("evaluate", "parts", "--policy", "policy.parquet"), "holds no .parquet files")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--estimators", "pdsi"], "estimators: 'pdsi' is not known. Did you mean 'pdis'?"),
        (["--estimators", "c*-pdis"], "at 1 step of 5 one is neither. First: episode 1 step 1"),
        (["--weights", "magic"], "weights: 'magic' is not known"),
        (["--weights", "column"], "needs a column 'weight'"),
        (["--cell", "sate"], "cell: 'sate' is not known. Did you mean 'state'?"),
        (["--means", "prefixed"], "means: 'prefixed' is not known. Did you mean 'prefix'?"),
        (["--gamma", "1.5"], "gamma: 1.5 is not a number between 0 and 1"),
        (["--gamma", "nan"], "gamma: nan is not a number between 0 and 1"),
        (["--alpha", "0"], "alpha: 0.0 is not between 0 and 1"),
        (["--ci", "exact"], "ci: 'exact' is not known"),
        (["--seed", "-1"], "seed: -1 is not one of 0, 1, 2"),
        (["--json", "."], "--json: . is no file to write to"),
        (["--report", "out.pdf"], "--report: out.pdf must end in .html"),
        (["--json", "episodes.parquet"], "--json: episodes.parquet is one of the tables that are read"),
        (["--json", "/proc/nowhere.json"], "cannot write /proc/nowhere.json"),
        (["--json", "x" * 300], "File name too long"),
        (["--policy", "x" * 300], "does not exist"),
        (["--json", "out.html", "--report", "out.html"], "--json and --report name the same file"),
        (["--annotations", "nobody=annotations.parquet"], "there is no policy called 'nobody'"),
        (["--report", "nowhere/out.html"], "--report: the folder nowhere does not exist"),
        (["--behavior", "nowhere.csv"], "behavior: nowhere.csv does not exist"),
        (["--policy", "policy.parquet"], "two policies are called 'policy'"),
        (["--policy", "=policy.parquet"], "is not [NAME=]FILE"),
        (["--policy", "table.xlsx"], "does not exist"),
    ],
)
def test_bad_options_end_in_one_message(options: list[str], message: str, desk: Desk) -> None:
    desk.change("policy", state=["s", "s", "t", "t"], action=["a", "b", "a", "b"], prob=[0.3, 0.7, 0.5, 0.5])
    assert_refused(desk.evaluate(*options), message)


def test_a_behaviour_policy_that_cannot_have_made_the_logs(desk: Desk) -> None:
    desk.put("behavior", {"state": ["s", "t"], "action": ["a", "b"], "prob": [1.0, 1.0]})
    found = desk.evaluate("--behavior", "behavior.parquet")
    assert_refused(
        found, "gives probability 0 to the action taken at 2 steps. First: episode 2 step 0 (state 's') action 'b'"
    )


def test_weights_that_exceed_one(desk: Desk) -> None:
    desk.put(
        "annotations",
        {"episode": [1, 1], "step": [0, 0], "action": ["b", "c"], "value": [0.0, 0.0], "weight": [0.6, 0.6]},
    )
    desk.change("policy", state=["s", "s", "t"], action=["b", "c", "b"], prob=[0.5, 0.5, 1.0])
    assert_refused(
        desk.evaluate("--weights", "column"), "the annotations' weights exceed 1 at 1 step. First: episode 1 step 0"
    )
