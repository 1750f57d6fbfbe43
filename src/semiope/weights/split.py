"""Split weights: how each sample's weight of one is shared between what happened and what was annotated (section 3.2).

At each step the action taken has weight w^a and each annotated action its w^a~, all non-negative. Those of the paper
sum to one; nothing else needs it, and those by variance (`estimated.py`) do not: estimators divide by the mean weight
that an action has in its cell. Actions without an annotation have none. A weighting is a function from the data to
`SplitWeights`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from semiope._arrays import Floats, Integers, as_floats
from semiope._files import exists
from semiope.data.episodes import Episodes
from semiope.data.labels import ABSENT, Vocabulary
from semiope.data.logbook import Logbook
from semiope.data.schema import Columns
from semiope.data.tables import read_table
from semiope.errors import SHOWN, OptionError, SchemaError, count, nearest

# Weights that miss one by rounding only are accepted.
ROUNDING = 1e-9


class SplitWeights(NamedTuple):
    """`taken` per row of the episodes, `annotated` per aligned annotation."""

    taken: Floats
    annotated: Floats


Weighting = Callable[[Logbook], SplitWeights]


def equal(logbook: Logbook) -> SplitWeights:
    """Split equally over the action taken and those annotated at that step."""
    row = logbook.annotations.row
    taken = 1.0 / (1 + np.bincount(row, minlength=logbook.episodes.n_steps))
    return SplitWeights(taken, taken[row])


def factual(logbook: Logbook) -> SplitWeights:
    """Listen only to what happened: C-x becomes x."""
    return SplitWeights(np.ones(logbook.episodes.n_steps), np.zeros(len(logbook.annotations.row)))


def annotated(logbook: Logbook) -> SplitWeights:
    """Listen only to annotations, equally to those of a step; to what happened where there are none."""
    row = logbook.annotations.row
    number = np.bincount(row, minlength=logbook.episodes.n_steps)
    return SplitWeights(np.where(number > 0, 0.0, 1.0), 1.0 / number[row])


def column(logbook: Logbook) -> SplitWeights:
    """Take the annotations' own column `weight`; the action taken keeps the rest."""
    annotations = logbook.annotations
    if not len(annotations.row):
        return factual(logbook)
    if annotations.weight is None:
        raise SchemaError("annotations: weights='column' needs a column 'weight', and there is none.")
    return with_rest_on_taken(logbook, annotations.weight)


WEIGHTINGS: dict[str, Weighting] = {"equal": equal, "factual": factual, "annotated": annotated, "column": column}


