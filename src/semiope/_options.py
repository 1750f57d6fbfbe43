"""Checks of single numbers that users pass."""

from __future__ import annotations

from numbers import Integral, Real

from semiope.errors import OptionError


def check_gamma(gamma: object) -> float:
    """Return a discount factor as a float; fail unless it lies between 0 and 1."""
    if not isinstance(gamma, Real) or isinstance(gamma, bool) or not 0 <= float(gamma) <= 1:
        raise OptionError(f"gamma: {gamma!r} is not a number between 0 and 1.")
    return float(gamma) + 0.0  # no negative zero


def check_count(number: object, name: str, *, least: int = 1) -> int:
    """Return a whole number as an int; fail unless it is at least `least`."""
    if not isinstance(number, Integral) or isinstance(number, bool) or int(number) < least:
        raise OptionError(f"{name}: {number!r} is not a whole number of at least {least}.")
    return int(number)
