"""Returns of one policy by a model: cross-fitted, found when first needed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from semiope._arrays import Floats
from semiope.data.logbook import Logbook
from semiope.estimate.critic import Critic
from semiope.models.folds import deal
from semiope.models.study import Outcomes, Study
from semiope.policies.lookup import BoundPolicy, everything
from semiope.policies.policy import AnyPolicy


@dataclass(frozen=True, eq=False)
class Modelled:
    """A policy, bound to a logbook, and the model of its returns."""

    name: str
    policy: AnyPolicy
    evaluation: BoundPolicy
    logbook: Logbook
    gamma: float
    outcomes: Outcomes

    @cached_property
    def study(self) -> Study:
        """What the model is fitted to."""
        n_folds = self.outcomes.folds
        folds = None if n_folds is None else deal(self.logbook.episodes.n_episodes, n_folds)
        return Study(self.logbook, self.policy, everything(self.evaluation, self.logbook), self.gamma, self.name, folds)

    @cached_property
    def returns(self) -> Floats:
        """Q-hat of every action in every row, (n_rows, n_actions), by the model of the logs that did not see it."""
        return self._each_by_its_own(self._models)

    @cached_property
    def annotated_returns(self) -> Floats:
        """The same, the model corrected by annotations."""
        corrected = (self.outcomes.corrected(self.study, fold, found) for fold, found in enumerate(self._models))
        return self._each_by_its_own(corrected)

    @cached_property
    def critic(self) -> Critic:
        """The model of the logs as control variate."""
        return Critic.of(self.returns, self.study)

    @cached_property
    def annotated_critic(self) -> Critic:
        """The model corrected by annotations as control variate."""
        return Critic.of(self.annotated_returns, self.study)

    @cached_property
    def _models(self) -> list[Floats]:
        """Predictions for all rows by the model of each fold."""
        n = 1 if self.study.fold is None else int(self.study.fold.max()) + 1
        return [self.outcomes.fit(self.study, fold) for fold in range(n)]

    def _each_by_its_own(self, models: Iterable[Floats]) -> Floats:
        found = np.zeros_like(self.study.probs)
        for fold, predicted in enumerate(models):
            own = self.study.fold_of_row == fold
            found[own] = predicted[own]
        return found
