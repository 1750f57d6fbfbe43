"""Policies: probabilities of actions per state, per (step, state), or given row by row."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from semiope._arrays import Floats, Integers, frozen
from semiope.data.annotations import known_actions, rows_of
from semiope.data.episodes import Episodes
from semiope.data.labels import ABSENT, Vocabulary, encode
from semiope.data.schema import SHOWN, Columns
from semiope.data.tables import from_columns, read_table, write_table
from semiope.errors import OptionError, SchemaError, count
from semiope.policies.cells import Cells

# Probabilities printed with six digits may miss one by this much; nothing is rescaled.
SUM_TOLERANCE = 1e-5


@dataclass(frozen=True, eq=False)
class Policy:
    """A table: row k holds the action probabilities in state `state[k]`, at `step[k]` if the policy is per step."""

    probs: Floats
    state: Integers
    step: Integers | None
    states: Vocabulary
    actions: Vocabulary

    @classmethod
    def from_table(cls, probs: Any) -> Policy:
        """Build from an array (n_states, n_actions) or (n_steps, n_states, n_actions) with integer ids as labels."""
        table = np.array(probs, dtype=np.float64)
        if table.ndim not in (2, 3) or not table.size:
            raise SchemaError(
                f"policy: an array of shape {table.shape}; "
                "give (n_states, n_actions) or (n_steps, n_states, n_actions)."
            )
        n_states, n_actions = table.shape[-2:]
        rows = np.arange(table.size // n_actions)
        return cls(
            probs=frozen(table.reshape(-1, n_actions)),
            state=frozen(rows % n_states),
            step=None if table.ndim == 2 else frozen(rows // n_states),
            states=Vocabulary.integers(n_states),
            actions=Vocabulary.integers(n_actions),
        )._checked("policy")

    @classmethod
    def deterministic(cls, actions: Any, n_actions: int) -> Policy:
        """Build from the action chosen in each state: an array (n_states,) or (n_steps, n_states) of ids."""
        chosen = np.asarray(actions)
        if chosen.dtype.kind not in "iu" or (chosen.size and not 0 <= chosen.min() <= chosen.max() < n_actions):
            raise SchemaError(f"policy: actions must be integers from 0 to {n_actions - 1}.")
        return cls.from_table(np.eye(n_actions)[chosen])

    @classmethod
    def from_arrow(cls, source: Any, *, name: str = "policy") -> Policy:
        """Build from a table with state, action, prob and, for a policy per step, step; unlisted pairs have 0."""
        table = read_table(source, name)
        columns = Columns(table, name, ("state", "action", "prob"), ("step",))
        state, states = encode(columns.labels("state"))
        action, actions = encode(columns.labels("action"))
        prob = columns.floats("prob")
        columns.check("prob", "is negative", prob < 0, "Probabilities lie between 0 and 1.")
        key = state.astype(np.int64)
        per_step = "step" in columns
        if per_step:
            key = columns.steps() * len(states) + state
        keys, row = np.unique(key, return_inverse=True)
        _refuse_repeats(columns, row * len(actions) + action)
        probs = np.zeros((len(keys), len(actions)))
        probs[row, action] = prob
        return cls(
            probs=frozen(probs),
            state=frozen(keys % len(states)),
            step=frozen(keys // len(states)) if per_step else None,
            states=states,
            actions=actions,
        )._checked(name)

    def soften(self, epsilon: float) -> Policy:
        """Move a share epsilon of each action's probability to the other actions, equally.

        Softened, pi(a) becomes (1 - epsilon) pi(a) + epsilon (1 - pi(a)) / (n_actions - 1): a deterministic policy
        takes its action with 1 - epsilon, and each other one with epsilon / (n_actions - 1).
        """
        n_others = max(len(self.actions) - 1, 1)
        _check_epsilon(epsilon)
        return replace(self, probs=frozen((1 - epsilon) * self.probs + epsilon * (1 - self.probs) / n_others))

    def on(self, cells: Cells, states: Vocabulary, actions: Vocabulary, used: Floats, name: str) -> Floats:
        """Return the probabilities (n_cells, n_actions) with ids of `states` and `actions`; cells with `used` > 0 must
        be known to the policy.
        """
        if not self.states.comparable(states):
            raise SchemaError(
                f"{name}: column 'state' holds {self.states.kind}, that of the episodes {states.kind}. "
                "Use the same labels in both."
            )
        own_state = self.states.positions_of(states)[cells.state]
        if self.step is None:
            wanted, keys = own_state, self.state.astype(np.int64)
        else:
            if cells.step is None:
                raise OptionError(f"{name}: a policy per step needs cells per step,state.")
            n = len(self.states)
            wanted = np.where(own_state == ABSENT, ABSENT, cells.step * n + own_state)
            keys = self.step * n + self.state
        order = np.argsort(keys)
        place = np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)
        row = order[place]
        missing = keys[row] != wanted
        self._refuse_gaps(missing & (used > 0), cells, states, name)
        own_action = self.actions.positions_of(actions)
        table = np.zeros((len(cells), len(actions)))
        table[:, own_action != ABSENT] = self.probs[row][:, own_action[own_action != ABSENT]]
        table[missing] = 0.0
        return table

    def to_arrow(self) -> pa.Table:
        """Return the table in the policy format, without the pairs of probability 0."""
        row, action = np.nonzero(self.probs)
        columns = {} if self.step is None else {"step": pa.array(self.step[row])}
        columns["state"] = self.states.labels.take(pa.array(self.state[row]))
        columns["action"] = self.actions.labels.take(pa.array(action))
        columns["prob"] = pa.array(self.probs[row, action])
        return pa.table(columns)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write as Parquet, CSV or Feather, by suffix."""
        write_table(self.to_arrow(), path)

    def __repr__(self) -> str:
        per = "state" if self.step is None else "step and state"
        return f"Policy({len(self.states):,} states, {len(self.actions):,} actions, per {per})"

    def _checked(self, name: str) -> Policy:
        wrong = ~np.isfinite(self.probs).all(axis=1)
        self._refuse(wrong, "probabilities are not finite numbers", name)
        self._refuse((self.probs < 0).any(axis=1), "a probability is negative", name)
        sums = self.probs.sum(axis=1)
        off = np.abs(sums - 1) > SUM_TOLERANCE
        if off.any():
            first = float(sums[np.argmax(off)])
            self._refuse(off, f"the probabilities sum to {first:.6g}, not 1", name)
        return self

    def _refuse(self, wrong: Any, what: str, name: str) -> None:
        if wrong.any():
            rows = np.flatnonzero(wrong)
            shown = ", ".join(self._describe(int(row)) for row in rows[:SHOWN])
            raise SchemaError(
                f"{name}: column 'prob': {what} in {count(len(rows), 'state')}. First: {shown}. "
                "List every action that the policy may take there; their probabilities sum to 1."
            )

    def _describe(self, row: int) -> str:
        step = "" if self.step is None else f"step {self.step[row]} "
        return f"{step}state {self.states[self.state[row]]!r}"

    def _refuse_gaps(self, gaps: Any, cells: Cells, states: Vocabulary, name: str) -> None:
        if gaps.any():
            cell = np.flatnonzero(gaps)
            steps = [""] * SHOWN if cells.step is None else [f"step {cells.step[i]} " for i in cell[:SHOWN]]
            shown = ", ".join(f"{step}state {states[cells.state[i]]!r}" for step, i in zip(steps, cell, strict=False))
            raise SchemaError(
                f"{name}: {count(len(cell), 'state')} in which decisions were logged are not in the policy. "
                f"First: {shown}. Add rows that say what the policy does there."
            )


