"""What an estimator's recursion is made of: each episode as samples of whole returns, with their weights.

From the logs alone, each episode is one sample: its return, weighted by the ratio of the whole episode. With
annotations an episode is several. With f_t the factor of the action taken, h_j = w rho the share of an annotated action
(pi_e in the closed forms), F_t = f_1 ... f_t, and rewards r_1, r_2, ...

    each annotation j at step t     r_1 + ... + gamma^(t-2) r_(t-1) + gamma^(t-1) g_j     weight F_(t-1) h_j
    the episode as it was logged    r_1 + ... + gamma^(T-1) r_T                           weight F_T

Per episode the weights sum to the normaliser m, and weights times returns to the value of C-IS (of IS, of C*-IS): this
is the recursion of `estimate/scan.py` with `whole`, unrolled.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from semiope._arrays import Booleans, Floats, Integers, frozen
from semiope._compiled import compiled
from semiope.estimate.passes import Recipe
from semiope.estimate.problem import Slab

# Beyond these, a product of factors goes on as mantissa and power of two.
BIG, SMALL = 2.0**300, 2.0**-300


def weighs_returns(recipe: Recipe) -> bool:
    """Whether the samples of a recipe are whole returns as they were logged and annotated."""
    return recipe.finish is None and recipe.critic is None and recipe.per_step is None


class Samples(NamedTuple):
    """Columns of the samples of a run of episodes; weights are mantissa * 2**exponent."""

    returns: Floats
    mantissa: Floats
    exponent: Integers
    episode: Integers
    answered: Booleans

    @classmethod
    def empty(cls, n: int) -> Samples:
        """Room for n samples."""
        ids = np.empty((2, n), dtype=np.int64)
        return cls(np.empty(n), np.empty(n), ids[0], ids[1], np.empty(n, dtype=np.bool_))


def samples(slab: Slab, recipe: Recipe) -> Samples:
    """The samples of positive weight of a run of episodes."""
    row, told = slab.problem.annotations.row[slab.entries] - slab.rows.start, slab.told
    share = np.empty(0) if recipe.shares is None else recipe.shares(slab)
    row, told = row[: len(share)], told[: len(share)]
    room = Samples.empty(len(row) + slab.last - slab.first)
    n = _branch(
        slab.problem.gamma, _fixed(slab.reward), _fixed(slab.offsets), _fixed(recipe.factor(slab)),
        _fixed(row.astype(np.int64)), _fixed(told), _fixed(share), *room,
    )  # fmt: skip
    episode = room.episode[:n] + slab.first
    return Samples(room.returns[:n], room.mantissa[:n], room.exponent[:n], episode, room.answered[:n])


def _fixed(column: NDArray[Any]) -> NDArray[Any]:
    """The column as the kernel is compiled for it: contiguous, not to be written to."""
    return frozen(np.ascontiguousarray(column))


@compiled
def _branch(
    gamma: float,
    reward: Floats,
    offsets: Integers,
    f: Floats,
    row: Integers,
    told: Floats,
    share: Floats,
    returns: Floats,
    mantissa: Floats,
    exponent: Integers,
    episode: Integers,
    answered: Booleans,
) -> int:
    """Fill in the samples, episode by episode, and return how many have a weight; a product that leaves the range of
    numbers is kept as mantissa and power of two.
    """
    n, j = 0, 0
    for i in range(len(offsets) - 1):
        weight, power, past, discount = 1.0, 0, 0.0, 1.0
        for t in range(offsets[i], offsets[i + 1]):
            while j < len(row) and row[j] == t:
                if weight * share[j] > 0.0:
                    returns[n], mantissa[n], exponent[n] = past + discount * told[j], weight * share[j], power
                    episode[n], answered[n] = i, True
                    n += 1
                j += 1
            weight *= f[t]
            if weight >= BIG or 0.0 < weight <= SMALL:
                weight, by = math.frexp(weight)
                power += by
            past += discount * reward[t]
            discount *= gamma
        if weight > 0.0:
            returns[n], mantissa[n], exponent[n] = past, weight, power
            episode[n], answered[n] = i, False
            n += 1
    return n
