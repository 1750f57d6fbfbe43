"""Compilation in one place: numba with caching on disk, typed so that mypy still sees the function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile `function` on its first call for the argument types it gets, and keep the machine code on disk.

    Multiplications and additions may be contracted into one instruction; nothing else of IEEE arithmetic is relaxed.
    """
    return cast(Function, numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})(function))
