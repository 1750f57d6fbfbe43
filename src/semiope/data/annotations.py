"""Annotations: what experts expect would have happened, as they said it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semiope._arrays import Floats, Integers, frozen, id_dtype
from semiope.data.delimited import NUMBER
from semiope.data.labels import ABSENT, Vocabulary
from semiope.data.schema import Columns
from semiope.data.tables import ArrowTable, from_columns, read_table, take_rows, with_columns
from semiope.errors import SchemaError

REQUIRED = ("episode", "step", "action", "value")
OPTIONAL = ("annotator", "std", "weight", "kind", "versus", "inclusion_prob")
KINDS = ("return", "reward", "preference")
RETURN, REWARD, PREFERENCE = range(len(KINDS))
HOW_SURE = "1 says that `action` is surely better than `versus`, 0 that it is surely worse, 0.5 that they are alike."


class Said(NamedTuple):
    """Answers that are not all returns: `kind` of each, a position in KINDS, and for preferences the other action.

    `versus` holds action ids, -1 for the action taken.
    """

    kind: Integers
    versus: Integers


# What people write where they do not want to say a number; compared without case, spaces and apostrophes.
NO_ANSWER = ("dontknow", "donotknow", "cannotsay", "cantsay", "unknown", "noanswer", "none", "?", "-", "na", "n/a", "")


def answered(table: pa.Table) -> tuple[pa.Table, int]:
    """The rows of a table that have a value, and how many have none: an empty cell, or words that say so.

    A table in which no row has one is left as it is.
    """
    if table.column_names.count("value") != 1:
        return table, 0
    column = table.column("value")
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type) or pa.types.is_string_view(column.type):
        text = column.cast(pa.string())
        word = pc.utf8_lower(pc.replace_substring_regex(text, "[\\s'\u2019`]", ""))
        empty = pc.fill_null(pc.is_in(word, pa.array(NO_ANSWER)), True)
        said = pc.if_else(empty, pa.scalar(None, pa.string()), text)
        if pc.all(pc.match_substring_regex(said, NUMBER)).as_py():
            column = pc.replace_substring(pc.utf8_trim_whitespace(said), ",", ".").cast(pa.float64())
            table = table.set_column(table.column_names.index("value"), "value", column)
    empty = pc.is_null(column, nan_is_null=True)
    n = int(pc.sum(empty).as_py() or 0)
    return (table, 0) if n in (0, table.num_rows) else (table.filter(pc.invert(empty)), n)


@dataclass(frozen=True, eq=False)
class Annotations(ArrowTable):
    """Answers as they were given, one row each, in the order given.

    `value` is the expected return from its own step on, discounted from that step, after taking `action`; unless `said`
    tells otherwise: the immediate reward of `action`, or how surely it is preferred to another (1 surely, 0.5 a tie, 0
    surely not). `episode` and `action` are ids into `labels` and `actions`. `inclusion_prob` is how likely the question
    was to be asked, where whoever drew the questions wrote it down. `unanswered` is how many rows had no value: empty,
    or words such as "cannot say". They are not among the answers.
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
    said: Said | None = None
    inclusion_prob: Floats | None = None
    unanswered: int = 0

    def some(self, rows: Integers) -> Annotations:
        """These answers alone, in this order."""

        def chosen(column: Any) -> Any:
            if column is None:
                return None
            if isinstance(column, pa.Table):
                return take_rows(column, rows)
            return column.take(pa.array(rows)) if isinstance(column, pa.Array) else frozen(column[rows])

        return replace(
            self,
            episode=chosen(self.episode),
            step=chosen(self.step),
            action=chosen(self.action),
            value=chosen(self.value),
            std=chosen(self.std),
            weight=chosen(self.weight),
            inclusion_prob=chosen(self.inclusion_prob),
            annotator=chosen(self.annotator),
            extra=chosen(self.extra),
            said=None if self.said is None else Said(*map(chosen, self.said)),
        )

    @classmethod
    def from_arrow(cls, source: Any, *, name: str = "annotations") -> Annotations:
        """Build from a table in the annotations format: anything that speaks Arrow, or a mapping of columns."""
        table, unanswered = answered(read_table(source, name))
        columns = Columns(table, name, REQUIRED, OPTIONAL)
        episode, labels = columns.encode("episode")
        action, actions = columns.encode("action")
        step = columns.steps()
        value = columns.floats("value")
        action, actions, said = _said(columns, action, actions, value)
        std = None
        if "std" in columns:
            # A preference has no standard deviation of its own.
            needed = np.ones(len(value), dtype=np.bool_) if said is None else said.kind != PREFERENCE
            std = columns.floats("std", needed=needed)
            columns.check("std", "is not positive", needed & (std <= 0), "Give a standard deviation above 0.")
        weight = columns.floats("weight") if "weight" in columns else None
        if weight is not None:
            wrong = (weight < 0) | (weight > 1)
            columns.check("weight", "is not in [0, 1]", wrong, "Split weights are shares of one sample.")
        included = _included(columns, episode.astype(np.int64), step, action)
        extra = table.drop_columns([column for column in (*REQUIRED, *OPTIONAL) if column in columns])
        return cls(
            labels=labels,
            actions=actions,
            episode=frozen(episode),
            step=frozen(step.astype(id_dtype(int(step.max()) + 1))),
            action=frozen(action),
            value=frozen(value),
            std=None if std is None else frozen(std),
            weight=None if weight is None else frozen(weight),
            annotator=columns.labels("annotator", nullable=True) if "annotator" in columns else None,
            extra=extra if extra.num_columns else None,
            said=said,
            inclusion_prob=None if included is None else frozen(included),
            unanswered=unanswered,
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
        kind: Any = None,
        versus: Any = None,
        inclusion_prob: Any = None,
    ) -> Annotations:
        """Build from sequences of equal length, one element an answer."""
        columns = {"episode": episode, "step": step, "action": action, "value": value}
        given = (annotator, std, weight, kind, versus, inclusion_prob)
        optional = dict(zip(OPTIONAL, given, strict=True))
        columns |= {name: values for name, values in optional.items() if values is not None}
        return cls.from_arrow(from_columns(columns, "annotations"))

    def __len__(self) -> int:
        return len(self.value)

    def to_arrow(self) -> pa.Table:
        """Return the table in the annotations format."""
        columns = {
            "episode": self.labels.decode(self.episode),
            "step": pa.array(self.step),
            "action": self.actions.decode(self.action),
            "value": pa.array(self.value),
        }
        for name in ("annotator", "std", "weight", "inclusion_prob"):
            if getattr(self, name) is not None:
                columns[name] = pa.array(getattr(self, name))
        if self.said is not None:
            columns["kind"] = pa.array(KINDS).take(pa.array(self.said.kind))
            columns["versus"] = self.actions.decode(self.said.versus)
        return with_columns(pa.table(columns), self.extra)

    def __repr__(self) -> str:
        return f"Annotations({len(self):,} answers about {len(self.labels):,} episodes)"


