"""What a model of returns is fitted to: logs, one policy, and the folds of cross-fitting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from semiope._arrays import Booleans, Floats, Integers, id_dtype
from semiope.data.episodes import Episodes
from semiope.data.logbook import Logbook
from semiope.models.decisions import Decisions, only_decisions
from semiope.policies.policy import AnyPolicy

# Rows for which Q-hat of every action is held at a time.
ROWS_AT_ONCE = 1 << 14
# Stated standard deviations count as no less than this share of the largest.
SMALLEST = 1e-6


@dataclass(frozen=True, eq=False)
class Study:
    """One policy before the logs: `probs` is pi_e of every action in every row, `fold` that of each episode.

    Without folds, a model is fitted to all episodes.
    """

    logbook: Logbook
    policy: AnyPolicy
    probs: Floats
    gamma: float
    name: str
    fold: Integers | None = None

    @property
    def episodes(self) -> Episodes:
        """The logs."""
        return self.logbook.episodes

    @cached_property
    def fold_of_row(self) -> Integers:
        """The fold of each row; 0 throughout without folds."""
        if self.fold is None:
            return np.zeros(self.episodes.n_steps, dtype=id_dtype(1))
        return np.repeat(self.fold.astype(id_dtype(int(self.fold.max()) + 1)), self.episodes.lengths)

    def train(self, fold: int) -> Booleans:
        """Rows that a model for this fold may be fitted to."""
        return np.ones(self.episodes.n_steps, dtype=np.bool_) if self.fold is None else self.fold_of_row != fold

    @cached_property
    def annotator_of(self) -> Integers:
        """Who gave each annotation, -1 if not named."""
        responses = self.logbook.annotations.responses
        return np.full(len(responses.value), -1) if responses.annotator is None else responses.annotator

    @property
    def n_annotators(self) -> int:
        """How many annotators are named."""
        return self.logbook.annotations.n_annotators

    @cached_property
    def noise_scale(self) -> Floats:
        """The variance that each annotation states of its noise, beside the mean of all; 1 where none is stated."""
        return relative_variance(self.logbook.annotations.responses.std, len(self.annotator_of))

    @cached_property
    def decisions(self) -> Decisions:
        """The logs without rows that have no decision."""
        return only_decisions(self.episodes, self.gamma)


def following(study: Study) -> tuple[Integers, Floats]:
    """Position of the next decision of the same episode, -1 if there is none, and the discount until then."""
    row, episodes = study.decisions.row, study.decisions.episodes
    following = np.arange(1, len(row) + 1)
    following[episodes.offsets[1:] - 1] = -1
    gap = np.where(following >= 0, row[following] - row, 0)
    return following, np.power(study.gamma, gap)


def precisions(noise: Floats, scale: Floats) -> Floats:
    """One over the variance of each annotation, in units of the largest: noise is a standard deviation, scale a factor.

    Annotations without noise count as those of least noise do.
    """
    least = float(np.min(noise, initial=np.inf, where=noise > 0))
    if not np.isfinite(least):
        return 1 / scale
    found: Floats = np.square(least / np.maximum(noise, least)) / scale
    return found


def relative_variance(std: Floats | None, n: int) -> Floats:
    """The variance that each of n annotations states of its noise, beside the mean of all; 1 where none is stated."""
    if std is None or not n:
        return np.ones(n)
    # In units of the largest, so that squares of extreme stds stay in range.
    variance = np.square(np.maximum(std / std.max(), SMALLEST))
    found: Floats = variance / float(variance.mean())
    return found


class RowReturns(Protocol):
    """Q-hat that is worked out where it is needed."""

    def at(self, rows: Integers) -> Floats:
        """Q-hat of every action in these rows, (rows, n_actions)."""


def returns_at(returns: Floats | RowReturns, rows: Integers) -> Floats:
    """Q-hat of every action in these rows, (rows, n_actions)."""
    return returns[rows] if isinstance(returns, np.ndarray) else returns.at(rows)


@dataclass(frozen=True, eq=False)
class CrossFitted:
    """Q-hat of every row by the model of its fold, which did not see it."""

    models: Sequence[Floats | RowReturns]
    fold_of_row: Integers
    n_actions: int

    def at(self, rows: Integers) -> Floats:
        """Q-hat of every action in these rows."""
        found, fold = np.empty((len(rows), self.n_actions)), self.fold_of_row[rows]
        for k, model in enumerate(self.models):
            own = np.flatnonzero(fold == k)
            found[own] = returns_at(model, rows[own])
        return found

    def of(self, rows: Integers, action: Integers) -> Floats:
        """Q-hat of one action in each of these rows; that of any where the action is -1."""
        found = np.empty(len(rows))
        for first in range(0, len(rows), ROWS_AT_ONCE):
            part = slice(first, first + ROWS_AT_ONCE)
            returns = self.at(rows[part])
            found[part] = returns[np.arange(len(returns)), action[part]]
        return found


class Corrected(NamedTuple):
    """A model of returns corrected by annotations: Q-hat of every row and action, and what it found of annotators.

    `offsets` are how far each annotator is above the mean of all, `noise` the standard deviation of each one's
    annotations around what they mean (of those without a name last), `between` that of annotators' offsets.
    `std` is the posterior standard deviation of the mean value of the fold's first rows; NaN if the model knows none.
    """

    returns: Floats | RowReturns
    offsets: Floats
    noise: Floats
    between: float = 0.0
    std: float = math.nan


@runtime_checkable
class Outcomes(Protocol):
    """A model of returns. It predicts Q-hat of the policy for every row and action, (n_rows, n_actions).

    What it returns is an array, or has a method `at` from rows to their part of it.
    """

    @property
    def folds(self) -> int | None:
        """How many parts cross-fitting has; None: nothing is fitted here."""

    @property
    def told(self) -> str:
        """The model in a few words."""

    def fit(self, study: Study, fold: int) -> Floats | RowReturns:
        """Predict from the rows of other folds."""

    def corrected(self, study: Study, fold: int, returns: Any) -> Corrected:
        """The same with what annotations in other folds say beyond it."""
