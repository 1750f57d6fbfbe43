"""Arrow in and out: Parquet, CSV and Feather by suffix, folders of Parquet parts, and any Arrow-capable object."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from semiope.errors import SchemaError, nearest

# Unquoted, these are empty cells, in columns of strings as well. "None" is not among them: it may be an action.
EMPTY_IN_CSV = ["", "NA", "N/A", "NaN", "nan", "null", "NULL"]


def read_table(source: Any, name: str) -> pa.Table:
    """Return `source` (a path or an Arrow-capable object) as a table; `name` stands in the messages."""
    if isinstance(source, str | os.PathLike):
        return _read_path(Path(source), name)
    if isinstance(source, pa.Table):
        return source
    if isinstance(source, Mapping):
        return from_columns(source, name)
    if hasattr(source, "__arrow_c_stream__"):
        try:
            return _without_views(pa.table(source))
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise _unusable(name, error) from None
    raise SchemaError(
        f"{name}: cannot read a {type(source).__name__}. Give a path, a pyarrow, pandas, polars or duckdb table, "
        "or any object with __arrow_c_stream__."
    )


def from_columns(columns: Mapping[str, Any], name: str) -> pa.Table:
    """Return named sequences of equal length as a table; masked array elements become nulls."""
    arrays = {}
    for column, values in columns.items():
        try:
            arrays[column] = pa.array(values) if isinstance(values, pa.Array) else _array(values)
        except (pa.ArrowException, TypeError, ValueError) as error:
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
    """Write a table as Parquet, CSV or Feather by suffix; the file appears whole or not at all."""
    target = Path(path)
    writer = _by_suffix(target, {"parquet": _write_parquet, "csv": _write_csv, "feather": _write_feather}, "table")
    write_whole(target, lambda partial: writer(table, partial))


def write_whole(target: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `target`, then put it in place in one move."""
    try:
        handle, partial = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        os.close(handle)
    except OSError as error:
        raise SchemaError(f"cannot write {target}: {error.strerror}.") from None
    try:
        write(Path(partial))
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(partial, 0o666 & ~umask)
        os.replace(partial, target)
    except OSError as error:
        raise SchemaError(f"cannot write {target}: {error.strerror or error}.") from None
    finally:
        Path(partial).unlink(missing_ok=True)


def _without_views(table: pa.Table) -> pa.Table:
    """Turn string views (polars) into plain strings, which all of Arrow's functions know."""
    fields = [
        field.with_type(pa.large_string()) if pa.types.is_string_view(field.type) else field for field in table.schema
    ]
    return table.cast(pa.schema(fields))


def _array(values: Any) -> pa.Array:
    if isinstance(values, np.ma.MaskedArray):
        return pa.array(values.data, mask=np.ma.getmaskarray(values))
    array = pa.array(values)
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _read_path(path: Path, name: str) -> pa.Table:
    if not path.exists():
        siblings = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
        raise SchemaError(f"{name}: {path} does not exist.{nearest(path.name, siblings)}")
    if path.is_dir():
        return _read_folder(path, name)
    reader = _by_suffix(path, {"parquet": _read_parquet, "csv": _read_csv, "feather": _read_feather}, name)
    try:
        return reader(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise SchemaError(f"{name}: cannot read {path}: {_first_line(error)}") from None


def _read_folder(folder: Path, name: str) -> pa.Table:
    paths = sorted(folder.glob("*.parquet"))
    if not paths:
        raise SchemaError(f"{name}: the folder {folder} holds no .parquet files.")
    parts = [_read_path(path, name) for path in paths]
    first = parts[0].schema.remove_metadata()
    for path, part in zip(paths[1:], parts[1:], strict=True):
        if set(part.column_names) != set(first.names):
            odd = sorted(set(part.column_names) ^ set(first.names))
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
    if path.suffix.lower() not in kinds:
        raise SchemaError(f"{name}: {path} has an unknown suffix. Use .parquet, .csv or .feather.")
    return choices[kinds[path.suffix.lower()]]


def _read_parquet(path: Path) -> pa.Table:
    import pyarrow.parquet

    # One file, opened as such: no scan for partitions, no dataset machinery.
    with pyarrow.parquet.ParquetFile(path) as file:
        return file.read()


def _read_csv(path: Path) -> pa.Table:
    import pyarrow.csv

    options = pyarrow.csv.ConvertOptions(
        null_values=EMPTY_IN_CSV, strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    return pyarrow.csv.read_csv(path, convert_options=options)


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


def _unusable(name: str, error: Exception) -> SchemaError:
    return SchemaError(f"{name}: the table cannot be converted to Arrow ({_first_line(error)}).")


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0].rstrip(".") + "."
