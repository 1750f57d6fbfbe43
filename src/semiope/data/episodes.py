"""Episodes: what was logged, as flat columns with offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
import pyarrow as pa

from semiope._arrays import Floats, Integers, frozen, id_dtype
from semiope._compiled import compiled
from semiope.data.delimited import FROM_TEXT
from semiope.data.features import Features, names_of, read_features
from semiope.data.labels import ABSENT, Vocabulary
from semiope.data.schema import Columns, is_number, not_a_number
from semiope.data.tables import ArrowTable, from_columns, read_table, take_rows, with_columns
from semiope.errors import SHOWN, SchemaError, count, nearest

REQUIRED = ("episode", "step", "state", "action", "reward")
# One over a smaller probability is no number; a sum of absolute rewards beyond the other has none either.
SMALLEST_PROB, LARGEST_SUM = 1e-300, 1e300
# The one state of all rows where features are the state.
FEATURES = "(features)"


@dataclass(frozen=True, eq=False)
class Episodes(ArrowTable):
    """Logged episodes of any lengths: one row a step, sorted by episode label and step, never changed.

    Rows `offsets[i]` to `offsets[i + 1]` are episode i. `state` and `action` are ids into the vocabularies `states` and
    `actions`; an action of -1 is an observation without a decision: its reward counts, its ratio is one. Where the
    state is given by `features` alone, `states` has a single word and `has_states` is False. `order` is the row of the
    table read that each row comes from; None: as they were. `is_resample`: drawn from other episodes, not logged so.
    """

    labels: Vocabulary
    states: Vocabulary
    actions: Vocabulary
    offsets: Integers
    state: Integers
    action: Integers
    reward: Floats
    behavior_prob: Floats | None = None
    extra: pa.Table | None = None
    features: Features | None = None
    has_states: bool = True
    order: Integers | None = None
    is_resample: bool = False

    @classmethod
    def from_arrow(
        cls, source: Any, *, features: Sequence[str] | str | None = None, missing: str = "refuse",
        name: str = "episodes",
    ) -> Episodes:  # fmt: skip
        """Build from a table in the episodes format: anything that speaks Arrow, or a mapping of columns."""
        table = read_table(source, name)
        named = [] if features is None else names_of(features)
        has_states = not named or "state" in table.column_names
        required = REQUIRED if has_states else tuple(column for column in REQUIRED if column != "state")
        _suggest_features(table, name, required)
        columns = Columns(table, name, required, ("behavior_prob",))
        episode, labels = columns.encode("episode")
        step = columns.steps()
        order = None
        if _first_break(episode, step) >= 0:
            order = np.lexsort((step, episode))
            _check_steps(columns, episode[order], step[order], order)
        _refuse_continuous(columns)
        action, actions = columns.encode("action", nullable=True)
        if has_states:
            state, states = columns.encode("state")
        else:
            state, states = np.zeros(len(action), dtype=id_dtype(1)), Vocabulary(pa.array([FEATURES]))
        measured = read_features(columns, named, action != ABSENT, missing) if named else None
        reward = columns.floats("reward")
        beyond = np.abs(reward) > LARGEST_SUM / len(reward)
        columns.check("reward", "is so large that sums leave the range of numbers", beyond, "Use other units.")
        behavior_prob = None
        if "behavior_prob" in columns:
            behavior_prob = columns.floats("behavior_prob", needed=action != ABSENT)
            wrong = (behavior_prob <= 0) | (behavior_prob > 1)
            wrong &= action != ABSENT
            way_out = "An action that was taken had a probability above 0 and at most 1."
            columns.check("behavior_prob", "is not a probability of an action taken", wrong, way_out)
            columns.check(
                "behavior_prob", "is so small that one over it is no number", behavior_prob < SMALLEST_PROB,
                "Was it a logarithm, or rounded? No estimate can rest on such actions.",
            )  # fmt: skip
        extra = table.drop_columns([column for column in (*REQUIRED, "behavior_prob") if column in columns])

        def sorted_(column: Any) -> Any:
            return frozen(column if order is None else column[order])

        return cls(
            labels=labels,
            states=states,
            actions=actions,
            offsets=frozen(np.append(np.flatnonzero(sorted_(step) == 0), len(step))),
            state=sorted_(state),
            action=sorted_(action),
            reward=sorted_(reward),
            behavior_prob=None if behavior_prob is None else sorted_(behavior_prob),
            extra=None if not extra.num_columns else extra if order is None else take_rows(extra, order),
            features=measured if measured is None or order is None else measured.rows(order),
            has_states=has_states,
            order=None if order is None else frozen(order),
        )

    @classmethod
    def from_arrays(
        cls, *, episode: Any, step: Any, action: Any, reward: Any, state: Any = None, behavior_prob: Any = None,
        features: Any = None, missing: Any = "refuse",
    ) -> Episodes:  # fmt: skip
        """Build from sequences of equal length, one element a step; masked or -1 actions mean "no decision".

        `features` is a data frame, a mapping of columns by name, or an array (n_steps, n_features), whose columns are
        called x0, x1 and so on; `state` is not needed then. `missing` is as for `read_episodes`.
        """
        measured = _by_name(features)
        columns = {"episode": episode, "step": step, "state": state, "action": without_sentinels(action)}
        columns |= {"reward": reward, "behavior_prob": behavior_prob, **measured}
        given = {name: column for name, column in columns.items() if column is not None}
        return cls.from_arrow(from_columns(given, "episodes"), features=list(measured) or None, missing=missing)

    @classmethod
    def concat(cls, parts: Sequence[Episodes]) -> Episodes:
        """Merge parts that hold different episodes into one."""
        if not parts:
            raise SchemaError("episodes: there are no parts to merge.")
        try:
            table = pa.concat_tables([part.to_arrow() for part in parts], promote_options="permissive")
        except pa.ArrowException as error:
            raise SchemaError(f"episodes: the parts do not fit together: {error}") from None
        named = {None if part.features is None else part.features.columns for part in parts}
        if len(named) > 1:
            raise SchemaError("episodes: the parts do not fit together: their features differ.")
        return cls.from_arrow(table, features=named.pop(), missing="impute" if _imputed(parts) else "refuse")

    def with_features(self, features: Sequence[str] | str, *, missing: str = "refuse") -> Episodes:
        """The same episodes with further columns as features."""
        named = names_of(features)
        if self.features is not None and self.features.columns == tuple(named):
            return self
        columns = Columns(self.to_arrow(), "episodes", ("episode", "step"))
        return replace(self, features=read_features(columns, named, self.action != ABSENT, missing))

    @property
    def n_episodes(self) -> int:
        """Number of episodes."""
        return len(self.offsets) - 1

    @property
    def n_steps(self) -> int:
        """Number of rows: steps of all episodes together."""
        return len(self.state)

    @cached_property
    def lengths(self) -> Integers:
        """Number of steps of each episode."""
        return frozen(np.diff(self.offsets))

    @cached_property
    def step(self) -> Integers:
        """Step of each row."""
        return frozen(np.arange(self.n_steps) - np.repeat(self.offsets[:-1], self.lengths))

    def returns_to_go(self, gamma: float) -> Floats:
        """The discounted return from each row on."""
        found = np.empty(self.n_steps)
        _discount(self.offsets, self.reward, gamma, found)
        return found

    def returns(self, gamma: float) -> Floats:
        """The discounted return of each episode."""
        return self.returns_to_go(gamma)[self.offsets[:-1]]

    def episode_of(self, row: Integers) -> Integers:
        """Return the episode of each of these rows."""
        return np.searchsorted(self.offsets, row, side="right") - 1

    def describe_row(self, row: int) -> str:
        """Return a row in words, by its labels."""
        episode = int(self.episode_of(np.array(row)))
        step = row - int(self.offsets[episode])
        state = f" (state {self.states[self.state[row]]!r})" if self.has_states else ""
        return f"episode {self.labels[episode]!r} step {step}{state}"

    def rows_of(self, labels: Vocabulary, episode: Integers, step: Integers, name: str) -> Integers:
        """Return the row of each (episode, step) that a table called `name` speaks about; all must exist.

        `episode` holds ids into `labels`, the table's own vocabulary.
        """
        if not labels.comparable(self.labels):
            raise SchemaError(
                f"{name}: column 'episode' holds {labels.kind}, that of the episodes {self.labels.kind}. "
                "Use the same labels in both."
            )
        known = self.labels.positions_of(labels)
        strangers = np.flatnonzero(known == ABSENT)
        if len(strangers):
            shown = ", ".join(repr(labels[i]) for i in strangers[:SHOWN])
            raise SchemaError(
                f"{name}: column 'episode' names {count(len(strangers), 'episode')} not in the logs. First: {shown}. "
                "Correct or remove these rows."
            )
        # Room for n_steps itself, the end of the last episode, with which rows are compared.
        row = np.empty(len(episode), dtype=id_dtype(self.n_steps + 1))
        beyond = _locate(known, self.offsets, episode, step, row)
        if beyond >= 0:
            wrong = int(np.count_nonzero(step >= self.lengths[known[episode]]))
            raise SchemaError(
                f"{name}: {count(wrong, 'row')} about steps that were not logged. First: row {beyond}, episode "
                f"{labels[episode[beyond]]!r} step {step[beyond]}, but that episode has the steps 0 to "
                f"{self.lengths[known[episode[beyond]]] - 1}."
            )
        return row

    def to_arrow(self) -> pa.Table:
        """Return the table in the episodes format, sorted by episode and step."""
        columns = {
            "episode": self.labels.decode(np.repeat(np.arange(self.n_episodes), self.lengths)),
            "step": pa.array(self.step),
            **({"state": self.states.decode(self.state)} if self.has_states else {}),
            "action": self.actions.decode(self.action),
            "reward": pa.array(self.reward),
        }
        if self.behavior_prob is not None:
            columns["behavior_prob"] = pa.array(self.behavior_prob, mask=np.isnan(self.behavior_prob))
        return with_columns(pa.table(columns), self.extra)

    def __repr__(self) -> str:
        return (
            f"Episodes({self.n_episodes:,} episodes, {self.n_steps:,} steps, "
            f"{self._states_in_words}, {len(self.actions):,} actions)"
        )

    @property
    def _states_in_words(self) -> str:
        measured = [] if self.features is None else [f"{len(self.features):,} features"]
        return ", ".join([*([f"{len(self.states):,} states"] if self.has_states else []), *measured])


def read_episodes(source: Any, *, features: Sequence[str] | str | None = None, missing: str = "refuse") -> Episodes:
    """Read episodes from a file, a folder of Parquet parts, or any Arrow-capable data frame.

    Parameters
    ----------
    source
        A table with the columns episode, step, state, action, reward, and `behavior_prob` if it is known.
    features
        Names of columns that make up the state: numbers, booleans, or words, which are taken as categories. A column
        `state` is not needed then.
    missing
        What to do where one is missing: "refuse", or "impute": fill in the median, and add a column that flags it;
        where a word is missing, that is a category of its own.

    Examples
    --------
    >>> import semiope as so
    >>> frame = {"episode": [0, 0], "step": [0, 1], "pulse": [80.0, 95.0], "action": ["wait", "treat"]}
    >>> frame["reward"] = [0.0, 1.0]
    >>> so.read_episodes(frame, features=["pulse"])
    Episodes(1 episodes, 2 steps, 1 features, 2 actions)
    """
    return Episodes.from_arrow(source, features=features, missing=missing)


def _suggest_features(table: pa.Table, name: str, required: Sequence[str]) -> None:
    """Fail where there is no state but columns that could be features, numbers among them, and say so."""
    lacking = [column for column in required if column not in table.column_names]
    could_be = [field for field in table.schema if field.name not in (*REQUIRED, "behavior_prob")]
    others = [field.name for field in could_be] if any(is_number(field.type) for field in could_be) else []
    if lacking == ["state"] and others and not nearest("state", table.column_names):
        listed = ", ".join(repr(column) for column in others[:SHOWN])
        raise SchemaError(
            f"{name}: column 'state' is missing. If measurements make up the state, name all that were known before a "
            f"decision: features=[{listed}{', ...' if len(others) > SHOWN else ''}] (--features)."
        )


def _refuse_continuous(columns: Columns) -> None:
    """Fail where actions are numbers with fractions: doses, for instance. Text files do not tell 0.5 from "0.5"."""
    field = columns.table.schema.field("action")
    values = columns.plain("action")
    if (field.metadata or {}) == FROM_TEXT and pa.types.is_string(values.type):
        words = [word for word in values.unique().to_pylist() if word is not None]
        if any(not_a_number(word) for word in words):
            return
        values = values.cast(pa.float64())
    if not pa.types.is_floating(values.type):
        return
    numbers = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    fractions = np.isfinite(numbers) & (numbers != np.floor(np.where(np.isfinite(numbers), numbers, 0.0)))
    if fractions.any():
        columns.fail(
            "action", "is a number with a fraction", fractions,
            "Continuous actions are not supported: group them, for example into doses of none, low and high.",
        )  # fmt: skip


def _by_name(features: Any) -> dict[str, Any]:
    """Columns of features by name."""
    if features is None:
        return {}
    if isinstance(features, Mapping):
        found = dict(features)
    elif hasattr(features, "__arrow_c_stream__"):
        table = read_table(features, "features")
        found = {name: table.column(name) for name in table.column_names}
    else:
        array = np.asarray(features)
        if array.ndim != 2:
            raise SchemaError(
                f"features: an array of shape {array.shape}; give (n_steps, n_features), or columns by name."
            )
        found = {f"x{k}": array[:, k] for k in range(array.shape[1])}
    for name in found:
        if name in (*REQUIRED, "behavior_prob"):
            raise SchemaError(f"features: {name!r} is an argument of its own. Leave it out, or call it otherwise.")
    names_of(list(found))
    return found


def _imputed(parts: Sequence[Episodes]) -> bool:
    return any(part.features is not None and part.features.imputed for part in parts)


def without_sentinels(action: Any) -> Any:
    """Mask integer actions of -1, which arrays use for "no decision"."""
    if isinstance(action, pa.Array | pa.ChunkedArray):
        action = action.to_pylist()
    try:
        array = np.ma.asarray(action)
    except ValueError:
        return action
    if array.ndim > 1:
        raise SchemaError(
            f"episodes: the actions have shape {array.shape}, and each row has one. Actions that are vectors are not "
            "supported: give each combination a label of its own."
        )
    if array.dtype == object:
        return [
            None if mask or _is_sentinel(x) else x
            for x, mask in zip(array.data, np.ma.getmaskarray(array), strict=True)
        ]
    return np.ma.masked_where(array.data == -1, array) if array.dtype.kind in "if" else action


def _is_sentinel(action: object) -> bool:
    return isinstance(action, Real) and action == -1


@compiled
def _discount(offsets: Integers, reward: Floats, gamma: float, found: Floats) -> None:
    for e in range(len(offsets) - 1):
        total = 0.0
        for row in range(offsets[e + 1] - 1, offsets[e] - 1, -1):
            total = reward[row] + gamma * total
            found[row] = total


@compiled
def _first_break(episode: Integers, step: Integers) -> int:
    """First row that does not follow its predecessor in a sorted table without gaps or repeats; -1 if none."""
    for i in range(len(episode)):
        if i == 0 or episode[i] != episode[i - 1]:
            follows = step[i] == 0 and (i == 0 or episode[i] > episode[i - 1])
        else:
            follows = step[i] == step[i - 1] + 1
        if not follows:
            return i
    return -1


@compiled
def _locate(known: Integers, offsets: Integers, episode: Integers, step: Integers, row: Integers) -> int:
    """Fill in rows; return the first entry whose step lies beyond its episode, -1 if none."""
    for i in range(len(episode)):
        e = known[episode[i]]
        if step[i] >= offsets[e + 1] - offsets[e]:
            return i
        row[i] = offsets[e] + step[i]
    return -1


def _check_steps(columns: Columns, episode: Integers, step: Integers, order: Integers) -> None:
    """Fail on repeats, late starts and gaps of `step` in rows sorted by (episode, step)."""
    same = np.r_[False, episode[1:] == episode[:-1]]
    repeated = same & np.r_[False, step[1:] == step[:-1]]
    if repeated.any():
        columns.fail("step", "repeats an episode's step", order[repeated], "Each (episode, step) is one row.")
    late = ~same & (step != 0)
    if late.any():
        columns.fail("step", "does not start at 0", order[late], "Number the steps of each episode 0, 1, 2 ...")
    gap = same & np.r_[False, step[1:] != step[:-1] + 1]
    if gap.any():
        columns.fail("step", "skips a number", order[gap], "Number the steps of each episode 0, 1, 2 ... without gaps.")
