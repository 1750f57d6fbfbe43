"""Questions that a plan asked: its sealed tables, from a plan, a table, or the folder where its batches lie."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from semiope.data.annotations import Annotations
from semiope.data.tables import read_table
from semiope.errors import SchemaError

QUESTION = ("episode", "step", "action")
SEALED = "sealed.parquet"


def read_asked(plan: Any) -> list[pa.Table]:
    """The sealed tables of a plan, of several, or of all batches in a folder."""
    if isinstance(plan, Sequence) and not isinstance(plan, str):
        return [table for one in plan for table in read_asked(one)]
    if hasattr(plan, "sealed"):
        return [plan.sealed]
    if isinstance(plan, str | os.PathLike) and Path(plan).is_dir():
        paths = [*sorted(Path(plan).glob(f"batch-*/{SEALED}")), *Path(plan).glob(SEALED)]
        if not paths:
            raise SchemaError(f"plan: the folder {plan} holds no plan: neither {SEALED} nor batch-001/{SEALED}.")
        return [_checked(read_table(path, f"plan {path}")) for path in paths]
    return [_checked(read_table(plan, "plan"))]


def strangers(annotations: Annotations, asked: Sequence[pa.Table]) -> int:
    """How many answers are to questions that none of these tables asks."""
    planned = {_key(row) for table in asked for row in table.select(QUESTION).to_pylist()}
    told = annotations.to_arrow().select(QUESTION).to_pylist()
    return sum(_key(row) not in planned for row in told)


def _key(row: dict[str, Any]) -> tuple[str, int, str]:
    """Labels as text: a file may not tell 1 from "1"."""
    return str(row["episode"]), int(row["step"]), str(row["action"])


def _checked(table: pa.Table) -> pa.Table:
    missing = [name for name in QUESTION if name not in table.column_names]
    if missing:
        raise SchemaError(f"plan: the table lacks the column {missing[0]!r}. Give the sealed table of a plan.")
    return table
