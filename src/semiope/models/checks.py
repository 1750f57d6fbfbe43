"""What a model must be, and the pieces it is built from, checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from semiope._arrays import Booleans, Floats, as_floats
from semiope.data.labels import Vocabulary
from semiope.data.naming import refuse_pairs, refuse_states
from semiope.errors import OptionError, SchemaError
from semiope.models.transitions import END, SUM_TOLERANCE

if TYPE_CHECKING:
    from semiope.models.tabular import TabularMDP

Labels = Sequence[str] | Sequence[int] | None


def words_of(labels: Labels, n: int, name: str) -> Vocabulary:
    """The vocabulary of n labels, or of the ids if none are given."""
    if labels is None:
        return Vocabulary.integers(n)
    try:
        words = pa.array(list(labels))
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise OptionError(f"{name}: labels are integers or strings, not a mixture ({error}).") from None
    if not (pa.types.is_integer(words.type) or pa.types.is_string(words.type)) or words.null_count:
        raise OptionError(f"{name}: labels are integers or strings, and none is missing.")
    if len(words) != n or len(words.unique()) != n:
        raise OptionError(f"{name}: give {n:,} different labels, one for each.")
    return Vocabulary(words.cast(pa.int64()) if pa.types.is_integer(words.type) else words)


def broadcast(given: Any, shapes: tuple[tuple[int, ...], ...], name: str) -> Floats:
    """Finite or not, numbers of one of these shapes, or a single one, as an array of the last shape."""
    values = as_floats(given, name)
    if values.shape not in ((), *shapes):
        listed = " or ".join(str(shape) for shape in shapes if shape)
        raise SchemaError(f"{name}: an array of shape {values.shape}; give a number or {listed}.")
    return np.broadcast_to(values, shapes[-1])


def flags(values: Any, shape: tuple[int, ...], default: bool, name: str) -> Booleans:
    """Booleans of this shape, all of them `default` if None is given."""
    if values is None:
        return np.full(shape, default)
    found = np.asarray(values)
    if found.dtype != np.bool_ or found.shape != shape:
        raise SchemaError(f"{name}: {found.dtype} of shape {found.shape}; give booleans of shape {shape}.")
    return found.copy()


def check_model(mdp: TabularMDP, *, allow_unreachable: bool) -> None:
    """Fail unless this is a model: distributions that sum to one, finite rewards, ends that are ends."""
    labels = mdp.states, mdp.actions
    paid = mdp.available | mdp.terminal[:, None]
    for name, table in (("reward", mdp.reward), ("reward_std", mdp.reward_std)):
        refuse_pairs(~np.isfinite(table) & paid, f"{name}: not a finite number in", *labels)
    refuse_pairs((mdp.reward_std < 0) & paid, "reward_std: negative in", *labels)
    if mdp.initial.shape != (mdp.n_states,):
        raise SchemaError(f"initial: an array of shape {mdp.initial.shape}; give ({mdp.n_states},).")
    refuse_states(~(mdp.initial >= 0), "initial: no probability (0 or more) is given for", mdp.states)
    if not abs(mdp.initial.sum() - 1) <= SUM_TOLERANCE:
        raise SchemaError(f"initial: the probabilities sum to {mdp.initial.sum():.12g}, not 1.")
    mdp.transitions.check_sums(mdp.decisions, mdp.states, mdp.actions)
    stuck = ~mdp.available.any(axis=1) & ~mdp.terminal
    refuse_states(stuck, "available: no action is available in", mdp.states, "Mark such states as terminal.")
    _check_terminal(mdp)
    if not allow_unreachable:
        way_out = "Correct the transitions, leave these states out, or pass allow_unreachable=True."
        refuse_states(~mdp.reachable, "states: no policy can come to", mdp.states, way_out)


def _check_terminal(mdp: TabularMDP) -> None:
    """A terminal state has no decision: all its actions pay the same, and nothing is paid after it."""
    for table in (mdp.reward, mdp.reward_std):
        differs = mdp.terminal & (table != table[:, :1]).any(axis=1)
        what = "terminal: the reward depends on the action in"
        refuse_states(differs, what, mdp.states, "A terminal state has no decision.")
    quiet = mdp.terminal & ~mdp.reward.any(axis=1) & ~mdp.reward_std.any(axis=1)
    t = mdp.transitions
    entry_state = np.repeat(np.arange(len(t.offsets) - 1) // mdp.n_actions, np.diff(t.offsets))
    paid_later = mdp.terminal[entry_state] & (t.following != END) & ~quiet[t.following]
    wrong = np.bincount(entry_state[paid_later], minlength=mdp.n_states) > 0
    way_out = "Leave out what follows a terminal state, or let it lead to terminal states that pay nothing."
    refuse_states(wrong, "terminal: something is still paid after", mdp.states, way_out)
