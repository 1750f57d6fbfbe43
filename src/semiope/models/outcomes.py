"""Models of returns by name: counted from the logs, given, or fitted by regression."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from semiope._arrays import Floats, root_mean_square
from semiope._extras import need
from semiope._files import exists
from semiope._memory import refuse_beyond_memory
from semiope.data.episodes import Episodes
from semiope.data.labels import ABSENT
from semiope.errors import SHOWN, OptionError, SchemaError, nearest
from semiope.models.case import Case, Records
from semiope.models.decisions import some_of
from semiope.models.fitted import FittedQ
from semiope.models.folds import FOLDS, refuse_alone
from semiope.models.given import GivenReturns
from semiope.models.level import together
from semiope.models.places import Places
from semiope.models.residuals import PART, Prior, predict
from semiope.models.study import Outcomes, Study
from semiope.policies.policy import Policy


@dataclass(frozen=True, eq=False)
class Counted:
    """Q-hat of the policy in the model counted from the logs of other folds.

    A pair never logged is worth what its state is worth today, a state never seen what others at its step are.
    """

    folds: int | None = FOLDS
    _records: dict[tuple[int, Any], tuple[Episodes, Records | None]] = field(default_factory=dict)

    @property
    def told(self) -> str:
        """The model in a few words."""
        return f"empirical, {self.folds} folds"

    def fit(self, study: Study, fold: int) -> Floats:
        """Predict Q-hat of every action in every row."""
        records = self._of(study, fold)
        if records is None:
            return np.zeros_like(study.probs)
        return self._at_rows(study, records, Case(records, study.policy, study.name).returns)

    def corrected(self, study: Study, fold: int, returns: Floats) -> Floats:
        """Q-hat by logs and annotations of other folds together, freed of a bias that all annotations share."""
        records, annotations = self._of(study, fold), study.logbook.annotations
        asked = np.flatnonzero(study.train(fold)[annotations.row])
        if records is None or not len(asked):
            return returns
        case, decisions = Case(records, study.policy, study.name), study.decisions
        place = np.searchsorted(decisions.row, annotations.row[asked])
        ids = records.empirical.mdp.actions.positions_of(study.logbook.actions)
        at = Places(decisions.step[place], decisions.episodes.state[place], ids[annotations.action[asked]])
        return self._at_rows(study, records, together(case, at, annotations.value[asked], unbias=True)[0])

    def _at_rows(self, study: Study, records: Records, table: Floats) -> Floats:
        model, decisions = records.empirical.mdp, study.decisions
        state, ids = decisions.episodes.state, model.actions.positions_of(study.logbook.actions)
        rows = table[decisions.step, state][:, ids]
        strange = model.terminal[state]
        rows[strange] = _usual(records)[decisions.step[strange], None]
        found = np.zeros_like(study.probs)
        found[decisions.row] = rows
        return found

    def _of(self, study: Study, fold: int) -> Records | None:
        """The model of other folds, the same for all policies; None if no decision is left."""
        labels = tuple(study.logbook.actions.words.to_pylist())
        key = fold, (id(study.episodes), study.gamma, labels)
        if key not in self._records:
            decisions = study.decisions
            refuse_alone(study.episodes.n_episodes)
            _refuse_pauses(study)
            _refuse_late_starts(study)
            kept = study.train(fold)[decisions.row[decisions.episodes.offsets[:-1]]]
            records = None
            if kept.any():
                horizon = int(decisions.episodes.lengths.max())
                records = Records(some_of(decisions.episodes, kept), labels, study.gamma, horizon)
            self._records[key] = study.episodes, records  # the episodes are kept, and so is their id
        return self._records[key][1]


def _refuse_pauses(study: Study) -> None:
    """Fail where rows without a decision lie between decisions: a model that counts steps would discount too little."""
    decisions = study.decisions
    same = np.ones(len(decisions.row) - 1, dtype=np.bool_) if len(decisions.row) else np.zeros(0, dtype=np.bool_)
    same[decisions.episodes.offsets[1:-1] - 1] = False
    wrong = np.flatnonzero(same & (np.diff(decisions.row) > 1))
    if len(wrong):
        raise SchemaError(
            f"model: {study.episodes.describe_row(int(decisions.row[wrong[0]]) + 1)} has no action but lies between "
            "decisions; a model can only be counted where such rows come first or last. Use a model by regression on "
            "features (so.FittedQ), or one of your own."
        )


def _refuse_late_starts(study: Study) -> None:
    """Fail where a policy per step meets rows without a decision before the first one: the model counts decisions."""
    late = study.episodes.step[study.decisions.row] != study.decisions.step
    if isinstance(study.policy, Policy) and study.policy.step is not None and late.any():
        first = int(study.decisions.row[int(np.argmax(late))])
        raise SchemaError(
            f"model: {study.episodes.describe_row(first)} comes after rows without a decision, and the policy is given "
            "per step; a model counted from the logs counts decisions. Use a model of your own."
        )


def _usual(records: Records) -> Floats:
    """What a state is worth today in the mean over the rows of each step; at steps without rows, as at the last."""
    step, state = records.rows.step, records.rows.state
    worth = np.bincount(step, weights=records.behavior_values[step, state], minlength=len(records.behavior_values))
    times = np.bincount(step, minlength=len(worth))
    return (worth / np.maximum(times, 1))[np.minimum(np.arange(len(worth)), int(step.max()))]


@dataclass(frozen=True, eq=False)
class Given:
    """Q-hat as somebody else found it; only what annotations add is cross-fitted."""

    returns: GivenReturns
    folds: int | None = FOLDS
    _found: dict[int, tuple[Study, Floats]] = field(default_factory=dict)

    @property
    def told(self) -> str:
        """The model in a few words."""
        return "given"

    def fit(self, study: Study, fold: int) -> Floats:
        """Q-hat as given, whatever the fold; fail where it is not, and needed."""
        if id(study) not in self._found:
            self._found[id(study)] = study, self._read(study)
        return self._found[id(study)][1]

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

    def corrected(self, study: Study, fold: int, returns: Floats) -> Floats:
        """Add what annotations in other folds say beyond it, shrunk."""
        return by_residuals(study, fold, returns)


def by_residuals(study: Study, fold: int, returns: Floats) -> Floats:
    """Returns plus the residuals of annotations in other folds against them, predicted per step, state and action.

    Nobody says that these returns come from the logs: they are taken to be as uncertain about a pair that was logged
    often as about one that was logged once, and about their level.
    """
    annotations, episodes = study.logbook.annotations, study.episodes
    shape = int(episodes.lengths.max()), len(episodes.states), study.probs.shape[1]
    way_out = "Use a model by regression, or estimators that keep annotations out of the model."
    refuse_beyond_memory(32.0 * float(np.prod(shape)), "corrections by step, state and action", way_out)
    train = study.train(fold)
    asked = np.flatnonzero(train[annotations.row])
    if not len(asked):
        return returns
    row, action = annotations.row[asked].astype(np.int64), annotations.action[asked]
    logged = np.flatnonzero(train & (episodes.action != ABSENT))
    taken = episodes.action[logged]
    known = np.zeros(shape[1:])
    known[episodes.state[logged], taken] = 1.0
    scatter = root_mean_square(episodes.returns_to_go(study.gamma)[logged] - returns[logged, taken])
    places = Places(episodes.step[row], episodes.state[row], action)
    residual = annotations.value[asked] - returns[row, action]
    correction, _ = predict(places, residual, known, shape[0], Prior(scatter, round(PART)))
    found: Floats = returns + correction[episodes.step, episodes.state]
    return found


REGRESSORS = {
    "linear": ("sklearn.linear_model", "RidgeCV"),
    "forest": ("sklearn.ensemble", "RandomForestRegressor"),
    "boosting": ("sklearn.ensemble", "HistGradientBoostingRegressor"),
}


def read_model(model: Any, features: Any = None) -> Outcomes:
    """The model for a name ("empirical", or with features "linear", "forest", "boosting"), Q-hat given, or a model.

    What is given is an array (n_states, n_actions) or (n_steps, n_states, n_actions), or a table; a model is a FittedQ
    or anything else with the properties and methods of `Outcomes`.
    """
    named = isinstance(model, str)
    if features is not None and not (named and model in REGRESSORS):
        known = ", ".join(REGRESSORS)
        raise OptionError(f"features: they go with a model by name, {known}; a so.FittedQ has its own.")
    if isinstance(model, Outcomes):
        return model
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
        names = ["empirical", *REGRESSORS]
        raise OptionError(
            f"model: {model!r} is not known.{nearest(model, names)} Use one of {', '.join(names)}, or a table with "
            "state, action, value."
        )
    return Given(
        GivenReturns.from_array(model) if isinstance(model, np.ndarray | list) else GivenReturns.from_arrow(model)
    )
