"""`semiope plan`: batches in a folder, and one clear message where something is wrong."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import semiope as so
from semiope.data.tables import write_table
from semiope.domains import tree
from tests.cli.desk import Desk, Outcome, assert_refused

WORLD = tree.tree(depth=3, reward_std=0.3)


class Study:
    """Logs of a tree and policies in a folder, and the command beside them."""

    def __init__(self, desk: Desk) -> None:
        self.desk, self.episodes = desk, WORLD.sample(60, seed=1)
        table = self.episodes.to_arrow()
        hours = pa.array(1.0 + step for step in table.column("step").to_pylist())
        write_table(table.append_column("hours", hours), desk.folder / "logs.parquet")
        for name in ("always-y", "mostly-y"):
            write_table(WORLD.policies[name].to_arrow(), desk.folder / f"{name}.parquet")

    def plan(self, *options: str, out: str | None = "study", policies: tuple[str, ...] = ("always-y",)) -> Outcome:
        given = [word for name in policies for word in ("--policy", f"{name}.parquet")]
        where = [] if out is None else ["--out", out]
        return self.desk.run("plan", "logs.parquet", *given, *where, *options)

    def answer(self) -> None:
        """Let the expert answer everything that was asked so far."""
        everything = WORLD.annotate(self.episodes, "always-y", of_action_taken=True).to_arrow().to_pylist()
        asked = set()
        for path in sorted((self.desk.folder / "study").glob("batch-*/questions-*.csv")):
            table = pyarrow.csv.read_csv(path)
            assert table.column_names == ["episode", "step", "action"]
            asked |= {tuple(row.values()) for row in table.to_pylist()}
        kept = [row for row in everything if (row["episode"], row["step"], row["action"]) in asked]
        assert kept
        columns = {name: [row[name] for row in kept] for name in ("episode", "step", "action", "value")}
        write_table(pa.table(columns), self.desk.folder / "answers.csv")

    @property
    def written(self) -> list[str]:
        folder = self.desk.folder
        return sorted(str(path.relative_to(folder)) for path in (folder / "study").rglob("*") if path.is_file())


@pytest.fixture
def study(desk: Desk) -> Study:
    return Study(desk)


def test_batch_after_batch(study: Study) -> None:
    options = ("--budget", "20", "--batch", "10", "--json", "-", "--goal", "value", "--least-gain", "0")
    first = study.plan(*options)
    assert first.status == 0
    summary = json.loads(first.out)
    assert (summary["needed"], summary["used"], summary["budget"]) == (10, 0, 20)
    assert "batch-001 (give experts questions-*.csv only" in first.err
    assert study.written == [
        f"study/batch-001/{name}" for name in ("plan.json", "questions-expert.csv", "sealed.parquet")
    ]
    sealed = pyarrow.parquet.read_table(study.desk.folder / "study/batch-001/sealed.parquet")
    expected = so.plan(study.episodes, WORLD.policies["always-y"], 20, batch=10, goal="value", least_gain=0)
    assert sealed.to_pylist() == expected.sealed.to_pylist()
    assert summary == {**expected.to_dict(), "policies": ["always-y"], **_named(summary)}
    study.answer()
    second = study.plan(*options, "--annotations", "answers.csv")
    assert second.status == 0
    assert json.loads(second.out)["used"] == 10
    assert "batch-002" in second.err
    assert any("all to questions of a plan" in note for note in json.loads(second.out)["notes"])
    study.answer()
    third = study.plan(*options, "--annotations", "answers.csv")
    assert third.status == 0
    assert json.loads(third.out)["stop"]["reason"] == "budget"
    assert "written" not in third.err
    assert {Path(name).parent.name for name in study.written} == {"batch-001", "batch-002"}


def _named(summary: dict[str, Any]) -> dict[str, Any]:
    """What names the policy, which is called by its file on the command line."""
    return {name: summary[name] for name in ("decisions", "notes", "guess")}


def test_a_plan_in_words(study: Study) -> None:
    found = study.plan("--budget", "5", "--experts", "ann,bo", "--decoys", "0", "--cost", "hours")
    assert found.status == 0
    assert "NOT blind" in found.out + found.err
    assert "study/batch-001/questions-ann.csv" in study.written


def test_answers_of_several_experts_lie_in_files_of_their_own(study: Study) -> None:
    options = ("--budget", "20", "--batch", "10", "--json", "-", "--least-gain", "0", "--goal", "value")
    study.plan(*options)
    study.answer()
    table = pyarrow.csv.read_csv(study.desk.folder / "answers.csv")
    for name, part in (("ann", table.slice(0, 5)), ("bo", table.slice(5))):
        write_table(part, study.desk.folder / f"{name}.csv")
    both = study.plan(*options, "--annotations", "ann.csv", "--annotations", "bo.csv")
    assert json.loads(both.out)["used"] == 10
    assert not any("without an answer" in note for note in json.loads(both.out)["notes"])
    one = study.plan(*options, "--annotations", "ann.csv")
    n_open = 2 * table.num_rows - 5  # nobody has answered the second batch
    assert any(
        f"{n_open} questions of earlier batches without an answer" in note for note in json.loads(one.out)["notes"]
    )


def test_a_folder_is_of_one_plan(study: Study) -> None:
    assert study.plan("--budget", "5").status == 0
    before = study.written
    assert_refused(
        study.plan("--budget", "5", policies=("mostly-y",)), "of another plan: policies always-y there, mostly-y here"
    )
    assert_refused(study.plan("--budget", "5", "--about", "behavior"), "of another plan: answers about policy there")
    assert_refused(study.plan("--budget", "5", "--gamma", "0.5"), "of another plan: gamma 1 there, 0.5 here")
    write_table(WORLD.policies["mostly-y"].to_arrow(), study.desk.folder / "always-y.parquet")
    other = study.plan("--budget", "5")
    assert_refused(other, "of another plan: logs and policies")
    for rubbish in ('{"policies": null, "settings": {"about": "policy"}}', "[" * 100_000):
        (study.desk.folder / "study/batch-001/plan.json").write_text(rubbish)
        assert_refused(study.plan("--budget", "5"), "is not the summary of a plan")
    write_table(WORLD.policies["always-y"].to_arrow(), study.desk.folder / "always-y.parquet")
    (study.desk.folder / "study/batch-001/plan.json").write_text("{")
    assert_refused(study.plan("--budget", "5"), "is not the summary of a plan")
    assert study.written == before


def test_several_policies(study: Study) -> None:
    found = study.plan("--budget", "5", "--goal", "ranking", "--json", "-", policies=("always-y", "mostly-y"))
    assert found.status == 0
    assert json.loads(found.out)["policies"] == ["always-y", "mostly-y"]
    assert json.loads(found.out)["settings"]["about"] == "behavior"


def test_a_target_width_needs_no_folder(study: Study) -> None:
    found = study.plan("--target-width", "0.4", "--json", "-", out=None)
    assert found.status == 0
    assert json.loads(found.out)["budget"] == json.loads(found.out)["needed"] > 1
    assert "written" not in found.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--budget", "0"), "budget: 0.0 is not a number of at least 1"),
        ((), "budget: how many questions may be asked"),
        (("--budget", "5", "--goal", "rank"), "goal: 'rank' is not known"),
        (("--budget", "5", "--about", "today"), "about: 'today' is not known"),
        (("--budget", "5", "--seed", "-1"), "seed: -1 is not one of 0, 1, 2"),
        (("--budget", "5", "--experts", "0"), "experts: 0 is not a whole number of at least 1"),
        (("--budget", "5", "--experts", ""), "experts: nobody"),
        (("--budget", "5", "--experts", "ann,ann"), "experts: ann, ann: give each a name of its own"),
        (("--budget", "5", "--experts", "a/b"), "experts: a/b: give each a name of its own that a file can have"),
        (("--budget", "5", "--cost", "hour"), "no column 'hour'. Did you mean 'hours'?"),
        (("--budget", "5", "--cost", "reward"), "no column 'reward'"),
        (("--budget", "5", "--annotations", "nowhere.csv"), "nowhere.csv"),
        (("--target-width", "0.0001"), "target_width: with all"),
        (("--budget", "5", "--json", "study/plan.json"), "--json"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(study: Study, options: tuple[str, ...], message: str) -> None:
    assert_refused(study.plan(*options), message)
    assert not (study.desk.folder / "study").exists()


def test_nothing_to_ask(study: Study) -> None:
    table = study.episodes.to_arrow().to_pylist()
    kept = [row for row in table if row["step"] == 0 and row["action"] == "x"]
    write_table(pa.table({name: [row[name] for row in kept] for name in kept[0]}), study.desk.folder / "logs.parquet")
    write_table(WORLD.policies["always-x"].to_arrow(), study.desk.folder / "always-x.parquet")
    assert_refused(study.plan("--budget", "5", policies=("always-x",)), "there is nothing to ask")


def test_a_folder_is_needed(study: Study) -> None:
    assert_refused(study.plan("--budget", "5", out=None), "--out: name a folder for the questions")
    assert_refused(study.plan("--budget", "5", out=""), "--out: name a folder")


def test_out_must_be_a_folder_of_plans(study: Study) -> None:
    assert_refused(study.plan("--budget", "5", out="logs.parquet"), "logs.parquet is a file")
    other = study.desk.folder / "study"
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    assert_refused(study.plan("--budget", "5"), "holds files that are no batches of a plan")
    assert study.written == ["study/notes.txt"]


def test_a_folder_that_cannot_be_written_to(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    assert_refused(study.plan("--budget", "5"), "cannot write study/batch-001: Permission denied")
    assert not (study.desk.folder / "study").exists()


@pytest.mark.parametrize("is_new", [True, False])
def test_a_summary_that_cannot_be_written_leaves_no_batch(
    study: Study, monkeypatch: pytest.MonkeyPatch, is_new: bool
) -> None:
    make, folder = tempfile.mkstemp, study.desk.folder / "study"
    if not is_new:
        folder.mkdir()

    def refuse(**options: Any) -> tuple[int, str]:
        if "summary" in options["prefix"]:
            raise PermissionError(13, "Permission denied")
        return make(**options)

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    assert_refused(
        study.plan("--budget", "5", "--json", "summary.json"), "cannot write summary.json: Permission denied"
    )
    assert folder.exists() != is_new
    assert study.written == []


def test_a_summary_does_not_lie_among_the_batches(study: Study) -> None:
    assert study.plan("--budget", "5", "--batch", "2").status == 0
    assert_refused(study.plan("--budget", "5", "--json", "study/plan.json"), "would lie among the batches")
    assert len(study.written) == 3


def test_answers_in_several_files_are_evaluated(study: Study) -> None:
    study.plan("--budget", "20", "--least-gain", "0")
    study.answer()
    table = pyarrow.csv.read_csv(study.desk.folder / "answers.csv")
    for name, part in (("ann", table.slice(0, 5)), ("bo", table.slice(5))):
        write_table(part, study.desk.folder / f"{name}.csv")
    command = ("evaluate", "logs.parquet", "--policy", "always-y.parquet", "--plan", "study", "--json", "-")
    apart = study.desk.run(*command, "--annotations", "ann.csv", "--annotations", "bo.csv")
    together = study.desk.run(*command, "--annotations", "answers.csv")
    assert apart.status == together.status == 0
    assert json.loads(apart.out)["estimates"] == json.loads(together.out)["estimates"]
    mixed = study.desk.run(*command, "--annotations", "ann.csv", "--annotations", "always-y=bo.csv")
    assert_refused(mixed, "give FILEs for all policies, or NAME=FILE once for each policy")
