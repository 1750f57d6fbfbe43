"""Arrow in and out: Parquet, CSV and Feather by suffix, folders of Parquet parts, and any Arrow-capable object."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from semiope._arrays import Integers
from semiope._files import exists, write_whole
from semiope.data.delimited import read_csv
from semiope.errors import SchemaError, nearest


class ArrowTable(ABC):
    """Whatever can be seen as a table can be written as one, and read by anything that reads Arrow."""

    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """Return the table."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write as Parquet, CSV or Feather, by suffix; the file appears whole or not at all."""
        write_table(self.to_arrow(), path)


def take_rows(table: pa.Table, rows: Integers) -> pa.Table:
    """Return these rows of a table, also of columns whose type Arrow itself cannot take rows of."""
    columns = {}
    for field in table.schema:
        column = table.column(field.name)
        try:
            columns[field.name] = column.take(pa.array(rows))
        except pa.ArrowNotImplementedError:
            values = column.to_pylist()
            columns[field.name] = pa.array([values[row] for row in rows])
    return pa.table(columns)


def read_table(source: Any, name: str) -> pa.Table:
    """Return a path, a mapping of columns or an Arrow-capable object as a table, called `name` in messages."""
    if isinstance(source, str | os.PathLike):
        if not str(source):
            raise SchemaError(f"{name}: the path is empty.")
        return _read_path(Path(source), name)
    if isinstance(source, pa.Table):
        return source
    if isinstance(source, Mapping):
        return from_columns(source, name)
    if hasattr(source, "__arrow_c_stream__"):
        try:
            return pa.table(source)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise SchemaError(
                f"{name}: the table cannot be converted to Arrow; a column may mix types ({_first_line(error)})"
            ) from None
    raise SchemaError(
        f"{name}: cannot read a {type(source).__name__}. Give a path, a pyarrow, pandas, polars or duckdb table, "
        "or any object with __arrow_c_stream__."
    )


def from_columns(columns: Mapping[str, Any], name: str) -> pa.Table:
    """Return named sequences of equal length as a table; masked array elements become nulls."""
    arrays = {}
    for column, values in columns.items():
        if not isinstance(column, str):
            raise SchemaError(f"{name}: {column!r} is not the name of a column.")
        try:
            arrays[column] = pa.array(values) if isinstance(values, pa.Array) else _array(values)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise SchemaError(
                f"{name}: column {column!r} mixes types or cannot be converted ({_first_line(error)}). "
                "Use one type per column: integers, strings or numbers."
            ) from None
    lengths = {column: len(array) for column, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise SchemaError(f"{name}: the columns differ in length: {lengths}.")
    return pa.table(arrays)


def with_columns(table: pa.Table, extra: pa.Table | None) -> pa.Table:
    """Return the table with the columns of another put behind."""
    if extra is not None:
        for name in extra.column_names:
            table = table.append_column(name, extra.column(name))
    return table


def write_table(table: pa.Table, path: str | os.PathLike[str]) -> None:
    """Write a table as Parquet, CSV or Feather by suffix."""
    target = Path(path)
    if target.suffix.lower() == ".gz":
        raise SchemaError(f"table: {target} would be compressed CSV, which is read and not written. Use .parquet.")
    writer = _by_suffix(target, {"parquet": _write_parquet, "csv": _write_csv, "feather": _write_feather}, "table")
    write_whole({target: lambda partial: writer(table, partial)})


def _array(values: Any) -> pa.Array:
    if isinstance(values, np.ma.MaskedArray):
        return pa.array(values.data, mask=np.ma.getmaskarray(values))
    array = pa.array(values)
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _read_path(path: Path, name: str) -> pa.Table:
    if not exists(path):
        siblings = [other.name for other in path.parent.iterdir() if other.exists()] if exists(path.parent) else []
        raise SchemaError(f"{name}: {path} does not exist.{nearest(path.name, siblings)}")
    if path.is_dir():
        return _read_folder(path, name)
    reader = _by_suffix(path, {"parquet": _read_parquet, "csv": read_csv, "feather": _read_feather}, name)
    try:
        return reader(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise SchemaError(f"{name}: cannot read {path}: {_first_line(error)}") from None


def _read_folder(folder: Path, name: str) -> pa.Table:
    paths = sorted(path for path in folder.iterdir() if not path.name.startswith(("_", ".")))
    strangers = [path.name for path in paths if path.is_dir() or path.suffix.lower() not in (".parquet", ".pq")]
    if len(strangers) == len(paths):
        raise SchemaError(f"{name}: the folder {folder} holds no .parquet files.")
    if strangers:
        raise SchemaError(
            f"{name}: the folder {folder} holds {', '.join(strangers[:3])} beside Parquet parts. "
            "A folder of parts holds nothing else, so that nothing is left out by mistake."
        )
    parts = [_read_path(path, name) for path in paths]
    first = parts[0].schema.remove_metadata()
    for path, part in zip(paths[1:], parts[1:], strict=True):
        if sorted(part.column_names) != sorted(first.names):
            odd = sorted(set(part.column_names) ^ set(first.names)) or ["given twice"]
            raise SchemaError(f"{name}: {path.name} and {paths[0].name} differ in the columns {', '.join(odd)}.")
        for field in first:
            if part.schema.field(field.name).type != field.type:
                raise SchemaError(
                    f"{name}: column {field.name!r} is {part.schema.field(field.name).type} in {path.name} "
                    f"but {field.type} in {paths[0].name}. All parts of a table need the same types."
                )
    return pa.concat_tables([part.select(first.names).replace_schema_metadata(None) for part in parts])


def _by_suffix(path: Path, choices: Mapping[str, Any], name: str) -> Any:
    kinds = {
        ".parquet": "parquet",
        ".pq": "parquet",
        ".csv": "csv",
        ".feather": "feather",
        ".arrow": "feather",
        ".ipc": "feather",
    }
    suffix = Path(path.stem).suffix if path.suffix.lower() == ".gz" else path.suffix
    kind = kinds.get(suffix.lower())
    if kind is None or (suffix != path.suffix and kind != "csv"):
        raise SchemaError(f"{name}: {path} has an unknown suffix. Use .parquet, .csv, .csv.gz or .feather.")
    return choices[kind]


def _read_parquet(path: Path) -> pa.Table:
    import pyarrow.parquet

    # One file, opened as such: no scan for partitions, no dataset machinery.
    with pyarrow.parquet.ParquetFile(path) as file:
        return file.read()


def _read_feather(path: Path) -> pa.Table:
    import pyarrow.feather

    return pyarrow.feather.read_table(path)


def _write_parquet(table: pa.Table, path: Path) -> None:
    import pyarrow.parquet

    pyarrow.parquet.write_table(table, path)


def _write_csv(table: pa.Table, path: Path) -> None:
    import pyarrow.csv

    pyarrow.csv.write_csv(table, path)


def _write_feather(table: pa.Table, path: Path) -> None:
    import pyarrow.feather

    pyarrow.feather.write_feather(table, path)


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0].rstrip(".") + "."
