"""Annotations: what experts expect would have happened, sparse, and aligned to the steps they speak about."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from semiope._arrays import Booleans, Floats, Integers, frozen, id_dtype
from semiope._compiled import compiled
from semiope.data.episodes import Episodes
from semiope.data.labels import ABSENT, Vocabulary, encode
from semiope.data.schema import SHOWN, Columns
from semiope.data.tables import from_columns, read_table, with_columns, write_table
from semiope.errors import SchemaError, count, nearest

REQUIRED = ("episode", "step", "action", "value")
OPTIONAL = ("annotator", "std", "weight")


@dataclass(frozen=True, eq=False)
class Annotations:
    """Answers as they were given, one row each, in the order given.

    `value` is the expected return from its own step on, discounted from that step, after taking `action`.
    `episode` and `action` are ids into `labels` and `actions`.
    """

    labels: Vocabulary
    actions: Vocabulary
    episode: Integers
    step: Integers
    action: Integers
    value: Floats
    std: Floats | None = None
    weight: Floats | None = None
    annotator: pa.Array | None = None
    extra: pa.Table | None = None

    @classmethod
    def from_arrow(cls, source: Any, *, name: str = "annotations") -> Annotations:
        """Build from a table in the annotations format: anything that speaks Arrow, or a mapping of columns."""
        table = read_table(source, name)
        columns = Columns(table, name, REQUIRED, OPTIONAL)
        episode, labels = encode(columns.labels("episode"))
        action, actions = encode(columns.labels("action"))
        step = columns.steps()
        std = columns.floats("std") if "std" in columns else None
        if std is not None:
            columns.check("std", "is not positive", std <= 0, "Give a standard deviation above 0.")
        weight = columns.floats("weight") if "weight" in columns else None
        if weight is not None:
            wrong = (weight < 0) | (weight > 1)
            columns.check("weight", "is not in [0, 1]", wrong, "Split weights are shares of one sample.")
        extra = table.drop_columns([column for column in (*REQUIRED, *OPTIONAL) if column in columns])
        return cls(
            labels=labels,
            actions=actions,
            episode=frozen(episode),
            step=frozen(step.astype(id_dtype(int(step.max()) + 1))),
            action=frozen(action),
            value=frozen(columns.floats("value")),
            std=None if std is None else frozen(std),
            weight=None if weight is None else frozen(weight),
            annotator=columns.labels("annotator", nullable=True) if "annotator" in columns else None,
            extra=extra if extra.num_columns else None,
        )

    @classmethod
    def from_arrays(
        cls,
        *,
        episode: Any,
        step: Any,
        action: Any,
        value: Any,
        annotator: Any = None,
        std: Any = None,
        weight: Any = None,
    ) -> Annotations:
        """Build from sequences of equal length, one element an answer."""
        columns = {"episode": episode, "step": step, "action": action, "value": value}
        optional = {"annotator": annotator, "std": std, "weight": weight}
        columns |= {name: values for name, values in optional.items() if values is not None}
        return cls.from_arrow(from_columns(columns, "annotations"))

    def __len__(self) -> int:
        return len(self.value)

    def to_arrow(self) -> pa.Table:
        """Return the table in the annotations format."""
        columns = {
            "episode": self.labels.labels.take(pa.array(self.episode)),
            "step": pa.array(self.step),
            "action": self.actions.labels.take(pa.array(self.action)),
            "value": pa.array(self.value),
        }
        for name in OPTIONAL:
            if getattr(self, name) is not None:
                columns[name] = pa.array(getattr(self, name))
        return with_columns(pa.table(columns), self.extra)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write as Parquet, CSV or Feather, by suffix."""
        write_table(self.to_arrow(), path)

    def __repr__(self) -> str:
        return f"Annotations({len(self):,} answers about {len(self.labels):,} episodes)"


class AlignedAnnotations(NamedTuple):
    """Counterfactual annotations of given episodes: at most one per (row, action), sorted by both.

    `row` points into the rows of the episodes. Annotations of the action that was taken are not among them:
    `taken` lists their positions in the table they came from. `n_pooled` rows were merged into others.
    """

    row: Integers
    action: Integers
    value: Floats
    weight: Floats | None
    taken: Integers
    n_pooled: int

    @classmethod
    def none(cls) -> AlignedAnnotations:
        """Return no annotations at all."""
        nowhere = np.zeros(0, dtype=np.int32)
        return cls(nowhere, nowhere.astype(np.int8), np.zeros(0), None, nowhere, 0)


def read_annotations(source: Any) -> Annotations:
    """Read annotations from a file, a folder of Parquet parts, or any Arrow-capable data frame."""
    return Annotations.from_arrow(source)


