"""Drawing whole datasets from a model, compiled; an episode depends on the seed and on its number alone."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from semiope._arrays import Floats, Integers, frozen, id_dtype
from semiope._compiled import compiled, constant
from semiope._options import Progress
from semiope._random import EPISODES, Seed, key_of, normal, uniforms
from semiope.data.episodes import Episodes
from semiope.data.labels import ABSENT, Vocabulary
from semiope.models.planning import Dynamics
from semiope.models.transitions import END

# Rows drawn at a time by one thread: what is allocated for episodes that may end early stays small.
SLAB = 1 << 19
FIRST = constant(0)
# What a random number is for, in the counter it is made of.
CHOICES, REWARD, START = constant(0), constant(1), constant(2)


@dataclass(frozen=True, eq=False)
class Rows:
    """Flat columns by ids of the model, action -1 in terminal states, NaN for the propensity there."""

    first: int
    lengths: Integers
    state: Integers
    action: Integers
    reward: Floats
    propensity: Floats

    def episodes(self, states: Vocabulary, actions: Vocabulary, *, propensities: bool) -> Episodes:
        """As `Episodes`, with the labels that occur; episodes are labelled by their numbers."""
        state, known_states = states.used(self.state)
        action, known_actions = actions.used(self.action)
        numbers = np.arange(self.first, self.first + len(self.lengths), dtype=np.int64)
        return Episodes(
            labels=Vocabulary(pa.array(numbers)),
            states=known_states,
            actions=known_actions,
            offsets=frozen(np.append(0, np.cumsum(self.lengths))),
            state=frozen(state),
            action=frozen(action),
            reward=frozen(self.reward),
            behavior_prob=frozen(self.propensity) if propensities else None,
        )


def draw(
    model: Dynamics,
    probs: Floats,
    initial: Floats,
    *,
    horizon: int,
    n: int,
    first: int,
    seed: Seed,
    progress: Progress | None = None,
) -> Rows:
    """Draw n episodes from number `first` on."""
    key = key_of(seed, EPISODES)
    arrival = np.empty(len(model.prob))
    _accumulate(model.offsets, model.prob, arrival)
    tables = Tables(np.cumsum(initial), np.cumsum(probs, axis=2), probs, arrival)
    at_once = max(1, SLAB // horizon)
    dtypes = id_dtype(len(model.terminal)), id_dtype(model.reward.shape[1]), np.float64, np.float64
    lengths = np.empty(n, dtype=np.int64)

    def draw_slab(begin: int) -> list[NDArray[Any]]:
        own = lengths[begin : begin + at_once]
        slab = [np.empty(len(own) * horizon, dtype=dtype) for dtype in dtypes]
        used = _draw(model, tables, key, first + begin, horizon, own, *slab)
        return [values[:used].copy() for values in slab]

    parts = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for part in pool.map(draw_slab, range(0, n, at_once)):
            parts.append(part)
            if progress is not None:
                progress(min(n, len(parts) * at_once), n)
    state, action, reward, propensity = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return Rows(first, lengths, state, action, reward, propensity)


class Tables(NamedTuple):
    """Cumulative probabilities of initial states, of actions (per step and state) and of what follows each pair."""

    start: Floats
    choice: Floats
    probs: Floats
    arrival: Floats


@compiled
def _accumulate(offsets: Integers, prob: Floats, cumulative: Floats) -> None:
    for pair in range(len(offsets) - 1):
        total = 0.0
        for i in range(offsets[pair], offsets[pair + 1]):
            total += prob[i]
            cumulative[i] = total


@compiled
def _pick(cumulative: Floats, low: int, high: int, uniform: float) -> int:
    """The entry of low ... high - 1 in whose share of the total a uniform number falls."""
    total = cumulative[high - 1]
    # Rounding must not lead beyond the last entry of positive probability.
    target = min(uniform * total, total * (1.0 - 2.0**-52))
    n = high - low
    # The number of halvings does not depend on the number drawn, which the processor could not foresee.
    while n > 1:
        half = n // 2
        low += half if cumulative[low + half - 1] <= target else 0
        n -= half
    return low


@compiled
def _draw(
    model: Dynamics,
    tables: Tables,
    key: np.uint64,
    first: int,
    horizon: int,
    lengths: Integers,
    states: Integers,
    actions: Integers,
    rewards: Floats,
    propensities: Floats,
) -> int:
    """Fill the columns with one episode after the other; return the number of rows."""
    n_states, n_actions = model.reward.shape
    row = 0
    for e in range(len(lengths)):
        episode, begin = first + e, row
        state = _pick(tables.start, FIRST, n_states, uniforms(key, episode, FIRST, START)[0])
        for step in range(horizon):
            for_action, for_state = uniforms(key, episode, step, CHOICES)
            action = 0
            states[row] = state
            if model.terminal[state]:
                actions[row], propensities[row] = ABSENT, np.nan
            else:
                policy = step if len(tables.probs) > 1 else 0
                action = _pick(tables.choice[policy, state], FIRST, n_actions, for_action)
                actions[row], propensities[row] = action, tables.probs[policy, state, action]
            rewards[row] = model.reward[state, action]
            if model.reward_std[state, action] > 0:
                rewards[row] += model.reward_std[state, action] * normal(key, episode, step, REWARD)
            row += 1
            if model.terminal[state]:
                break
            pair = state * n_actions + action
            state = model.following[_pick(tables.arrival, model.offsets[pair], model.offsets[pair + 1], for_state)]
            if state == END:
                break
        lengths[e] = row - begin
    return row
