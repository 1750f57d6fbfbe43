"""Arguments that many functions share: what they are, and checks of single numbers."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real

from semiope.errors import OptionError

LARGEST = 2**62
# Called with how much is done and how much there is in all.
Progress = Callable[[int, int], None]


def check_gamma(gamma: object) -> float:
    """Return a discount factor as a float; fail unless it lies between 0 and 1."""
    if not isinstance(gamma, Real) or isinstance(gamma, bool) or not 0 <= float(gamma) <= 1:
        raise OptionError(f"gamma: {gamma!r} is not a number between 0 and 1.")
    return float(gamma) + 0.0  # no negative zero


def check_count(number: object, name: str, *, least: int = 1) -> int:
    """Return a whole number as an int; fail unless it is at least `least`."""
    if not isinstance(number, Integral) or isinstance(number, bool) or int(number) < least:
        raise OptionError(f"{name}: {number!r} is not a whole number of at least {least}.")
    if int(number) > LARGEST:
        raise OptionError(f"{name}: more than {LARGEST:,} is beyond all counting.")
    return int(number)
