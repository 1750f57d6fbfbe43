"""Questions drawn with known probabilities: unbiased whatever annotations say, and whatever a model predicts.

Episodes are drawn, and questions within them. An episode is drawn at most once in a study, and the questions about it
are put in the order of their steps: so nobody is asked about a step after having been shown what followed it.

With m_i the influence of question i times the expected size of what a prediction misses, and q_i the probability that
it is put if its episode is drawn, episode e adds a variance of M_e^2 / P_e to an estimate that corrects predictions by
annotations, M_e^2 = sum of m_i^2 / q_i over its questions. The variance is least for q_i in proportion to m_i over the
square root of what a question costs, and for P_e in proportion to M_e over that of what its questions cost together.
Both are mixed with equal probabilities, so that no question on which an estimate depends is nearly impossible, however
wrong the expected sizes are.

Decoys are put in the same episodes: about the action taken, whose outcome is known, or about actions that the policies
rather do not take. They are drawn with known probabilities too, so that their annotations count like all others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from semiope._arrays import Booleans, Floats, Integers
from semiope.data.asked import NEEDED, OTHER, TAKEN

# The part of all probabilities that is the same for all: a convention. Estimates are unbiased whatever it is.
UNIFORM = 0.1
# The part of decoys that is about actions taken: a convention.
CALIBRATION = 0.5
# Decoys about what the policies surely do are taken only where an episode has no other: so much rather others.
RATHER = 1e-3
# Rounds of raking. They bear on how well a reader guesses the policy, not on estimates.
RAKED = 10


class Pool(NamedTuple):
    """Questions that may be put, sorted by unit: their `row`, `action`, `size` m_i and `cost`.

    A unit is an episode before one policy (`policy`, -1 if a question is about no policy in particular); `unit` numbers
    them, and `episode` is that of each question.
    """

    unit: Integers
    episode: Integers
    row: Integers
    action: Integers
    policy: Integers
    size: Floats
    cost: Floats


class Design(NamedTuple):
    """Of each question of a pool, q_i; of each episode, P_e (0: not in the pool).

    `variance` is what the batch leaves of a sum over questions, where predictions miss annotations by 1.
    """

    question_prob: Floats
    episode_prob: Floats
    variance: float


class Drawn(NamedTuple):
    """Questions that are put: `kind` is a position in KINDS; probabilities are P_e, w_i and q_i.

    The last two are NaN for actions taken.
    """

    episode: Integers
    row: Integers
    action: Integers
    policy: Integers
    kind: Integers
    episode_prob: Floats
    question_prob: Floats
    needed_prob: Floats


class Choices(NamedTuple):
    """Questions one of which is taken as a decoy, sorted by episode; `chance` sums to 1 over an episode."""

    episode: Integers
    row: Integers
    action: Integers
    chance: Floats


class Decoys(NamedTuple):
    """How many decoys go with each needed question, and what they are drawn from.

    `other` are about actions not taken, `taken` about actions taken. `most` is how many questions may be put about one
    episode, if that is limited.
    """

    rate: float
    other: Choices
    taken: Choices
    most: float = np.inf


def design(pool: Pool, known: Booleans, spend: float, left: float, most: int) -> Design:
    """Probabilities for a batch that may cost so much, if so much is `left` for this batch and all after it.

    `known` flags episodes that were drawn before. At most so many questions are put for each unit.
    """
    free, n_episodes = ~known[pool.episode], len(known)
    per_unit = 1
    while True:
        q = capped(_mixed(pool.size / np.sqrt(pool.cost), pool.unit), pool.unit, per_unit)
        cost = sums(pool.episode, q * pool.cost, n_episodes)
        if cost[~known].sum() >= left or per_unit >= most or bool(np.all(q[free] >= 1)):
            break
        per_unit += 1
    squares = sums(pool.episode, pool.size**2 / q, n_episodes)
    there = (squares > 0) & ~known
    size = np.zeros(n_episodes)
    if there.any():
        size[there] = np.sqrt(squares[there] / cost[there])
        size[there] = (1 - UNIFORM) * size[there] / size[there].mean() + UNIFORM
    prob = spending(size, cost, spend)
    drawn = prob > 0
    return Design(q, prob, float((squares[drawn] / prob[drawn]).sum() + squares[known].sum()))


def draw(pool: Pool, probs: Design, decoys: Decoys, rng: np.random.Generator) -> Drawn:
    """Draw episodes, questions within them, and decoys."""
    n_episodes = len(probs.episode_prob)
    expected = sums(pool.episode, probs.question_prob, n_episodes)
    order = rng.permutation(n_episodes)
    cost = sums(pool.episode, probs.question_prob * pool.cost, n_episodes)
    if len(cost) and np.ptp(cost) > 1e-9 * cost.max():  # so that what is drawn costs about what is expected
        order = order[np.argsort(cost[order], kind="stable")]
    is_drawn = np.zeros(n_episodes, dtype=np.bool_)
    is_drawn[order[systematic(probs.episode_prob[order], np.zeros(n_episodes, dtype=np.int64), rng)]] = True
    own = np.flatnonzero(is_drawn[pool.episode])
    own = own[np.lexsort((rng.random(len(own)), pool.unit[own]))]
    needed = own[systematic(probs.question_prob[own], pool.unit[own], rng)]
    # The number of needed questions of a drawn episode is fixed, so that the probabilities of decoys are known.
    needed_there = np.rint(expected) * is_drawn
    many = np.clip(np.minimum(decoys.rate * needed_there, decoys.most - needed_there), 0.0, None)
    found = _drawn_decoys(decoys, many, np.unique(pool.policy), rng)
    columns = zip((pool.episode, pool.row, pool.action, pool.policy), found[:4], strict=True)
    episode, row, action, policy = (np.append(ours[needed], theirs) for ours, theirs in columns)
    kind = np.append(np.full(len(needed), NEEDED), found.kind)
    # A decoy that is a needed question already is put once.
    n_actions = int(max(pool.action.max(initial=0), action.max(initial=0))) + 1
    first = np.sort(np.unique(_code(row, action, policy, n_actions), return_index=True)[1])
    episode, row, action, policy, kind = (column[first] for column in (episode, row, action, policy, kind))
    needed_prob, within = _within(pool, probs, decoys, many, (episode, row, action, policy), n_actions)
    within[kind == TAKEN] = needed_prob[kind == TAKEN] = np.nan
    return Drawn(episode, row, action, policy, kind, probs.episode_prob[episode], within, needed_prob)


def balanced(choices: Choices, weight: Floats, groupings: list[tuple[Integers, Floats]]) -> Choices:
    """The same choices, with chances such that decoys are spread over groups as needed questions are.

    `weight` is how many decoys each episode has, on average. A grouping is the group of each choice, and how many
    needed questions each group has. Chances are raked: multiplied by what each group lacks, grouping by grouping.
    """
    chance = choices.chance
    if not weight.any():
        return choices
    for _ in range(RAKED):
        for group, wanted in groupings:
            there = sums(group, weight[choices.episode] * chance, len(wanted))
            # Mixed with what is there, so that no group is left out.
            share = (1 - UNIFORM) * wanted / wanted.sum() + UNIFORM * there / max(float(there.sum()), 1e-300)
            factor = np.divide(share * there.sum(), there, out=np.ones(len(there)), where=there > 0)
            chance = chance * factor[group]
            total = sums(choices.episode, chance, len(weight))
            chance = chance / np.where(total > 0, total, 1.0)[choices.episode]
    return choices._replace(chance=chance)


def _code(row: Integers, action: Integers, policy: Integers | int, n_actions: int) -> Integers:
    """One number for a question about a policy."""
    found: Integers = (np.asarray(policy, dtype=np.int64) + 1) << 44 | (row.astype(np.int64) * n_actions + action)
    return found


def _within(
    pool: Pool, probs: Design, decoys: Decoys, many: Floats,
    asked: tuple[Integers, Integers, Integers, Integers], n_actions: int,
) -> tuple[Floats, Floats]:  # fmt: skip
    """q_i and w_i: how likely a question is put if its episode is drawn, because it is needed, and for any reason."""
    episode, row, action, policy = asked
    needed = _look_up(
        _code(pool.row, pool.action, pool.policy, n_actions), probs.question_prob, _code(row, action, policy, n_actions)
    )
    other = decoys.other
    chance = _look_up(_code(other.row, other.action, -1, n_actions), other.chance, _code(row, action, -1, n_actions))
    each = (1 - CALIBRATION) * chance / max(len(np.unique(pool.policy)), 1)
    whole = np.floor(many[episode])
    # In logarithms, so that the chance of a rare decoy is not rounded to 0.
    with np.errstate(divide="ignore"):
        never = np.log1p(-needed) + whole * np.log1p(-each) + np.log1p(-(many[episode] - whole) * each)
    return needed, -np.expm1(never)


def _look_up(known: Integers, number: Floats, wanted: Integers) -> Floats:
    """The number of each wanted code, 0 where it is not known."""
    if not len(known):
        return np.zeros(len(wanted))
    order = np.argsort(known, kind="stable")
    place = order[np.minimum(np.searchsorted(known[order], wanted), len(known) - 1)]
    return np.where(known[place] == wanted, number[place], 0.0)


def _drawn_decoys(decoys: Decoys, many: Floats, policies: Integers, rng: np.random.Generator) -> Drawn:
    """So many decoys for each episode, on average; each is about one of the policies."""
    whole = np.floor(many)
    times = (whole + (rng.random(len(many)) < many - whole)).astype(np.int64)
    episode = np.repeat(np.arange(len(many)), times)
    is_taken = rng.random(len(episode)) < CALIBRATION
    parts = []
    for kind, which, source in ((TAKEN, is_taken, decoys.taken), (OTHER, ~is_taken, decoys.other)):
        place = _one_of_each(source, episode[which], rng)
        parts.append([*(column[place] for column in source[:3]), np.full(len(place), kind)])
    episode, row, action, kinds = (np.concatenate(column) for column in zip(*parts, strict=True))
    policy = policies[rng.integers(len(policies), size=len(row))] if len(policies) else np.full(len(row), -1)
    nothing = np.zeros(len(row))
    return Drawn(episode, row, action, policy, kinds, nothing, nothing, nothing)


def _one_of_each(source: Choices, episode: Integers, rng: np.random.Generator) -> Integers:
    """A choice for each of these episodes by its chances; none for episodes without choices."""
    ends = np.searchsorted(source.episode, np.stack([episode, episode + 1]))
    some = ends[1] > ends[0]
    total = np.append(0.0, np.cumsum(source.chance))
    low, high = total[ends[0][some]], total[ends[1][some]]
    place = np.searchsorted(total, low + rng.random(len(low)) * (high - low), side="right") - 1
    found: Integers = np.clip(place, ends[0][some], ends[1][some] - 1)
    return found


def sums(group: Integers, numbers: Floats, n_groups: int) -> Floats:
    """Sum numbers over each of so many groups."""
    return np.bincount(group, weights=numbers, minlength=n_groups).astype(np.float64)


def spending(size: Floats, cost: Floats, spend: float) -> Floats:
    """Probabilities of at most 1, in proportion to these sizes otherwise, with which drawing costs so much on average.

    1 for all with a size above 0 where they do not cost as much together.
    """
    there = size > 0
    if float(cost[there].sum()) <= spend:
        return there.astype(np.float64)
    # Sorted by size, those that are certain come first: of each number of certain ones, what the others' factor is.
    order = np.flatnonzero(there)[np.argsort(-size[there], kind="stable")]
    certain = np.append(0.0, np.cumsum(cost[order]))[:-1]
    rest = np.cumsum((size * cost)[order][::-1])[::-1]
    factor = (spend - certain) / rest
    place = int(np.argmax(factor * size[order] <= 1))
    return np.minimum(np.where(there, size * factor[place], 0.0), 1.0)


def capped(weight: Floats, group: Integers, total: int) -> Floats:
    """Probabilities in proportion to weights in each group, that sum to a total, none above 1.

    A group with no more members than the total has 1 throughout.
    """
    n_groups = int(group.max(initial=-1)) + 1
    certain = np.zeros(len(weight), dtype=np.bool_)
    while True:
        left = total - sums(group, certain.astype(np.float64), n_groups)
        rest = sums(group, np.where(certain, 0.0, weight), n_groups)
        factor = np.divide(left, rest, out=np.ones(n_groups), where=rest > 0)
        found = np.where(certain, 1.0, np.maximum(factor, 0.0)[group] * weight)
        more = ~certain & (found >= 1)
        if not more.any():
            return found
        certain |= more


def systematic(prob: Floats, group: Integers, rng: np.random.Generator) -> Integers:
    """Positions drawn with these probabilities, as many in each group as they sum to (or one more, or one less).

    Groups lie one after the other. In each, a lattice of width 1 with a start of its own is laid over the running sum.
    """
    if not len(prob):
        return np.zeros(0, dtype=np.int64)
    n_groups = int(group.max()) + 1
    total = sums(group, prob, n_groups)
    # Rounding would else now and then draw one too few where probabilities sum to a whole number.
    whole = np.rint(total)
    exact = (np.abs(total - whole) < 1e-9 * np.maximum(whole, 1.0)) & (total > 0)
    prob = prob * np.where(exact, whole / np.where(exact, total, 1.0), 1.0)[group]
    before = np.append(0.0, np.cumsum(prob))
    first = np.searchsorted(group, np.arange(n_groups))
    start = rng.random(n_groups)
    upper = before[1:] - before[first][group] + start[group]
    lower = before[:-1] - before[first][group] + start[group]
    found: Integers = np.flatnonzero(np.floor(upper + 1e-12) > np.floor(lower + 1e-12))
    return found


def _mixed(size: Floats, group: Integers) -> Floats:
    """Sizes as shares of their group, mixed with equal shares."""
    n_groups = int(group.max(initial=-1)) + 1
    n = np.bincount(group, minlength=n_groups)
    found: Floats = (1 - UNIFORM) * size / sums(group, size, n_groups)[group] + UNIFORM / n[group]
    return found