def _included(columns: Columns, episode: Integers, step: Integers, action: Integers) -> Floats | None:
    """How likely each question was to be asked, if the table says so; the same in all rows of a question."""
    name = "inclusion_prob"
    if name not in columns:
        return None
    found = columns.floats(name)
    way_out = "A question that was asked had a probability above 0 and at most 1; leave the column out if nobody knows."
    columns.check(name, "is not a probability of a question asked", (found <= 0) | (found > 1), way_out)
    order = np.lexsort((action, step, episode))
    same = [column[order][1:] == column[order][:-1] for column in (episode, step, action)]
    differ = np.logical_and.reduce(same) & (found[order][1:] != found[order][:-1])
    wrong = np.sort(order[1:][differ])
    if len(wrong):
        columns.fail(name, "differs from that of an earlier row of the same question", wrong, "State one for both.")
    return found


def _said(
    columns: Columns, action: Integers, actions: Vocabulary, value: Floats
) -> tuple[Integers, Vocabulary, Said | None]:
    """What kind of answers these are; the actions that preferences name join the vocabulary."""
    kind = np.zeros(len(value), dtype=np.int8)
    if "kind" in columns:
        words = columns.labels("kind", nullable=True)
        known = pc.index_in(words.cast(pa.string()), value_set=pa.array(KINDS))
        kind = pc.fill_null(known, -1).to_numpy(zero_copy_only=False).astype(np.int8)
        kind[words.is_null().to_numpy(zero_copy_only=False)] = 0
        columns.check("kind", "is not known", kind < 0, f"Use {', '.join(KINDS)}, or leave it empty for a return.")
    preferred = kind == PREFERENCE
    columns.check("value", "is not in [0, 1]", preferred & ((value < 0) | (value > 1)), HOW_SURE)
    if "versus" not in columns:
        versus = np.full(len(value), ABSENT)
    else:
        versus, others = columns.encode("versus", nullable=True)
        if not actions.comparable(others):
            raise SchemaError(
                f"{columns.name}: column 'versus' holds {others.kind}, column 'action' {actions.kind}. "
                "Use the same labels in both."
            )
        columns.check("versus", "is given", ~preferred & (versus != ABSENT), "It is for answers of kind preference.")
        actions = actions.extended(others)
        versus = np.append(actions.positions_of(others), ABSENT)[versus]
        columns.check("versus", "is the action itself", preferred & (versus == action), "Name the other action.")
        action = action.astype(id_dtype(len(actions)))
    return action, actions, Said(frozen(kind), frozen(versus.astype(np.int64))) if kind.any() else None


def read_annotations(source: Any) -> Annotations:
    """Read annotations from a file, a folder of Parquet parts, or any Arrow-capable data frame."""
    return Annotations.from_arrow(source)


def read_together(sources: Sequence[Any]) -> Annotations:
    """Read annotations from several such sources."""
    found = [read_annotations(source) for source in sources]
    if len(found) == 1:
        return found[0]
    try:
        table = pa.concat_tables([one.to_arrow() for one in found], promote_options="default")
    except pa.ArrowInvalid as error:
        raise SchemaError(
            "annotations: labels in one file are numbers, in another text. Use the same in all."
        ) from error
    return read_annotations(table)
