"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from semiope.errors import OutputError


def write_whole(target: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `target`, then put it in place in one move."""
    partial = None
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.")
        os.close(handle)
        partial = Path(name)
        write(partial)
        umask = os.umask(0)
        os.umask(umask)
        partial.chmod(0o666 & ~umask)
        partial.replace(target)
    except OSError as error:
        raise OutputError(f"cannot write {target}: {error.strerror or error}.") from None
    finally:
        if partial is not None:
            partial.unlink(missing_ok=True)
