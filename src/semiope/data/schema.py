"""Checking tables: columns by name and kind, with errors that show the offending rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semiope._arrays import Booleans, Floats, Integers
from semiope.data.delimited import FROM_TEXT
from semiope.data.labels import Vocabulary, encode
from semiope.errors import SHOWN, SchemaError, count, nearest

HIGHEST_STEP = 2**31 - 1


class Columns:
    """A table with a name, read column by column; `required` columns must be there and point rows out in messages."""

    def __init__(self, table: pa.Table, name: str, required: Sequence[str], optional: Sequence[str] = ()) -> None:
        self.table, self.name, self.required = table, name, required
        repeated = sorted({column for column in table.column_names if table.column_names.count(column) > 1})
        if repeated:
            raise SchemaError(f"{name}: column {repeated[0]!r} occurs more than once. Rename or drop one of them.")
        known = [*required, *optional]
        for column in required:
            if column not in table.column_names:
                strangers = [other for other in table.column_names if other not in known]
                guess = nearest(column, strangers).replace("Did you mean", "Is it")
                raise SchemaError(
                    f"{name}: column {column!r} is missing.{guess} "
                    f"The table has {', '.join(table.column_names) or 'no columns'}; "
                    f"it needs {', '.join(required)}."
                )
        for column in optional:
            if column not in table.column_names:
                for other in table.column_names:
                    if other not in known and _same_word(other, column):
                        raise SchemaError(f"{name}: column {other!r} looks like {column!r}. Rename one or the other.")
        if not table.num_rows:
            raise SchemaError(f"{name}: the table has no rows.")

    def __contains__(self, column: str) -> bool:
        return column in self.table.column_names

    def plain(self, column: str) -> pa.Array:
        """Return a column as one array without dictionary encoding."""
        return _plain(self.table.column(column))

    def encode(self, column: str, *, nullable: bool = False) -> tuple[Integers, Vocabulary]:
        """Return a column of labels as ids, and their vocabulary."""
        ids, vocabulary = encode(self.labels(column, nullable=nullable))
        from_text = (self.table.schema.field(column).metadata or {}) == FROM_TEXT
        return ids, replace(vocabulary, from_text=from_text)

    def labels(self, column: str, *, nullable: bool = False) -> pa.Array:
        """Return a column of labels as int64 or string."""
        values = _plain(self.table.column(column))
        kind = values.type
        if pa.types.is_null(kind):
            values = values.cast(pa.int64())
        elif pa.types.is_floating(kind):
            values = self._whole_numbers(column, values)
        elif pa.types.is_integer(kind) or pa.types.is_boolean(kind):
            values = self._cast(column, values, pa.int64())
        elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
            values = values.cast(pa.string())
            values = pc.if_else(pc.equal(values, ""), pa.scalar(None, pa.string()), values)
        else:
            raise SchemaError(f"{self.name}: column {column!r} is {kind}; labels are integers or strings. Convert it.")
        if values.null_count and not nullable:
            self.fail(column, "is empty", _missing(values), "Every row needs one.")
        return values

    def floats(self, column: str, *, needed: Booleans | None = None) -> Floats:
        """Return a column of finite numbers; rows outside `needed` may be empty and become NaN."""
        values = _plain(self.table.column(column))
        if not (is_number(values.type) or pa.types.is_boolean(values.type) or pa.types.is_null(values.type)):
            example = ""
            if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
                words = (value for value in values.to_pylist() if not_a_number(value))
                example = f" (for example {next(words, values[0].as_py())!r})"
            raise SchemaError(f"{self.name}: column {column!r} is {values.type}, not numbers{example}. Convert it.")
        # A copy of our own: the source may be an array that its owner goes on changing.
        numbers: Floats = np.array(values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))
        with np.errstate(invalid="ignore", over="ignore"):  # opposite infinities, sums beyond all numbers
            total = numbers.sum()
        if not np.isfinite(total):
            wrong = ~np.isfinite(numbers)
            if needed is not None:
                wrong &= needed
            if wrong.any():
                what = "is infinite" if np.isinf(numbers[wrong]).all() else "is missing, NaN or infinite"
                self.fail(column, what, wrong, "Correct or remove these rows.")
        return numbers

    def steps(self) -> Integers:
        """Return the column `step` as whole numbers from 0 on."""
        kind = self.table.schema.field("step").type
        if not (is_number(kind) or pa.types.is_null(kind)):
            raise SchemaError(f"{self.name}: column 'step' is {kind}; steps are the whole numbers 0, 1, 2 ...")
        steps: Integers = np.array(self.labels("step").to_numpy())
        way_out = "Steps count 0, 1, 2 ... within each episode."
        if steps.min() < 0:
            self.fail("step", "is negative", steps < 0, way_out)
        if steps.max() > HIGHEST_STEP:
            self.fail("step", "is too large", steps > HIGHEST_STEP, way_out)
        return steps

    def check(self, column: str, what: str, wrong: Booleans, way_out: str) -> None:
        """Fail if any row is wrong."""
        if wrong.any():
            self.fail(column, what, wrong, way_out)

    def refuse_repeats(self, column: str, key: Integers) -> None:
        """Fail if two rows have the same key."""
        order = np.argsort(key, kind="stable")
        repeats = np.sort(order[1:][key[order][1:] == key[order][:-1]])
        if len(repeats):
            self.fail(column, "repeats an earlier row", repeats, "Give each once.")

    def fail(self, column: str, what: str, wrong: Booleans | Integers, way_out: str) -> NoReturn:
        """Raise a SchemaError that shows the first of the wrong rows (a mask, or row numbers)."""
        rows = np.flatnonzero(wrong) if wrong.dtype == np.bool_ else wrong
        shown = "; ".join(self._describe(int(row), column) for row in rows[:SHOWN])
        raise SchemaError(
            f"{self.name}: column {column!r} {what} in {count(len(rows), 'row')}. First: {shown}. {way_out}"
        )

    def _describe(self, row: int, column: str) -> str:
        keys = [key for key in ("episode", "step", "state", "action") if key in self.required and key != column]
        shown = [f"{key} {self.table.column(key)[row].as_py()!r}" for key in keys]
        value = self.table.column(column)[row].as_py()
        return f"row {row} ({', '.join([*shown, f'{column} {value!r}'])})"

    def _cast(self, column: str, values: pa.Array, kind: pa.DataType) -> pa.Array:
        try:
            return values.cast(kind)
        except pa.ArrowInvalid as error:
            raise SchemaError(f"{self.name}: column {column!r} does not fit into {kind}: {error}") from None

    def _whole_numbers(self, column: str, values: pa.Array) -> pa.Array:
        """Data frames turn integers with gaps into floats: accept those, refuse real fractions."""
        numbers = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
        empty = np.isnan(numbers)
        whole = np.where(empty, 0.0, numbers)
        wrong = (whole != np.floor(whole)) | (np.abs(whole) > 2.0**53)
        self.check(column, "is not a whole number", wrong, "Labels are integers or strings.")
        return pa.array(whole.astype(np.int64), mask=empty if empty.any() else None)


def _plain(column: pa.ChunkedArray) -> pa.Array:
    """One contiguous array without dictionary encoding."""
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if pa.types.is_dictionary(array.type):
        words = _without_views(array.dictionary)
        array = pa.DictionaryArray.from_arrays(array.indices, words).dictionary_decode()
    return _without_views(array)


def _without_views(array: pa.Array) -> pa.Array:
    """Turn string views (polars) into plain strings, which all of Arrow's functions know."""
    return array.cast(pa.large_string()) if pa.types.is_string_view(array.type) else array


def _missing(values: pa.Array) -> Booleans:
    mask: Booleans = pc.is_null(values).to_numpy(zero_copy_only=False)
    return mask


def is_number(kind: pa.DataType) -> bool:
    """Whether a type holds numbers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def not_a_number(value: object) -> bool:
    """Whether a text does not read as a number."""
    try:
        float(str(value))
    except ValueError:
        return True
    return False


def _same_word(one: str, other: str) -> bool:
    """Whether two column names differ only in case, separators, British spelling or a plural."""
    plain = [word.lower().replace("_", "").replace("-", "").replace(" ", "") for word in (one, other)]
    plain = [word.replace("behaviour", "behavior").removesuffix("s") for word in plain]
    return plain[0] == plain[1]
