"""Sizes that would not fit are refused before anything is allocated."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from semiope.errors import OptionError

# A single table may take this share of the machine's memory.
SHARE = 0.5


def refuse_beyond_memory(n_bytes: float, what: str, way_out: str) -> None:
    """Fail if `what` needs more bytes than a single table should take on this machine."""
    limit = SHARE * machine_memory()
    if n_bytes > limit:
        raise OptionError(
            f"{what} would take {n_bytes / 2**30:,.1f} GiB, more than half of this machine's memory "
            f"({machine_memory() / 2**30:,.1f} GiB). {way_out}"
        )


def machine_memory() -> float:
    """Bytes that this process may use at most: the machine's, or less if its container has less."""
    found = []
    try:
        found.append(float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")))
    except (AttributeError, ValueError, OSError):
        found.append(float("inf"))
    with contextlib.suppress(OSError, ValueError):
        found.append(float(Path("/sys/fs/cgroup/memory.max").read_text()))
    return min(found)
