"""Packages that only some uses need: a missing one names the command that brings it."""

from __future__ import annotations

import importlib
from typing import Any

from semiope.errors import MissingExtraError


def need(module: str, extra: str, what: str) -> Any:
    """Import a module of an optional package, or say how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(f'{what} needs {error.name or module}: pip install "semiope[{extra}]"') from None
