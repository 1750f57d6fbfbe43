"""Probabilities (or ratios of them) looked up where the data need them: at actions taken and at actions annotated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from semiope._arrays import Floats, Integers
from semiope._compiled import compiled
from semiope.data.annotations import AlignedAnnotations
from semiope.data.episodes import Episodes
from semiope.data.labels import Vocabulary
from semiope.policies.policy import RowPolicy


class Lookup(Protocol):
    """A number for every action taken (1 where there was no decision) and every action annotated."""

    def taken(self, rows: slice) -> Floats:
        """Return the numbers of the actions taken in these rows."""

    def annotated(self, entries: slice) -> Floats:
        """Return the numbers of these annotated actions."""


@dataclass(frozen=True, eq=False)
class TableLookup:
    """A table (n_cells, n_actions) with the cells in which the actions were taken and annotated."""

    table: Floats
    cell: Integers
    episodes: Episodes
    annotations: AlignedAnnotations

    def taken(self, rows: slice) -> Floats:
        """Return the numbers of the actions taken in these rows."""
        out = np.empty(rows.stop - rows.start)
        _at_taken(self.table, self.cell[rows], self.episodes.action[rows], out)
        return out

    def annotated(self, entries: slice) -> Floats:
        """Return the numbers of these annotated actions."""
        out = np.empty(entries.stop - entries.start)
        _at_annotated(self.table, self.cell, self.annotations.row[entries], self.annotations.action[entries], out)
        return out


@dataclass(frozen=True, eq=False)
class RowLookup:
    """Numbers listed one by one."""

    of_taken: Floats
    of_annotated: Floats

    def taken(self, rows: slice) -> Floats:
        """Return the numbers of the actions taken in these rows."""
        return self.of_taken[rows]

    def annotated(self, entries: slice) -> Floats:
        """Return the numbers of these annotated actions."""
        return self.of_annotated[entries]


def divide(numerator: Lookup, denominator: Lookup) -> Lookup:
    """Return the ratio of two lookups, 0 where the denominator is 0: no sample has weight there."""
    if (
        isinstance(numerator, TableLookup)
        and isinstance(denominator, TableLookup)
        and numerator.cell is denominator.cell
    ):
        return replace(numerator, table=safe_ratio(numerator.table, denominator.table))
    listed = [_listed(lookup) for lookup in (numerator, denominator)]
    return RowLookup(
        safe_ratio(listed[0].of_taken, listed[1].of_taken), safe_ratio(listed[0].of_annotated, listed[1].of_annotated)
    )


def safe_ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Return numerator / denominator, 0 where the denominator is 0."""
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)


def row_lookup(
    policy: RowPolicy, episodes: Episodes, annotations: AlignedAnnotations, actions: Vocabulary, name: str
) -> RowLookup:
    """Bind a policy given row by row to the actions taken and annotated."""
    row, action, prob = policy.on(episodes, actions, name)
    keys = row.astype(np.int64) * len(actions) + action

    def at(rows: Integers, wanted: Integers) -> Floats:
        key = rows.astype(np.int64) * len(actions) + wanted
        place = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
        return np.where(keys[place] == key, prob[place], 0.0)

    of_taken = at(np.arange(episodes.n_steps), np.maximum(episodes.action, 0))
    of_taken[episodes.action < 0] = 1.0
    return RowLookup(of_taken, at(annotations.row, annotations.action))


def _listed(lookup: Lookup) -> RowLookup:
    if isinstance(lookup, RowLookup):
        return lookup
    assert isinstance(lookup, TableLookup)
    n_rows, n_annotated = lookup.episodes.n_steps, len(lookup.annotations.row)
    return RowLookup(lookup.taken(slice(0, n_rows)), lookup.annotated(slice(0, n_annotated)))


@compiled
def _at_taken(table: Floats, cell: Integers, action: Integers, out: Floats) -> None:
    for i in range(len(action)):
        out[i] = table[cell[i], action[i]] if action[i] >= 0 else 1.0


@compiled
def _at_annotated(table: Floats, cell: Integers, row: Integers, action: Integers, out: Floats) -> None:
    for i in range(len(row)):
        out[i] = table[cell[row[i]], action[i]]
