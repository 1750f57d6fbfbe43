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
# Rows whose terms are made at a time.
ROWS_AT_ONCE = 1 << 11


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

    Each term is a product of a function of the features, b (1, inputs, curves, pairs), and one of the step, f (1, the
    step, its curve). Within a step, all columns are thus linear in the few b: sums and predictions are taken step by
    step, in b, and only what comes of it is spread over the columns.
    """

    def __init__(self, x: Floats, n_actions: int, *, timed: bool = False) -> None:
        self.inputs, self.n_actions, self.timed = Inputs.of(x), n_actions, timed
        n, n_features = x.shape[1], x.shape[1] - int(timed)
        knots = [len(one) for one in self.inputs.knots]
        pairs = np.array(list(combinations(range(n), 2)), dtype=np.int64).reshape(-1, 2)
        n_curves, of_step = sum(knots[:n_features]), sum(knots[n_features:])
        sizes = {
            "linear": n, "curve": sum(knots), "pair": len(pairs),
            "time": n_features * of_step + n_curves if of_step else 0,
        }  # fmt: skip
        used = {"shared": list(KINDS), "by action": list(KINDS)}
        for where, what in LEFT_OUT:
            width = [sum(sizes[kind] for kind in used[one]) for one in ("shared", "by action")]
            if 1 + width[0] + n_actions * (1 + width[1]) > MOST_COLUMNS:
                used[where].remove(what)
        pairs = pairs if "pair" in used["shared"] else pairs[:0]
        with_step = (pairs >= n_features).any(axis=1)
        n_time = of_step if "time" in used["shared"] else 0
        self._pairs, self._knots = pairs[~with_step], np.concatenate([np.zeros(0), *self.inputs.knots[:n_features]])
        self._knot_of = np.repeat(np.arange(n_features), knots[:n_features])
        self.n_functions: int = 1 + n_features + n_curves + len(self._pairs)
        # Of each term: which b, and which f.
        features, curves = 1 + np.arange(n_features), 1 + n_features + np.arange(n_curves)
        paired = np.where(with_step, 1 + pairs[:, 0], n_features + n_curves + np.cumsum(~with_step))
        steps = 2 + np.arange(of_step)
        terms = [
            (features, 0), (np.zeros(int(timed)), 1), (curves, 0), (np.zeros(of_step), steps), (paired, with_step),
            (np.tile(features, n_time), np.repeat(steps[:n_time], n_features)), (curves[: n_curves * bool(n_time)], 1),
        ]  # fmt: skip
        self._b = np.concatenate([b for b, _ in terms]).astype(np.int64)
        self._f = np.concatenate([np.broadcast_to(f, len(b)) for b, f in terms]).astype(np.int64)
        kinds = np.repeat(KINDS, [n, sizes["curve"], len(pairs), sizes["time"] if n_time else 0])
        self._shared, self._own = (np.flatnonzero(np.isin(kinds, used[one])) for one in ("shared", "by action"))
        # Functions of features that come by action.
        self._acting: Integers = np.unique(np.append(0, self._b[self._own]))
        self.center, self.scale = self._moments(x)
        number = {kind: k for k, kind in enumerate(KINDS)}
        of_shared = [1 + number[kind] for kind in kinds[self._shared]]
        first = 1 + len(KINDS)
        of_action = [first, *(first + 1 + number[kind] for kind in kinds[self._own])]
        self.blocks = np.unique([0, *of_shared, *np.tile(of_action, n_actions)], return_inverse=True)[1].ravel()

    @property
    def n_columns(self) -> int:
        """Number of terms."""
        return len(self.blocks)

    @property
    def n_mixed(self) -> int:
        """Number of `mixed_functions`."""
        return self.n_functions + self.n_actions * len(self._acting)

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

    def predicted(self, x: Floats, step: Integers, coefficients: Floats) -> Floats:
        """Predictions for every action in each row, (n, n_actions), by `coefficients` of all steps."""
        order = np.argsort(step, kind="stable")
        functions, found = self.of_features(x[order]), np.empty((len(x), self.n_actions))
        bounds = np.searchsorted(step[order], np.arange(len(coefficients) + 1))
        for k in np.flatnonzero(np.diff(bounds)):
            here = slice(bounds[k], bounds[k + 1])
            found[order[here]] = functions[here] @ coefficients[k]
        return found

    def coefficients(self, weights: Floats, n_steps: int) -> Floats:
        """Weights of columns as those of the functions b for each action, at each step, (n_steps, n_b, n_actions)."""
        n, found = 1 + len(self._shared), np.empty((n_steps, self.n_functions, self.n_actions))
        for step in range(n_steps):
            f = self._functions_of(np.array([float(step)]))[0, self._f]
            own = weights[n:].reshape(self.n_actions, -1) @ self._weights_of(f, self._own)
            found[step] = (weights[:n] @ self._weights_of(f, self._shared) + own).T
        return found

    def of_features(self, x: Floats) -> Floats:
        """The functions b of the features, without the step; columns lie one after the other, which is faster."""
        known, n, curved = self.inputs, x.shape[1], 1 + x.shape[1] + len(self._knots)
        found = np.empty((self.n_functions, len(x)))
        found[0] = 1.0
        z, curves = found[1 : 1 + n], found[1 + n : curved]
        np.clip(x.T, known.low[:n, None], known.high[:n, None], out=z)
        z -= known.mean[:n, None]
        z /= known.std[:n, None]
        np.subtract(z[self._knot_of], self._knots[:, None], out=curves)
        np.maximum(curves, 0.0, out=curves)
        np.multiply(z[self._pairs[:, 0]], z[self._pairs[:, 1]], out=found[curved:])
        return found.T

    def mixed_functions(self, b: Floats, probs: Floats) -> Floats:
        """The functions b for a policy with these probabilities, and those that come by action for each action."""
        found = np.empty((self.n_mixed, len(b)))
        np.multiply(b.T, probs.sum(axis=1), out=found[: self.n_functions])
        by_action = found[self.n_functions :].reshape(self.n_actions, len(self._acting), len(b))
        np.multiply(probs.T[:, None], b.T[self._acting], out=by_action)
        return found.T

    def taken_functions(self, sums: Floats) -> Floats:
        """Sums over rows of b times anything, by the action taken (n_actions, n_b, ...), as `mixed_functions` are."""
        return np.concatenate([sums.sum(axis=0), sums[:, self._acting].reshape(-1, *sums.shape[2:])])

    def squared_functions(self, sums: Floats) -> Floats:
        """Sums over rows of b times b, by the action taken, both as `mixed_functions` are."""
        wide = np.zeros((*sums.shape[:2], self.n_mixed))
        wide[:, :, : self.n_functions] = sums
        for action in range(self.n_actions):
            first = self.n_functions + action * len(self._acting)
            wide[action, :, first : first + len(self._acting)] = sums[action][:, self._acting]
        return self.taken_functions(wide)

    def spread(self, step: float, sums: Floats) -> Floats:
        """Products with functions as of `mixed_functions`, all of one step, as products with columns."""
        f = self._functions_of(np.array([step]))[0, self._f]
        n, shared, own = self.n_functions, self._weights_of(f, self._shared), self._weights_of(f, self._own)
        acting = own[:, self._acting] @ sums[n:].reshape(self.n_actions, len(self._acting), -1)
        found: Floats = np.concatenate([shared @ sums[:n].reshape(n, -1), acting.reshape(-1, acting.shape[-1])])
        return found.reshape(self.n_columns, *sums.shape[1:])

    def _weights_of(self, f: Floats, terms: Integers) -> Floats:
        """An intercept and standardized terms as weights of the functions b, where those of the step are f."""
        found = np.zeros((1 + len(terms), self.n_functions))
        found[np.arange(1, len(found)), self._b[terms]] = f[terms] / self.scale[terms]
        found[1:, 0] -= self.center[terms] / self.scale[terms]
        found[0, 0] = 1.0
        return found

    def _functions_of(self, step: Floats) -> Floats:
        """The functions f of the step: 1, the step, its curve."""
        one = np.ones((len(step), 1))
        if not self.timed:
            return one
        known = self.inputs
        z = ((np.clip(step, known.low[-1], known.high[-1]) - known.mean[-1]) / known.std[-1])[:, None]
        return np.hstack([one, z, np.maximum(z - known.knots[-1], 0.0)])

    def _terms(self, x: Floats) -> Floats:
        """Standardized inputs, their curves, pairs of them, and their products with the curve of the step."""
        features, step = (x[:, :-1], x[:, -1]) if self.timed else (x, x[:, 0])
        found: Floats = self.of_features(features)[:, self._b] * self._functions_of(step)[:, self._f]
        return found

    def _moments(self, x: Floats) -> tuple[Floats, Floats]:
        """Means and standard deviations of terms; 1 instead of 0."""
        parts = np.array_split(x, len(x) // ROWS_AT_ONCE + 1)
        mean = sum(self._terms(part).sum(axis=0) for part in parts) / len(x)
        square = sum(((self._terms(part) - mean) ** 2).sum(axis=0) for part in parts) / len(x)
        return mean, np.where(square > 0, np.sqrt(square), 1.0)


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
