"""A basis for functions of features, step and action: main effects, curves, pairs, each also by action.

Q(x, a) is taken to be linear in

    shared      1, each input, a curve in each (linear splines with knots at quantiles), products of pairs of inputs,
                of inputs with the curve of the step, and of their curves with the step: effects may change with the
                time that is left
    by action   an intercept for each action, and the same terms times "the action is a", as far as size allows

Inputs are the features and, if there are several, the step, which comes last. They are standardized, and values beyond
their outer quantiles count as these, so that one outlier does not bend a curve. Terms of a kind form a block, with one
prior variance each (`variance_components.py`): what does not matter is shrunk away.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np

from semiope._arrays import Floats, Integers

# Share of rows at either end whose inputs count as the quantile there.
OUTER = 0.005
# Knots of curves lie at these quantiles.
KNOTS = (0.2, 0.4, 0.6, 0.8)
# At most so many columns of a regression; these are left out, in this order, until they are few enough.
MOST_COLUMNS = 600
LEFT_OUT = (
    ("by action", "pair"), ("by action", "time"), ("by action", "curve"), ("shared", "pair"), ("shared", "time"),
    ("shared", "curve"), ("by action", "linear"),
)  # fmt: skip
KINDS = ("linear", "curve", "pair", "time")


class Inputs(NamedTuple):
    """How inputs are standardized: their limits, means and standard deviations; and the knots of the curve of each."""

    low: Floats
    high: Floats
    mean: Floats
    std: Floats
    knots: list[Floats]

    @classmethod
    def of(cls, x: Floats) -> Inputs:
        """Read them off a sample of inputs, (n, n_inputs)."""
        return _inputs(x)

    def standardized(self, x: Floats) -> Floats:
        """Inputs within their limits, less their means, in standard deviations."""
        found: Floats = (np.clip(x, self.low, self.high) - self.mean) / self.std
        return found

    def curves(self, z: Floats) -> list[Floats]:
        """Terms that bend each standardized input at its knots, (n, n_knots) each."""
        return [np.maximum(z[:, [k]] - at, 0.0) for k, at in enumerate(self.knots)]


class Basis:
    """Terms of a regression of n_actions actions on some inputs.

    `blocks` gives the block of each column; block 0, the intercept, has no prior. `timed`: the last input is the step.
    """

    def __init__(self, x: Floats, n_actions: int, *, timed: bool = False) -> None:
        self.inputs, self.n_actions = Inputs.of(x), n_actions
        n = x.shape[1]
        pairs = np.array(list(combinations(range(n), 2)), dtype=np.int64).reshape(-1, 2)
        of_step = len(self.inputs.knots[-1]) if timed else 0
        sizes = {
            "linear": n, "curve": sum(map(len, self.inputs.knots)), "pair": len(pairs),
            "time": (n - 1) * of_step + sum(map(len, self.inputs.knots[:-1])) if of_step else 0,
        }  # fmt: skip
        used = {"shared": list(KINDS), "by action": list(KINDS)}
        for where, what in LEFT_OUT:
            width = [sum(sizes[kind] for kind in used[one]) for one in ("shared", "by action")]
            if 1 + width[0] + n_actions * (1 + width[1]) > MOST_COLUMNS:
                used[where].remove(what)
        self.pairs = pairs if "pair" in used["shared"] else pairs[:0]
        self.n_timed = of_step if "time" in used["shared"] else 0
        n_time = sizes["time"] if self.n_timed else 0
        kinds = np.repeat(KINDS, [n, sizes["curve"], len(self.pairs), n_time])
        terms = self._terms(x)
        spread = terms.std(axis=0)
        self.center, self.scale = terms.mean(axis=0), np.where(spread > 0, spread, 1.0)
        self._shared, self._own = (np.flatnonzero(np.isin(kinds, used[one])) for one in ("shared", "by action"))
        number = {kind: k for k, kind in enumerate(KINDS)}
        of_shared = [1 + number[kind] for kind in kinds[self._shared]]
        first = 1 + len(KINDS)
        of_action = [first, *(first + 1 + number[kind] for kind in kinds[self._own])]
        self.blocks = np.unique([0, *of_shared, *np.tile(of_action, n_actions)], return_inverse=True)[1].ravel()

    @property
    def n_columns(self) -> int:
        """Number of terms."""
        return len(self.blocks)

    def of(self, x: Floats) -> tuple[Floats, Floats]:
        """Shared terms and terms that come by action, for these inputs."""
        terms = (self._terms(x) - self.center) / self.scale
        one = np.ones((len(x), 1))
        return np.hstack([one, terms[:, self._shared]]), np.hstack([one, terms[:, self._own]])

    def taken(self, parts: tuple[Floats, Floats], action: Integers) -> Floats:
        """Columns for one action in each row."""
        shared, own = parts
        found = np.zeros((len(shared), self.n_columns))
        found[:, : shared.shape[1]] = shared
        width = own.shape[1]
        first = shared.shape[1] + action.astype(np.int64) * width
        np.put_along_axis(found, first[:, None] + np.arange(width), own, axis=1)
        return found

    def mixed(self, parts: tuple[Floats, Floats], probs: Floats) -> Floats:
        """Columns for a policy with these probabilities in each row."""
        shared, own = parts
        by_action = (probs[:, :, None] * own[:, None, :]).reshape(len(shared), probs.shape[1] * own.shape[1])
        return np.hstack([shared * probs.sum(axis=1, keepdims=True), by_action])

    def predicted(self, parts: tuple[Floats, Floats], weights: Floats) -> Floats:
        """The function with these weights, for every action in each row, (n, n_actions)."""
        shared, own = parts
        n = shared.shape[1]
        found: Floats = (shared @ weights[:n])[:, None] + own @ weights[n:].reshape(self.n_actions, -1).T
        return found

    def _terms(self, x: Floats) -> Floats:
        """Standardized inputs, their curves, pairs of them, and their products with the curve of the step."""
        z = self.inputs.standardized(x)
        curves = self.inputs.curves(z)
        products = z[:, self.pairs[:, 0]] * z[:, self.pairs[:, 1]]
        timed = [z[:, :-1] * curves[-1][:, [k]] for k in range(self.n_timed)]
        timed += [curve * z[:, [-1]] for curve in curves[:-1]] if self.n_timed else []
        return np.hstack([z, *curves, products, *timed])


def _inputs(x: Floats) -> Inputs:
    low, high = np.quantile(x, [OUTER, 1 - OUTER], axis=0)
    # A rare indicator would be cut off altogether.
    flat = low == high
    low, high = np.where(flat, x.min(axis=0), low), np.where(flat, x.max(axis=0), high)
    cut = np.clip(x, low, high)
    mean, std = cut.mean(axis=0), cut.std(axis=0)
    std = np.where(std > 0, std, 1.0)
    return Inputs(low, high, mean, std, [_knots(column) for column in ((cut - mean) / std).T])


def _knots(z: Floats) -> Floats:
    """Quantiles that are apart; if there are few values, all but the first and the last."""
    values = np.unique(z)
    inner: Floats = values[1:-1]
    if len(inner) <= len(KNOTS):
        return inner
    knots = np.unique(np.quantile(z, KNOTS))
    return np.asarray(knots[(knots > values[0]) & (knots < values[-1])])