def align(annotations: Annotations, episodes: Episodes, actions: Vocabulary) -> AlignedAnnotations:
    """Attach annotations to the steps they speak about; `actions` are all actions that exist, the logged ones first."""
    row = rows_of(annotations.labels, annotations.episode, annotations.step, episodes, "annotations")
    action = recode(annotations.action, known_actions(annotations.actions, actions, "annotations"))
    n_undecided, n_taken, in_order = _survey(row, action, episodes.action)
    if n_undecided:
        undecided = episodes.action[row] == ABSENT
        raise _at_steps("annotations: steps without a decision cannot be annotated", undecided, row, episodes)
    taken: Integers = np.zeros(0, dtype=np.int64)
    keep: Integers | slice = slice(None)
    if n_taken or not in_order:
        is_taken = action == episodes.action[row]
        taken, kept = np.flatnonzero(is_taken), np.flatnonzero(~is_taken)
        keep = kept[np.lexsort((annotations.value[kept], action[kept], row[kept]))]
    row, action, value = row[keep], action[keep], annotations.value[keep]
    weight = None if annotations.weight is None else annotations.weight[keep]
    first = None if in_order else _firsts(row, action)
    if first is None:
        return AlignedAnnotations(row, action, value, weight, taken, 0)
    precision = np.ones(len(row)) if annotations.std is None else annotations.std[keep] ** -2.0
    pooled = np.add.reduceat(value * precision, first) / np.add.reduceat(precision, first)
    share = None if weight is None else np.add.reduceat(weight, first)
    return AlignedAnnotations(row[first], action[first], pooled, share, taken, len(row) - len(first))


def rows_of(labels: Vocabulary, episode: Integers, step: Integers, episodes: Episodes, name: str) -> Integers:
    """Return the row of each (episode, step) that a table called `name` speaks about; all must exist."""
    if not labels.comparable(episodes.labels):
        raise SchemaError(
            f"{name}: column 'episode' holds {labels.kind}, that of the episodes {episodes.labels.kind}. "
            "Use the same labels in both."
        )
    known = episodes.labels.positions_of(labels)
    strangers = np.flatnonzero(known == ABSENT)
    if len(strangers):
        shown = ", ".join(repr(labels[i]) for i in strangers[:SHOWN])
        raise SchemaError(f"{name}: {count(len(strangers), 'episode')} not in the logs. First: {shown}.")
    row = np.empty(len(episode), dtype=id_dtype(episodes.n_steps))
    beyond = _locate(known, episodes.offsets, episode, step, row)
    if beyond >= 0:
        length = int(episodes.lengths[known[episode[beyond]]])
        wrong = int(np.count_nonzero(step >= episodes.lengths[known[episode]]))
        raise SchemaError(
            f"{name}: {count(wrong, 'row')} speak of steps that were not logged. First: row {beyond}, episode "
            f"{labels[episode[beyond]]!r} step {step[beyond]}, but that episode has the steps 0 to {length - 1}."
        )
    return row


def known_actions(own: Vocabulary, all_actions: Vocabulary, name: str) -> Integers:
    """Return the id in `all_actions` of each action in a table's own vocabulary; all must exist."""
    ids = all_actions.positions_of(own)
    strangers = np.flatnonzero(ids == ABSENT)
    if len(strangers):
        if not own.comparable(all_actions):
            raise SchemaError(
                f"{name}: column 'action' holds {own.kind}, the other tables have {all_actions.kind}. "
                "Use the same labels everywhere."
            )
        known = [str(label) for label in all_actions.labels.to_pylist()]
        shown = ", ".join(repr(own[i]) for i in strangers[:SHOWN])
        raise SchemaError(
            f"{name}: the action {shown} occurs neither in the logs nor in a policy."
            f"{nearest(str(own[strangers[0]]), known)} Known actions: {', '.join(known[:20])}."
        )
    return ids.astype(id_dtype(len(all_actions)))


def recode(ids: Integers, new: Integers) -> Integers:
    """Return `new[ids]`, without a copy where every id stays the same."""
    return ids if np.array_equal(new, np.arange(len(new))) else new[ids]


def _at_steps(problem: str, wrong: Booleans, row: Integers, episodes: Episodes) -> SchemaError:
    rows = row[wrong]
    shown = "; ".join(episodes.describe_row(int(i)) for i in rows[:SHOWN])
    return SchemaError(f"{problem} ({count(len(rows), 'row')}). First: {shown}. Remove these rows.")


def _firsts(row: Integers, action: Integers) -> Integers | None:
    """Return where each group of equal (row, action) begins, or None if no two are equal."""
    if not len(row):
        return None
    new = np.r_[True, (row[1:] != row[:-1]) | (action[1:] != action[:-1])]
    return None if new.all() else np.flatnonzero(new)


@compiled
def _locate(known: Integers, offsets: Integers, episode: Integers, step: Integers, row: Integers) -> int:
    """Fill in rows; return the first entry whose step lies beyond its episode, -1 if none."""
    for i in range(len(episode)):
        e = known[episode[i]]
        position = offsets[e] + step[i]
        if position >= offsets[e + 1]:
            return i
        row[i] = position
    return -1


@compiled
def _survey(row: Integers, action: Integers, logged: Integers) -> tuple[int, int, bool]:
    """Count entries at rows without a decision and of actions taken; tell whether (row, action) strictly increases."""
    undecided, taken, in_order = 0, 0, True
    for i in range(len(row)):
        undecided += logged[row[i]] == -1
        taken += logged[row[i]] == action[i]
        if i and (row[i] < row[i - 1] or (row[i] == row[i - 1] and action[i] <= action[i - 1])):
            in_order = False
    return undecided, taken, in_order
