"""What follows each state and action, as a sparse table: the one place where transition probabilities are checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from semiope._arrays import Booleans, Floats, Integers, as_floats, frozen, id_dtype
from semiope._compiled import compiled
from semiope.data.labels import Vocabulary
from semiope.data.naming import refuse_pairs
from semiope.errors import SHOWN, SchemaError, count

# Next state of a transition after which nothing follows.
END = -1
# Exact answers deserve exact probabilities: nothing is rescaled.
SUM_TOLERANCE = 1e-9
NAME = "transitions"


@dataclass(frozen=True, eq=False)
class Transitions:
    """Entries `offsets[k]` to `offsets[k + 1]` list what may follow pair k = state * n_actions + action.

    `following` holds ids of next states, in ascending order within a pair, or END; `prob` their probabilities.
    """

    offsets: Integers
    following: Integers
    prob: Floats
    n_states: int
    n_actions: int

    @classmethod
    def of(
        cls, state: Any, action: Any, next_state: Any, prob: Any, states: Vocabulary, actions: Vocabulary
    ) -> Transitions:
        """Build from one entry per possible transition, by ids; entries of probability 0 are left out."""
        names = ("state", "action", "next_state")
        ids = dict(
            zip(names, (_ids(c, n) for c, n in zip((state, action, next_state), names, strict=True)), strict=True)
        )
        chance = as_floats(prob, f"{NAME}: prob").ravel()
        lengths = {**{name: len(column) for name, column in ids.items()}, "prob": len(chance)}
        if len(set(lengths.values())) > 1:
            raise SchemaError(f"{NAME}: the columns differ in length: {lengths}.")
        for name, lowest, n in (
            ("state", 0, len(states)),
            ("action", 0, len(actions)),
            ("next_state", END, len(states)),
        ):
            wrong = (ids[name] < lowest) | (ids[name] >= n)
            end = f" (or {END}, if nothing follows)" if lowest == END else ""
            _refuse_entries(wrong, ids, states, actions, f"{name!r} does not exist; ids go from 0 to {n - 1}{end}")
        _refuse_entries(~np.isfinite(chance), ids, states, actions, "the probability is not a finite number")
        _refuse_entries(chance < 0, ids, states, actions, "the probability is negative")
        keep = chance > 0
        pair = (ids["state"] * len(actions) + ids["action"])[keep]
        following, chance = ids["next_state"][keep], chance[keep]
        order = np.lexsort((following, pair))
        pair, following, chance = pair[order], following[order], chance[order]
        repeated = np.flatnonzero((pair[1:] == pair[:-1]) & (following[1:] == following[:-1]))
        if len(repeated):
            first = int(repeated[0])
            raise SchemaError(
                f"{NAME}: state {states[pair[first] // len(actions)]!r} action {actions[pair[first] % len(actions)]!r} "
                "lists next state "
                f"{_next_label(int(following[first]), states)} twice. Give each transition once."
            )
        offsets = np.searchsorted(pair, np.arange(len(states) * len(actions) + 1))
        following = following.astype(id_dtype(len(states)))
        return cls(frozen(offsets), frozen(following), frozen(chance), len(states), len(actions))

    def check_sums(self, needed: Booleans, states: Vocabulary, actions: Vocabulary) -> None:
        """Fail unless the probabilities of every pair that is `needed`, (n_states, n_actions), sum to one."""
        listed = np.diff(self.offsets) > 0
        sums = np.add.reduceat(np.append(self.prob, 0.0), self.offsets[:-1]) * listed
        way_out = (
            "List what may follow (next state -1: nothing), or mark the state terminal or the action not available."
        )
        missing = needed & ~listed.reshape(needed.shape)
        refuse_pairs(missing, f"{NAME}: none is given for", states, actions, way_out)
        off = needed & (np.abs(sums - 1) > SUM_TOLERANCE).reshape(needed.shape)
        what = f"{NAME}: the probabilities sum to {sums[np.argmax(off)]:.12g}, not 1, for"
        way_out = "List every next state with its probability; divide by the sum if they were rounded."
        refuse_pairs(off, what, states, actions, way_out)

    def reached_from(self, start: Booleans, open_pairs: Booleans) -> Booleans:
        """States that can be reached from those in `start` through the pairs, (n_states, n_actions), that are open."""
        reached = start.copy()
        _reach(self.offsets, self.following, open_pairs.ravel(), self.n_actions, reached)
        return reached

    def reached_by_step(self, start: Booleans, open_pairs: Booleans, horizon: int) -> Booleans:
        """The same at each step, (horizon, n_states)."""
        reached = np.zeros((horizon, self.n_states), dtype=np.bool_)
        reached[0] = start
        _reach_next(self.offsets, self.following, open_pairs.ravel(), self.n_actions, reached)
        return reached


def _ids(column: Any, name: str) -> Integers:
    array = np.asarray(column)
    if array.dtype.kind not in "iu":
        raise SchemaError(f"{NAME}: {name!r} holds {array.dtype}, but must hold ids: integers from 0.")
    return array.ravel().astype(np.int64)


def _next_label(state: int, states: Vocabulary) -> str:
    return "-1 (the end)" if state == END else repr(states[state])


def _refuse_entries(
    wrong: Booleans, ids: dict[str, Integers], states: Vocabulary, actions: Vocabulary, what: str
) -> None:
    if wrong.any():
        rows = np.flatnonzero(wrong)

        def label(name: str, row: int, words: Vocabulary) -> object:
            position = int(ids[name][row])
            return repr(words[position]) if 0 <= position < len(words) else position

        shown = "; ".join(
            f"state {label('state', i, states)} action {label('action', i, actions)} to "
            f"{label('next_state', i, states)} (entry {i})"
            for i in rows[:SHOWN]
        )
        raise SchemaError(f"{NAME}: {what}: {count(len(rows), 'transition')}. First: {shown}.")


@compiled
def _reach(offsets: Integers, following: Integers, open_pairs: Booleans, n_actions: int, reached: Booleans) -> None:
    """Mark all that can be reached, by a stack of states whose successors have not been looked at."""
    stack = np.empty(len(reached), dtype=np.int64)
    height = 0
    for state in range(len(reached)):
        if reached[state]:
            stack[height] = state
            height += 1
    while height:
        height -= 1
        state = stack[height]
        for pair in range(state * n_actions, (state + 1) * n_actions):
            if open_pairs[pair]:
                for i in range(offsets[pair], offsets[pair + 1]):
                    successor = following[i]
                    if successor >= 0 and not reached[successor]:
                        reached[successor] = True
                        stack[height] = successor
                        height += 1


@compiled
def _reach_next(
    offsets: Integers, following: Integers, open_pairs: Booleans, n_actions: int, reached: Booleans
) -> None:
    """Mark, row after row of `reached`, what can be reached at the next step."""
    for step in range(len(reached) - 1):
        for state in range(reached.shape[1]):
            if reached[step, state]:
                for pair in range(state * n_actions, (state + 1) * n_actions):
                    if open_pairs[pair]:
                        for i in range(offsets[pair], offsets[pair + 1]):
                            if following[i] >= 0:
                                reached[step + 1, following[i]] = True
