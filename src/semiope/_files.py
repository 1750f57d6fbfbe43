"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from semiope.errors import OutputError


def write_whole(writers: Mapping[Path, Callable[[Path], object]]) -> None:
    """Let each writer fill a temporary file beside its target, and put all in place once all are written.

    Links are followed, and a file that is replaced keeps its permissions. What is no regular file (a device, a pipe)
    is written to directly.
    """
    partial: dict[Path, Path] = {}
    try:
        for named, write in writers.items():
            target = Path(os.path.realpath(named)) if named.is_symlink() and _is_regular(named) else named
            if not _is_regular(target):
                write(target)
                continue
            handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.")
            os.close(handle)
            partial[target] = Path(name)
            write(partial[target])
            partial[target].chmod(_mode(target))
        for target, written in partial.items():
            written.replace(target)
    except OSError as error:
        raise OutputError(f"cannot write {named}: {error.strerror or error}.") from None
    finally:
        for written in partial.values():
            written.unlink(missing_ok=True)


def exists(path: Path) -> bool:
    """Whether a path exists; one that cannot exist, as when its name is too long, does not."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _is_regular(path: Path) -> bool:
    """Whether a path leads to a regular file, or to nothing yet."""
    return path.is_file() or not exists(path)


def _mode(target: Path) -> int:
    if target.exists():
        return stat.S_IMODE(target.stat().st_mode)
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask
