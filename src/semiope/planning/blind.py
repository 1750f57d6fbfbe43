"""Keeping experts blind: questions that the plan does not need, and how well a reader could guess the policy.

Who is asked only where a policy would do otherwise learns the policy from the questions. So decoys go with the needed
questions, at a stated rate: some about the action taken, whose outcome is known and tells how good the expert is, the
others about actions that no estimate has by itself. They are chosen one after the other so that, for every policy,
questions to which it says yes (it would take the action) and no are as many: among all, among those about the same
action, at the same step, and both. With d_k the yeses minus the noes of policy k in such a group, and x_k what it says
to a candidate (1 yes, -1 no), the next decoy has the least

    sum over its groups and over policies of d_k x_k,

half of what it adds to the sum of all d_k^2, up to a constant. Then they are exchanged for others as long as readers
learn less by it (`exchange.py`). Crowds would tell as well, so that steps and episodes
with fewer questions come first; and experts would wonder about actions that nobody ever took in such a state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from semiope._arrays import Booleans, Floats, Integers, frozen
from semiope._compiled import compiled
from semiope.data.asked import OTHER, TAKEN
from semiope.data.episodes import Episodes
from semiope.data.logbook import Logbook
from semiope.planning.exchange import Questions, exchange
from semiope.planning.matters import Matters

# Beyond this, a reader who sees nothing but the questions knows the policy too well.
BLIND = 0.6
# What speaks against a candidate, in units of one yes or no too many by every policy: a step asked about already; an
# episode with more decoys than its share; an action never logged in the state; each decoy more of its kind.
AGAIN, CROWDED, STRANGE, KIND = 5_000.0, 50.0, 5.0, 0.1
# How many decoys go with a needed question if nothing is said: for one policy, and for several.
RATES = 1.0, 1.25
# How much readers count who also know which action was taken, beside those with the questions alone.
KNOWING = 0.4
# Decoys are chosen in parts of at most so many, each from about so many candidates.
PART, POOL = 5_000, 100_000

Probs = Callable[[Integers, Integers], Floats]
Pairs = tuple[Integers, Integers]  # rows and actions


class Asked(NamedTuple):
    """Questions by row and action, and what each is there for."""

    row: Integers
    action: Integers
    kind: Integers


class Guess(NamedTuple):
    """How often the best of a few readers names the policy's action right, of which policy, and what it goes by.

    `knowing` is the same of readers who also know which action was taken, as experts do who know the episode.
    """

    share: float
    policy: str
    by: str
    knowing: float


class Crowd(NamedTuple):
    """How often each row is asked about; of each episode, how many more may be asked, and its share of decoys left."""

    rows: Integers
    room: Integers
    share: Floats


class Ground(NamedTuple):
    """What decoys are chosen by: see `decoys`."""

    matters: Matters
    counts: Floats
    probs: Probs
    crowd: Crowd


def n_decoys(rate: float, n_needed: int) -> int:
    """How many decoys go with so many needed questions."""
    return math.ceil(rate * n_needed - 1e-9)


def decoys(
    matters: Matters,
    needed: Integers,
    rate: float,
    counts: Floats,
    probs: Probs,
    excluded: Booleans,
    luck: Floats,
    room: Integers,
    seed: int,
) -> Asked:
    """Companions for the needed questions (their places among those that matter).

    `counts` is how often each pair was logged. `probs` says of rows and actions how likely each policy takes them,
    (n_policies, n). `excluded` and `luck`, (n_rows, n_actions), say what is not to be asked, and the order; `room` how
    many more questions each episode may be asked.
    """
    episodes = matters.logbook.episodes
    wanted = n_decoys(rate, len(needed))
    n_parts = max(-(-wanted // PART), 1)
    fit = (counts.sum(axis=0) > 0) | (matters.chosen > 0)
    fit &= (episodes.action >= 0)[:, None] & ~excluded
    hanging = np.append(matters.direct, needed)
    fit[matters.row[hanging], matters.action[hanging]] = False
    # Many more than are looked at closely, so that what is rare is among them.
    fit &= luck * np.count_nonzero(fit) < 4.0 * POOL * n_parts
    row, action = np.nonzero(fit)
    row, action = _in_order(row, action, luck)
    ours = _in_order(matters.row[needed], matters.action[needed], luck)
    of_episode = np.bincount(matters.episode[needed], minlength=episodes.n_episodes)
    crowd = Crowd(
        np.bincount(ours[0], minlength=episodes.n_steps), room.astype(np.int64), rate * np.maximum(of_episode, 1.0)
    )
    ground = Ground(matters, counts, probs, crowd)
    pools, picked, start = [], [], 0
    for part in range(n_parts):
        own, mine = slice(part, None, n_parts), (ours[0][part::n_parts], ours[1][part::n_parts])
        pool = _pool(matters, row[own], action[own])
        pools.append((row[own][pool], action[own][pool]))
        n = wanted // n_parts + (part < wanted % n_parts)
        picked.append(start + _balanced(ground, mine, pools[-1], n))
        start += len(pool)
    row, action = (np.concatenate(parts) for parts in zip(*pools, strict=True))
    found = _exchanged(ground, ours, (row, action), np.concatenate(picked), seed)
    row, action = row[found], action[found]
    return Asked(row, action, np.where(episodes.action[row] == action, TAKEN, OTHER))


def _in_order(row: Integers, action: Integers, luck: Floats) -> Pairs:
    order = np.argsort(luck[row, action], kind="stable")
    return row[order], action[order]


def _pool(matters: Matters, row: Integers, action: Integers) -> Integers:
    """Which candidates to look at closely: the first of each action and step, taken or not, chosen by most or not."""
    episodes = matters.logbook.episodes
    kind = 2 * (episodes.action[row] == action) + (matters.chosen[row, action] >= 0.5)
    group = (4 * action.astype(np.int64) + kind) * int(episodes.lengths.max()) + episodes.step[row]
    order = np.argsort(group, kind="stable")
    sizes = np.unique(group, return_counts=True)[1]
    rank = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.sort(order[np.argsort(rank, kind="stable")[:POOL]])


def _balanced(ground: Ground, needed: Pairs, candidates: Pairs, wanted: int) -> Integers:
    """Pick candidates so that yeses and noes are as many; the crowd is brought up to date."""
    matters, counts, probs, crowd = ground
    episodes, (row, action) = matters.logbook.episodes, candidates
    horizon = int(episodes.lengths.max())
    sides, ours = 2 * probs(row, action) - 1, 2 * probs(*needed) - 1
    score = np.zeros(len(row))
    for of_needed, of_candidate in zip(_groups(episodes, *needed), _groups(episodes, row, action), strict=True):
        for own, side in zip(ours, sides, strict=True):
            surplus = np.bincount(of_needed, weights=own, minlength=len(matters.logbook.actions) * horizon)
            score += surplus[of_candidate] * side
    against = STRANGE * np.sqrt(len(sides)) * (counts[episodes.state[row], action] == 0)
    episode, picked = episodes.episode_of(row), np.empty(wanted, dtype=np.int64)
    n = _pick(
        *_told_apart(sides), action.astype(np.int64), episodes.step[row].astype(np.int64), row.astype(np.int64),
        episode, episodes.action[row] == action, score + against, crowd.rows, crowd.room, crowd.share, picked,
    )  # fmt: skip
    return picked[:n]


def _exchanged(ground: Ground, needed: Pairs, candidates: Pairs, picked: Integers, seed: int) -> Integers:
    """The candidates picked, exchanged for others that tell readers less."""
    matters, counts, probs, crowd = ground
    episodes, n_needed = matters.logbook.episodes, len(needed[0])
    row, action = (np.append(*both).astype(np.int64) for both in zip(needed, candidates, strict=True))
    said, sort = _told_apart(2 * probs(row, action) - 1)
    alone, knowing = _groups(episodes, row, action), _knowing(episodes, row, action)
    groups = [*alone, *knowing]
    weights = np.array([1.0] * len(alone) + [KNOWING] * len(knowing) + [1.0])
    questions = Questions(
        frozen(np.ascontiguousarray(said.T)), sort, frozen(np.stack(groups)), frozen(weights), action, row,
        episodes.episode_of(row), counts[episodes.state[row], action] == 0, episodes.action[row] == action,
    )  # fmt: skip
    decoys: Integers = n_needed + picked
    exchange(questions, decoys, n_needed, crowd.rows, crowd.room, seed)
    return decoys - n_needed


def _groups(episodes: Episodes, row: Integers, action: Integers) -> tuple[Integers, ...]:
    """All, by action, by step, and by both."""
    step, action = episodes.step[row].astype(np.int64), action.astype(np.int64)
    return np.zeros_like(step), action, step, action * int(episodes.lengths.max()) + step


def _knowing(episodes: Episodes, row: Integers, action: Integers) -> tuple[Integers, ...]:
    """Whether the action is the one that was taken, and by action: what experts know who know the episode."""
    taken = (episodes.action[row] == action).astype(np.int64)
    return taken, 2 * action.astype(np.int64) + taken


def _told_apart(sides: Floats) -> tuple[Floats, Integers]:
    """The different columns of what policies say, and which of them each candidate has."""
    # Columns that differ in few numbers, as these do, differ in a sum with weights that no few whole numbers relate.
    code = np.zeros(sides.shape[1])
    for k, side in enumerate(sides):
        code += np.sqrt(k + 2.0) ** 1.5 * side
    _, first, which = np.unique(code, return_index=True, return_inverse=True)
    return frozen(np.ascontiguousarray(sides[:, first])), which.astype(np.int64)


@compiled
def _crowded(asked: int, room: int, share: float) -> float:
    """What a crowd speaks against a question: about its step, and in its episode."""
    if room <= 0:
        return float(np.inf)
    return AGAIN * asked + CROWDED * max(1.0 - share, 0.0)


@compiled
def _pick(
    sides: Floats,
    which: Integers,
    action: Integers,
    step: Integers,
    row: Integers,
    episode: Integers,
    taken: Booleans,
    score: Floats,
    rows: Integers,
    room: Integers,
    share: Floats,
    picked: Integers,
) -> int:
    """Fill in the candidates picked, and return how many there are; the crowd and the scores change on the way."""
    n_policies, n_candidates = len(sides), len(which)
    unit, n, surplus = np.sqrt(n_policies), 0, 0
    alike, held = np.empty(sides.shape[1]), np.zeros(n_candidates)
    # Candidates of an episode are linked, for what speaks against them changes together.
    last, before = np.full(len(room), -1), np.empty(n_candidates, dtype=np.int64)
    for c in range(n_candidates):
        before[c], last[episode[c]] = last[episode[c]], c
        held[c] = unit * _crowded(rows[row[c]], room[episode[c]], share[episode[c]])
    while n < len(picked):
        best, least = -1, np.inf
        of_kind = unit * KIND * surplus
        for c in range(n_candidates):
            found = score[c] + held[c] + (of_kind if taken[c] else -of_kind)
            if found < least:
                best, least = c, found
        if best < 0:
            break
        picked[n] = best
        n += 1
        surplus += 1 if taken[best] else -1
        rows[row[best]] += 1
        room[episode[best]] -= 1
        share[episode[best]] -= 1.0
        score[best] = np.inf
        c = last[episode[best]]
        while c >= 0:
            held[c] = unit * _crowded(rows[row[c]], room[episode[c]], share[episode[c]])
            c = before[c]
        alike[:] = 0.0
        for k in range(n_policies):
            for i in range(len(alike)):
                alike[i] += sides[k, which[best]] * sides[k, i]
        for c in range(n_candidates):
            score[c] += alike[which[c]] * (1 + (action[c] == action[best])) * (1 + (step[c] == step[best]))
    return n


def guessed(logbook: Logbook, names: Sequence[str], asked: Asked, probs: Floats) -> Guess:
    """Let readers guess, question by question, whether the policy takes the action asked about.

    `probs` is how likely each policy does, question by question, (n_policies, n). A reader says what is right more
    often: always, or for questions about this action, at this step, both, or this action in an episode and a step with
    as many questions; judged by all other questions.
    """
    episodes = logbook.episodes
    episode = episodes.episode_of(asked.row)
    constant, action, step, both = _groups(episodes, asked.row, asked.action)
    crowd = np.minimum(np.bincount(episode)[episode], 3) + 4 * (np.bincount(asked.row)[asked.row] > 1)
    readers = {
        "the questions' number": constant, "the action": action, "the step": step, "action and step": both,
        "action and how many questions there are": 8 * action + crowd,
    }  # fmt: skip
    best = Guess(0.5, names[0], "chance", 0.5)
    for name, own in zip(names, probs, strict=True):
        for by, group in readers.items():
            share = _reader(own, group, leave_out=group is not constant)
            if share > best.share:
                best = Guess(share, name, by, 0.5)
    knowing = [_reader(own, group) for own in probs for group in _knowing(episodes, asked.row, asked.action)]
    return best._replace(knowing=max(best.share, *knowing))


def _reader(yes: Floats, group: Integers, *, leave_out: bool = True) -> float:
    """How often a reader is right who says what was right for most (other) questions of the same group."""
    n = np.bincount(group)[group] - leave_out
    total = np.bincount(group, weights=yes)[group] - yes * leave_out
    share = np.where(n > 0, total / np.maximum(n, 1), 0.5)
    right = np.where(share > 0.5, yes, np.where(share < 0.5, 1 - yes, 0.5))
    return float(right.mean()) if len(right) else 0.5
