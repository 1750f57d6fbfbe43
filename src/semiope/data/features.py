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
# Squares and products of larger numbers leave the range of numbers.
LARGEST = 1e100
# What is known only once the decision is made, and what rows are called.
NO_MEASUREMENTS = ("episode", "action", "reward", "behavior_prob")


@dataclass(frozen=True, eq=False)
class Features:
    """What is known of the state in each row, (n_rows, n_columns).

    `columns` are those of the table that they come from, `names` those of the matrix: the same for numbers, one
    "column=word" for each word of a column of categories, and "column missing" where gaps were filled. Rows are those
    of the episodes, sorted by episode and step. Rows without a decision are 0.
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
        return any(f"{column} missing" in self.names for column in self.columns)

    def rows(self, chosen: Integers) -> Features:
        """The features of these rows."""
        return Features(self.columns, self.names, frozen(self.matrix[chosen]), self.categories)


def names_of(features: Sequence[str] | str) -> list[str]:
    """Names of features: a sequence, or one text with commas."""
    try:
        listed = features.split(",") if isinstance(features, str) else list(features)
    except TypeError:
        raise OptionError(f"features: {features!r} is no list of columns. Name columns of the episodes.") from None
    for name in listed:
        if not isinstance(name, str):
            raise OptionError(f"features: {name!r} is not the name of a column. Name columns of the episodes.")
    names = [name.strip() if isinstance(features, str) else name for name in listed]
    if not names or not all(names):
        raise OptionError("features: name at least one column of the episodes, and no empty ones.")
    for name in names:
        if names.count(name) > 1:
            raise OptionError(f"features: column {name!r} is named twice. Name each once.")
        if name in NO_MEASUREMENTS:
            raise OptionError(f"features: {name!r} is no measurement of the state before a decision. Leave it out.")
    return names


def read_features(columns: Columns, names: Sequence[str], decided: Booleans, missing: str = "refuse") -> Features:
    """Encode columns of a table; `decided` flags rows with a decision, which need them.

    Gaps are refused, or with missing="impute" filled: with the median, and with a column that flags them beside it, in
    columns of numbers; with a word of their own in columns of categories.
    """
    if missing not in MISSING:
        raise OptionError(
            f"missing: {missing!r} is not known.{nearest(str(missing), MISSING)} Use 'refuse' or 'impute'."
        )
    found: list[Floats] = []
    words: list[str] = []
    categories = []
    for name in names:
        if name not in columns:
            known = [other for other in columns.table.column_names if other not in NO_MEASUREMENTS]
            raise SchemaError(
                f"{columns.name}: there is no column {name!r} for a feature.{nearest(name, known)} "
                f"The table has {', '.join(known)}."
            )
        kind = columns.table.schema.field(name).type
        if is_number(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind):
            added = _numbers(columns, name, decided, missing)
        else:
            added = _categories(columns, name, decided, missing)
            categories.append(name)
        for word, values in added:
            if word in words:
                raise SchemaError(f"{columns.name}: two features would be called {word!r}. Rename a column.")
            found.append(values)
            words.append(word)
    return Features(tuple(names), tuple(words), frozen(np.column_stack(found)), tuple(categories))


def _numbers(columns: Columns, name: str, decided: Booleans, missing: str) -> list[tuple[str, Floats]]:
    values = columns.floats(name, needed=np.zeros_like(decided))
    columns.check(name, "is infinite", np.isinf(values) & decided, "Correct these rows, or leave the feature out.")
    beyond = np.abs(values) > LARGEST
    columns.check(name, f"is beyond {LARGEST:g}", beyond & decided, "Use other units, or correct these rows.")
    gaps: Booleans = np.isnan(values) & decided
    there = decided & ~gaps
    if gaps.any() and not there.any():
        raise SchemaError(f"{columns.name}: column {name!r} is empty in every row with a decision. Leave it out.")
    if missing == "refuse":
        _refuse_gaps(columns, name, gaps)
    own = values[there]
    if np.count_nonzero(decided) > 1 and own.min() == own.max():
        where = "wherever it is not missing" if gaps.any() else "in every row with a decision"
        raise SchemaError(
            f"{columns.name}: column {name!r} is {own[0]:g} {where}: it tells nothing. Leave it out of the features."
        )
    if not gaps.any():
        return [(name, np.where(decided, values, 0.0))]
    values = np.where(gaps, np.median(own), values)
    return [(name, np.where(decided, values, 0.0)), (f"{name} missing", gaps.astype(np.float64))]


def _categories(columns: Columns, name: str, decided: Booleans, missing: str) -> list[tuple[str, Floats]]:
    """One column for each word of a column of categories; a gap, if they are to be filled, is a word of its own."""
    words, declared = _words(columns, name)
    distinct = sorted(word for word in pc.unique(words).to_pylist() if word is not None)
    if not declared:
        _refuse_numbers(columns, name, distinct)
    if len(distinct) > MOST_CATEGORIES:
        raise SchemaError(
            f"{columns.name}: column {name!r} holds {len(distinct):,} different words (first: {distinct[0]!r}); "
            f"categories are at most {MOST_CATEGORIES}. Group them, or leave the feature out."
        )
    codes = pc.fill_null(pc.index_in(words, value_set=pa.array(distinct, pa.string())), -1)
    code: Any = codes.to_numpy(zero_copy_only=False)
    gaps: Booleans = (code < 0) & decided
    if gaps.any() and not (decided & ~gaps).any():
        raise SchemaError(f"{columns.name}: column {name!r} is empty in every row with a decision. Leave it out.")
    if missing == "refuse":
        _refuse_gaps(columns, name, gaps)
    used = np.unique(code[decided] if decided.any() else code)
    if np.count_nonzero(decided) > 1 and len(used) < 2:
        raise SchemaError(
            f"{columns.name}: column {name!r} is {distinct[int(used[0])]!r} in every row with a decision: it tells "
            "nothing. Leave it out of the features."
        )
    return [
        (f"{name} missing" if k < 0 else f"{name}={distinct[k]}", ((code == k) & decided).astype(np.float64))
        for k in used.tolist()
    ]


def _refuse_gaps(columns: Columns, name: str, gaps: Booleans) -> None:
    way_out = "Fill the gaps, leave the feature out, or read with missing='impute' (--impute)."
    columns.check(name, "is missing", gaps, way_out)


def _words(columns: Columns, name: str) -> tuple[pa.Array, bool]:
    """The words of a column, and whether it was declared as one of categories, whatever these are."""
    declared, kind = pa.types.is_dictionary(columns.table.schema.field(name).type), columns.plain(name).type
    if declared and (is_number(kind) or pa.types.is_boolean(kind)):
        return columns.plain(name).cast(pa.string()), True
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        way_out = "Convert it."
        if pa.types.is_temporal(kind):
            way_out = "Give a number, such as hours since the episode began."
        elif pa.types.is_nested(kind):
            way_out = "Give each of its elements a column of its own."
        first = columns.table.column(name)[0].as_py()
        shown = f" (first: {str(first)[:40]})" if first is not None else ""
        raise SchemaError(
            f"{columns.name}: column {name!r} is {kind}{shown}; features are numbers, booleans or words. {way_out}"
        )
    return columns.labels(name, nullable=True), declared


def _refuse_numbers(columns: Columns, name: str, distinct: list[str]) -> None:
    """Fail where words are numbers, all or most of them."""
    strange = [word for word in distinct if not_a_number(word)]
    if len(distinct) < 2 or 2 * len(strange) > len(distinct):
        return
    if not strange:
        raise SchemaError(
            f"{columns.name}: column {name!r} holds numbers written as text (first: {distinct[0]!r}). Convert it to "
            "numbers; if they are codes of categories, to a categorical type, or put a letter before them."
        )
    raise SchemaError(
        f"{columns.name}: column {name!r} holds numbers written as text, and words among them (first: {strange[0]!r}). "
        "Leave these cells empty and convert the column to numbers."
    )
