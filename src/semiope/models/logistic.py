"""Multinomial logistic regression over rows that are read some at a time: nothing of the size of the rows is held.

With n rows of standardized inputs z and classes y, weights W and intercepts c are those that minimize

    mean of (log sum_k exp(W_k z + c_k) - W_y z - c_y) + |W|^2 / (2 n),

by L-BFGS from 0. Objective, method and tolerances are those of scikit-learn's LogisticRegression behind a
StandardScaler. Of two classes, only the second has weights; the score of the first is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from semiope._arrays import Floats, Integers

ROWS_AT_ONCE = 1 << 12
STEPS, GRADIENT, CHANGE = 1000, 1e-4, 64 * float(np.finfo(np.float64).eps)

# Inputs of some rows, (n, n_inputs), as an array of its own.
Read = Callable[[Integers], Floats]


@dataclass(frozen=True, eq=False)
class Logistic:
    """A fitted regression: `weights` are (n_classes, n_inputs + 1) for inputs less `mean`, over `scale`, and 1."""

    classes: Integers
    weights: Floats
    mean: Floats
    scale: Floats

    def predict(self, x: Floats) -> Floats:
        """The probability of each class in each row, (n, n_classes)."""
        powers = np.exp(_scores(self.weights, (x - self.mean) / self.scale))
        found: Floats = (powers / powers.sum(axis=0)).T
        return found


def fit_logistic(read: Read, rows: Integers, label: Integers) -> Logistic:
    """Fit to these rows; there are at least two different labels."""
    from scipy.optimize import minimize

    classes, y = np.unique(label, return_inverse=True)
    mean, scale = _moments(read, rows)
    free = 0 if len(classes) > 2 else 1  # the first class that has weights
    shape = len(classes) - free, len(mean) + 1

    def loss(flat: Floats) -> tuple[float, Floats]:
        """The objective and its gradient."""
        weights = np.zeros((len(classes), shape[1]))
        weights[free:] = flat.reshape(shape)
        total, slope = 0.0, np.zeros(shape)
        for part, x in _parts(read, rows):
            x -= mean
            x /= scale
            scores, own = _scores(weights, x), (y[part], np.arange(len(x)))
            total -= float(scores[own].sum())
            np.exp(scores, out=scores)
            sums = scores.sum(axis=0)
            total += float(np.log(sums).sum())
            scores /= sums
            scores[own] -= 1.0
            slope[:, :-1] += scores[free:] @ x
            slope[:, -1] += scores[free:].sum(axis=1)
        bare = weights[free:, :-1]
        slope[:, :-1] += bare
        return (total + 0.5 * float(np.sum(bare**2))) / len(rows), slope.ravel() / len(rows)

    options: Any = {"maxiter": STEPS, "maxls": 50, "gtol": GRADIENT, "ftol": CHANGE}
    found = minimize(loss, np.zeros(shape[0] * shape[1]), method="L-BFGS-B", jac=True, options=options)
    weights = np.zeros((len(classes), shape[1]))
    weights[free:] = found.x.reshape(shape)
    return Logistic(classes, weights, mean, scale)


def _scores(weights: Floats, z: Floats) -> Floats:
    """Scores of each class, (n_classes, n), less the largest of each row."""
    found: Floats = weights[:, :-1] @ z.T
    found += weights[:, -1:]
    found -= found.max(axis=0)
    return found


def _moments(read: Read, rows: Integers) -> tuple[Floats, Floats]:
    """Means and standard deviations of inputs; 1 instead of that of one which does not vary."""
    n = len(rows)
    mean = sum(x.sum(axis=0) for _, x in _parts(read, rows)) / n
    variance = sum(((x - mean) ** 2).sum(axis=0) for _, x in _parts(read, rows)) / n
    rounding = np.finfo(np.float64).eps * n
    varies = variance > rounding * variance + (rounding * mean) ** 2
    return mean, np.where(varies, np.sqrt(variance), 1.0)


def _parts(read: Read, rows: Integers) -> Iterator[tuple[slice, Floats]]:
    """Inputs of the rows, some at a time."""
    for first in range(0, len(rows), ROWS_AT_ONCE):
        part = slice(first, first + ROWS_AT_ONCE)
        yield part, read(rows[part])
