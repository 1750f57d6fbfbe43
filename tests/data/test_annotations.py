from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import semiope as so
from semiope.data.asked import given_twice
from semiope.data.logbook import AlignedAnnotations, Logbook


def episodes() -> so.Episodes:
    return so.Episodes.from_arrays(
        episode=[0, 0, 1], step=[0, 1, 0], state=[0, 1, 0], action=[0, 1, 1], reward=[0.0, 1.0, 2.0]
    )


def aligned(**columns: Any) -> AlignedAnnotations:
    return Logbook.of(episodes(), so.Annotations.from_arrays(**columns), {}).annotations


def test_rows_are_found_and_sorted() -> None:
    found = aligned(episode=[1, 0, 0], step=[0, 1, 0], action=[0, 0, 1], value=[3.0, 2.0, 1.0])
    assert found.row.tolist() == [0, 1, 2]
    assert found.action.tolist() == [1, 0, 0]
    assert found.value.tolist() == [1.0, 2.0, 3.0]


def test_several_answers_to_one_question_are_averaged() -> None:
    found = aligned(episode=[0, 0, 0], step=[0, 0, 1], action=[1, 1, 0], value=[1.0, 4.0, 7.0], weight=[0.1, 0.2, 0.3])
    assert found.value.tolist() == [2.5, 7.0]
    assert found.weight is not None
    assert found.weight == pytest.approx([0.3, 0.3])
    assert found.n_pooled == 1


def test_stated_precision_weighs_the_answers() -> None:
    found = aligned(episode=[0, 0], step=[0, 0], action=[1, 1], value=[1.0, 4.0], std=[1.0, 2.0])
    assert found.value == pytest.approx([(1.0 + 4.0 / 4) / (1 + 1 / 4)])


def test_precision_goes_with_its_own_answer_whatever_the_order() -> None:
    """Among them, answers about actions taken, which are not pooled."""
    found = aligned(
        episode=[1, 0, 0, 0, 0], step=[0, 0, 1, 0, 0], action=[1, 1, 0, 0, 1], value=[9.0, 1.0, 7.0, 9.0, 4.0],
        std=[5.0, 1.0, 3.0, 0.1, 2.0],
    )  # fmt: skip
    assert found.value == pytest.approx([(1.0 + 4.0 / 4) / (1 + 1 / 4), 7.0])


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_extreme_precision_stays_in_range(scale: float) -> None:
    found = aligned(episode=[0, 0], step=[0, 0], action=[1, 1], value=[1.0, 4.0], std=[scale, 2 * scale])
    assert found.value == pytest.approx([(1.0 + 4.0 / 4) / (1 + 1 / 4)])


@pytest.mark.parametrize("step", [2, 2**31 - 1, 2**31, 2**63 - 1])
def test_steps_beyond_the_episode_are_refused(step: int) -> None:
    with pytest.raises(so.SchemaError, match=r"that were not logged|too large"):
        aligned(episode=[0], step=[step], action=[1], value=[1.0])


def test_answers_about_the_action_taken_are_kept_apart() -> None:
    found = aligned(episode=[0, 0, 1], step=[0, 0, 0], action=[0, 1, 1], value=[9.0, 1.0, 9.0])
    assert found.value.tolist() == [1.0]
    assert found.of_action_taken.tolist() == [0, 2]


@pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")
def test_they_never_enter_an_estimator() -> None:
    policy = so.Policy.from_table(np.full((2, 2), 0.5))
    plain = {"episode": [0], "step": [0], "action": [1], "value": [1.0]}
    more = {"episode": [0, 0], "step": [0, 0], "action": [1, 0], "value": [1.0, 1e9]}
    one, other = (so.evaluate(episodes(), policy, annotations=columns) for columns in (plain, more))
    for name in one:
        assert one[name].value == other[name].value
    assert other.diagnostics["annotations_of_action_taken"] == 1
    assert "1 annotation of the action that was taken" in other.diagnostics["notes"][0]


def test_the_table_comes_back_out() -> None:
    columns = {"episode": [0, 1], "step": [0, 0], "action": [1, 0], "value": [1.0, 2.0], "std": [0.1, 0.2]}
    annotations = so.Annotations.from_arrow({**columns, "annotator": ["ann", None], "remark": ["x", "y"]})
    out = annotations.to_arrow().to_pydict()
    assert out == {**columns, "annotator": ["ann", None], "remark": ["x", "y"]}


@pytest.mark.parametrize("word", ["", "don't know", "Don\u2019t know", "cannot say", " ? ", "n/a"])
def test_rows_without_an_answer_are_counted_and_left_out(word: str, tmp_path: Path) -> None:
    path = tmp_path / "annotations.csv"
    path.write_text(f'episode;step;action;value\n1;0;a;0,5\n1;1;a;"{word}"\n2;0;a;1\n')
    found = so.read_annotations(path)
    assert found.value.tolist() == [0.5, 1.0]
    assert found.unanswered == 1


def test_words_that_are_no_answer_and_no_number_are_refused() -> None:
    given = {"episode": [1, 1], "step": [0, 1], "action": ["a", "a"], "value": ["0.5", "high"]}
    with pytest.raises(so.SchemaError, match=r"column 'value' is string, not numbers \(for example 'high'\)"):
        so.read_annotations(given)


def test_a_table_without_any_answer_is_refused() -> None:
    given = {"episode": [1, 1], "step": [0, 1], "action": ["a", "a"], "value": [None, float("nan")]}
    with pytest.raises(so.SchemaError, match="'value' is missing"):
        so.read_annotations(given)


def test_a_file_that_is_given_twice_is_noticed() -> None:
    given = {
        "episode": [1, 1, 1, 2], "step": [0, 0, 0, 0], "action": ["a"] * 4, "value": [0.5, 0.5, 0.5, 1.0],
        "annotator": ["ann", "ben", None, "ann"],
    }  # fmt: skip
    table = pa.table(given)
    assert given_twice(so.read_annotations(table)) == 0
    assert given_twice(so.read_annotations(pa.concat_tables([table, table]))) == 3
    other = table.set_column(3, "value", pa.array([0.4, 0.5, 0.5, 1.0]))
    assert given_twice(so.read_annotations(pa.concat_tables([table, other]))) == 0
