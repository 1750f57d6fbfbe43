"""Compilation in one place: numba with caching on disk, typed so that mypy still sees the function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])


def constant(number: int) -> int:
    """Return a number to call compiled functions with: for each plain one that is written out, they compile anew."""
    return cast(int, np.int64(number))


def compiled(function: Function) -> Function:
    """Compile `function` on its first call for the argument types it gets, and keep the machine code on disk.

    Multiplications and additions may be contracted into one instruction; nothing else of IEEE arithmetic is relaxed.
    """
    options = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}
    try:
        return cast(Function, numba.njit(cache=True, **options)(function))
    except RuntimeError:  # nowhere to keep it: neither beside the code nor in the user's folder
        return cast(Function, numba.njit(**options)(function))
