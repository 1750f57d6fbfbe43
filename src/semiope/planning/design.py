"""How well questions would tell what is wanted, and which to ask next.

What is wanted are sums over cells of mass times answer. What is not known of the answers is that of `residuals.py`: m,
common to all pairs logged or to all never logged, mu of a pair, delta of its steps, and noise. That is a tree, so that
the variance that remains has a closed form. With n answers in a cell, c = step + noise / n (nothing for n = 0), and in
each pair L = sum of 1 / c, k = 1 + v L, a = sum of mass (1 - step / c):

    variance  =  sum over cells of mass^2 step (1 - step / c)  +  sum over pairs of v a^2 / k
                 + for both kinds of pairs  (sum of a / k)^2 / (1 / v_m + sum of L / k)

One more answer changes one pair. The next question is the one that takes most off per unit of cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from semiope._arrays import Booleans, Floats, Integers, frozen
from semiope._compiled import compiled
from semiope.data.labels import number
from semiope.models.places import Places
from semiope.planning.residuals import Components, of_levels, of_pairs

# Variances below this share of a pair's are taken to be it.
LEAST = 1e-9


@dataclass(frozen=True, eq=False)
class Design:
    """Cells, the pair of each, how pairs vary and how often each cell was answered; `mass` is (n_wanted, n_cells)."""

    mass: Floats
    pair: Integers
    logged: Booleans
    variance: Floats
    levels: Floats
    step: float
    noise: float
    times: Floats

    @classmethod
    def of(
        cls, mass: Floats, cells: Places, counts: Floats, parts: Components, n_episodes: int, times: Floats
    ) -> Design:
        """`counts` is how often each pair was logged, (n_states, n_actions)."""
        pair, pairs = number(cells.state.astype(np.int64) * counts.shape[1] + cells.action)
        logged = counts.ravel()[pairs]
        variance = np.maximum(of_pairs(parts, logged), 1e-200)
        least = LEAST * float(variance.max())
        step, noise = max(parts.step, least), max(parts.noise, least)
        levels = np.maximum(of_levels(parts, n_episodes), least)
        return cls(mass, pair.astype(np.int64), logged > 0, variance, levels, step, noise, times)

    def told(self, times: Floats) -> Floats:
        """How much so many answers tell of each cell: 1 / c."""
        found: Floats = times / (self.step * times + self.noise)
        return found

    def information(self, told: Floats) -> Floats:
        """How much is told of each pair: L."""
        return np.bincount(self.pair, weights=told, minlength=len(self.variance)).astype(np.float64)

    @property
    def modelled(self) -> Floats:
        """Which share of each cell's answer the model still says: 1 / k of its pair."""
        found: Floats = (1 / (1 + self.variance * self.information(self.told(self.times))))[self.pair]
        return found

    @property
    def learnt(self) -> float:
        """Which share of what pairs logged have in common is told, not the model's."""
        information = self.information(self.told(self.times))
        known = float((information / (1 + self.variance * information))[self.logged].sum())
        return float(self.levels[1]) * known / (1 + float(self.levels[1]) * known)

    @property
    def before_logged(self) -> Floats:
        """The variance of each thing wanted that pairs logged make, before any answer."""
        own = self.mass * self.logged[self.pair]
        a = np.stack([np.bincount(self.pair, weights=row, minlength=len(self.variance)) for row in own])
        found: Floats = (a**2 * self.variance).sum(axis=1) + self.levels[1] * a.sum(axis=1) ** 2
        return found

    def covariance(self, times: Floats | None = None) -> Floats:
        """The covariance of what is wanted that remains with so many answers in each cell: as the variance above."""
        told, n_pairs = self.told(self.times if times is None else times), len(self.variance)
        information = self.information(told)
        k, open_part = 1 + self.variance * information, self.mass * (1 - self.step * told)
        a = np.zeros((len(self.mass), n_pairs))
        for i, part in enumerate(open_part):
            a[i] = np.bincount(self.pair, weights=part, minlength=n_pairs)
        found: Floats = self.step * open_part @ self.mass.T + (a * self.variance / k) @ a.T
        for flag, level in enumerate(self.levels):
            own = self.logged == bool(flag)
            total = (a / k)[:, own].sum(axis=1)
            found += np.outer(total, total) / (1 / level + (information / k)[own].sum())
        return found

    def remaining(self, times: Floats | None = None) -> Floats:
        """The variance of each thing wanted that remains with so many answers in each cell."""
        return np.diag(self.covariance(times)).copy()


class Supply(NamedTuple):
    """Questions that can be asked, cell by cell in the order to ask them: those of cell c are first[c] to first[c + 1].

    `question` is their place among those that matter.
    """

    first: Integers
    question: Integers
    episode: Integers
    cost: Floats


