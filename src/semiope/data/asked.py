"""Questions that a plan asked: its sealed tables, from a plan, a table, or the folder where its batches lie."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from semiope._arrays import Booleans, Integers
from semiope.data.annotations import Annotations
from semiope.data.tables import read_table
from semiope.errors import SchemaError

QUESTION = ("episode", "step", "action")
SEALED = "sealed.parquet"
# What a question is there for; decoys are about other actions, or about the one taken.
KINDS = ("needed", "decoy", "calibration")
NEEDED, OTHER, TAKEN = range(len(KINDS))
Key = tuple[str, int, str]


def read_asked(plan: Any) -> list[pa.Table]:
    """The sealed tables of a plan and those before it, of several, or of all batches in a folder."""
    if isinstance(plan, Sequence) and not isinstance(plan, str):
        return [table for one in plan for table in read_asked(one)]
    if hasattr(plan, "asked"):
        return list(plan.asked)
    if isinstance(plan, str | os.PathLike) and Path(plan).is_dir():
        paths = [*(path / SEALED for path in sorted(Path(plan).glob("batch-*"))), *Path(plan).glob(SEALED)]
        lost = [path for path in paths if not path.exists()]
        if lost:
            raise SchemaError(f"plan: {lost[0].parent} has lost its {SEALED}. Put it back, or remove the batch.")
        if not paths:
            raise SchemaError(f"plan: the folder {plan} holds no plan: neither {SEALED} nor batch-001/{SEALED}.")
        return [_checked(read_table(path, f"plan {path}")) for path in paths]
    return [_checked(read_table(plan, "plan"))]


def to_questions(annotations: Annotations, asked: Sequence[pa.Table]) -> Booleans:
    """Which answers are to questions that these tables ask."""
    planned = {key for table in asked for key in keys(table)}
    return np.array([key in planned for key in keys(annotations.to_arrow())], dtype=np.bool_)


def strangers(annotations: Annotations, asked: Sequence[pa.Table]) -> int:
    """How many answers are to questions that none of these tables asks."""
    return int(np.count_nonzero(~to_questions(annotations, asked)))


def unanswered(annotations: Annotations | None, asked: Sequence[pa.Table]) -> int:
    """How many questions of these tables have no answer."""
    told = set() if annotations is None else set(keys(annotations.to_arrow()))
    return len({key for table in asked for key in keys(table)} - told)


def repeated(annotations: Annotations) -> int:
    """How many answers say again what the same annotator said to the same question."""
    experts = [None] * len(annotations) if annotations.annotator is None else annotations.annotator.to_pylist()
    said = zip(keys(annotations.to_arrow()), experts, annotations.value.tolist(), strict=True)
    return len(annotations) - len(set(said))


def given_twice(annotations: Annotations) -> int:
    """How many answers repeat one of the same named annotator; 0 if any of them was asked again and said otherwise."""
    if annotations.annotator is None or annotations.annotator.null_count == len(annotations):
        return 0
    about = [annotations.episode, annotations.step, annotations.action]
    if annotations.extra is not None and "policy" in annotations.extra.column_names:
        about.append(_codes(annotations.extra.column("policy").combine_chunks()))
    if annotations.said is not None:
        about += list(annotations.said)
    who = _codes(annotations.annotator)
    columns = [annotations.value, *about, who]
    order = np.lexsort(columns)
    same = [column[order][1:] == column[order][:-1] for column in columns]
    again = np.all(same[1:], axis=0) & (who[order][1:] >= 0)
    return int(np.count_nonzero(again)) if bool(np.all(same[0][again])) else 0


def _codes(labels: pa.Array) -> Integers:
    """Numbers for labels, -1 where there is none."""
    found: Integers = labels.dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return found


def decoys_only(asked: Sequence[pa.Table]) -> set[Key]:
    """Questions that these tables ask, and never because they are needed."""
    kinds: dict[str, set[Key]] = {}
    for table in asked:
        of_row = table.column("kind").to_pylist() if "kind" in table.column_names else [KINDS[NEEDED]] * table.num_rows
        for kind, key in zip(of_row, keys(table), strict=True):
            kinds.setdefault(kind, set()).add(key)
    needed = kinds.pop(KINDS[NEEDED], set())
    return set().union(*kinds.values()) - needed


def about_today(asked: Sequence[pa.Table]) -> bool:
    """Whether answers to these questions are about today's policy."""
    return any("behavior" in table.column("about").to_pylist() for table in asked if "about" in table.column_names)


def keys(table: pa.Table) -> list[Key]:
    """The question of each row, labels as text: a file may not tell 1 from "1"."""
    columns = [table.column(name).to_pylist() for name in QUESTION]
    return [(str(episode), int(step), str(action)) for episode, step, action in zip(*columns, strict=True)]


def _checked(table: pa.Table) -> pa.Table:
    missing = [name for name in QUESTION if name not in table.column_names]
    if missing:
        raise SchemaError(f"plan: the table lacks the column {missing[0]!r}. Give the sealed table of a plan.")
    if not pa.types.is_integer(table.schema.field("step").type) or any(table.column(q).null_count for q in QUESTION):
        raise SchemaError("plan: a step is not a number, or something is missing. Give the sealed table of a plan.")
    return table
