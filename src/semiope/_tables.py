"""Rows as a plain HTML table, for notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape


def as_table(rows: Sequence[Mapping[str, object]], caption: str) -> str:
    """One row each, with the keys of the first as headings."""
    heads = "".join(f'<th scope="col">{escape(str(key))}</th>' for key in rows[0]) if rows else ""
    body = "".join("<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row.values()) + "</tr>" for row in rows)
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else escape(str(value))
