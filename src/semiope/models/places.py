"""Where data lie in a model: ids of states and actions, so that its tables can be read at each row or answer."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from semiope._arrays import Booleans, Floats, Integers
from semiope.data.annotations import Annotations
from semiope.data.episodes import Episodes
from semiope.data.labels import ABSENT
from semiope.errors import SchemaError
from semiope.models.tabular import TabularMDP


class Places(NamedTuple):
    """Step, state and action (-1 where there is none) of each row or answer, by the model's ids."""

    step: Integers
    state: Integers
    action: Integers

    def part(self, which: Booleans | Integers) -> Places:
        """Some of the places."""
        return Places(self.step[which], self.state[which], self.action[which])

    def read(self, table: Floats) -> Floats:
        """The entries of a table (horizon, n_states, n_actions) at these places."""
        return table[self.step, self.state, self.action]


def places_of_rows(mdp: TabularMDP, episodes: Episodes) -> Places:
    """The place of every row; fail where the model lacks a state, an action or a step."""
    if int(episodes.lengths.max()) > mdp.horizon:
        raise SchemaError(
            f"episodes: one has {episodes.lengths.max()} steps, but the model's horizon is {mdp.horizon}. "
            "Use the model that these episodes come from."
        )
    state = mdp.states.positions_of(episodes.states)
    for name, known, words in (
        ("state", state, episodes.states),
        ("action", mdp.actions.positions_of(episodes.actions), episodes.actions),
    ):
        if (known == ABSENT).any():
            raise SchemaError(f"episodes: the model has no {name} {words[int(np.argmin(known))]!r}.")
    # Rows without an action have -1, which finds the -1 put behind.
    action = np.append(mdp.actions.positions_of(episodes.actions), ABSENT)
    return Places(episodes.step, state[episodes.state], action[episodes.action])


def places_of_answers(mdp: TabularMDP, episodes: Episodes, annotations: Annotations) -> Places:
    """The place that every answer speaks about."""
    row = episodes.rows_of(annotations.labels, annotations.episode, annotations.step, "annotations")
    rows = places_of_rows(mdp, episodes)
    known = mdp.actions.positions_of(annotations.actions)
    if (known == ABSENT).any():
        raise SchemaError(f"annotations: the model has no action {annotations.actions[int(np.argmin(known))]!r}.")
    return Places(rows.step[row], rows.state[row], known[annotations.action])
