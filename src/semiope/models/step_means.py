"""Q-hat where states do not recur and no features are named: means by step and action.

Before annotations it is the mean return from each step on, whatever the action. Annotations add shrunk means of what
they say beyond it, by action, and by action and step. It knows nothing of states; estimators that correct their model
are unbiased with it all the same, and only wider.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from semiope._arrays import Floats
from semiope.data.labels import ABSENT
from semiope.models.annotator_effects import annotator_effects
from semiope.models.folds import FOLDS, refuse_alone
from semiope.models.nested import nested_means
from semiope.models.study import Corrected, Study


@dataclass(frozen=True, eq=False)
class StepMeans:
    """Mean returns by step, and what annotations say beyond them by step and action."""

    folds: int | None = FOLDS

    @property
    def told(self) -> str:
        """The model in a few words."""
        return f"means by step and action, {self.folds} folds"

    def fit(self, study: Study, fold: int) -> Floats:
        """Predict the mean return from each step on, for every action."""
        refuse_alone(study.episodes.n_episodes)
        episodes, horizon = study.episodes, int(study.episodes.lengths.max())
        train = study.train(fold) & (episodes.action != ABSENT)
        step = episodes.step[train]
        n = np.bincount(step, minlength=horizon)
        sums = np.bincount(step, weights=episodes.returns_to_go(study.gamma)[train], minlength=horizon)
        means = sums / np.maximum(n, 1)
        found = np.zeros_like(study.probs)
        decided = episodes.action != ABSENT
        found[decided] = means[episodes.step[decided], None]
        return found

    def corrected(self, study: Study, fold: int, returns: Floats) -> Corrected:
        """Add what annotations in other folds say beyond it."""
        aligned, n_actions = study.logbook.annotations, study.probs.shape[1]
        responses = aligned.responses
        row, action = aligned.row[responses.place], aligned.action[responses.place].astype(np.int64)
        train = study.train(fold)[row]
        left = responses.value - returns[row, action]
        horizon = int(study.episodes.lengths.max())
        levels = [action[train], study.episodes.step[row[train]].astype(np.int64) * n_actions + action[train]]
        actions = np.tile(np.arange(n_actions), horizon)
        targets = [actions, np.arange(horizon * n_actions)]
        beyond = nested_means(left[train], levels, targets, [n_actions, horizon * n_actions])
        decided = study.episodes.action != ABSENT
        added = np.where(decided[:, None], beyond.reshape(horizon, n_actions)[study.episodes.step], 0.0)
        found = returns + added
        rest = (responses.value - found[row, action])[train]
        effects = annotator_effects(rest, study.annotator_of[train], study.noise_scale[train], study.n_annotators)
        return Corrected(found, effects.offsets, effects.noise, between=effects.between)
