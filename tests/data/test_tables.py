"""Every way in gives the same episodes, and what is written can be read again."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import semiope as so
from semiope._files import write_whole
from semiope.data.tables import read_table, write_table

COLUMNS: dict[str, list[Any]] = {
    "episode": ["b", "b", "a", "a", "a"],
    "step": [1, 0, 2, 0, 1],
    "state": ["x", "y", "end", "y", "x"],
    "action": ["go", "stay", None, "none", "go"],
    "reward": [1.0, 0.5, -1.0, 0.0, 0.25],
    "ward": ["east", "east", "west", "west", "west"],
}


def assert_expected(episodes: so.Episodes) -> None:
    assert episodes.labels.words.to_pylist() == ["a", "b"]
    assert episodes.states.words.to_pylist() == ["end", "x", "y"]
    assert episodes.actions.words.to_pylist() == ["go", "none", "stay"]
    assert episodes.offsets.tolist() == [0, 3, 5]
    assert episodes.state.tolist() == [2, 1, 0, 2, 1]
    assert episodes.action.tolist() == [1, 0, -1, 2, 0]
    assert episodes.reward.tolist() == [0.0, 0.25, -1.0, 0.5, 1.0]
    assert episodes.extra is not None
    assert episodes.extra.column("ward").to_pylist() == ["west", "west", "west", "east", "east"]


WAYS_IN: dict[str, Callable[[pa.Table], Any]] = {
    "pyarrow": lambda table: table,
    "record batches": lambda table: pa.RecordBatchReader.from_batches(table.schema, table.to_batches()),
    "pandas": lambda table: table.to_pandas(),
    "pandas categories": lambda table: table.to_pandas().astype({"state": "category", "action": "category"}),
    "polars": lambda table: pl.from_arrow(table),
    "duckdb": lambda table: duckdb.from_arrow(table),
    "mapping": lambda table: table.to_pydict(),
}


@pytest.mark.parametrize("way", WAYS_IN)
def test_objects_that_speak_arrow(way: str) -> None:
    assert_expected(so.read_episodes(WAYS_IN[way](pa.table(COLUMNS))))


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".feather", ".arrow"])
def test_files_by_suffix(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"episodes{suffix}"
    write_table(pa.table(COLUMNS), path)
    assert_expected(so.read_episodes(path))
    assert_expected(so.read_episodes(str(path)))
    so.read_episodes(path).write(path)
    assert_expected(so.read_episodes(path))
    assert [other.name for other in tmp_path.iterdir()] == [path.name]


def test_folder_of_parts_cut_anywhere(tmp_path: Path) -> None:
    table = pa.table(COLUMNS)
    for number, start in enumerate(range(0, 5, 2)):
        write_table(table.slice(start, 2), tmp_path / f"part-{number}.parquet")
    assert_expected(so.read_episodes(tmp_path))


def test_parts_in_another_column_order_are_the_same_table(tmp_path: Path) -> None:
    table = pa.table(COLUMNS)
    write_table(table.slice(0, 2), tmp_path / "0.parquet")
    write_table(table.slice(2).select(list(reversed(table.column_names))), tmp_path / "1.parquet")
    assert_expected(so.read_episodes(tmp_path))


def test_results_walk_back_into_data_frames() -> None:
    episodes = so.read_episodes(pa.table(COLUMNS))
    assert_expected(so.read_episodes(pl.DataFrame(episodes)))
    assert_expected(so.read_episodes(pa.table(episodes).to_pandas()))
    assert_expected(so.read_episodes(episodes))


@pytest.mark.parametrize(
    ("text", "label"), [("none", "none"), ("None", "None"), ('"NA"', "NA"), ("NA", None), ("", None)]
)
def test_csv_knows_empty_from_a_label(text: str, label: str | None, tmp_path: Path) -> None:
    path = tmp_path / "episodes.csv"
    path.write_text(f"episode,step,state,action,reward\n1,0,s,go,0\n1,1,s,{text},1\n")
    assert so.read_episodes(path).to_arrow().column("action").to_pylist() == ["go", label]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["007", "7"], ["007", "7"]),
        (["TRUE", "FALSE"], ["TRUE", "FALSE"]),
        (["1", "end"], ["1", "end"]),
        (["1.0", "2.0"], [1, 2]),
        (["-3", "0"], [-3, 0]),
        (["1.5", "2"], ["1.5", "2"]),
        (["12345678901234567890", "1"], ["12345678901234567890", "1"]),
    ],
)
def test_csv_labels_are_what_was_written(labels: list[str], expected: list[Any], tmp_path: Path) -> None:
    path = tmp_path / "episodes.csv"
    rows = "\n".join(f"{number},0,{label},a,0" for number, label in enumerate(labels))
    path.write_text(f"episode,step,state,action,reward\n{rows}\n")
    assert so.read_episodes(path).to_arrow().column("state").to_pylist() == expected


PLAIN = "episode,step,state,action,reward,ward\n1,0,s,wait,0.5,Süd\n1,1,s,treat,-1.25,Süd\n"
WITH_COMMAS = PLAIN.replace(",", ";").replace(".", ",")


@pytest.mark.parametrize(
    "content",
    [
        PLAIN.encode(),
        PLAIN.encode("utf-8-sig"),
        PLAIN.encode("utf-16"),
        PLAIN.encode("cp1252"),
        gzip.compress(PLAIN.encode()),
        PLAIN.replace(",", ";").encode(),
        PLAIN.replace(",", "\t").encode(),
        WITH_COMMAS.encode(),
        WITH_COMMAS.encode("cp1252"),
        WITH_COMMAS.encode("utf-16"),
    ],
    ids=["plain", "mark", "utf-16", "windows", "gzip", "semicolons", "tabs", "decimal commas", "excel", "unicode text"],
)
@pytest.mark.parametrize("name", ["episodes.csv", "episodes.csv.gz"])
def test_csv_as_spreadsheets_write_it(content: bytes, name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    table = so.read_episodes(tmp_path / name).to_arrow()
    assert table.column("reward").to_pylist() == [0.5, -1.25]
    assert table.column("ward").to_pylist() == ["Süd", "Süd"]
    assert table.column("action").to_pylist() == ["wait", "treat"]


def test_what_is_no_text_is_said(tmp_path: Path) -> None:
    (tmp_path / "episodes.csv").write_bytes(b"PK\x03\x04\x00\x00\x00")
    with pytest.raises(so.SchemaError, match="no text"):
        so.read_episodes(tmp_path / "episodes.csv")
    with pytest.raises(so.SchemaError, match="is read and not written"):
        so.read_episodes(COLUMNS).write(tmp_path / "episodes.csv.gz")


def test_string_views_in_a_table() -> None:
    table = pa.table(COLUMNS)
    for name in ("episode", "state", "action", "ward"):
        position = table.column_names.index(name)
        table = table.set_column(position, name, table.column(name).cast(pa.string_view()))
    assert_expected(so.read_episodes(table))


def test_string_views_in_a_file_that_polars_wrote(tmp_path: Path) -> None:
    pl.DataFrame(COLUMNS).write_ipc(tmp_path / "episodes.feather", compression="uncompressed")
    assert_expected(so.read_episodes(tmp_path / "episodes.feather"))


def test_columns_for_display_may_be_of_any_type() -> None:
    frame = pl.DataFrame(COLUMNS).with_columns(
        pl.col("state").cast(pl.Categorical),
        pl.lit(b"x").alias("binary"),
        pl.col("ward").implode().over("episode").alias("list"),
    )
    episodes = so.read_episodes(frame)
    assert_expected(episodes)
    assert episodes.extra is not None
    assert episodes.extra.column("list").to_pylist()[0] == ["west", "west", "west"]


def test_integers_that_a_data_frame_made_floats_are_integers_again() -> None:
    frame = pd.DataFrame({"episode": [1, 1], "step": [0, 1], "state": [4, 5], "action": [3, np.nan], "reward": [0, 1]})
    episodes = so.read_episodes(frame)
    assert episodes.to_arrow().column("action").to_pylist() == [3, None]
    assert episodes.actions.kind == "integers"


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "results.json"
    target.write_text("old")

    def fail(partial: Path) -> None:
        partial.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(so.OutputError, match="No space left on device"):
        write_whole({target: fail})
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(so.SchemaError, match="cannot read a int"):
        read_table(3, "episodes")
