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
from semiope.plan.matters import Matters

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
    matters: Matters, needed: Integers, rate: float, counts: Floats, excluded: Booleans, luck: Floats
) -> Asked:
    """Companions for the needed questions (their places among those that matter).

    `counts` is how often each pair was logged: only actions that were logged in a state somewhere, or that a policy may
    choose, are asked about. `excluded` and `luck`, (n_rows, n_actions), say what is not to be asked, and the order.
    """
    episodes = matters.logbook.episodes
    n_actions = len(matters.logbook.actions)
    wanted = int(np.ceil(rate * len(needed)))
    decided = episodes.action >= 0
    fit = (counts[episodes.state] > 0) & decided[:, None] & (matters.chosen < 0.5) & ~excluded
    fit[matters.row, matters.action] = False
    row, action = np.nonzero(fit)
    taken = episodes.action[row] == action
    kinds = [_match(matters, needed, row[own], action[own], luck, half) for own, half in (
        (taken, wanted // 2), (~taken, wanted - wanted // 2))]  # fmt: skip
    short = wanted - sum(len(found) for found, _ in kinds)
    if short:
        used = np.zeros((episodes.n_steps, n_actions), dtype=np.bool_)
        for found, of in kinds:
            used[found, of] = True
        free = ~used[row, action]
        kinds.append(_match(matters, needed, row[free], action[free], luck, short))
    row = np.concatenate([found for found, _ in kinds])
    action = np.concatenate([of for _, of in kinds])
    return Asked(row, action, np.where(episodes.action[row] == action, TAKEN, OTHER))


def _match(
    matters: Matters, needed: Integers, row: Integers, action: Integers, luck: Floats, wanted: int
) -> tuple[Integers, Integers]:
    """So many of the candidates, spread over actions and steps as the needed questions are."""
    episodes = matters.logbook.episodes
    horizon = int(episodes.lengths.max())
    order = np.lexsort((luck[row, action], episodes.step[row], action))
    row, action = row[order], action[order]
    place = action.astype(np.int64) * horizon + episodes.step[row]
    # The needed ones are gone through in an order of luck, again and again until enough are found.
    sequence = needed[np.argsort(luck[matters.row[needed], matters.action[needed]], kind="stable")]
    buckets = matters.action[sequence].astype(np.int64) * horizon + episodes.step[matters.row[sequence]]
    used = np.zeros(len(row), dtype=np.bool_)
    following = {int(b): int(np.searchsorted(place, b)) for b in np.unique(buckets)}
    found: list[int] = []
    missed: list[int] = []
    for bucket in np.resize(buckets, wanted).tolist():
        here = following[bucket]
        if here < len(place) and place[here] == bucket:
            following[bucket] = here + 1
            used[here] = True
            found.append(here)
        else:
            missed.append(bucket // horizon)
    # Where a step has none left, any step of the same action; then anything.
    rest = np.flatnonzero(~used)
    rest = rest[np.argsort(luck[row[rest], action[rest]], kind="stable")]
    for of in missed:
        same = rest[(action[rest] == of) & ~used[rest]]
        if len(same):
            used[same[0]] = True
            found.append(int(same[0]))
    left = rest[~used[rest]][: wanted - len(found)]
    chosen = np.concatenate([np.array(found, dtype=np.int64), left])
    return row[chosen], action[chosen]


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
