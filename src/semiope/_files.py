"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import shutil
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


def write_folder(folder: Path, writers: Mapping[str, Callable[[Path], object]]) -> list[Path]:
    """Let each writer fill a file of a folder, by its path within; they appear there once all are written.

    The folder must be new or empty: nothing that is there is overwritten or mixed with what is written. Links are
    followed.
    """
    check_new_folder(folder)
    target, partial = Path(os.path.realpath(folder)), None
    try:
        # Missing folders above are made at the end, so that a failure leaves none behind.
        above = next(parent for parent in target.parents if parent.exists())
        partial = Path(tempfile.mkdtemp(dir=above, prefix=f".{target.name[:100]}."))
        for name, write in writers.items():
            (partial / name).parent.mkdir(parents=True, exist_ok=True)
            write(partial / name)
        partial.chmod(0o777 & ~_umask())
        check_new_folder(target)
        if target.exists():  # someone may be in it: it is filled rather than replaced
            for written in partial.iterdir():
                written.replace(target / written.name)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            partial.replace(target)
    except OutputError as error:
        raise OutputError(str(error).replace(str(partial), str(folder))) from None
    except (OSError, UnicodeError) as error:
        raise OutputError(f"cannot write {folder}: {getattr(error, 'strerror', None) or error}.") from None
    finally:
        if partial is not None and partial.exists():
            shutil.rmtree(partial, ignore_errors=True)
    return [folder / name for name in writers]


def check_new_folder(folder: Path) -> None:
    """Fail unless a folder is new or empty."""
    try:
        found = [] if not folder.exists() else ["a file"] if not folder.is_dir() else [*folder.iterdir()]
    except (OSError, ValueError) as error:
        raise OutputError(f"cannot write {folder}: {getattr(error, 'strerror', None) or error}.") from None
    if found:
        kind = "is a file" if found == ["a file"] else "holds files already"
        raise OutputError(f"{folder} {kind}. Name a new or empty folder.")


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
    return 0o666 & ~_umask()


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask
