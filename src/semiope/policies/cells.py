"""Cells: the groups of rows over which the behaviour policy and mean split weights are counted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from semiope._arrays import Floats, Integers, frozen
from semiope._compiled import compiled
from semiope.data.episodes import Episodes
from semiope.data.labels import number
from semiope.errors import OptionError, SchemaError, nearest

CELLS = ("state", "step,state")
LARGEST_TABLE = 2**28


@dataclass(frozen=True, eq=False)
class Cells:
    """`of_row` gives the cell of each row; `state` (and `step`, unless None) say what each cell stands for."""

    of_row: Integers
    state: Integers
    step: Integers | None

    @property
    def kind(self) -> str:
        """'state' or 'step,state'."""
        return "state" if self.step is None else "step,state"

    def within(self, part: Integers) -> Cells:
        """The cells of each part of the rows apart; only those that occur."""
        of_row, codes = number(part.astype(np.int64) * len(self) + self.of_row)
        own = codes % len(self)
        return Cells(frozen(of_row), self.state[own], None if self.step is None else self.step[own])

    def __len__(self) -> int:
        return len(self.state)


def cells_of(episodes: Episodes, cell: str) -> Cells:
    """Group the rows by `state` or by `step,state`; only pairs that occur get a cell."""
    cell = check_cell(cell)
    n_states = len(episodes.states)
    if cell == "state":
        return Cells(episodes.state, np.arange(n_states), None)
    of_row, codes = number(episodes.step * n_states + episodes.state)
    return Cells(frozen(of_row), codes % n_states, codes // n_states)


def check_cell(cell: str) -> str:
    """Return the name of a kind of cell in its standard spelling."""
    plain = ",".join(part.strip() for part in str(cell).split(","))
    plain = "step,state" if plain == "state,step" else plain
    if plain not in CELLS:
        raise OptionError(f"cell: {cell!r} is not known.{nearest(plain, CELLS)} Use 'state' or 'step,state'.")
    return plain


def count_actions(cells: Cells, action: Integers, n_actions: int) -> Floats:
    """Return how often each action was taken in each cell."""
    check_size(len(cells), n_actions, "episodes")
    counts = np.zeros((len(cells), n_actions))
    _count(cells.of_row, action, counts)
    return counts


def check_size(n_cells: int, n_actions: int, name: str) -> None:
    """Fail where a table of all states and actions would be out of proportion."""
    if n_cells * n_actions > LARGEST_TABLE:
        raise SchemaError(
            f"{name}: {n_cells:,} states times {n_actions:,} actions are too many for a table. "
            "Labels unique to each row, such as measurements, are no states or actions: group them first."
        )


@compiled
def _count(cell: Integers, action: Integers, counts: Floats) -> None:
    for i in range(len(action)):
        if action[i] >= 0:
            counts[cell[i], action[i]] += 1.0
