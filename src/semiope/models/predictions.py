"""Predictions from outside: what any model, or a language model, says an annotator would say.

They join the annotation model's own: with q its prediction of a question and p the one from outside, g-hat is

    q + beta (p - d - q),      beta between 0 and 1,

d being how far predictions are above annotations in the mean, and beta by least squares, both on annotations of other
folds. Predictions that agree with annotators count much, predictions that are noise count nothing, and a common error
of them is taken off. There are none of actions that were taken, so that g-hat depends on what was done: they serve
estimators that complete annotations (pp-is, pp-pdis, and pp-dr, which then divides as pp-pdis does), which are unbiased
whatever predictions say. All others do without them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from semiope._arrays import Floats
from semiope.data.labels import ABSENT
from semiope.data.repeat import Resample
from semiope.errors import SchemaError
from semiope.models.given import GivenReturns
from semiope.models.study import Corrected, Outcomes, RowReturns, Study, returns_at


@dataclass(frozen=True, eq=False)
class WithPredictions:
    """A model of returns whose annotated form also listens to predictions from outside."""

    outcomes: Outcomes
    predictions: GivenReturns
    _found: WeakKeyDictionary[Study, Floats] = field(default_factory=WeakKeyDictionary)

    @property
    def folds(self) -> int | None:
        """How many parts cross-fitting has."""
        return self.outcomes.folds

    @property
    def told(self) -> str:
        """The model in a few words."""
        return f"{self.outcomes.told}, with predictions from outside"

    def resampled(self, by: Resample) -> WithPredictions:
        """The same in a resample of the episodes."""
        outcomes = self.outcomes.resampled(by) if hasattr(self.outcomes, "resampled") else self.outcomes
        return WithPredictions(outcomes, self.predictions.resampled(by))

    def fit(self, study: Study, fold: int) -> Floats | RowReturns:
        """Predict from the rows of other folds; without annotations, predictions from outside have no part in it."""
        return self.outcomes.fit(study, fold)

    def corrected(self, study: Study, fold: int, returns: Any) -> Corrected:
        """The annotation model, blended with predictions as far as annotations of other folds bear them out."""
        found = self.outcomes.corrected(study, fold, returns)
        found = found if isinstance(found, Corrected) else Corrected(found, np.zeros(study.n_annotators), np.ones(1))
        given = self.at(study)
        aligned = study.logbook.annotations
        responses = aligned.responses
        row, action = aligned.row[responses.place], aligned.action[responses.place]
        said = responses.value - np.append(found.offsets, 0.0)[study.annotator_of]
        own = returns_at(found.returns, np.arange(study.episodes.n_steps))
        left, beyond = said - own[row, action], given[row, action] - own[row, action]
        train = study.train(fold)[row] & ~np.isnan(beyond)
        alpha, beta = _line(left[train], beyond[train], 1 / study.noise_scale[train])
        blended = np.where(np.isnan(given), own, own + alpha + beta * (given - own))
        return found._replace(returns=blended, std=math.nan)

    def at(self, study: Study) -> Floats:
        """Predictions for every row and action, NaN where there is none and for actions that were taken."""
        if study not in self._found:
            found = self.predictions.at(study.logbook)
            self._refuse_strangers(study)
            decided = np.flatnonzero(study.episodes.action != ABSENT)
            found[decided, study.episodes.action[decided]] = np.nan
            self._found[study] = found
        return self._found[study]

    def missing(self, study: Study) -> int:
        """Number of questions that the policy needs and that have no prediction."""
        needed = study.probs > 0
        decided = np.flatnonzero(study.episodes.action != ABSENT)
        needed[decided, study.episodes.action[decided]] = False
        return int(np.count_nonzero(needed & np.isnan(self.at(study))))

    def _refuse_strangers(self, study: Study) -> None:
        """Fail where an action is predicted that neither logs nor policies nor annotations know."""
        known = study.logbook.actions.positions_of(self.predictions.actions)
        if (known == ABSENT).any():
            stranger = self.predictions.actions[int(np.argmin(known))]
            raise SchemaError(
                f"predictions: nobody else knows an action {stranger!r}. Use the labels of the episodes and the policy."
            )


def _line(left: Floats, beyond: Floats, weight: Floats) -> tuple[float, float]:
    """Intercept and slope of what annotations leave on what predictions are beyond, the slope between 0 and 1."""
    total = float(weight.sum())
    if len(left) < 2 or not total > 0:
        return 0.0, 0.0
    mean_left, mean_beyond = float(weight @ left) / total, float(weight @ beyond) / total
    around = beyond - mean_beyond
    square = float(weight @ around**2)
    slope = float(weight @ (around * (left - mean_left))) / square if square > 0 else 0.0
    slope = min(max(slope, 0.0), 1.0)
    # Where predictions count little, so does the level they bring: annotations have had their say in the model already.
    return slope * (mean_left - mean_beyond), slope
