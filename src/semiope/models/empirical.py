"""The empirical MDP of logged episodes: what followed and what was paid, on average, after each state and action."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from semiope._arrays import Booleans, Floats, Integers
from semiope._options import check_count
from semiope.data.episodes import Episodes, read_episodes
from semiope.data.labels import ABSENT, Vocabulary
from semiope.errors import OptionError, SchemaError, nearest
from semiope.models.tabular import TabularMDP
from semiope.models.transitions import END
from semiope.policies.cells import check_size

TRUNCATED = ("unknown", "end")


class Empirical(NamedTuple):
    """A model estimated from data, and how often each pair was logged, (n_states, n_actions) in the model's ids."""

    mdp: TabularMDP
    counts: Floats


def empirical_mdp(
    episodes: Any,
    *,
    actions: Sequence[str] | Sequence[int] = (),
    gamma: float = 1.0,
    horizon: int | None = None,
    truncated: str = "unknown",
    unseen: float | None = None,
) -> Empirical:
    """Estimate a model by counting, as if decisions were made in a stationary Markov process.

    Rewards keep the mean and standard deviation they have in the logs; sampled, they are Gaussian. `actions` are labels
    of actions that exist beside those logged.

    States in which no action was logged are terminal. An episode whose last row has an action has ended there, unless
    that row is at the last step of the horizon (default: the longest episode): then it was cut, and what would have
    followed is not counted ("unknown") or counted as an end ("end"). Actions never logged in a state are not available
    there; with a number `unseen`, they pay that and end the episode. A last row without an action in a state that has
    decisions elsewhere, and without a reward, is a mere observation: what would have followed is not known.
    """
    if truncated not in TRUNCATED:
        close = nearest(str(truncated), TRUNCATED)
        raise OptionError(f"truncated: {truncated!r} is not known.{close} Use {' or '.join(TRUNCATED)}.")
    episodes = episodes if isinstance(episodes, Episodes) else read_episodes(episodes)
    steps = int(episodes.lengths.max()) if horizon is None else check_count(horizon, "horizon")
    if not len(episodes.actions):
        raise SchemaError("empirical model: no decision was logged.")
    known = episodes.actions.extended(Vocabulary(pa.array(list(actions), type=episodes.actions.words.type)))
    n_states, n_actions = len(episodes.states), len(known)
    check_size(n_states, n_actions, "empirical model")
    terminal = _terminal(episodes)
    decided = np.flatnonzero(episodes.action != ABSENT)
    pair = episodes.state[decided].astype(np.int64) * n_actions + episodes.action[decided]
    counts = np.bincount(pair, minlength=n_states * n_actions).astype(np.float64)
    mean, std = _rewards(pair, episodes.reward[decided], counts)
    followed, following = successors(episodes, decided, steps, truncated)
    seen, with_successor = counts > 0, np.bincount(pair[followed], minlength=len(counts))
    followed_code, times = np.unique(pair[followed] * (n_states + 1) + following[followed] + 1, return_counts=True)
    entry_pair, next_state = np.divmod(followed_code, n_states + 1)
    # Pairs that were only cut: nothing is known of what follows, and nothing is assumed to.
    ends = np.flatnonzero((seen & (with_successor == 0)) | (~seen & (unseen is not None)))
    entry_pair = np.concatenate([entry_pair, ends])
    next_state = np.concatenate([next_state - 1, np.full(len(ends), END)])
    prob = np.concatenate([times / with_successor[followed_code // (n_states + 1)], np.ones(len(ends))])
    shape = n_states, n_actions
    reward = np.where(seen, mean, 0.0 if unseen is None else unseen).reshape(shape)
    spread = std.reshape(shape)
    for table, of_rows in zip((reward, spread), _terminal_rewards(episodes, terminal), strict=True):
        table[terminal] = of_rows[terminal, None]
    mdp = TabularMDP.from_sparse(
        state=entry_pair // n_actions,
        action=entry_pair % n_actions,
        next_state=next_state,
        prob=prob,
        reward=reward,
        reward_std=spread,
        initial=np.bincount(episodes.state[episodes.offsets[:-1]], minlength=n_states) / episodes.n_episodes,
        terminal=terminal,
        available=(seen.reshape(shape) | (unseen is not None)) | terminal[:, None],
        gamma=gamma,
        horizon=steps,
        states=episodes.states.words.to_pylist(),
        actions=known.words.to_pylist(),
        allow_unreachable=True,  # steps beyond a cut may have been the only way
    )
    return Empirical(mdp, counts.reshape(shape))


def _terminal(episodes: Episodes) -> Booleans:
    """States without a decision; fail where rows without one do not end an episode, or pay in a state that has some."""
    without = episodes.action == ABSENT
    last = np.zeros(episodes.n_steps, dtype=np.bool_)
    last[episodes.offsets[1:] - 1] = True
    wrong = np.flatnonzero(without & ~last)
    if len(wrong):
        raise SchemaError(
            f"empirical model: {episodes.describe_row(int(wrong[0]))} has no action but is not the end of its episode; "
            "a model can only be counted where rows without a decision come last."
        )
    decides = np.bincount(episodes.state[~without], minlength=len(episodes.states)) > 0
    mixed = np.flatnonzero(without & decides[episodes.state] & (episodes.reward != 0))
    if len(mixed):
        raise SchemaError(
            f"empirical model: {episodes.describe_row(int(mixed[0]))} has no action and a reward, but decisions were "
            "logged in the same state. Give final states labels of their own."
        )
    return ~decides


def _rewards(pair: Integers, reward: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation of the reward of each pair, 0 where there is none."""
    n = np.maximum(counts, 1)
    # In units of the largest, so that squares of extreme rewards stay in range.
    unit = max(float(np.abs(reward).max(initial=0.0)), 1e-100)
    reward = reward / unit
    mean = np.bincount(pair, weights=reward, minlength=len(counts)) / n
    square = np.bincount(pair, weights=(reward - mean[pair]) ** 2, minlength=len(counts)) / n
    return unit * mean, unit * np.sqrt(square)


def successors(episodes: Episodes, decided: Integers, horizon: int, truncated: str) -> tuple[Booleans, Integers]:
    """For each decision whether what followed is known, and the next state or END."""
    ends = episodes.offsets[1:] - 1
    following = np.append(episodes.state[1:].astype(np.int64), END)
    following[ends] = END
    known = np.ones(episodes.n_steps, dtype=np.bool_)
    if truncated == "unknown":
        known[ends] = episodes.step[ends] < horizon - 1
    return known[decided], following[decided]


def _terminal_rewards(episodes: Episodes, terminal: Booleans) -> tuple[Floats, Floats]:
    rows = np.flatnonzero(terminal[episodes.state])
    state = episodes.state[rows].astype(np.int64)
    counts = np.bincount(state, minlength=len(terminal)).astype(np.float64)
    return _rewards(state, episodes.reward[rows], counts)
