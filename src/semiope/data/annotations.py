"""Annotations: what experts expect would have happened, as they said it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from semiope._arrays import Floats, Integers, frozen, id_dtype
from semiope.data.labels import Vocabulary
from semiope.data.schema import Columns
from semiope.data.tables import ArrowTable, from_columns, read_table, with_columns

REQUIRED = ("episode", "step", "action", "value")
OPTIONAL = ("annotator", "std", "weight")


@dataclass(frozen=True, eq=False)
class Annotations(ArrowTable):
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
        episode, labels = columns.encode("episode")
        action, actions = columns.encode("action")
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
            "episode": self.labels.decode(self.episode),
            "step": pa.array(self.step),
            "action": self.actions.decode(self.action),
            "value": pa.array(self.value),
        }
        for name in OPTIONAL:
            if getattr(self, name) is not None:
                columns[name] = pa.array(getattr(self, name))
        return with_columns(pa.table(columns), self.extra)

    def __repr__(self) -> str:
        return f"Annotations({len(self):,} answers about {len(self.labels):,} episodes)"


def read_annotations(source: Any) -> Annotations:
    """Read annotations from a file, a folder of Parquet parts, or any Arrow-capable data frame."""
    return Annotations.from_arrow(source)
