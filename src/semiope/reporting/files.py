"""Pages written whole, or not at all."""

from __future__ import annotations

from pathlib import Path

from semiope._files import exists, write_whole
from semiope.errors import OptionError


def checked(path: str | Path, who: str) -> Path:
    """A file that a page can be written to."""
    if not isinstance(path, str | Path) or "\0" in str(path):
        raise OptionError(f"{who}: {path!r} is no path.")
    target = Path(path)
    if target.suffix.lower() not in (".html", ".htm"):
        raise OptionError(f"{who}: {path} must end in .html, for that is what is written.")
    if exists(target) and target.is_dir():
        raise OptionError(f"{who}: {path} is a folder. Name a file.")
    return target


def write_page(path: str | Path, page: str, who: str) -> Path:
    """Write a page; what cannot be encoded, as in names that are no text, is shown by its code."""
    target, content = checked(path, who), page.encode("utf-8", errors="backslashreplace")
    write_whole({target: lambda file: file.write_bytes(content)})
    return target
