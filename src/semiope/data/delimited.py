"""CSV as programs and spreadsheets write it: other separators, decimal commas, encodings, compression.

A file is taken as plain CSV (commas, UTF-8) unless its first bytes say otherwise: a gzip header, a byte order mark of
UTF-16, or a first line that semicolons, tabs or bars separate. Text that is not UTF-8 is read as Windows-1252, which
spreadsheets write. Where commas do not separate columns, they may stand in numbers.
"""

from __future__ import annotations

import codecs
import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

# Labels are kept as text; so marked, they match integers written in other files.
FROM_TEXT = {b"semiope": b"from text"}
LABELS = ("episode", "state", "action", "taken", "annotator")
# Unquoted, these are empty cells, in columns of strings as well. "None" is not among them: it may be an action.
EMPTY = ["", "NA", "N/A", "NaN", "nan", "null", "NULL"]
SEPARATORS = ",;\t|"
# Bytes in which the first line is looked for.
HEAD = 1 << 16
# A number that may have a decimal comma, and no other.
NUMBER = r"^\s*[-+]?(\d+[.,]?\d*|[.,]\d+)([eE][-+]?\d+)?\s*$"


def read_csv(path: Path) -> pa.Table:
    """Read a CSV file; labels are text unless all are plain whole numbers."""
    packed = _starts_with(path, b"\x1f\x8b")
    with gzip.open(path) if packed else path.open("rb") as file:
        head = file.read(HEAD)
    encodings = ["utf-16"] if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else ["utf8", "cp1252"]
    if b"\x00" in head and encodings[0] == "utf8":
        raise ValueError("it holds bytes that are no text. Is it Parquet or a spreadsheet file? Save it as CSV.")
    for encoding in encodings:
        separator = _separator(head.decode(encoding, errors="replace"))
        try:
            with pa.input_stream(str(path), compression="gzip" if packed else None) as stream:
                table = _parsed(stream, encoding, separator)
        except (pa.ArrowInvalid, UnicodeDecodeError) as error:
            if encoding == encodings[-1] or not _is_about_encoding(error):
                raise
            continue
        if not any(pa.types.is_binary(kind) for kind in table.schema.types):  # as text that is not UTF-8 is read
            break
    if separator != ",":
        table = _without_decimal_commas(table)
    for position, name in enumerate(table.column_names):
        if name in LABELS:
            labels = _integers_if_plain(table.column(position))
            table = table.set_column(position, pa.field(name, labels.type, metadata=FROM_TEXT), labels)
    return table


def _starts_with(path: Path, bytes_: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(bytes_)) == bytes_


def _separator(head: str) -> str:
    """What separates the names of columns: that of which there are most outside quotes."""
    line = head.lstrip("\ufeff\r\n").split("\n", 1)[0]
    unquoted = "".join(line.split('"')[::2])
    return max(SEPARATORS, key=unquoted.count)


def _parsed(stream: Any, encoding: str, separator: str) -> pa.Table:
    import pyarrow.csv

    # Labels are read as text: 007 is not 7, and TRUE is a word. Plain whole numbers become integers again.
    options = pyarrow.csv.ConvertOptions(
        null_values=EMPTY,
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        column_types=dict.fromkeys(LABELS, pa.string()),
    )
    return pyarrow.csv.read_csv(
        stream,
        read_options=pyarrow.csv.ReadOptions(encoding=encoding),
        parse_options=pyarrow.csv.ParseOptions(delimiter=separator),
        convert_options=options,
    )


def _is_about_encoding(error: Exception) -> bool:
    return isinstance(error, UnicodeDecodeError) or "UTF8" in str(error)


def _without_decimal_commas(table: pa.Table) -> pa.Table:
    """Columns of numbers with decimal commas as numbers."""
    for position, name in enumerate(table.column_names):
        column = table.column(position)
        if name in LABELS or not pa.types.is_string(column.type):
            continue
        if pc.all(pc.match_substring_regex(column, NUMBER), min_count=1).as_py():
            numbers = pc.replace_substring(pc.utf8_trim_whitespace(column), ",", ".").cast(pa.float64())
            table = table.set_column(position, name, numbers)
    return table


def _integers_if_plain(text: pa.ChunkedArray) -> pa.ChunkedArray:
    """Turn text into integers if every label is a whole number as one would write it (or, with gaps, as 3.0)."""
    if not pc.all(pc.match_substring_regex(text, r"^-?(0|[1-9][0-9]{0,17})(\.0*)?$"), min_count=1).as_py():
        return text
    return pc.replace_substring_regex(text, r"\.0*$", "").cast(pa.int64())
