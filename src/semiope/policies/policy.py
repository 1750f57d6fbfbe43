"""Policies: probabilities of actions per state, per (step, state), or given row by row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from semiope._arrays import Booleans, Floats, Integers, as_floats, frozen
from semiope.data.episodes import FEATURES, Episodes
from semiope.data.labels import ABSENT, Vocabulary
from semiope.data.logbook import Logbook
from semiope.data.repeat import Resample
from semiope.data.schema import Columns
from semiope.data.tables import ArrowTable, from_columns, read_table
from semiope.errors import SHOWN, OptionError, SchemaError, count
from semiope.policies.cells import Cells, cells_of, check_size
from semiope.policies.lookup import BoundPolicy, ListedLookup, TableLookup

# Probabilities printed with six digits may miss one by this much; nothing is rescaled.
SUM_TOLERANCE = 1e-5


@dataclass(frozen=True, eq=False)
class Policy(ArrowTable):
    """A table: row k holds the action probabilities in state `state[k]`, at `step[k]` if the policy is per step.

    Rows are sorted by step and state.
    """

    probs: Floats
    state: Integers
    step: Integers | None
    states: Vocabulary
    actions: Vocabulary

    @classmethod
    def from_table(cls, probs: Any, *, states: Vocabulary | None = None, actions: Vocabulary | None = None) -> Policy:
        """Build from an array (n_states, n_actions) or (n_steps, n_states, n_actions); integer ids are the labels.

        `states` and `actions` are vocabularies to use instead.
        """
        table = as_floats(probs, "policy")
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
            states=Vocabulary.integers(n_states) if states is None else states,
            actions=Vocabulary.integers(n_actions) if actions is None else actions,
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
        state, states = columns.encode("state")
        action, actions = columns.encode("action")
        prob = columns.floats("prob")
        columns.check("prob", "is negative", prob < 0, "Probabilities lie between 0 and 1.")
        key = state.astype(np.int64)
        per_step = "step" in columns
        if per_step:
            key = columns.steps() * len(states) + state
        keys, row = np.unique(key, return_inverse=True)
        columns.refuse_repeats("action", row * len(actions) + action)
        check_size(len(keys), len(actions), name)
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
        """Move a share epsilon of each action's probability to the other actions in the policy's table, equally.

        Softened, pi(a) becomes (1 - epsilon) pi(a) + epsilon (1 - pi(a)) / (n_actions - 1): a deterministic policy
        takes its action with 1 - epsilon, and each other one with epsilon / (n_actions - 1).
        """
        return replace(self, probs=frozen(softened(self.probs, epsilon)))

    def bind(self, logbook: Logbook, cells: Cells, name: str) -> TableLookup:
        """Look the policy up in these cells (in cells per step if it is per step), wherever a decision was logged."""
        episodes = logbook.episodes
        if self.step is not None and cells.step is None:
            cells = cells_of(episodes, "step,state")
        row = self._rows(cells, episodes.states, name)
        missing = row == ABSENT
        if missing.any():
            decided = np.bincount(cells.of_row[episodes.action >= 0], minlength=len(cells)) > 0
            _refuse_gaps(missing & decided, cells, episodes, name)
        own_action = self.actions.positions_of(logbook.actions)
        table = np.zeros((len(cells), len(logbook.actions)))
        table[:, own_action != ABSENT] = self.probs[row][:, own_action[own_action != ABSENT]]
        table[missing] = 0.0
        return TableLookup(table, cells, logbook)

    def _rows(self, cells: Cells, states: Vocabulary, name: str) -> Integers:
        """The row of `probs` for each cell, -1 where there is none."""
        if states.words.to_pylist() == [FEATURES]:
            raise SchemaError(
                f"{name}: the policy is a table over states, and the episodes have features alone. Give a function of "
                "features, a classifier, or probabilities row by row (episode, step, action, prob)."
            )
        if not self.states.comparable(states):
            raise SchemaError(
                f"{name}: column 'state' holds {self.states.kind}, that of the episodes {states.kind}. "
                "Use the same labels in both."
            )
        own_state = self.states.positions_of(states)[cells.state]
        if self.step is None or cells.step is None:
            wanted, keys = own_state, self.state.astype(np.int64)
        else:
            n = len(self.states)
            wanted = np.where(own_state == ABSENT, ABSENT, cells.step * n + own_state)
            keys = self.step * n + self.state
        row = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[row] == wanted, row, ABSENT)

    def to_arrow(self) -> pa.Table:
        """Return the table in the policy format, without the pairs of probability 0."""
        row, action = np.nonzero(self.probs)
        columns = {} if self.step is None else {"step": pa.array(self.step[row])}
        columns["state"] = self.states.decode(self.state[row])
        columns["action"] = self.actions.decode(action)
        columns["prob"] = pa.array(self.probs[row, action])
        return pa.table(columns)

    def __repr__(self) -> str:
        per = "state" if self.step is None else "step and state"
        return f"Policy({len(self.states):,} states, {len(self.actions):,} actions, per {per})"

    def _checked(self, name: str) -> Policy:
        sums = self.probs.sum(axis=1)
        self._refuse(~np.isfinite(sums), "probabilities are not finite numbers", name)
        self._refuse(self.probs.min(axis=1) < 0, "a probability is negative", name)
        off = np.abs(sums - 1) > SUM_TOLERANCE
        first = float(sums[np.argmax(off)])
        rounded = " (rounded? divide by the sum, or give more digits)" if abs(first - 1) < 0.02 else ""
        self._refuse(off, f"the probabilities sum to {first:.6g}, not 1{rounded}", name)
        return self

    def _refuse(self, wrong: Booleans, what: str, name: str) -> None:
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


@dataclass(frozen=True, eq=False)
class RowPolicy(ArrowTable):
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
        episode, labels = columns.encode("episode")
        action, actions = columns.encode("action")
        step, prob = columns.steps(), columns.floats("prob")
        columns.check("prob", "is negative", prob < 0, "Probabilities lie between 0 and 1.")
        _, row = np.unique(step * len(labels) + episode, return_inverse=True)
        columns.refuse_repeats("action", row * len(actions) + action)
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
        n = len(self.actions)
        _, first, row = np.unique(self.step * len(self.labels) + self.episode, return_index=True, return_inverse=True)
        probs = np.zeros((len(first), n))
        probs[row, self.action] = self.prob
        probs = softened(probs, epsilon)
        return replace(
            self,
            episode=frozen(np.repeat(self.episode[first], n)),
            step=frozen(np.repeat(self.step[first], n)),
            action=frozen(np.tile(np.arange(n), len(first))),
            prob=frozen(probs.ravel()),
        )

    def resampled(self, by: Resample) -> RowPolicy:
        """The policy in a resample of the episodes."""
        kept = by.rows(self.labels, self.episode)
        return replace(
            self, labels=by.labels, episode=frozen(kept.episode), step=frozen(self.step[kept.row]),
            action=frozen(self.action[kept.row]), prob=frozen(self.prob[kept.row]),
        )  # fmt: skip

    def bind(self, logbook: Logbook, cells: Cells, name: str) -> ListedLookup:
        """Look the policy up row by row, whatever the cells; every decision must be covered."""
        episodes = logbook.episodes
        row = episodes.rows_of(self.labels, self.episode, self.step, name)
        action = logbook.actions.ids_of(self.actions, name)[self.action]
        covered = np.zeros(episodes.n_steps, dtype=np.bool_)
        covered[row] = True
        missing = np.flatnonzero(~covered & (episodes.action != ABSENT))
        if len(missing):
            shown = "; ".join(episodes.describe_row(int(i)) for i in missing[:SHOWN])
            raise SchemaError(f"{name}: no probabilities for {count(len(missing), 'decision')}. First: {shown}.")
        order = np.lexsort((action, row))
        return ListedLookup.of(row[order], action[order], self.prob[order], logbook)

    def to_arrow(self) -> pa.Table:
        """Return the table in the format of policies given row by row."""
        columns = {
            "episode": self.labels.decode(self.episode),
            "step": pa.array(self.step),
            "action": self.actions.decode(self.action),
            "prob": pa.array(self.prob),
        }
        return pa.table(columns)

    def __repr__(self) -> str:
        return f"RowPolicy({len(self.prob):,} probabilities for {len(self.labels):,} episodes)"


TablePolicy = Policy | RowPolicy


class AnyPolicy(Protocol):
    """A policy of any form: it knows its actions, and can be looked up in a logbook."""

    @property
    def actions(self) -> Vocabulary:
        """The actions it knows."""

    def bind(self, logbook: Logbook, cells: Cells, name: str) -> BoundPolicy:
        """Look the policy up at every action taken and annotated."""


def read_policy(source: Any, *, name: str = "policy") -> TablePolicy:
    """Read a policy from a file or any Arrow-capable data frame; a column `episode` makes it one given row by row."""
    table = read_table(source, name)
    if "episode" in table.column_names:
        return RowPolicy.from_arrow(table, name=name)
    return Policy.from_arrow(table, name=name)


def _refuse_gaps(gaps: Booleans, cells: Cells, episodes: Episodes, name: str) -> None:
    """Fail if the policy says nothing about cells in which decisions were logged."""
    if gaps.any():
        first = np.flatnonzero(gaps)[:SHOWN]
        steps = [""] * len(first) if cells.step is None else [f"step {cells.step[cell]} " for cell in first]
        where = [f"{step}state {episodes.states[cells.state[i]]!r}" for step, i in zip(steps, first, strict=True)]
        row = int(np.argmax(gaps[cells.of_row] & (episodes.action >= 0)))
        raise SchemaError(
            f"{name}: the policy says nothing about {count(int(gaps.sum()), 'state')} in which decisions were logged. "
            f"First: {', '.join(where)}. Say what it does there (or, if {episodes.actions[episodes.action[row]]!r} at "
            f"{episodes.describe_row(row)} was no decision, leave that action empty)."
        )


def softened(probs: Floats, epsilon: float) -> Floats:
    """Probabilities (n, n_actions) with a share epsilon of each moved to the other actions."""
    if not 0 <= epsilon <= 1:
        raise OptionError(f"soften: epsilon is {epsilon}, but must lie between 0 and 1.")
    n_others = probs.shape[1] - 1
    return (1 - epsilon) * probs + epsilon * (1 - probs) / n_others if n_others else probs
