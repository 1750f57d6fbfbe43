"""Plans as folders, read again, and what `so.evaluate` makes of answers to them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import semiope as so
from semiope.data.asked import read_asked, strangers
from semiope.domains import sepsis
from semiope.pipeline.evaluate import again
from semiope.planning.files import batches
from tests.planning.cases import GAMMA, NAME, both, patients, told

pytestmark = pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")


def plan(**options: Any) -> so.Plan:
    return so.plan(patients(), sepsis.world().policies[NAME], 60, batch=30, gamma=GAMMA, least_gain=0, **options)


def test_a_batch_is_a_folder_with_questions_by_expert_and_what_stays_sealed(tmp_path: Path) -> None:
    found = plan(experts="ann,bo")
    folder = found.save(tmp_path / "study")
    assert folder == tmp_path / "study" / "batch-001"
    assert sorted(path.name for path in folder.iterdir()) == [
        "plan.json", "questions-ann.csv", "questions-bo.csv", "sealed.parquet",
    ]  # fmt: skip
    for name, table in found.questions.items():
        assert pyarrow.csv.read_csv(folder / f"questions-{name}.csv").to_pylist() == table.to_pylist()
    assert pyarrow.parquet.read_table(folder / "sealed.parquet").equals(found.sealed)
    assert json.loads((folder / "plan.json").read_text()) == found.to_dict()


def test_numbers_of_any_type_are_written(tmp_path: Path) -> None:
    folder = plan(seed=np.int64(3), alpha=np.float32(0.1), decoys=np.int16(1)).save(tmp_path)
    settings = json.loads((folder / "plan.json").read_text())["settings"]
    assert (settings["seed"], settings["decoys"]) == (3, 1)


def test_batches_are_numbered_and_read_together(tmp_path: Path) -> None:
    first = plan()
    first.save(tmp_path)
    second = first.next(first.answers(told(NAME)))
    assert second.save(tmp_path).name == "batch-002"
    assert batches(tmp_path) == 2
    assert [one.num_rows for one in read_asked(tmp_path)] == [first.sealed.num_rows, second.sealed.num_rows]
    assert read_asked([first, second.sealed]) == [first.sealed, second.sealed]
    assert len(read_asked([tmp_path / "batch-001", str(tmp_path)])) == 3


def test_an_expert_without_questions_gets_no_file(tmp_path: Path) -> None:
    found = so.plan(patients(), sepsis.world().policies[NAME], 1, experts=3, decoys=0, gamma=GAMMA, least_gain=0)
    assert [table.num_rows for table in found.questions.values()] == [1, 0, 0]
    assert sorted(path.name for path in found.save(tmp_path).iterdir()) == [
        "plan.json", "questions-expert-1.csv", "sealed.parquet",
    ]  # fmt: skip


def test_folders_with_something_else_are_refused_and_left_as_they_are(tmp_path: Path) -> None:
    found = plan()
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(so.OutputError, match="holds files that are no batches of a plan"):
        found.save(tmp_path)
    with pytest.raises(so.OutputError, match=r"notes.txt is a file. Name a folder"):
        found.save(tmp_path / "notes.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_batch_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    found = plan()
    monkeypatch.setattr(Path, "write_text", fail)
    with pytest.raises(so.OutputError, match="No space left on device"):
        found.save(tmp_path / "study")
    assert not list(tmp_path.iterdir())


def test_what_is_no_plan_is_refused(tmp_path: Path) -> None:
    with pytest.raises(so.SchemaError, match="holds no plan"):
        read_asked(tmp_path)
    with pytest.raises(so.SchemaError, match="lacks the column 'step'"):
        read_asked(pa.table({"episode": [1], "action": [2]}))


def test_answers_to_questions_that_no_plan_asked_are_used_and_noted() -> None:
    first, everything = plan(), told(NAME)
    own = first.answers(everything)
    assert strangers(own, [first.sealed]) == 0
    assert strangers(own, []) == len(own)
    assert any("all to questions of a plan" in note for note in first.next(own).notes)
    others = both(own, everything.some(np.arange(7)))
    found = first.next(others)
    n = strangers(others, [first.sealed])
    assert 0 < n <= 7
    assert any(f"{n} of them to questions that no plan given here asked: they are used" in note for note in found.notes)
    assert found.planner.knowledge.times.sum() > first.next(own).planner.knowledge.times.sum()
    later = plan(annotations=own, earlier=first)
    assert later.notes == first.next(own).notes


def test_labels_read_from_text_are_the_same_questions() -> None:
    told_ = so.Annotations.from_arrays(episode=["1"], step=[0], action=["2"], value=[0.5])
    assert strangers(told_, [pa.table({"episode": [1], "step": [0], "action": [2]})]) == 0


def test_evaluate_averages_by_prefix_where_a_plan_chose(tmp_path: Path) -> None:
    first, policy = plan(), sepsis.world().policies[NAME]
    given = first.answers(told(NAME))
    first.save(tmp_path)
    options: dict[str, Any] = {"annotations": given, "estimators": ["c-pdis"], "gamma": GAMMA}
    expected = so.evaluate(patients(), policy, means="prefix", **options)["c-pdis"].value
    for source in (first, first.sealed, tmp_path, [first]):
        found = so.evaluate(patients(), policy, plan=source, **options)
        assert found["c-pdis"].value == expected
        assert found.settings["means"] == "prefix"
        assert any("a plan chose what to ask: split weights are averaged by prefix" in note for note in notes(found))
    assert so.evaluate(patients(), policy, **options)["c-pdis"].value != expected


def test_evaluate_knows_all_batches_of_a_plan_that_went_on() -> None:
    first, policy = plan(), sepsis.world().policies[NAME]
    given = first.answers(told(NAME))
    then = first.next(given)
    assert [one.num_rows for one in then.asked] == [60, 60]
    given = then.answers(told(NAME))
    options: dict[str, Any] = {"annotations": given, "estimators": ["c-pdis"], "gamma": GAMMA}
    found = so.evaluate(patients(), policy, plan=then, **options)
    assert not any("chosen by others" in note for note in notes(found))
    # What goes again, as for a report, has the same means.
    assert again(found)["c-pdis"].value == found["c-pdis"].value
    by_cell = so.evaluate(patients(), policy, plan=then, means="cell", **options)
    assert any("split weights are averaged by cell" in note for note in notes(by_cell))
    assert again(by_cell)["c-pdis"].value == by_cell["c-pdis"].value != found["c-pdis"].value


def test_evaluate_doubts_answers_about_usual_care_that_nobody_turned() -> None:
    policy = sepsis.world().policies[NAME]
    first = plan(about="behavior")
    options: dict[str, Any] = {
        "annotations": first.answers(told("behavior")),
        "estimators": ["c-pdis"],
        "gamma": GAMMA,
    }
    for repair, doubted in ((None, True), ("impute", True), ("convert,impute", False), ("convert", False)):
        found = so.evaluate(patients(), policy, plan=first, repair=repair, **options)
        assert any("nothing converts the annotations" in one for one in found.warnings) == doubted
    # What the plan asked about need not be found out.
    auto, told_so = (
        so.evaluate(patients(), policy, plan=first, repair=repair, **options) for repair in ("auto", "convert")
    )
    assert auto.settings["repair"] == ["convert"]
    assert auto["c-pdis"].value == told_so["c-pdis"].value
    assert again(auto)["c-pdis"].value == auto["c-pdis"].value
    by_two = options["annotations"].to_arrow().select(["episode", "step", "action", "value"])
    by_two = by_two.append_column("annotator", pa.array(["ann", "bob"] * (len(by_two) // 2 + 1))[: len(by_two)])
    pooled = so.evaluate(patients(), policy, plan=first, repair="auto", **{**options, "annotations": by_two})
    assert pooled.settings["repair"] == ["pool", "convert"]


def test_answers_about_usual_care_are_for_all_policies() -> None:
    policies = {name: sepsis.world().policies[name] for name in (NAME, "optimal")}
    first = so.plan(patients(), policies, 20, gamma=GAMMA)
    options: dict[str, Any] = {"annotations": first.answers(told("behavior")), "estimators": ["c-pdis"], "gamma": GAMMA}
    for repair, noted in (("convert", False), ("impute", True)):
        found = so.evaluate(patients(), policies, plan=first, repair=repair, **options)[NAME]
        assert any("same annotations were used for several policies" in note for note in notes(found)) == noted


def test_a_batch_that_lost_its_sealed_table_is_missed(tmp_path: Path) -> None:
    first = plan()
    first.save(tmp_path / "study")
    first.save(tmp_path / "study")
    (tmp_path / "study/batch-001/sealed.parquet").unlink()
    with pytest.raises(so.SchemaError, match=r"batch-001 has lost its sealed.parquet"):
        read_asked(tmp_path / "study")


def test_evaluate_notes_answers_that_others_chose() -> None:
    first = plan()
    given = both(first.answers(told(NAME)), told(NAME).some(np.arange(7)))
    n = strangers(given, [first.sealed])
    found = so.evaluate(
        patients(), sepsis.world().policies[NAME], plan=first, annotations=given, estimators=["c-pdis"], gamma=GAMMA
    )
    assert any(f"{n} are to questions that it did not ask, chosen by others" in note for note in notes(found))


def notes(results: so.Results) -> list[str]:
    found: list[str] = results.diagnostics["notes"]
    return found
