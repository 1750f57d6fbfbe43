"""Models of returns by name: counted from the logs, given, or fitted by regression."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from semiope._arrays import Floats
from semiope._extras import need
from semiope._files import exists
from semiope._memory import refuse_beyond_memory
from semiope.data.labels import ABSENT
from semiope.data.repeat import Resample
from semiope.errors import SHOWN, OptionError, SchemaError, nearest
from semiope.models.annotator_effects import annotator_effects
from semiope.models.counted import Counted, can_be_counted
from semiope.models.feature_model import FeatureModel
from semiope.models.fitted import FittedQ
from semiope.models.folds import FOLDS
from semiope.models.given import GivenReturns
from semiope.models.nested import nested_means
from semiope.models.step_means import StepMeans
from semiope.models.study import Corrected, Outcomes, RowReturns, Study


@dataclass(frozen=True, eq=False)
class Given:
    """Q-hat as somebody else found it; only what annotations add is cross-fitted."""

    returns: GivenReturns
    folds: int | None = FOLDS
    _found: WeakKeyDictionary[Study, Floats] = field(default_factory=WeakKeyDictionary)

    @property
    def told(self) -> str:
        """The model in a few words."""
        return "given"

    def fit(self, study: Study, fold: int) -> Floats:
        """Q-hat as given, whatever the fold; fail where it is not, and needed."""
        if study not in self._found:
            self._found[study] = self._read(study)
        return self._found[study]

    def resampled(self, by: Resample) -> Given:
        """The same in a resample of the episodes."""
        return Given(self.returns.resampled(by), self.folds)

    def _read(self, study: Study) -> Floats:
        found = self.returns.at(study.logbook)
        episodes, annotations = study.episodes, study.logbook.annotations
        decided = episodes.action != ABSENT
        needed = (study.probs > 0) & decided[:, None]
        needed[np.flatnonzero(decided), episodes.action[decided]] = True
        needed[annotations.row, annotations.action] = True
        missing = np.argwhere(needed & np.isnan(found))
        if len(missing):
            shown = "; ".join(
                f"{episodes.describe_row(int(row))} action {study.logbook.actions[int(action)]!r}"
                for row, action in missing[:SHOWN]
            )
            raise SchemaError(f"model: no value is given for {len(missing):,} actions that are needed. First: {shown}.")
        return np.where(np.isnan(found), 0.0, found)

    def corrected(self, study: Study, fold: int, returns: Floats) -> Corrected:
        """Add what annotations in other folds say beyond it, by state and action and then by step, shrunk."""
        aligned, episodes = study.logbook.annotations, study.episodes
        shape = int(episodes.lengths.max()), len(episodes.states), study.probs.shape[1]
        way_out = "Use a model by regression, or estimators that keep annotations out of the model."
        refuse_beyond_memory(32.0 * float(np.prod(shape)), "corrections by step, state and action", way_out)
        responses = aligned.responses
        row, action = aligned.row[responses.place].astype(np.int64), aligned.action[responses.place].astype(np.int64)
        train = study.train(fold)[row]
        left = responses.value - returns[row, action]
        pair = episodes.state.astype(np.int64)[row] * shape[2] + action
        levels = [pair[train], (episodes.step[row] * shape[1] * shape[2] + pair)[train]]
        cells = np.arange(int(np.prod(shape)))
        targets, sizes = [cells % (shape[1] * shape[2]), cells], [shape[1] * shape[2], len(cells)]
        beyond = nested_means(left[train], levels, targets, sizes).reshape(shape)[episodes.step, episodes.state]
        found = returns + np.where((episodes.action != ABSENT)[:, None], beyond, 0.0)
        rest = (responses.value - found[row, action])[train]
        effects = annotator_effects(rest, study.annotator_of[train], study.noise_scale[train], study.n_annotators)
        return Corrected(found, effects.offsets, effects.noise, between=effects.between)


@dataclass(frozen=True, eq=False)
class Automatic:
    """The model that the data allow: counted by state where states recur, else by features, if there are any.

    Without either, means by step and action.
    """

    counted: Counted = field(default_factory=Counted)
    by_features: FeatureModel = field(default_factory=FeatureModel)
    plain: StepMeans = field(default_factory=StepMeans)

    @property
    def folds(self) -> int | None:
        """How many parts cross-fitting has."""
        return self.counted.folds

    @property
    def told(self) -> str:
        """The model in a few words."""
        return self.counted.told

    def chosen(self, study: Study) -> Counted | FeatureModel | StepMeans:
        """Which model these logs and this policy allow."""
        if can_be_counted(study):
            return self.counted
        return self.plain if study.episodes.features is None else self.by_features

    def fit(self, study: Study, fold: int) -> Floats | RowReturns:
        """Predict from the rows of other folds."""
        return self.chosen(study).fit(study, fold)

    def corrected(self, study: Study, fold: int, returns: Any) -> Corrected:
        """The same with what annotations in other folds say beyond it."""
        return self.chosen(study).corrected(study, fold, returns)


REGRESSORS = {
    "linear": ("sklearn.linear_model", "RidgeCV"),
    "forest": ("sklearn.ensemble", "RandomForestRegressor"),
    "boosting": ("sklearn.ensemble", "HistGradientBoostingRegressor"),
}


def read_model(model: Any, features: Any = None) -> Outcomes:
    """The model for a name ("auto", "empirical", or with features "linear", "forest", "boosting"), Q-hat, or a model.

    What is given is an array (n_states, n_actions) or (n_steps, n_states, n_actions), or a table; a model is a FittedQ
    or anything else with the properties and methods of `Outcomes`.
    """
    named = isinstance(model, str)
    if features is not None and not (named and model in REGRESSORS):
        known = ", ".join(REGRESSORS)
        raise OptionError(f"features: they go with a model by name, {known}; a so.FittedQ has its own.")
    if isinstance(model, Outcomes):
        return model
    if named and model == "auto":
        return Automatic()
    if named and model == "empirical":
        return Counted()
    if named and model in REGRESSORS:
        if features is None:
            raise OptionError(f"model: {model!r} needs features: names of further columns of the episodes.")
        home, name = REGRESSORS[model]
        maker = getattr(need(home, "models", "A model by regression"), name)
        regressor = maker() if model == "linear" else maker(random_state=0)
        return FittedQ(regressor, features)
    if named and not Path(model).suffix and not exists(Path(model)):
        names = ["auto", "empirical", *REGRESSORS]
        raise OptionError(
            f"model: {model!r} is not known.{nearest(model, names)} Use one of {', '.join(names)}, or a table with "
            "state, action, value."
        )
    return Given(
        GivenReturns.from_array(model) if isinstance(model, np.ndarray | list) else GivenReturns.from_arrow(model)
    )
