"""Labels (integers or strings) encoded once as small integer ids."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semiope._arrays import Integers, id_dtype
from semiope.errors import SHOWN, SchemaError, nearest

ABSENT = -1
# Values numbered at a time: what is allocated on the way stays small.
SLAB = 1 << 18


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Distinct labels; the id of a label is its position among the `words`.

    Integers `from_text` were read from a file that does not tell 1 from "1": beside strings they are strings.
    """

    words: pa.Array
    from_text: bool = False

    @classmethod
    def integers(cls, n: int) -> Vocabulary:
        """Return the vocabulary of the labels 0 ... n - 1."""
        return cls(pa.array(np.arange(n, dtype=np.int64)))

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, position: int) -> int | str:
        label: int | str = self.words[int(position)].as_py()
        return label

    def decode(self, ids: Integers) -> pa.Array:
        """Return the labels of these ids, null for -1."""
        return self.words.take(pa.array(ids, mask=ids == ABSENT))

    @property
    def kind(self) -> str:
        """'integers' or 'strings'."""
        return "integers" if pa.types.is_integer(self.words.type) else "strings"

    @cached_property
    def numbers(self) -> Integers:
        """What tells the labels apart in a seed's series of random numbers: integers themselves, strings by a hash."""
        if self.kind == "integers":
            found: Integers = self.words.to_numpy()
            return found
        hashed = [blake2b(label.encode(), digest_size=8).digest() for label in self.words.to_pylist()]
        return np.frombuffer(b"".join(hashed), dtype="<i8")

    def comparable(self, other: Vocabulary) -> bool:
        """Whether labels of both can be equal at all (an empty vocabulary agrees with any)."""
        return not len(self) or not len(other) or self.beside(other).kind == other.beside(self).kind

    def beside(self, other: Vocabulary) -> Vocabulary:
        """Return this vocabulary as it is to be compared with another: as strings, if it came from text beside some."""
        if self.from_text and self.kind == "integers" and other.kind == "strings" and len(other):
            return Vocabulary(self.words.cast(pa.string()))
        return self

    def positions_of(self, other: Vocabulary) -> Integers:
        """For each label of `other` its id here, -1 where it is absent."""
        if self.words.equals(other.words):
            return np.arange(len(self), dtype=np.int64)
        if not len(self) or not len(other) or not self.comparable(other):
            return np.full(len(other), ABSENT, dtype=np.int64)
        own, others = self.beside(other).words, other.beside(self).words
        found = pc.fill_null(pc.index_in(others, value_set=own), ABSENT)
        positions: Integers = found.to_numpy(zero_copy_only=False).astype(np.int64)
        return positions

    def ids_of(self, other: Vocabulary, name: str) -> Integers:
        """For each label of `other`, the actions in a table called `name`, its id here; all must exist."""
        ids = self.positions_of(other)
        strangers = np.flatnonzero(ids == ABSENT)
        if len(strangers):
            if not self.comparable(other):
                raise SchemaError(
                    f"{name}: column 'action' holds {other.kind}, the other tables have {self.kind}. "
                    "Use the same labels everywhere."
                )
            known = [str(label) for label in self.words.to_pylist()]
            shown = ", ".join(repr(other[i]) for i in strangers[:SHOWN])
            raise SchemaError(
                f"{name}: the action {shown} occurs neither in the logs nor in a policy."
                f"{nearest(str(other[int(strangers[0])]), known)} Known actions: {', '.join(known[:20])}."
            )
        return ids.astype(id_dtype(len(self)))

    def used(self, ids: Integers) -> tuple[Integers, Vocabulary]:
        """Return ids into the vocabulary of those labels that occur among `ids`, and that vocabulary; -1 stays."""
        numbers, occurring = number(ids)
        if occurring[0] == ABSENT:
            numbers, occurring = numbers - 1, occurring[1:]
        return numbers.astype(id_dtype(len(occurring))), Vocabulary(
            self.words.take(pa.array(occurring)), self.from_text
        )

    def extended(self, other: Vocabulary) -> Vocabulary:
        """Return this vocabulary with the labels of `other` that it lacks put behind; ids given before stay valid."""
        if not len(self):
            return other
        new = other.beside(self).words.take(pa.array(np.flatnonzero(self.positions_of(other) == ABSENT)))
        own = self.beside(other)
        return Vocabulary(pa.concat_arrays([own.words, new]), self.from_text and other.from_text) if len(new) else self


def encode(column: pa.Array) -> tuple[Integers, Vocabulary]:
    """Return ids and the sorted vocabulary of a column of int64 or string labels; nulls become -1."""
    if pa.types.is_integer(column.type):
        return _encode_integers(column)
    encoded = column.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary)
    ranks = np.empty(len(order) + 1, dtype=id_dtype(len(order)))
    ranks[order.to_numpy()] = np.arange(len(order))
    ranks[-1] = ABSENT
    indices = pc.fill_null(encoded.indices, len(order)).to_numpy(zero_copy_only=False)
    return ranks[indices], Vocabulary(encoded.dictionary.take(order))


def _encode_integers(column: pa.Array) -> tuple[Integers, Vocabulary]:
    if column.null_count == len(column):
        return np.full(len(column), ABSENT, dtype=id_dtype(0)), Vocabulary(pa.array([], pa.int64()))
    missing = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    values = (column if missing is None else pc.fill_null(column, pc.min(column))).to_numpy()
    ids, labels = number(values)
    if missing is not None:
        ids[missing] = ABSENT
    return ids, Vocabulary(pa.array(labels))


def number(values: Integers) -> tuple[Integers, Integers]:
    """Number the distinct values in ascending order: return the number of each value, and the distinct values."""
    low, high = int(values.min()), int(values.max())
    if high - low >= 4 * len(values) + 65536:  # too sparse for a table of all that could occur
        distinct, inverse = np.unique(values, return_inverse=True)
        return inverse.astype(id_dtype(len(distinct))), distinct
    occurs = np.zeros(high - low + 1, dtype=np.bool_)
    slabs = [slice(first, first + SLAB) for first in range(0, len(values), SLAB)]
    for slab in slabs:
        occurs[np.subtract(values[slab], low, dtype=np.int64)] = True
    distinct = np.flatnonzero(occurs) + low
    table = np.empty(len(occurs), dtype=id_dtype(len(distinct)))
    table[distinct - low] = np.arange(len(distinct))
    numbers: Integers = np.empty(len(values), dtype=id_dtype(len(distinct)))
    for slab in slabs:
        numbers[slab] = table[np.subtract(values[slab], low, dtype=np.int64)]
    return numbers, distinct