@dataclass(frozen=True, eq=False)
class RowPolicy:
    """A policy given row by row, for policies that are not a table over states; unlisted actions have 0."""

    labels: Vocabulary
    actions: Vocabulary
    episode: Integers
    step: Integers
    action: Integers
    prob: Floats

    @classmethod
    def from_arrow(cls, source: Any, *, name: str = "policy") -> RowPolicy:
        """Build from a table with episode, step, action, prob."""
        table = read_table(source, name)
        columns = Columns(table, name, ("episode", "step", "action", "prob"))
        episode, labels = encode(columns.labels("episode"))
        action, actions = encode(columns.labels("action"))
        step, prob = columns.steps(), columns.floats("prob")
        columns.check("prob", "is negative", prob < 0, "Probabilities lie between 0 and 1.")
        _, row = np.unique(step * len(labels) + episode, return_inverse=True)
        _refuse_repeats(columns, row * len(actions) + action)
        sums = np.bincount(row, weights=prob)
        way_out = "List every action that the policy may take there."
        columns.check("prob", "does not sum to 1 over its step", (np.abs(sums - 1) > SUM_TOLERANCE)[row], way_out)
        return cls(labels, actions, frozen(episode), frozen(step), frozen(action), frozen(prob))

    @classmethod
    def from_arrays(cls, *, episode: Any, step: Any, action: Any, prob: Any) -> RowPolicy:
        """Build from sequences of equal length, one element a (step, action)."""
        columns = {"episode": episode, "step": step, "action": action, "prob": prob}
        return cls.from_arrow(from_columns(columns, "policy"))

    def soften(self, epsilon: float) -> RowPolicy:
        """Move a share epsilon of each action's probability to the other actions, equally (see `Policy.soften`)."""
        _check_epsilon(epsilon)
        n = len(self.actions)
        _, first, row = np.unique(self.step * len(self.labels) + self.episode, return_index=True, return_inverse=True)
        probs = np.zeros((len(first), n))
        probs[row, self.action] = self.prob
        probs = (1 - epsilon) * probs + epsilon * (1 - probs) / max(n - 1, 1)
        return replace(
            self,
            episode=frozen(np.repeat(self.episode[first], n)),
            step=frozen(np.repeat(self.step[first], n)),
            action=frozen(np.tile(np.arange(n), len(first))),
            prob=frozen(probs.ravel()),
        )

    def on(self, episodes: Episodes, actions: Vocabulary, name: str) -> tuple[Integers, Integers, Floats]:
        """Return (row, action, prob) sorted by row and action; every decision must be covered."""
        row = rows_of(self.labels, self.episode, self.step, episodes, name)
        action = known_actions(self.actions, actions, name)[self.action]
        covered = np.zeros(episodes.n_steps, dtype=np.bool_)
        covered[row] = True
        missing = np.flatnonzero(~covered & (episodes.action != ABSENT))
        if len(missing):
            shown = "; ".join(episodes.describe_row(int(i)) for i in missing[:SHOWN])
            raise SchemaError(f"{name}: no probabilities for {count(len(missing), 'decision')}. First: {shown}.")
        order = np.lexsort((action, row))
        return row[order], action[order], self.prob[order]

    def to_arrow(self) -> pa.Table:
        """Return the table in the format of policies given row by row."""
        columns = {
            "episode": self.labels.labels.take(pa.array(self.episode)),
            "step": pa.array(self.step),
            "action": self.actions.labels.take(pa.array(self.action)),
            "prob": pa.array(self.prob),
        }
        return pa.table(columns)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write as Parquet, CSV or Feather, by suffix."""
        write_table(self.to_arrow(), path)

    def __repr__(self) -> str:
        return f"RowPolicy({len(self.prob):,} probabilities for {len(self.labels):,} episodes)"


def read_policy(source: Any, *, name: str = "policy") -> Policy | RowPolicy:
    """Read a policy from a file or any Arrow-capable data frame; a column `episode` makes it one given row by row."""
    table = read_table(source, name)
    if "episode" in table.column_names:
        return RowPolicy.from_arrow(table, name=name)
    return Policy.from_arrow(table, name=name)


def _refuse_repeats(columns: Columns, key: Integers) -> None:
    order = np.argsort(key, kind="stable")
    repeats = np.sort(order[1:][key[order][1:] == key[order][:-1]])
    if len(repeats):
        columns.fail("action", "repeats an earlier row", repeats, "Give each probability once.")


def _check_epsilon(epsilon: float) -> None:
    if not 0 <= epsilon <= 1:
        raise OptionError(f"soften: epsilon is {epsilon}, but must lie between 0 and 1.")
