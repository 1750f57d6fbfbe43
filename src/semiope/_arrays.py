"""Names for the array types that walk through the rooms, and the few things done to all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from semiope.errors import SchemaError

Floats = NDArray[np.float64]
Integers = NDArray[np.signedinteger[Any]]
Booleans = NDArray[np.bool_]


def id_dtype(n: int) -> type[np.signedinteger[Any]]:
    """Return the smallest of a few signed integer types that holds the ids 0 ... n - 1 and -1.

    There is none of one byte: each type more is one more form in which everything is compiled.
    """
    for dtype in (np.int16, np.int32):
        if n - 1 <= np.iinfo(dtype).max:
            return dtype
    return np.int64


def as_floats(values: Any, name: str) -> Floats:
    """Return an array of our own with the numbers of a user's, whatever kind it is."""
    try:
        array = np.ma.asarray(values)
        if np.ma.is_masked(array) or np.iscomplexobj(array):
            raise ValueError("masked elements or complex numbers")
        return np.array(array, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise SchemaError(f"{name}: not an array of numbers ({error}).") from None


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view of `array` that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def root_mean_square(values: Floats) -> float:
    """Return the root of the mean square, in units of the largest, so that squares of extreme numbers stay in range."""
    unit = float(np.abs(values).max())
    return unit * float(np.sqrt(np.mean((values / unit) ** 2))) if unit else 0.0


def runs(starts: Integers, lengths: Integers) -> Integers:
    """The numbers start, start + 1 ... of each run, one run after the other."""
    before = np.append(0, np.cumsum(lengths)[:-1]) if len(lengths) else lengths
    found: Integers = np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))
    return found