class TableWeights:
    """Weights given by the user as W(a'|s, a): per state, action taken and action.

    Where an action was not annotated, its share stays with the action taken. Pairs (s, a) that are not listed keep all
    weight on the action taken.
    """

    def __init__(self, shares: Floats, states: Vocabulary, actions: Vocabulary, row_of: Integers) -> None:
        self.shares, self.states, self.actions, self.row_of = shares, states, actions, row_of

    @classmethod
    def from_array(cls, shares: Any) -> TableWeights:
        """Build from an array (n_states, n_actions, n_actions), indexed by ids of state, action taken and action."""
        array = as_floats(shares, "weights")
        if array.ndim != 3 or array.shape[1] != array.shape[2] or not array.size:
            raise SchemaError(f"weights: an array of shape {array.shape}; give (n_states, n_actions, n_actions).")
        n_states, n_actions = array.shape[:2]
        row_of = np.arange(n_states * n_actions).reshape(n_states, n_actions)
        return cls(
            array.reshape(-1, n_actions), Vocabulary.integers(n_states), Vocabulary.integers(n_actions), row_of
        )._checked()

    @classmethod
    def from_arrow(cls, source: Any) -> TableWeights:
        """Build from a table with state, taken, action, weight; for each (state, taken) the weights sum to one."""
        columns = Columns(read_table(source, "weights"), "weights", ("state", "taken", "action", "weight"))
        state, states = columns.encode("state")
        taken, takens = columns.encode("taken")
        action, actions = columns.encode("action")
        if not takens.comparable(actions):
            raise SchemaError(f"weights: column 'taken' holds {takens.kind}, column 'action' {actions.kind}.")
        actions = actions.extended(takens)
        taken = actions.positions_of(takens)[taken]
        pairs, row = np.unique(state.astype(np.int64) * len(actions) + taken, return_inverse=True)
        columns.refuse_repeats("action", row * len(actions) + action)
        shares = np.zeros((len(pairs), len(actions)))
        shares[row, action] = columns.floats("weight")
        row_of = np.full((len(states), len(actions)), ABSENT)
        row_of.ravel()[pairs] = np.arange(len(pairs))
        return cls(shares, states, actions, row_of)._checked()

    def _checked(self) -> TableWeights:
        wrong = (~np.isfinite(self.shares) | (self.shares < 0)).any(axis=1)
        wrong |= np.abs(self.shares.sum(axis=1) - 1) > ROUNDING
        if wrong.any():
            places = [np.argwhere(self.row_of == row)[0] for row in np.flatnonzero(wrong)[:SHOWN]]
            shown = "; ".join(f"state {self.states[s]!r}, action taken {self.actions[a]!r}" for s, a in places)
            raise SchemaError(
                f"weights: for {count(int(wrong.sum()), 'pair')} of state and action taken the weights are "
                f"not in [0, 1] with sum 1. First: {shown}; sum {self.shares[wrong][0].sum():.6g}. "
                "List every action with its share, that taken included."
            )
        return self

    def __call__(self, logbook: Logbook) -> SplitWeights:
        """Return the weights of these samples."""
        episodes, annotations = logbook.episodes, logbook.annotations
        logbook.actions.ids_of(self.actions, "weights")
        if not self.states.comparable(episodes.states):
            raise SchemaError(
                f"weights: column 'state' holds {self.states.kind}, that of the episodes {episodes.states.kind}. "
                "Use the same labels in both."
            )
        if (episodes.states.positions_of(self.states) == ABSENT).all():
            raise SchemaError(f"weights: none of its states occurs in the logs. First: {self.states[0]!r}.")
        own_action = self.actions.positions_of(logbook.actions)
        state = self.states.positions_of(episodes.states)[episodes.state[annotations.row]]
        taken, action = own_action[episodes.action[annotations.row]], own_action[annotations.action]
        row = np.where((state == ABSENT) | (taken == ABSENT), ABSENT, self.row_of[state, taken])
        share = np.where((row == ABSENT) | (action == ABSENT), 0.0, self.shares[row, action])
        return with_rest_on_taken(logbook, share)


# Weights that depend on the policy as well are found later, starting from equal ones (`estimated.py`).
ESTIMATED = ("inverse-variance", "optimal")


def weighting(weights: Any) -> Weighting:
    """Return the weighting for a name, an array (n_states, n_actions, n_actions), a table, a file or a function."""
    if isinstance(weights, str) and weights in (*WEIGHTINGS, *ESTIMATED):
        return WEIGHTINGS.get(weights, equal)
    if isinstance(weights, str) and not Path(weights).suffix and not exists(Path(weights)):
        raise OptionError(
            f"weights: {weights!r} is not known.{nearest(weights, (*WEIGHTINGS, *ESTIMATED, 'auto'))} "
            f"Use one of {', '.join((*WEIGHTINGS, *ESTIMATED, 'auto'))}, or a table with state, taken, action, weight."
        )
    if callable(weights):
        found: Weighting = weights
        return found
    return (
        TableWeights.from_array(weights) if isinstance(weights, np.ndarray | list) else TableWeights.from_arrow(weights)
    )


def with_rest_on_taken(logbook: Logbook, share: Floats) -> SplitWeights:
    """Give the annotated actions their shares and the action taken what is left at each step."""
    taken = 1.0 - np.bincount(logbook.annotations.row, weights=share, minlength=logbook.episodes.n_steps)
    split = SplitWeights(np.where((taken < 0) & (taken > -ROUNDING), 0.0, taken), share)
    check(split, logbook.episodes)
    return split


def sum_to_one(split: SplitWeights, logbook: Logbook) -> bool:
    """Whether the weights of every decision sum to one."""
    told = np.bincount(logbook.annotations.row, weights=split.annotated, minlength=len(split.taken))
    off = np.abs(split.taken + told - 1) > ROUNDING
    return not off[logbook.episodes.action >= 0].any()


def check(split: SplitWeights, episodes: Episodes) -> None:
    """Fail unless the weights are numbers, non-negative, and leave no step with more than one in all."""
    if not np.isfinite(split.annotated).all() or (split.annotated < 0).any():
        raise SchemaError("weights: every weight must be a number that is not negative.")
    over = np.flatnonzero(split.taken < 0)
    if len(over):
        shown = "; ".join(episodes.describe_row(int(row)) for row in over[:SHOWN])
        raise SchemaError(
            f"weights: the annotations' weights exceed 1 at {count(len(over), 'step')}. First: {shown}. "
            "Weights of one step sum to at most 1; the action taken keeps the rest."
        )
