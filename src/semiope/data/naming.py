"""Refusals that name states and actions by their labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from semiope.data.labels import Vocabulary
from semiope.errors import SHOWN, SchemaError, count


def refuse_states(wrong: Any, what: str, states: Vocabulary, way_out: str = "") -> None:
    """Fail if any state is `wrong`, an array (n_states,) of flags; name the first ones."""
    rows = np.flatnonzero(wrong)
    if len(rows):
        shown = ", ".join(f"state {states[i]!r}" for i in rows[:SHOWN])
        raise SchemaError(f"{what} {count(len(rows), 'state')}. First: {shown}. {way_out}".rstrip())


def refuse_pairs(
    wrong: Any, what: str, states: Vocabulary | None, actions: Vocabulary | None, way_out: str = ""
) -> None:
    """Fail if any pair is `wrong`, an array (..., n_states, n_actions) of flags; name the first ones.

    Without vocabularies, ids stand for the labels.
    """
    pairs = np.argwhere(wrong)
    if len(pairs):
        shown = ", ".join(
            f"state {int(s) if states is None else repr(states[s])} "
            f"action {int(a) if actions is None else repr(actions[a])}"
            for s, a in pairs[:SHOWN, -2:]
        )
        raise SchemaError(f"{what} {count(len(pairs), 'pair')}. First: {shown}. {way_out}".rstrip())