class Choice(NamedTuple):
    """Questions chosen, in this order, and the sum of variances of what is wanted that remains after each."""

    question: Integers
    remaining: Floats


def choose(design: Design, supply: Supply, budget: float, room: Integers) -> Choice:
    """Choose one question after the other while the budget lasts and something is gained.

    `room` is how many more questions each episode may be asked.
    """
    n_pairs, told = len(design.variance), design.told(design.times)
    cells = Cells(
        frozen(np.ascontiguousarray(design.mass.T)), design.pair, design.logged.astype(np.int64), design.variance,
        design.levels, design.step, design.noise,
    )  # fmt: skip
    information = design.information(told)
    sums = np.zeros((n_pairs, len(design.mass)))
    np.add.at(sums, design.pair, (design.mass * (1 - design.step * told)).T)
    known, total = np.zeros(2), np.zeros((2, len(design.mass)))
    k = 1 + design.variance * information
    np.add.at(known, cells.logged, information / k)
    np.add.at(total, cells.logged, sums / k[:, None])
    state = State(design.times.astype(np.float64), information, sums, known, total)
    asked, left = np.empty(len(supply.question), dtype=np.int64), np.empty(len(supply.question))
    start = float(design.remaining().sum())
    n = _choose(cells, state, supply, float(budget), room.astype(np.int64), start, asked, left)
    return Choice(asked[:n], left[:n])


class Cells(NamedTuple):
    """A design as compiled code reads it; `mass` is (n_cells, n_wanted), `logged` 0 or 1."""

    mass: Floats
    pair: Integers
    logged: Integers
    variance: Floats
    levels: Floats
    step: float
    noise: float


class State(NamedTuple):
    """What changes with every answer: how often each cell was answered, L and a of each pair, and their sums over k."""

    times: Floats
    information: Floats
    sums: Floats
    known: Floats
    total: Floats


@compiled
def _told(cells: Cells, times: float) -> float:
    """What one more answer adds to 1 / c."""
    then = times + 1.0
    return then / (cells.step * then + cells.noise) - times / (cells.step * times + cells.noise)


@compiled
def _gain(cells: Cells, state: State, c: int) -> float:
    """What one more answer in a cell takes off the variances of what is wanted."""
    p, told, step = cells.pair[c], _told(cells, state.times[c]), cells.step
    v, flag, information = cells.variance[p], cells.logged[p], state.information[p]
    k, k_then = 1.0 + v * information, 1.0 + v * (information + told)
    precision = 1.0 / cells.levels[flag] + state.known[flag]
    precision_then = precision - information / k + (information + told) / k_then
    gain = 0.0
    for i in range(cells.mass.shape[1]):
        m, a, level = cells.mass[c, i], state.sums[p, i], state.total[flag, i]
        a_then = a - m * step * told
        level_then = level - a / k + a_then / k_then
        gain += (m * step) ** 2 * told + v * (a * a / k - a_then * a_then / k_then)
        gain += level * level / precision - level_then * level_then / precision_then
    return gain


@compiled
def _answer(cells: Cells, state: State, c: int) -> None:
    """One more answer in a cell."""
    p, told = cells.pair[c], _told(cells, state.times[c])
    k, flag = 1.0 + cells.variance[p] * state.information[p], cells.logged[p]
    k_then = k + cells.variance[p] * told
    state.known[flag] += (state.information[p] + told) / k_then - state.information[p] / k
    for i in range(cells.mass.shape[1]):
        a_then = state.sums[p, i] - cells.mass[c, i] * cells.step * told
        state.total[flag, i] += a_then / k_then - state.sums[p, i] / k
        state.sums[p, i] = a_then
    state.information[p] += told
    state.times[c] += 1.0


@compiled
def _choose(
    cells: Cells,
    state: State,
    supply: Supply,
    budget: float,
    room: Integers,
    remaining: float,
    asked: Integers,
    left: Floats,
) -> int:
    """Fill in the questions chosen and what remains after each; return how many there are."""
    first, episode, cost = supply.first, supply.episode, supply.cost
    following, spent, n = first[:-1].copy(), 0.0, 0
    while True:
        best, gain_of_best = -1, 0.0
        for c in range(len(cells.mass)):
            while following[c] < first[c + 1] and room[episode[following[c]]] <= 0:
                following[c] += 1
            if following[c] == first[c + 1] or spent + cost[following[c]] > budget:
                continue
            gain = _gain(cells, state, c) / cost[following[c]]
            if gain > gain_of_best:
                best, gain_of_best = c, gain
        if best < 0:
            break
        here = following[best]
        _answer(cells, state, best)
        spent += cost[here]
        remaining -= gain_of_best * cost[here]
        room[episode[here]] -= 1
        following[best] += 1
        asked[n], left[n] = supply.question[here], remaining
        n += 1
    return n
