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
from semiope.models.residuals import Components, of_levels, of_pairs

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
        return np.where(times > 0, 1 / (self.step + self.noise / np.maximum(times, 1e-300)), 0.0)

    def covariance(self, times: Floats | None = None) -> Floats:
        """The covariance of what is wanted that remains with so many answers in each cell: as the variance above."""
        told, n_pairs = self.told(self.times if times is None else times), len(self.variance)
        information = np.bincount(self.pair, weights=told, minlength=n_pairs)
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
    n_pairs = len(design.variance)
    told = design.told(design.times)
    information = np.bincount(design.pair, weights=told, minlength=n_pairs).astype(np.float64)
    sums = np.zeros((n_pairs, len(design.mass)))
    np.add.at(sums, design.pair, (design.mass * (1 - design.step * told)).T)
    asked = np.empty(len(supply.question), dtype=np.int64)
    left = np.empty(len(supply.question))
    start = float(design.remaining().sum())
    n = _choose(
        frozen(np.ascontiguousarray(design.mass.T)), design.pair, design.logged.astype(np.int64), design.variance,
        design.levels, design.step, design.noise, design.times.astype(np.float64), information, sums,
        *supply, float(budget), room.astype(np.int64), start, asked, left,
    )  # fmt: skip
    return Choice(asked[:n], left[:n])


@compiled
def _choose(
    mass: Floats,
    pair: Integers,
    logged: Integers,
    variance: Floats,
    levels: Floats,
    step: float,
    noise: float,
    times: Floats,
    information: Floats,
    sums: Floats,
    first: Integers,
    question: Integers,
    episode: Integers,
    cost: Floats,
    budget: float,
    room: Integers,
    remaining: float,
    asked: Integers,
    left: Floats,
) -> int:
    """Fill in the questions chosen and what remains after each; return how many there are."""
    n_cells, n_wanted = mass.shape
    known, total = np.zeros(2), np.zeros((2, n_wanted))
    for p in range(len(variance)):
        k = 1.0 + variance[p] * information[p]
        known[logged[p]] += information[p] / k
        for i in range(n_wanted):
            total[logged[p], i] += sums[p, i] / k
    following = first[:-1].copy()
    spent, n = 0.0, 0
    while True:
        best, gain_of_best, told_of_best = -1, 0.0, 0.0
        for c in range(n_cells):
            while following[c] < first[c + 1] and room[episode[following[c]]] <= 0:
                following[c] += 1
            if following[c] == first[c + 1] or spent + cost[following[c]] > budget:
                continue
            p = pair[c]
            before = 1.0 / (step + noise / times[c]) if times[c] > 0 else 0.0
            told = 1.0 / (step + noise / (times[c] + 1.0)) - before
            v, flag = variance[p], logged[p]
            k, k_then = 1.0 + v * information[p], 1.0 + v * (information[p] + told)
            precision = 1.0 / levels[flag] + known[flag]
            precision_then = precision - information[p] / k + (information[p] + told) / k_then
            gain = 0.0
            for i in range(n_wanted):
                m, a, level = mass[c, i], sums[p, i], total[flag, i]
                a_then = a - m * step * told
                level_then = level - a / k + a_then / k_then
                gain += (m * step) ** 2 * told + v * (a * a / k - a_then * a_then / k_then)
                gain += level * level / precision - level_then * level_then / precision_then
            gain /= cost[following[c]]
            if gain > gain_of_best:
                best, gain_of_best, told_of_best = c, gain, told
        if best < 0:
            break
        here, p = following[best], pair[best]
        k = 1.0 + variance[p] * information[p]
        k_then = k + variance[p] * told_of_best
        known[logged[p]] += (information[p] + told_of_best) / k_then - information[p] / k
        for i in range(n_wanted):
            a_then = sums[p, i] - mass[best, i] * step * told_of_best
            total[logged[p], i] += a_then / k_then - sums[p, i] / k
            sums[p, i] = a_then
        information[p] += told_of_best
        times[best] += 1.0
        spent += cost[here]
        remaining -= gain_of_best * cost[here]
        room[episode[here]] -= 1
        following[best] += 1
        asked[n], left[n] = question[here], remaining
        n += 1
    return n
