"""What semiope says when something is wrong: each message names what, where, and the way out."""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

# How many offending rows or labels a message shows.
SHOWN = 3


# A word, and a message, with more characters than this is not shown whole.
LONGEST_WORD, LONGEST_MESSAGE = 200, 4000


class SemiopeError(Exception):
    """Base of all errors a user can cause; the command line turns them into exit status 2."""

    def __init__(self, message: str = "") -> None:
        super().__init__(shortened(message))


class SchemaError(SemiopeError, ValueError):
    """A table, file or array does not have the shape or content that it must have."""


class OptionError(SemiopeError, ValueError):
    """An argument or option has a value that semiope does not know or cannot use."""


class SupportError(SemiopeError, ValueError):
    """The logs and annotations do not hold what this estimator needs."""


class NotEstimatedError(SemiopeError, KeyError):
    """A result does not hold the estimate that was asked of it."""

    __str__ = Exception.__str__


class MissingExtraError(SemiopeError, ImportError):
    """Something needs a package that is not installed."""


class OutputError(SemiopeError, OSError):
    """A file cannot be written."""


class StatisticalWarning(UserWarning):
    """The estimate is given, but there is a statistical reason to doubt it."""


@contextmanager
def quietly() -> Iterator[None]:
    """Without statistical warnings, where they are known or told otherwise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StatisticalWarning)
        yield


def shortened(message: str) -> str:
    """The message with words and text of any length that somebody would want to read: labels may be very long."""
    pattern = rf"\S{{{LONGEST_WORD},}}"
    message = re.sub(pattern, lambda found: f"{found[0][:60]}... ({len(found[0]):,} characters)", message)
    if len(message) <= LONGEST_MESSAGE:
        return message
    half = LONGEST_MESSAGE // 2
    return f"{message[:half]} ... ({len(message) - 2 * half:,} characters left out) ... {message[-half:]}"


def nearest(word: str, known: Iterable[str]) -> str:
    """Return ' Did you mean ...?' for the known word closest to `word`, or nothing."""
    plain = {_plain(name): name for name in reversed(list(known))}
    close = difflib.get_close_matches(_plain(word), plain, n=1, cutoff=0.7)
    return f" Did you mean {plain[close[0]]!r}?" if close else ""


def _plain(word: str) -> str:
    """A word without what is easily confused: case, hyphens, underscores, stars."""
    return re.sub(r"[-_* ]", "", word.lower())


def count(n: int, noun: str) -> str:
    """Return '1 row', '2 rows', '1,000 rows'."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"
