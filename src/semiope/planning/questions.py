"""From cells to questions: which can still be asked, at what cost, in what order, and who is asked them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from semiope._arrays import Booleans, Floats, Integers, as_floats, frozen
from semiope._options import check_count
from semiope._random import PLANS, fill, key_of
from semiope.data.episodes import Episodes
from semiope.data.labels import Vocabulary
from semiope.data.logbook import Logbook
from semiope.errors import SHOWN, OptionError, nearest
from semiope.planning.blind import Asked
from semiope.planning.design import Supply
from semiope.planning.matters import Matters

MOST_EXPERTS = 10_000
Cost = float | str | Callable[[pa.Table], Any] | None


def table_of(logbook: Logbook, row: Integers, action: Integers) -> pa.Table:
    """Questions by their labels: episode, step and action."""
    episodes = logbook.episodes
    episode = episodes.episode_of(row)
    return pa.table(
        {
            "episode": episodes.labels.decode(episode),
            "step": pa.array(episodes.step[row].astype(np.int64)),
            "action": logbook.actions.decode(action.astype(np.int64)),
        }
    )


def costs(logbook: Logbook, row: Integers, action: Integers, cost: Cost) -> Floats:
    """What each of these questions costs: one number, a column of the episodes, or a function of a table.

    The table has episode, step, action and, if there are states, state of each question.
    """
    episodes, n = logbook.episodes, len(row)
    if cost is None:
        return np.ones(n)
    if isinstance(cost, str):
        names = [] if episodes.extra is None else episodes.extra.column_names
        if cost not in names:
            raise OptionError(
                f"cost: the episodes have no column {cost!r}.{nearest(cost, names)} "
                f"Further columns: {', '.join(names) or 'none'}."
            )
        assert episodes.extra is not None
        column = episodes.extra.column(cost)
        if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
            raise OptionError(f"cost: column {cost!r} holds {column.type}, not numbers.")
        found = column.to_numpy().astype(np.float64)[row]
    elif callable(cost):
        asked = table_of(logbook, row, action)
        if episodes.has_states:
            asked = asked.append_column("state", episodes.states.decode(episodes.state[row].astype(np.int64)))
        try:
            told = cost(asked)
        except (KeyError, ValueError, TypeError, AttributeError, IndexError) as error:
            raise OptionError(
                f"cost: the function failed ({type(error).__name__}: {error}). It gets a table with the columns "
                f"{', '.join(asked.column_names)}."
            ) from error
        found = as_floats(told, "cost")
    else:
        found = as_floats(cost, "cost")
    found = np.broadcast_to(found, n) if found.ndim == 0 else found
    if found.shape != (n,):
        raise OptionError(f"cost: {found.shape} numbers for {n:,} questions. Give one for each.")
    wrong = np.flatnonzero(~(np.isfinite(found) & (found > 0)))
    if len(wrong):
        shown = "; ".join(f"{episodes.describe_row(int(row[i]))}: {found[i]:g}" for i in wrong[:SHOWN])
        raise OptionError(
            f"cost: {len(wrong):,} of {n:,} are missing, zero or negative. First: {shown}. Give numbers above 0."
        )
    return np.array(found)


def luck_of(logbook: Logbook, seed: int) -> Floats:
    """A number in [0, 1) for each row and action, from the seed and the labels alone."""
    episodes, n_actions = logbook.episodes, len(logbook.actions)
    number = np.repeat(episodes.labels.numbers, episodes.lengths)
    key, found = key_of(seed, PLANS), np.empty((episodes.n_steps, n_actions))
    gaussian, step = np.empty(episodes.n_steps), episodes.step.astype(np.int64)
    for action, label in enumerate((np.abs(logbook.actions.numbers) % (1 << 30)).tolist()):
        uniform = np.empty(episodes.n_steps)
        fill(key, number, step, np.full(len(step), label, dtype=np.int64), uniform, gaussian)
        found[:, action] = uniform
    return found


def supply_of(matters: Matters, answered: Booleans, cost: Floats, luck: Floats) -> Supply:
    """Questions not answered yet, cell by cell: cheap ones first, then those on which most hangs."""
    free = np.flatnonzero(~answered)
    weight = matters.share.sum(axis=0)
    chance = luck[matters.row, matters.action]
    order = free[np.lexsort((chance[free], -weight[free], cost[free], matters.cell[free]))]
    first = np.searchsorted(matters.cell[order], np.arange(len(matters.cells.step) + 1))
    return Supply(first, order, matters.episode[order], frozen(cost[order]))


class Hand(NamedTuple):
    """Who is asked which question, in this order: positions among the questions asked."""

    expert: str
    questions: Integers


def experts_of(experts: Any) -> list[str]:
    """Names of the experts."""
    if isinstance(experts, Integral) and not isinstance(experts, bool):
        n = check_count(experts, "experts")
        if n > MOST_EXPERTS:
            raise OptionError(f"experts: {n:,} are more than can be asked. At most {MOST_EXPERTS:,}.")
        return [f"expert-{i + 1}" for i in range(n)] if n > 1 else ["expert"]
    if isinstance(experts, str):
        experts = [word.strip() for word in experts.split(",")]
    if not isinstance(experts, Sequence):
        raise OptionError(f"experts: {experts!r} is neither a number of experts nor a list of their names.")
    names = [str(name) for name in experts]
    wrong = [name for name in names if not name.isprintable() or not name or name[0] in ".-" or set(name) & set("/\\*")]
    if wrong or not names or len({name.casefold() for name in names}) < len(names) or len(names) > MOST_EXPERTS:
        shown = ", ".join(filter(None, (wrong or names)[:SHOWN])) or "nobody"
        raise OptionError(f"experts: {shown}: give each a name of its own that a file can have.")
    return names


def n_shared(overlap: float, n: int) -> int:
    """How many of n questions go to several experts."""
    return round(overlap * n)


def times_asked(chance: Floats, overlap: float, takers: int, seed: int) -> Integers:
    """How many experts are asked each of these questions: several, a share of them, the others one.

    `chance` decides between questions that are alike.
    """
    found, in_order = np.ones(len(chance), dtype=np.int64), np.argsort(chance, kind="stable")
    shared = np.random.default_rng([seed, len(chance)]).permutation(in_order)[: n_shared(overlap, len(chance))]
    found[shared] = takers
    return found


def dealt(
    episodes: Episodes, asked: Asked, times: Integers, experts: Sequence[str], chance: Floats, seed: int
) -> list[Hand]:
    """Deal the questions, each to so many experts, in an order of their own.

    Questions about one episode come in the order of their steps: nobody is asked about a step after a later one.
    """
    hands: list[list[int]] = [[] for _ in experts]
    for place, question in enumerate(np.lexsort((chance, -times)).tolist()):
        least = sorted(range(len(experts)), key=lambda e: (len(hands[e]), (e - place) % len(experts)))
        for expert in least[: times[question]]:
            hands[expert].append(question)
    found = []
    for name, hand in zip(experts, hands, strict=True):
        own = np.array(hand, dtype=np.int64)
        own = own[np.lexsort((asked.action[own], asked.row[own]))]
        number = int(Vocabulary(pa.array([name])).numbers[0])
        mixed = np.random.default_rng([seed, abs(number)]).permutation(own)
        found.append(Hand(name, _in_step_order(mixed, asked.row[mixed], episodes)))
    return found


def _in_step_order(questions: Integers, row: Integers, episodes: Episodes) -> Integers:
    """The same, where the places of an episode's questions stay, and its questions follow their steps in them."""
    episode, found = episodes.episode_of(row), np.empty_like(questions)
    places = np.argsort(episode, kind="stable")
    found[places] = questions[np.lexsort((np.arange(len(row)), row, episode))]
    return found
