"""Probabilities (or ratios of them) looked up where the data need them: at actions taken and at actions annotated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from semiope._arrays import Booleans, Floats, Integers
from semiope._compiled import compiled
from semiope._memory import refuse_beyond_memory
from semiope.data.logbook import Logbook
from semiope.errors import SupportError
from semiope.policies.cells import Cells

# Rows for which every action is looked up at a time.
ROWS_AT_ONCE = 1 << 14


class Lookup(Protocol):
    """A number for every action taken (1 where there was no decision) and every action annotated."""

    def taken(self, rows: slice) -> Floats:
        """Return the numbers of the actions taken in these rows."""

    def annotated(self, entries: slice) -> Floats:
        """Return the numbers of these annotated actions."""


class BoundPolicy(Lookup, Protocol):
    """A policy bound to a logbook: besides its probabilities, what it may do where nothing was logged."""

    def choices(self) -> Integers:
        """Return how many actions the policy may take at each row."""

    def at(self, rows: Integers) -> Floats:
        """Return the probability of every action in these rows, (rows, n_actions); 0 where there was no decision."""

    def mean_probs(self, cells: Cells) -> Floats:
        """Return the mean of the policy's probabilities over the decisions in each cell, (n_cells, n_actions)."""


@dataclass(frozen=True, eq=False)
class TableLookup:
    """A table (n_cells, n_actions)."""

    table: Floats
    cells: Cells
    logbook: Logbook

    def taken(self, rows: slice) -> Floats:
        """Return the numbers of the actions taken in these rows."""
        out = np.empty(rows.stop - rows.start)
        _at_taken(self.table, self.cells.of_row[rows], self.logbook.episodes.action[rows], out)
        return out

    def annotated(self, entries: slice) -> Floats:
        """Return the numbers of these annotated actions."""
        out = np.empty(entries.stop - entries.start)
        annotations = self.logbook.annotations
        _at_annotated(self.table, self.cells.of_row, annotations.row[entries], annotations.action[entries], out)
        return out

    def choices(self) -> Integers:
        """Return how many actions the policy may take at each row."""
        in_cell: Integers = np.count_nonzero(self.table, axis=1)
        return in_cell[self.cells.of_row]

    def at(self, rows: Integers) -> Floats:
        """Return the probability of every action in these rows; 0 where there was no decision."""
        decided = self.logbook.episodes.action[rows] >= 0
        return np.where(decided[:, None], self.table[self.cells.of_row[rows]], 0.0)

    def mean_probs(self, cells: Cells) -> Floats:
        """Return the mean of the policy's probabilities over the decisions in each cell, (n_cells, n_actions)."""
        if cells is self.cells:
            return self.table
        # Own cells are finer: each lies within one of the cells asked for.
        within = np.empty(len(self.cells), dtype=np.int64)
        within[self.cells.of_row] = cells.of_row
        decided = self.logbook.episodes.action >= 0
        decisions = np.bincount(self.cells.of_row, weights=decided, minlength=len(self.cells))
        sums = np.zeros((len(cells), self.table.shape[1]))
        np.add.at(sums, within, decisions[:, None] * self.table)
        return _per_decision(sums, decided, cells)


@dataclass(frozen=True, eq=False)
class RowLookup:
    """Numbers listed one by one; None where nobody knows those of the annotated actions."""

    of_taken: Floats
    of_annotated: Floats | None

    def taken(self, rows: slice) -> Floats:
        """Return the numbers of the actions taken in these rows."""
        return self.of_taken[rows]

    def annotated(self, entries: slice) -> Floats:
        """Return the numbers of these annotated actions."""
        if self.of_annotated is None:
            raise SupportError("behavior_prob holds probabilities of actions taken; those of others are not known.")
        return self.of_annotated[entries]


