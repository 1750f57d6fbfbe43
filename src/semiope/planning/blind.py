"""Keeping experts blind: questions that the plan does not need, and how well a reader could guess the policy.

Who is asked only where a policy would do otherwise learns the policy from the questions. So each needed question gets
companions (at a stated rate) about the same action, at the same step if there are any, where the policy would not take
it: half of them about other actions than the one taken, half about the action taken itself, whose outcome is known and
tells how good the expert is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from semiope._arrays import Booleans, Floats, Integers
from semiope.planning.matters import Matters

NEEDED, OTHER, TAKEN = 0, 1, 2
KINDS = ("needed", "decoy", "calibration")
# Beyond this, a reader who sees nothing but the questions knows the policy too well.
BLIND = 0.6


class Asked(NamedTuple):
    """Questions by row and action, and what each is there for."""

    row: Integers
    action: Integers
    kind: Integers


class Guess(NamedTuple):
    """How often the best of a few readers names the policy's action right, of which policy, and what it goes by."""

    share: float
    policy: str
    by: str


def decoys(
    matters: Matters, needed: Integers, rate: float, counts: Floats, excluded: Booleans, luck: Floats, room: Integers
) -> Asked:
    """Companions for the needed questions (their places among those that matter).

    `counts` is how often each pair was logged: only actions that were logged in a state somewhere, or that a policy may
    choose, are asked about. `excluded` and `luck`, (n_rows, n_actions), say what is not to be asked, and the order;
    `room` how many more questions each episode may be asked.
    """
    episodes = matters.logbook.episodes
    wanted = int(np.ceil(rate * len(needed)))
    plausible = (counts[episodes.state] > 0) | (matters.chosen > 0)
    fit = plausible & (episodes.action >= 0)[:, None] & ~excluded
    fit[matters.row, matters.action] = False
    row, action = np.nonzero(fit)
    taken = episodes.action[row] == action
    horizon = int(episodes.lengths.max())

    def places(rows: Integers, actions: Integers, often: Booleans) -> Integers:
        found: Integers = (2 * actions.astype(np.int64) + often) * horizon + episodes.step[rows]
        return found

    # Where most policies would take an action, a companion is about it where most would not, and the other way round.
    own = matters.row[needed], matters.action[needed]
    order = np.argsort(luck[own], kind="stable")
    demand = np.resize(places(*own, matters.chosen[own] >= 0.5)[order], wanted if len(order) else 0)
    episode = np.searchsorted(episodes.offsets, row, side="right") - 1
    stock = Stock(places(row, action, matters.chosen[row, action] < 0.5), luck[row, action], episode, room.copy())
    used = np.zeros(len(row), dtype=np.bool_)
    unmet = [*_meet(stock, used, taken, demand[::2], horizon), *_meet(stock, used, ~taken, demand[1::2], horizon)]
    _meet(stock, used, np.ones(len(row), dtype=np.bool_), np.array(unmet, dtype=np.int64), horizon)
    return Asked(row[used], action[used], np.where(taken[used], TAKEN, OTHER))


class Stock(NamedTuple):
    """Candidates for companions: the place of each (action, side and step), its luck, its episode; room in episodes."""

    place: Integers
    luck: Floats
    episode: Integers
    room: Integers


def _meet(stock: Stock, used: Booleans, fit: Booleans, demand: Integers, horizon: int) -> list[int]:
    """Use one candidate that fits for each place in demand: there, else at any step; return those not met."""
    unmet: list[int] = demand.tolist()
    own = np.flatnonzero(fit & ~used)
    for size in (1, horizon):
        group = stock.place[own] // size
        order = np.lexsort((stock.luck[own], group))
        candidates, group = own[order], group[order]
        following: dict[int, int] = {}
        wanting: list[int] = unmet
        unmet = []
        for place in wanting:
            key = place // size
            here = following.get(key, int(np.searchsorted(group, key)))
            while here < len(group) and group[here] == key and not _free(stock, used, int(candidates[here])):
                here += 1
            if here < len(group) and group[here] == key:
                used[candidates[here]] = True
                stock.room[stock.episode[candidates[here]]] -= 1
            else:
                unmet.append(place)
            following[key] = here
    return unmet


def _free(stock: Stock, used: Booleans, candidate: int) -> bool:
    return not used[candidate] and bool(stock.room[stock.episode[candidate]] > 0)


def guessed(matters: Matters, asked: Asked, probs: dict[str, Floats]) -> Guess:
    """Let readers guess, question by question, whether the policy takes the action asked about.

    `probs` is how likely each policy does, question by question. A reader says what is right more often: always, or for
    questions about this action, or at this step, judged by all other questions.
    """
    episodes = matters.logbook.episodes
    best = Guess(0.5, next(iter(probs), ""), "chance")
    constant = np.zeros(len(asked.row), dtype=np.int64)
    for name, own in probs.items():
        for by, group in (
            ("the questions' number", constant), ("the action", asked.action), ("the step", episodes.step[asked.row]),
        ):  # fmt: skip
            share = _reader(own, group, leave_out=by != "the questions' number")
            if share > best.share:
                best = Guess(share, name, by)
    return best


def _reader(yes: Floats, group: Integers, *, leave_out: bool) -> float:
    """How often a reader is right who says what was right for most (other) questions of the same group."""
    n = np.bincount(group)[group] - leave_out
    total = np.bincount(group, weights=yes)[group] - yes * leave_out
    share = np.where(n > 0, total / np.maximum(n, 1), 0.5)
    right = np.where(share > 0.5, yes, np.where(share < 0.5, 1 - yes, 0.5))
    return float(right.mean()) if len(right) else 0.5
