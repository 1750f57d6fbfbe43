"""Inclusion probabilities by a logistic regression on features, the step, the action taken and the action asked about.

Coefficients of standardized inputs have a standard normal prior. For each fold they are fitted to questions of the
others, of which some are drawn where there are many.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from semiope._arrays import Booleans, Floats, Integers
from semiope._random import generator

# Questions that a regression is fitted to, at most.
MOST_QUESTIONS = 50_000
# Steps of Newton's method, and the change of a coefficient below which they end.
STEPS, SETTLED = 25, 1e-8


@dataclass(frozen=True, eq=False)
class InclusionRegression:
    """`weights` are those of each fold, (n_folds, n_columns), for features and step less `center`, over `scale`."""

    features: Floats
    step: Integers
    center: Floats
    scale: Floats
    n_actions: int
    weights: Floats

    def prob(self, fold: Integers, row: Integers, taken: Integers, action: Integers) -> Floats:
        """The inclusion probability of each question."""
        x = self.columns(row, taken, action)
        found = np.empty(len(row))
        for k in range(len(self.weights)):
            own = fold == k
            found[own] = logistic(x[own] @ self.weights[k])
        return found

    def columns(self, row: Integers, taken: Integers, action: Integers) -> Floats:
        """Columns of the regression."""
        n, m = len(row), self.features.shape[1] + 1
        found = np.zeros((n, 1 + m + 2 * self.n_actions))
        found[:, 0] = 1.0
        found[:, 1:m] = self.features[row]
        found[:, m] = self.step[row]
        found[:, 1 : 1 + m] -= self.center
        found[:, 1 : 1 + m] /= self.scale
        found[np.arange(n), 1 + m + taken] = 1.0
        found[np.arange(n), 1 + m + self.n_actions + action] = 1.0
        return found


class Sample:
    """Questions that a regression is fitted to: all, or some of them drawn at random."""

    def __init__(self, total: int) -> None:
        self.share, self.rng = min(1.0, MOST_QUESTIONS / max(total, 1)), generator(0)
        self.parts: list[tuple[Integers, ...]] = []

    def add(self, *columns: Integers) -> None:
        """Draw from some questions: fold, row, action taken, action asked about."""
        kept = self.rng.random(len(columns[0])) < self.share
        self.parts.append(tuple(column[kept] for column in columns))

    def columns(self) -> list[Integers]:
        """The columns of what was drawn."""
        return [np.concatenate(column) for column in zip(*self.parts, strict=True)]


class Drawn(NamedTuple):
    """The questions of a sample, and whether each was asked."""

    fold: Integers
    row: Integers
    taken: Integers
    action: Integers
    asked: Booleans


def fit_regression(features: Floats, step: Integers, n_actions: int, n_folds: int, drawn: Drawn) -> InclusionRegression:
    """Fit a regression for each fold to the questions of the others."""
    fold, row, taken, action, asked = drawn
    inputs = np.column_stack([features[row], step[row]])
    scale = inputs.std(axis=0)
    center, scale = inputs.mean(axis=0), np.where(scale > 0, scale, 1.0)
    plain = InclusionRegression(features, step, center, scale, n_actions, np.zeros((n_folds, 0)))
    x, y = plain.columns(row, taken, action), asked.astype(np.float64)
    others: Iterable[Booleans] = (fold != k if n_folds > 1 else fold == k for k in range(n_folds))
    weights = np.array([fit_logistic(x, y, counts=train.astype(np.float64)) for train in others])
    return InclusionRegression(features, step, center, scale, n_actions, weights)


def fit_logistic(x: Floats, y: Floats, start: Floats | None = None, counts: Floats | None = None) -> Floats:
    """Weights of a logistic regression of y, between 0 and 1, by Newton's method, perhaps from a start near by.

    All but the first, the intercept, have a standard normal prior. `counts` is 1 for each row, and 0 for those that are
    left out; None: all count.
    """
    counts = np.ones(len(y)) if counts is None else counts
    prior = np.ones(x.shape[1])
    prior[0] = 0.0
    share = (counts @ y + 0.5) / (counts.sum() + 1)
    if start is None:
        start = np.zeros(x.shape[1])
        start[0] = np.log(share / (1 - share))
    weights = start
    for _ in range(STEPS):
        p = logistic(x @ weights)
        slope = x.T @ (counts * (y - p)) - prior * weights
        curve = (x * (counts * p * (1 - p))[:, None]).T @ x + np.diag(prior + 1e-9)
        step = np.linalg.solve(curve, slope)
        # Half steps at most of size 3: far from the solution, whole ones may overshoot.
        step *= min(1.0, 3.0 / max(float(np.abs(step).max()), 1e-300))
        weights = weights + step
        if float(np.abs(step).max()) < SETTLED:
            break
    return weights


def logistic(x: Floats) -> Floats:
    """1 / (1 + exp(-x)), without overflow."""
    found: Floats = 1 / (1 + np.exp(-np.clip(x, -500, 500)))
    return found
