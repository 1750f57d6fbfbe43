"""Decoys exchanged for others, one by one, as long as readers learn less from the questions.

A reader who goes by some group of questions (those about the same action, say) and says of each group what is right
more often is right in 1/2 + S / 2N of N questions, with S the sum over groups of |yeses - noes|. There is an S for
every reader and every policy. What has to fall is the sum of their fourth powers, which the largest govern, each reader
by its weight. One reader goes by the action and by how many questions there are in the episode, so that an exchange may
concern others there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from semiope._arrays import Booleans, Floats, Integers
from semiope._compiled import compiled
from semiope._random import generator

# How often an exchange is tried for each decoy, and in all.
TRIES, MOST = 5_000, 800_000
# At least this share of decoys stays about actions that were taken, if it was: they tell how good an expert is.
CALIBRATING = 0.2
# So many questions of an episode are many: no reader tells more apart.
MANY = 3


class Questions(NamedTuple):
    """Questions that are or might be asked: needed ones, then all that may be decoys.

    `sides` is what policies say to each sort of question (1 yes, -1 no), (n_sorts, n_policies), and `sort` the sort of
    each; `groups` its group by each reader, (n_readers, n), `weights` how much each reader counts, and last the one who
    goes by how many questions there are; `strange` whether experts would wonder about it, `taken` whether it is about
    the action that was taken.
    """

    sides: Floats
    sort: Integers
    groups: Integers
    weights: Floats
    action: Integers
    row: Integers
    episode: Integers
    strange: Booleans
    taken: Booleans


class Places(NamedTuple):
    """How often each row is asked about, how many more each episode may be asked, and the questions of each episode."""

    rows: Integers
    room: Integers
    order: Integers
    first: Integers


class Readers(NamedTuple):
    """Which questions are asked, of each episode how many; yeses minus noes in groups, and S, by reader and policy."""

    inside: Booleans
    asked: Integers
    surplus: Floats
    total: Floats


def exchange(questions: Questions, decoys: Integers, n_needed: int, rows: Integers, room: Integers, seed: int) -> None:
    """Exchange decoys (in place) for other questions, tried in an order by the seed; the first `n_needed` stay.

    `rows` and `room` are how often each row is asked about, and how many more each episode may be asked.
    """
    if not len(decoys):
        return
    n, n_tries = len(questions.row), min(TRIES * len(decoys), MOST)
    rng = generator(seed)
    out, into = rng.integers(0, len(decoys), n_tries), rng.integers(n_needed, n, n_tries)
    order = np.argsort(questions.episode, kind="stable")
    first = np.searchsorted(questions.episode[order], np.arange(len(room) + 1))
    inside = np.arange(n) < n_needed
    inside[decoys] = True
    asked = np.bincount(questions.episode[inside], minlength=len(room))
    by_reader = [*questions.groups, questions.action * MANY + np.minimum(asked[questions.episode], MANY) - 1]
    n_groups = max(int(questions.groups.max()) + 1, (int(questions.action.max()) + 1) * MANY)
    surplus = np.zeros((len(by_reader), n_groups, questions.sides.shape[1]))
    for own, group in zip(surplus, by_reader, strict=True):
        np.add.at(own, group[inside], questions.sides[questions.sort[inside]])
    readers = Readers(inside, asked, surplus, np.abs(surplus).sum(axis=1))
    _exchange(questions, Places(rows, room, order, first), readers, decoys, out, into)


@compiled
def _crowd(action: int, asked: int) -> int:
    """The group of a question about an action in an episode with so many."""
    return action * MANY + min(asked, MANY) - 1


@compiled
def _exchange(
    questions: Questions, places: Places, readers: Readers, decoys: Integers, out: Integers, into: Integers
) -> None:
    """Try one exchange after the other."""
    row, episode, strange, taken = questions.row, questions.episode, questions.strange, questions.taken
    rows, room, now = places.rows, places.room, _told(readers.total, questions.weights)
    spare = np.count_nonzero(taken[decoys]) - CALIBRATING * len(decoys)
    for n in range(len(out)):
        i, j = decoys[out[n]], into[n]
        if readers.inside[j] or (strange[j] and not strange[i]) or (rows[row[j]] > 0 and row[j] != row[i]):
            continue
        if room[episode[j]] <= 0 and episode[j] != episode[i]:
            continue
        if taken[i] and not taken[j] and spare < 1:
            continue
        _put(i, -1, questions, places, readers)
        _put(j, 1, questions, places, readers)
        then = _told(readers.total, questions.weights)
        if then < now:
            now, decoys[out[n]] = then, j
            spare += (1.0 if taken[j] else 0.0) - (1.0 if taken[i] else 0.0)
            rows[row[i]] -= 1
            rows[row[j]] += 1
            room[episode[i]] += 1
            room[episode[j]] -= 1
        else:
            _put(j, -1, questions, places, readers)
            _put(i, 1, questions, places, readers)


@compiled
def _told(total: Floats, weights: Floats) -> float:
    """What readers learn."""
    found = 0.0
    for r in range(total.shape[0]):
        for k in range(total.shape[1]):
            found += (weights[r] * total[r, k]) ** 4
    return found


@compiled
def _put(q: int, sign: int, questions: Questions, places: Places, readers: Readers) -> None:
    """Ask a question too (sign 1), or no longer (-1)."""
    surplus, total, action, sort = readers.surplus, readers.total, questions.action, questions.sort
    last = len(questions.groups)
    for r in range(last):
        _shift(surplus[r, questions.groups[r, q]], total[r], questions.sides[sort[q]], sign)
    episode = questions.episode[q]
    before = readers.asked[episode]
    after = before + sign
    readers.asked[episode], readers.inside[q] = after, sign > 0
    own = _crowd(action[q], max(before, after))
    _shift(surplus[last, own], total[last], questions.sides[sort[q]], sign)
    if min(before, after) >= MANY:
        return
    for place in range(places.first[episode], places.first[episode + 1]):
        other = places.order[place]
        if readers.inside[other] and other != q:
            _shift(surplus[last, _crowd(action[other], before)], total[last], questions.sides[sort[other]], -1)
            _shift(surplus[last, _crowd(action[other], after)], total[last], questions.sides[sort[other]], 1)


@compiled
def _shift(surplus: Floats, total: Floats, side: Floats, sign: int) -> None:
    """Add a question to a group, or take it away."""
    for k in range(len(side)):
        total[k] -= abs(surplus[k])
        surplus[k] += sign * side[k]
        total[k] += abs(surplus[k])
