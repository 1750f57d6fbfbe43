"""What commands read and write: names of files, checked before any work is done."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

from semiope._files import exists, write_whole
from semiope.errors import OptionError, OutputError, nearest


def named(policies: list[str]) -> dict[str, str]:
    """Split NAME=FILE; a file without a name is called by its stem."""
    named: dict[str, str] = {}
    for entry in policies:
        name, found, path = entry.partition("=")
        if not found or exists(Path(entry)):
            name, path = Path(entry).stem, entry
        if not name or not path:
            raise OptionError(f"--policy: {entry!r} is not [NAME=]FILE.")
        if name in named:
            raise OptionError(f"--policy: two policies are called {name!r}. Name them: --policy NAME=FILE.")
        named[name] = path
    return named


def answers(annotations: list[str], policies: dict[str, str]) -> list[str] | dict[str, str] | None:
    """Files of annotations for all policies, or one by the name of a policy."""
    if not annotations:
        return None
    named = {}
    for entry in annotations:
        name, found, path = entry.partition("=")
        if found and name in policies and not exists(Path(entry)):
            named[name] = path
        elif found and exists(Path(path)) and not exists(Path(entry)):
            raise OptionError(f"--annotations: there is no policy called {name!r}.{nearest(name, policies)}")
    if not named:
        return annotations
    if len(named) < len(annotations):
        raise OptionError(
            "--annotations: give FILEs for all policies, or NAME=FILE once for each policy that has annotations. "
            f"Policies: {', '.join(policies)}."
        )
    return named


def check_targets(json: str | None, report: str | None, inputs: list[str | None]) -> None:
    """Refuse files that cannot be written before any work is done."""
    if report is not None and Path(report).suffix.lower() not in (".html", ".htm"):
        raise OptionError(f"--report: {report} must end in .html, for that is what is written.")
    if json is not None and report is not None and Path(json).resolve() == Path(report).resolve():
        raise OptionError("--json and --report name the same file.")
    for option, target in (("--json", json), ("--report", report)):
        if target is None or target == "-":
            continue
        path = Path(target)
        if not target or (exists(path) and path.is_dir()):
            raise OptionError(f"{option}: {target or 'nothing'!s} is no file to write to. Name a file.")
        if not exists(path.parent):
            raise OptionError(f"{option}: the folder {path.parent} does not exist.")
        if exists(path) and any(entry and exists(Path(entry)) and path.samefile(entry) for entry in inputs):
            raise OptionError(f"{option}: {target} is one of the tables that are read. Name another file.")


def write(texts: dict[str | None, str]) -> None:
    """Write each text to its file, or to standard output for "-"; all of the files or none."""
    files = {}
    for target, text in texts.items():
        if target == "-":
            if sys.stdout is None:
                raise OutputError("standard output is closed.")
            sys.stdout.write(text)
            sys.stdout.flush()
        elif target is not None:
            content = text.encode("utf-8", errors="backslashreplace")
            files[Path(target)] = functools.partial(Path.write_bytes, data=content)
    write_whole(files)
