"""A folder with three small tables, and the command line beside it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from semiope.cli import main
from semiope.data.tables import write_table

EPISODES: dict[str, list[Any]] = {
    "episode": [1, 1, 2, 2, 3],
    "step": [0, 1, 0, 1, 0],
    "state": ["s", "t", "s", "t", "t"],
    "action": ["a", "b", "b", None, "a"],
    "reward": [1.0, 0.0, 0.5, 2.0, -1.0],
}
ANNOTATIONS: dict[str, list[Any]] = {
    "episode": [1, 2, 3],
    "step": [0, 0, 0],
    "action": ["b", "a", "b"],
    "value": [0.5, 0.25, 1.0],
}
POLICY: dict[str, list[Any]] = {"state": ["s", "s", "t"], "action": ["a", "b", "b"], "prob": [0.3, 0.7, 1.0]}


class Outcome(NamedTuple):
    status: int
    out: str
    err: str


class Desk:
    """A folder with the three tables, and the command line beside it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.monkeypatch, self.capsys = folder, monkeypatch, capsys
        monkeypatch.chdir(folder)
        for name, columns in (("episodes", EPISODES), ("annotations", ANNOTATIONS), ("policy", POLICY)):
            self.put(name, columns)

    def put(self, name: str, columns: dict[str, Any], suffix: str = ".parquet") -> Path:
        path = self.folder / f"{name}{suffix}"
        write_table(pa.table(columns), path)
        return path

    def change(self, name: str, **changes: Any) -> None:
        """Write a table anew with other columns; None removes one."""
        columns = {"episodes": EPISODES, "annotations": ANNOTATIONS, "policy": POLICY}[name] | changes
        self.put(name, {column: values for column, values in columns.items() if values is not None})

    def run(self, *arguments: str) -> Outcome:
        self.monkeypatch.setattr(sys, "argv", ["semiope", *arguments])
        self.capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main()
        found = self.capsys.readouterr()
        return Outcome(int(stop.value.code or 0), found.out, found.err)

    def evaluate(self, *options: str, annotated: bool = True) -> Outcome:
        answers = ["--annotations", "annotations.parquet"] if annotated else []
        return self.run("evaluate", "episodes.parquet", "--policy", "policy.parquet", *answers, *options)


def assert_refused(found: Outcome, message: str) -> None:
    assert found.status == 2
    assert message in found.err
    assert found.err.startswith("error: ")
    assert found.err.count("\n") == 1
    assert "Traceback" not in found.err
    assert found.out == ""
