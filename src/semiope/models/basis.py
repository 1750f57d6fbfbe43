"""A basis for functions of features, step and action: main effects, curves, pairs, each also by action.

Q(x, a) is taken to be linear in

    shared      1, each input, a curve in each (linear splines with knots at quantiles), products of pairs of inputs
    by action   an intercept for each action, and the same terms times "the action is a", as far as size allows

Inputs are the features and, if there are several, the step: it says how much time is left as well. They are
standardized, and values beyond their outer quantiles count as these, so that one outlier does not bend a curve. Terms
of a kind form a block, with one prior variance each (`variance_components.py`): what does not matter is shrunk away.
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
# At most so many columns of a regression: pairs by action, then curves by action, then pairs and curves are left out.
MOST_COLUMNS = 600


class Inputs(NamedTuple):
    """How inputs are standardized: their limits, means and standard deviations, and the knots of those with a curve."""

    low: Floats
    high: Floats
    mean: Floats
    std: Floats
    curved: Integers
    knots: Floats


class Basis:
    """Terms of a regression of n_actions actions on some inputs.

    `blocks` gives the block of each column; block 0, the intercept, has no prior.
    """

    def __init__(self, x: Floats, n_actions: int) -> None:
        self.inputs, self.n_actions = _inputs(x), n_actions
        n, curves = x.shape[1], self.inputs.knots.size
        pairs = list(combinations(range(n), 2))
        sizes = {"linear": n, "curve": curves, "pair": len(pairs)}
        self.shared, self.by_action = ["linear", "curve", "pair"], ["linear", "curve", "pair"]
        for where, what in (
            (self.by_action, "pair"), (self.by_action, "curve"), (self.shared, "pair"), (self.shared, "curve"),
            (self.by_action, "linear"),
        ):  # fmt: skip
            if _width(self.shared, self.by_action, sizes, n_actions) > MOST_COLUMNS:
                where.remove(what)
        used = "pair" in self.shared
        self.pairs = np.array(pairs, dtype=np.int64).reshape(-1, 2) if used else np.zeros((0, 2), dtype=np.int64)
        self.scale = np.ones(n + curves + len(self.pairs))
        some = self._terms(x)
        self.center = some.mean(axis=0)
        spread = some.std(axis=0)
        self.scale = np.where(spread > 0, spread, 1.0)
        kinds = ["linear"] * n + ["curve"] * curves + ["pair"] * len(self.pairs)
        self._kept = np.flatnonzero([kind in self.shared for kind in kinds])
        self._own = np.flatnonzero([kind in self.by_action for kind in kinds])
        of_shared = [1 + self.shared.index(kinds[k]) for k in self._kept]
        first = 1 + len(self.shared)
        of_action = [first, *(first + 1 + self.by_action.index(kinds[k]) for k in self._own)]
        self.blocks = np.array([0, *of_shared, *np.tile(of_action, n_actions)])

    @property
    def n_columns(self) -> int:
        """Number of terms."""
        return len(self.blocks)

    def of(self, x: Floats) -> tuple[Floats, Floats]:
        """Shared terms and terms that come by action, for these inputs."""
        terms = (self._terms(x) - self.center) / self.scale
        one = np.ones((len(x), 1))
        return np.hstack([one, terms[:, self._kept]]), np.hstack([one, terms[:, self._own]])

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
        """Standardized inputs, their curves and pairs."""
        known = self.inputs
        z = (np.clip(x, known.low, known.high) - known.mean) / known.std
        curves = [np.maximum(z[:, [k]] - at, 0.0) for k, at in zip(known.curved, known.knots, strict=True)]
        products = z[:, self.pairs[:, 0]] * z[:, self.pairs[:, 1]]
        return np.hstack([z, *curves, products])


def _inputs(x: Floats) -> Inputs:
    low, high = np.quantile(x, [OUTER, 1 - OUTER], axis=0)
    # A rare indicator would be cut off altogether.
    flat = low == high
    low, high = np.where(flat, x.min(axis=0), low), np.where(flat, x.max(axis=0), high)
    cut = np.clip(x, low, high)
    mean, std = cut.mean(axis=0), cut.std(axis=0)
    std = np.where(std > 0, std, 1.0)
    z = (cut - mean) / std
    knots = np.quantile(z, KNOTS, axis=0).T
    # An input of a few values has fewer knots apart than quantiles, and no curve.
    apart = (np.diff(np.column_stack([z.min(axis=0), knots, z.max(axis=0)]), axis=1) > 1e-9).all(axis=1)
    curved = np.flatnonzero(apart)
    return Inputs(low, high, mean, std, curved, knots[curved])


def _width(shared: list[str], by_action: list[str], sizes: dict[str, int], n_actions: int) -> int:
    return 1 + sum(sizes[k] for k in shared) + n_actions * (1 + sum(sizes[k] for k in by_action))