@dataclass(frozen=True, eq=False)
class ListedLookup(RowLookup):
    """A policy given row by row: `prob[i]` is the probability of `action[i]` in `row[i]`, sorted by both."""

    row: Integers
    action: Integers
    prob: Floats
    logbook: Logbook

    @classmethod
    def of(cls, row: Integers, action: Integers, prob: Floats, logbook: Logbook) -> ListedLookup:
        """Look the listed probabilities up at the actions taken and annotated; what is not listed is 0."""
        n_actions, annotations, taken = len(logbook.actions), logbook.annotations, logbook.episodes.action
        keys = row.astype(np.int64) * n_actions + action

        def at(rows: Integers, wanted: Integers) -> Floats:
            key = rows.astype(np.int64) * n_actions + wanted
            place = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
            return np.where(keys[place] == key, prob[place], 0.0)

        of_taken = np.where(taken < 0, 1.0, at(np.arange(len(taken)), np.maximum(taken, 0)))
        return cls(of_taken, at(annotations.row, annotations.action), row, action, prob, logbook)

    def choices(self) -> Integers:
        """Return how many actions the policy may take at each row."""
        return np.bincount(self.row[self.prob > 0], minlength=self.logbook.episodes.n_steps)

    def at(self, rows: Integers) -> Floats:
        """Return the probability of every action in these rows; 0 where there was no decision."""
        found = np.zeros((len(rows), len(self.logbook.actions)))
        starts, stops = self.row.searchsorted(rows), self.row.searchsorted(rows, side="right")
        listed = np.repeat(starts - np.append(0, np.cumsum(stops - starts)[:-1]), stops - starts)
        listed = listed + np.arange(len(listed))
        found[np.repeat(np.arange(len(rows)), stops - starts), self.action[listed]] = self.prob[listed]
        return np.where((self.logbook.episodes.action[rows] >= 0)[:, None], found, 0.0)

    def mean_probs(self, cells: Cells) -> Floats:
        """Return the mean of the policy's probabilities over the decisions in each cell, (n_cells, n_actions)."""
        decided = self.logbook.episodes.action >= 0
        sums = np.zeros((len(cells), len(self.logbook.actions)))
        counts = decided[self.row]
        np.add.at(sums, (cells.of_row[self.row[counts]], self.action[counts]), self.prob[counts])
        return _per_decision(sums, decided, cells)


class RowProbs(Protocol):
    """Probabilities of every action in every row, worked out where they are needed."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of rows and of actions."""

    def at(self, rows: Integers) -> Floats:
        """Return the probability of every action in these rows; 0 where there was no decision."""


@dataclass(frozen=True, eq=False)
class ArrayLookup:
    """A policy as an array (n_rows, n_actions), 0 where there was no decision, or as what such rows are made from.

    `columns` are those of the logbook's actions, -1 for actions that the policy does not know; None: in this order.
    """

    source: Floats | RowProbs
    logbook: Logbook
    columns: Integers | None = None

    def taken(self, rows: slice) -> Floats:
        """Return the numbers of the actions taken in these rows."""
        return self._taken_in(rows) if isinstance(self.source, np.ndarray) else self._taken[rows]

    def annotated(self, entries: slice) -> Floats:
        """Return the numbers of these annotated actions."""
        annotations = self.logbook.annotations
        return self._of(annotations.row[entries], annotations.action[entries])

    def choices(self) -> Integers:
        """Return how many actions the policy may take at each row."""
        return np.concatenate([np.count_nonzero(self.at(rows), axis=1) for rows in self._parts()])

    def at(self, rows: Integers) -> Floats:
        """Return the probability of every action in these rows; 0 where there was no decision."""
        found = self.source[rows] if isinstance(self.source, np.ndarray) else self.source.at(rows)
        return found if self.columns is None else np.where(self.columns < 0, 0.0, found[:, self.columns])

    def mean_probs(self, cells: Cells) -> Floats:
        """Return the mean of the policy's probabilities over the decisions in each cell, (n_cells, n_actions)."""
        sums = np.zeros((len(cells), len(self.logbook.actions)))
        for rows in self._parts():
            found = self.at(rows)
            for action in range(sums.shape[1]):
                sums[:, action] += np.bincount(cells.of_row[rows], weights=found[:, action], minlength=len(cells))
        return _per_decision(sums, self.logbook.episodes.action >= 0, cells)

    @cached_property
    def _taken(self) -> Floats:
        return self._taken_in(slice(0, self.logbook.episodes.n_steps))

    def _taken_in(self, rows: slice) -> Floats:
        action = self.logbook.episodes.action[rows]
        found = self._of(np.arange(rows.start, rows.stop), np.maximum(action, 0))
        found[action < 0] = 1.0
        return found

    def _of(self, row: Integers, action: Integers) -> Floats:
        """Probabilities of one action in each of these rows."""
        found = np.empty(len(row))
        for first in range(0, len(row), ROWS_AT_ONCE):
            part = slice(first, first + ROWS_AT_ONCE)
            found[part] = np.take_along_axis(self.at(row[part]), action[part, None].astype(np.int64), axis=1)[:, 0]
        return found

    def _parts(self) -> Iterator[Integers]:
        """All rows, some at a time."""
        n = self.logbook.episodes.n_steps
        return (np.arange(first, min(first + ROWS_AT_ONCE, n)) for first in range(0, n, ROWS_AT_ONCE))


