"""Features: measurements of each row, encoded once as a matrix of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semiope._arrays import Booleans, Floats, Integers, frozen
from semiope.data.schema import Columns, is_number, not_a_number
from semiope.errors import OptionError, SchemaError, nearest

MISSING = ("refuse", "impute")
# Words of a column beyond so many are names of single cases rather than categories.
MOST_CATEGORIES = 100


@dataclass(frozen=True, eq=False)
class Features:
    """What is known of the state in each row, (n_rows, n_columns).

    `columns` are those of the table that they come from, `names` those of the matrix: the same for numbers, one
    "column=word" for each word of a column of categories, and "column missing" where gaps were filled. Rows without
    a decision may be 0.
    """

    columns: tuple[str, ...]
    names: tuple[str, ...]
    matrix: Floats
    categories: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.names)

    @property
    def imputed(self) -> bool:
        """Whether gaps were filled."""
        return any(name == f"{column} missing" for name in self.names for column in self.columns)

    def rows(self, chosen: Integers) -> Features:
        """The features of these rows."""
        return Features(self.columns, self.names, frozen(self.matrix[chosen]), self.categories)


def names_of(features: Sequence[str] | str) -> list[str]:
    """Names of features: a sequence, or one text with commas."""
    listed = features.split(",") if isinstance(features, str) else list(features)
    names = [str(name).strip() for name in listed]
    if not names or not all(names):
        raise OptionError("features: name at least one column of the episodes.")
    for name in names:
        if names.count(name) > 1:
            raise OptionError(f"features: column {name!r} is named twice.")
    return names


def read_features(columns: Columns, names: Sequence[str], decided: Booleans, missing: str = "refuse") -> Features:
    """Encode columns of a table; `decided` flags rows with a decision, which need them.

    Gaps in columns of numbers are refused, or with missing="impute" filled with the median, with a column that flags
    them beside it.
    """
    if missing not in MISSING:
        raise OptionError(f"missing: {missing!r} is not known.{nearest(str(missing), MISSING)} Use {MISSING}.")
    found: list[Floats] = []
    words: list[str] = []
    categories = []
    for name in names:
        if name not in columns:
            known = [other for other in columns.table.column_names if other not in ("episode", "step")]
            raise SchemaError(
                f"{columns.name}: there is no column {name!r} for a feature.{nearest(name, known)} "
                f"The table has {', '.join(known)}."
            )
        if name in ("episode", "action", "reward", "behavior_prob"):
            raise OptionError(f"features: {name!r} is no measurement of the state before a decision. Leave it out.")
        kind = columns.table.schema.field(name).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        if is_number(kind) or pa.types.is_boolean(kind):
            added = _numbers(columns, name, decided, missing)
        else:
            added = _categories(columns, name, decided)
            categories.append(name)
        for word, values in added:
            found.append(values)
            words.append(word)
    return Features(tuple(names), tuple(words), frozen(np.column_stack(found)), tuple(categories))


def _numbers(columns: Columns, name: str, decided: Booleans, missing: str) -> list[tuple[str, Floats]]:
    gaps = np.zeros_like(decided)
    if missing == "impute":
        values = columns.floats(name, needed=np.zeros_like(decided))
        gaps = np.isnan(values) & decided
        values = np.where(gaps & decided, 0.0, values)
        _refuse_infinite(columns, name, values, decided)
        there = decided & ~gaps
        if not there.any():
            raise SchemaError(f"{columns.name}: column {name!r} is empty in every row with a decision. Leave it out.")
        values = np.where(gaps, np.median(values[there]), values)
    else:
        values = columns.floats(name, needed=np.zeros_like(decided))
        _refuse_infinite(columns, name, values, decided)
        way_out = "Fill the gaps, leave the feature out, or read with missing='impute' (--impute)."
        columns.check(name, "is missing", np.isnan(values) & decided, way_out)
    own = values[decided]
    if not gaps.any() and len(own) > 1 and own.min() == own.max():
        raise SchemaError(
            f"{columns.name}: column {name!r} is {own[0]:g} in every row with a decision: it tells nothing. Leave it "
            "out of the features."
        )
    found = [(name, np.where(decided, values, 0.0))]
    return [*found, (f"{name} missing", gaps.astype(np.float64))] if gaps.any() else found


def _refuse_infinite(columns: Columns, name: str, values: Floats, decided: Booleans) -> None:
    columns.check(name, "is infinite", np.isinf(values) & decided, "Correct these rows, or leave the feature out.")


def _categories(columns: Columns, name: str, decided: Booleans) -> list[tuple[str, Floats]]:
    """One column for each word of a column of categories; an empty cell is a word of its own."""
    kind = columns.table.schema.field(name).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
        raise SchemaError(
            f"{columns.name}: column {name!r} is {kind}; features are numbers, booleans or words. Convert it."
        )
    words = columns.labels(name, nullable=True)
    distinct = sorted(word for word in pc.unique(words).to_pylist() if word is not None)
    if len(distinct) > 1 and not any(not_a_number(word) for word in distinct):
        raise SchemaError(f"{columns.name}: column {name!r} holds numbers written as text. Convert it to numbers.")
    if len(distinct) > MOST_CATEGORIES:
        raise SchemaError(
            f"{columns.name}: column {name!r} holds {len(distinct):,} different words (first: {distinct[0]!r}); "
            f"categories are at most {MOST_CATEGORIES}. Group them, or leave the feature out."
        )
    codes = pc.fill_null(pc.index_in(words, value_set=pa.array(distinct, pa.string())), -1)
    code: Any = codes.to_numpy(zero_copy_only=False)
    used = np.unique(code[decided])
    if len(used) < 2:
        raise SchemaError(
            f"{columns.name}: column {name!r} has the same word in every row with a decision: it tells nothing. Leave "
            "it out of the features."
        )
    return [
        (f"{name} missing" if k < 0 else f"{name}={distinct[k]}", ((code == k) & decided).astype(np.float64))
        for k in used.tolist()
    ]
