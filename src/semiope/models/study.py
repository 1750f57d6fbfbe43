"""What a model of returns is fitted to: logs, one policy, and the folds of cross-fitting."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np

from semiope._arrays import Booleans, Floats, Integers
from semiope.data.episodes import Episodes
from semiope.data.logbook import Logbook
from semiope.models.decisions import Decisions, only_decisions
from semiope.policies.policy import AnyPolicy


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
            return np.zeros(self.episodes.n_steps, dtype=np.int64)
        return np.repeat(self.fold, self.episodes.lengths)

    def train(self, fold: int) -> Booleans:
        """Rows that a model for this fold may be fitted to."""
        return np.ones(self.episodes.n_steps, dtype=np.bool_) if self.fold is None else self.fold_of_row != fold

    @cached_property
    def decisions(self) -> Decisions:
        """The logs without rows that have no decision."""
        return only_decisions(self.episodes, self.gamma)


@runtime_checkable
class Outcomes(Protocol):
    """A model of returns. It predicts Q-hat of the policy for every row and action, (n_rows, n_actions)."""

    @property
    def folds(self) -> int | None:
        """How many parts cross-fitting has; None: nothing is fitted here."""

    @property
    def told(self) -> str:
        """The model in a few words."""

    def fit(self, study: Study, fold: int) -> Floats:
        """Predict from the rows of other folds."""

    def corrected(self, study: Study, fold: int, returns: Floats) -> Floats:
        """The same with what annotations in other folds say beyond it."""
