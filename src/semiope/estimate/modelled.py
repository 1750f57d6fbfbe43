"""Returns of one policy by a model: cross-fitted, found when first needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from semiope._arrays import Floats
from semiope.data.logbook import Logbook
from semiope.estimate.critic import Critic
from semiope.models.bellman import BellmanModel
from semiope.models.counted import Counted, can_be_counted, first_states
from semiope.models.folds import deal
from semiope.models.outcomes import Automatic
from semiope.models.study import Corrected, CrossFitted, Outcomes, RowReturns, Study, precisions
from semiope.policies.lookup import BoundPolicy, everything
from semiope.policies.policy import AnyPolicy


class CountedModel(NamedTuple):
    """A policy in the MDP counted from logs; `starts` are shares of first states, `values` those of each episode."""

    model: BellmanModel
    starts: Floats
    values: Floats

    @property
    def never_logged(self) -> float:
        """The share of the decisions that the policy comes to that were never logged."""
        return self.model.never_logged(self.starts)


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

    @property
    def told(self) -> str:
        """The model in a few words."""
        return self._chosen.told

    @property
    def is_counted(self) -> bool:
        """Whether the model is the MDP counted from the logs."""
        return isinstance(self._chosen, Counted)

    @property
    def _chosen(self) -> Outcomes:
        return self.outcomes.chosen(self.study) if isinstance(self.outcomes, Automatic) else self.outcomes

    @cached_property
    def of_all_logs(self) -> CountedModel | None:
        """The policy in the MDP counted from all logs, without folds or annotations; None where none can be counted."""
        counted = Counted(folds=None)
        alone = Modelled(self.name, self.policy, self.evaluation, self.logbook, self.gamma, counted)
        model = counted.model(alone.study, 0) if can_be_counted(alone.study) else None
        return None if model is None else CountedModel(model, first_states(alone.study, model), alone.critic.start)

    @cached_property
    def returns(self) -> CrossFitted:
        """Q-hat by the model of the logs."""
        return self._each_by_its_own(self._models)

    @cached_property
    def corrected(self) -> list[Corrected]:
        """The model of each fold corrected by annotations in the others."""
        found = (self.outcomes.corrected(self.study, fold, model) for fold, model in enumerate(self._models))
        n = self.study.n_annotators
        return [one if isinstance(one, Corrected) else Corrected(one, np.zeros(n), np.ones(n + 1)) for one in found]

    @cached_property
    def annotated_returns(self) -> CrossFitted:
        """The same, the model corrected by annotations."""
        return self._each_by_its_own([one.returns for one in self.corrected])

    @cached_property
    def annotated_values(self) -> Floats:
        """Annotations without what annotators differ by, weighed by their noise: one value a question.

        What is known of the annotators of a question comes from other folds.
        """
        aligned = self.logbook.annotations
        responses, who = aligned.responses, self.study.annotator_of
        fold = self.study.fold_of_row[aligned.row[responses.place]]
        offsets = np.array([np.append(one.offsets, 0.0) for one in self.corrected])
        noise = np.array([one.noise for one in self.corrected])
        weight = precisions(noise[fold, who], self.study.noise_scale)
        n = len(aligned.row)
        value = np.bincount(responses.place, weights=weight * (responses.value - offsets[fold, who]), minlength=n)
        found: Floats = value / np.bincount(responses.place, weights=weight, minlength=n)
        return found

    @property
    def std(self) -> float:
        """Posterior standard deviation of the mean value of first rows; NaN if the corrected model knows none.

        Folds share most of what their models were fitted to: their mean is taken, and not less.
        """
        return float(np.mean([one.std for one in self.corrected]))

    @cached_property
    def critic(self) -> Critic:
        """The model of the logs as control variate."""
        return Critic.of(self.returns, self.study, self.logbook.annotations.value)

    @cached_property
    def annotated_critic(self) -> Critic:
        """The model corrected by annotations as control variate."""
        return Critic.of(self.annotated_returns, self.study, self.annotated_values)

    @cached_property
    def _models(self) -> list[Floats | RowReturns]:
        """Predictions for all rows by the model of each fold."""
        n = 1 if self.study.fold is None else int(self.study.fold.max()) + 1
        return [self.outcomes.fit(self.study, fold) for fold in range(n)]

    def _each_by_its_own(self, models: Sequence[Floats | RowReturns]) -> CrossFitted:
        return CrossFitted(models, self.study.fold_of_row, self.study.probs.shape[1])