def everything(policy: BoundPolicy, logbook: Logbook) -> Floats:
    """Return the probability of every action in every row, (n_rows, n_actions); 0 where there was no decision.

    Fails where that would not fit; a cross-fitted model holds some ten of them.
    """
    n_rows, n_actions = logbook.episodes.n_steps, len(logbook.actions)
    refuse_beyond_memory(80.0 * n_rows * n_actions, "a model of returns for every row and action", "Take fewer rows.")
    if isinstance(policy, ArrayLookup) and isinstance(policy.source, np.ndarray) and policy.columns is None:
        return policy.source
    return policy.at(np.arange(n_rows))


def divide(numerator: Lookup, denominator: Lookup, logbook: Logbook) -> Lookup:
    """Return the ratio of two lookups, 0 where the denominator is 0: no sample has weight there."""
    if (
        isinstance(numerator, TableLookup)
        and isinstance(denominator, TableLookup)
        and numerator.cells is denominator.cells
    ):
        return replace(numerator, table=safe_ratio(numerator.table, denominator.table))
    above, below = _listed(numerator, logbook), _listed(denominator, logbook)
    of_taken = safe_ratio(above.of_taken, below.of_taken)
    if above.of_annotated is None or below.of_annotated is None:
        return RowLookup(of_taken, None)
    return RowLookup(of_taken, safe_ratio(above.of_annotated, below.of_annotated))


def safe_ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Return numerator / denominator, 0 where the denominator is 0."""
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)


def _per_decision(sums: Floats, decided: Booleans, cells: Cells) -> Floats:
    decisions = np.bincount(cells.of_row, weights=decided, minlength=len(cells))
    return sums / np.where(decisions > 0, decisions, 1.0)[:, None]


def _listed(lookup: Lookup, logbook: Logbook) -> RowLookup:
    if isinstance(lookup, RowLookup):
        return lookup
    everywhere = slice(0, logbook.episodes.n_steps), slice(0, len(logbook.annotations.row))
    return RowLookup(lookup.taken(everywhere[0]), lookup.annotated(everywhere[1]))


@compiled
def _at_taken(table: Floats, cell: Integers, action: Integers, out: Floats) -> None:
    for i in range(len(action)):
        out[i] = table[cell[i], action[i]] if action[i] >= 0 else 1.0


@compiled
def _at_annotated(table: Floats, cell: Integers, row: Integers, action: Integers, out: Floats) -> None:
    for i in range(len(row)):
        out[i] = table[cell[row[i]], action[i]]
