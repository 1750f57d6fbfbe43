"""A model of returns that somebody else made: Q-hat as a table over states, or row by row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from semiope._arrays import Floats, Integers, as_floats
from semiope.data.labels import ABSENT, Vocabulary
from semiope.data.logbook import Logbook
from semiope.data.repeat import Resample
from semiope.data.schema import Columns
from semiope.data.tables import read_table
from semiope.errors import SchemaError
from semiope.policies.cells import check_size


@dataclass(frozen=True, eq=False)
class GivenReturns:
    """`value[k]` of `action[k]` in `place[k]`: a state, in `step[k]` unless None, or an episode and its step."""

    states: Vocabulary | None
    labels: Vocabulary | None
    actions: Vocabulary
    place: Integers
    step: Integers | None
    action: Integers
    value: Floats
    name: str = "model"

    @classmethod
    def from_array(cls, returns: Any) -> GivenReturns:
        """Build from an array (n_states, n_actions) or (n_steps, n_states, n_actions); ids are the labels."""
        table = as_floats(returns, "model")
        if table.ndim not in (2, 3) or not table.size or not np.isfinite(table).all():
            raise SchemaError(
                f"model: an array of shape {table.shape}; give finite numbers, (n_states, n_actions) or "
                "(n_steps, n_states, n_actions)."
            )
        index = np.indices(table.shape).reshape(table.ndim, -1)
        states, actions = (Vocabulary.integers(n) for n in table.shape[-2:])
        step = index[0] if table.ndim == 3 else None
        return cls(states, None, actions, index[-2], step, index[-1], table.ravel())

    @classmethod
    def from_arrow(cls, source: Any, *, name: str = "model", by_row: bool = False) -> GivenReturns:
        """Build from a table with state, action, value and perhaps step, or with episode, step, action, value.

        `by_row`: it has to be the latter. `name` is what messages call it.
        """
        table = read_table(source, name)
        by_row = by_row or "episode" in table.column_names
        needed = ("episode", "step") if by_row else ("state",)
        columns = Columns(table, name, (*needed, "action", "value"), () if by_row else ("step",))
        place, words = columns.encode(needed[0])
        action, actions = columns.encode("action")
        step = columns.steps() if "step" in columns else None
        key = place.astype(np.int64) if step is None else step * len(words) + place
        columns.refuse_repeats("action", np.unique(key, return_inverse=True)[1] * len(actions) + action)
        value = columns.floats("value")
        return cls(None if by_row else words, words if by_row else None, actions, place, step, action, value, name)

    def resampled(self, by: Resample) -> GivenReturns:
        """The same in a resample of the episodes."""
        if self.labels is None:
            return self
        kept = by.rows(self.labels, self.place)
        step = None if self.step is None else self.step[kept.row]
        return replace(
            self, labels=by.labels, place=kept.episode, step=step, action=self.action[kept.row],
            value=self.value[kept.row],
        )  # fmt: skip

    def at(self, logbook: Logbook) -> Floats:
        """Q-hat of every action in every row, NaN where nothing was given."""
        episodes = logbook.episodes
        check_size(episodes.n_steps, len(logbook.actions), self.name)
        found = np.full((episodes.n_steps, len(logbook.actions)), np.nan)
        for name, words, others in (("state", self.states, episodes.states), ("action", self.actions, logbook.actions)):
            if words is not None and not words.comparable(others):
                raise SchemaError(
                    f"{self.name}: its {name}s are {words.kind}, those of the episodes {others.kind}. Use the same "
                    "labels."
                )
        known = logbook.actions.positions_of(self.actions)[self.action]
        if self.labels is not None:
            assert self.step is not None
            row = episodes.rows_of(self.labels, self.place, self.step, self.name)
            found[row[known != ABSENT], known[known != ABSENT]] = self.value[known != ABSENT]
            return found
        assert self.states is not None
        state = episodes.states.positions_of(self.states)[self.place]
        kept = (known != ABSENT) & (state != ABSENT)
        step = np.zeros(len(state), dtype=np.int64) if self.step is None else self.step.astype(np.int64)
        horizon = 1 if self.step is None else int(episodes.lengths.max())
        kept &= step < horizon
        check_size(horizon * len(episodes.states), len(logbook.actions), self.name)
        table = np.full((horizon, len(episodes.states), len(logbook.actions)), np.nan)
        table[step[kept], state[kept], known[kept]] = self.value[kept]
        at_step = episodes.step if horizon > 1 else np.zeros(episodes.n_steps, dtype=np.int64)
        return table[at_step, episodes.state]
