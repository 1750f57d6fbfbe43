"""What semiope says when something is wrong: each message names what, where, and the way out."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class SemiopeError(Exception):
    """Base of all errors a user can cause; the command line turns them into exit status 2."""


class SchemaError(SemiopeError, ValueError):
    """A table, file or array does not have the shape or content that it must have."""


class OptionError(SemiopeError, ValueError):
    """An argument or option has a value that semiope does not know or cannot use."""


class SupportError(SemiopeError, ValueError):
    """The logs and annotations do not hold what this estimator needs."""


class MissingExtraError(SemiopeError, ImportError):
    """An optional dependency is not installed."""


class StatisticalWarning(UserWarning):
    """The estimate is given, but there is a statistical reason to doubt it."""


def nearest(word: str, known: Iterable[str]) -> str:
    """Return ' Did you mean ...?' for the known word closest to `word`, or nothing."""
    by_lower_case = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), by_lower_case, n=1, cutoff=0.6)
    return f" Did you mean {by_lower_case[close[0]]!r}?" if close else ""


def count(n: int, noun: str) -> str:
    """Return '1 row', '2 rows', '1,000 rows'."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"
