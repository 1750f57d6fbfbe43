"""Fitted Q evaluation: returns by regression on features, for states that do not recur.

Q-hat(x, a) is any scikit-learn regressor of (features of the row, step, action) on r + gamma sum_a' pi_e(a'|x') Q-hat
(x', a'), fitted again with its own predictions as often as the longest episode has decisions (Le, Voloshin and Yue,
2019), or until they stay the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from semiope._arrays import Booleans, Floats, Integers
from semiope._extras import need
from semiope._memory import refuse_beyond_memory
from semiope._options import check_count
from semiope.data.episodes import Episodes
from semiope.errors import OptionError, SchemaError, count, nearest
from semiope.models.annotator_effects import annotator_effects
from semiope.models.folds import FOLDS, refuse_alone
from semiope.models.study import Corrected, Study, following

# Predictions that change by less than this share of their spread are settled.
SETTLED = 1e-6


@dataclass(frozen=True, eq=False)
class FittedQ:
    """A model of returns by regression.

    `features` are names of further columns of the episodes; `folds` how many parts cross-fitting has; `rounds` how
    often at most the regression is repeated (None: as often as the longest episode has decisions).
    """

    regressor: Any
    features: Sequence[str]
    folds: int = FOLDS
    rounds: int | None = None

    def __post_init__(self) -> None:
        need("sklearn.base", "models", "A model by regression")
        check_count(self.folds, "folds", least=2)
        if isinstance(self.features, str):
            object.__setattr__(self, "features", tuple(word.strip() for word in self.features.split(",")))

    @property
    def told(self) -> str:
        """The model in a few words."""
        return f"{type(self.regressor).__name__} on {', '.join(self.features)}, {self.folds} folds"

    def fit(self, study: Study, fold: int) -> Floats:
        """Predict Q-hat of every action in every row from the rows of other folds."""
        if study.fold is not None:
            refuse_alone(study.episodes.n_episodes)
        design = _Design(study, matrix(study.episodes, self.features))
        decisions = study.decisions
        row, reward = decisions.row, decisions.episodes.reward
        ahead_of, discount = following(study)
        train = study.train(fold)[row]
        if not train.any():
            return np.zeros_like(study.probs)
        rounds = int(decisions.episodes.lengths.max()) if self.rounds is None else check_count(self.rounds, "rounds")
        ahead = np.zeros(len(row))
        fitted = None
        for _ in range(rounds):
            target = reward + discount * np.where(ahead_of >= 0, ahead[ahead_of], 0.0)
            fitted = _fit(self.regressor, design.at(row[train], decisions.episodes.action[train]), target[train])
            before, ahead = ahead, design.values(fitted, row)
            if float(np.abs(ahead - before).max()) <= SETTLED * float(np.ptp(target[train])):
                break
        return design.everything(fitted)

    def corrected(self, study: Study, fold: int, returns: Floats) -> Corrected:
        """Add a regression of what annotations in other folds say beyond the returns predicted."""
        aligned, n = study.logbook.annotations, study.n_annotators
        responses = aligned.responses
        train = study.train(fold)[aligned.row[responses.place]]
        place = responses.place[train]
        row, action, value = aligned.row[place], aligned.action[place], responses.value[train]
        if not len(row):
            return Corrected(returns, np.zeros(n), np.ones(n + 1))
        design = _Design(study, matrix(study.episodes, self.features))
        beyond = design.everything(_fit(self.regressor, design.at(row, action), value - returns[row, action]))
        found = returns + beyond
        left = value - found[row, action]
        effects = annotator_effects(left, study.annotator_of[train], study.noise_scale[train], n)
        return Corrected(found, effects.offsets, effects.noise, between=effects.between)


def matrix(episodes: Episodes, features: Sequence[str]) -> Floats:
    """The features of each row, (n_rows, n_features)."""
    names = list(features)
    known = [] if episodes.extra is None else episodes.extra.column_names
    if episodes.features is not None and episodes.features.columns == tuple(names):
        return episodes.features.matrix
    if not names:
        raise OptionError(f"model: no features named. The episodes have the further columns: {', '.join(known)}.")
    columns = []
    for name in names:
        if name not in known:
            listed = ", ".join(known) or "none"
            raise OptionError(
                f"model: the episodes have no column {name!r}.{nearest(str(name), known)} Further columns: {listed}."
            )
        assert episodes.extra is not None
        columns.append(_numbers(episodes, episodes.extra.column(name), name))
    return np.column_stack(columns)


def _numbers(episodes: Episodes, column: Any, name: str) -> Floats:
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise SchemaError(f"episodes: column {name!r} holds {kind}; features are numbers. Encode them first.")
    values: Floats = column.cast(pa.float64()).to_numpy()
    wrong = np.flatnonzero(~np.isfinite(values) & (episodes.action >= 0))
    if len(wrong):
        raise SchemaError(
            f"episodes: column {name!r} is missing or not finite in {count(len(wrong), 'row')} with a decision. First: "
            f"{episodes.describe_row(int(wrong[0]))}. Fill the gaps, or use a feature without any."
        )
    return np.where(np.isfinite(values), values, 0.0)


class _Design:
    """Rows of a regression: features, the step if there are several, and one column an action."""

    def __init__(self, study: Study, features: Floats) -> None:
        self.study, self.n_actions = study, study.probs.shape[1]
        step = study.episodes.step.astype(np.float64)
        self.features = np.column_stack([features, step]) if step.any() else features
        self.actions = np.eye(self.n_actions)

    def at(self, row: Integers, action: Integers) -> Floats:
        refuse_beyond_memory(16.0 * len(row) * (self.features.shape[1] + self.n_actions), "a regression", "Sample.")
        return np.hstack([self.features[row], self.actions[action]])

    def values(self, fitted: Any, row: Integers) -> Floats:
        """V-hat of these rows; only actions that the policy may take are looked at."""
        place, action = np.nonzero(self.study.probs[row] > 0)
        worth = self.study.probs[row][place, action] * _predict(fitted, self.at(row[place], action))
        found: Floats = np.bincount(place, weights=worth, minlength=len(row)).astype(np.float64)
        return found

    def everything(self, fitted: Any) -> Floats:
        """Q-hat of every action in every row with a decision, 0 elsewhere."""
        found = np.zeros_like(self.study.probs)
        row = self.study.decisions.row
        for action in range(self.n_actions):
            found[row, action] = _predict(fitted, self.at(row, np.full(len(row), action)))
        return found


def _fit(regressor: Any, x: Floats, y: Floats) -> Any:
    clone = need("sklearn.base", "models", "A model by regression").clone
    try:
        return clone(regressor).fit(x, y)
    except Exception as error:
        raise OptionError(f"model: the regressor {regressor!r} failed: {error}") from error


def _predict(fitted: Any, x: Floats) -> Floats:
    try:
        found = np.asarray(fitted.predict(x), dtype=np.float64)
    except Exception as error:
        raise OptionError(f"model: the regressor {fitted!r} failed to predict: {error}") from error
    wrong: Booleans = ~np.isfinite(found)
    if found.shape != (len(x),) or wrong.any():
        what = f"{int(wrong.sum()):,} of {len(x):,} predictions are not finite" if wrong.any() else "wrong shape"
        raise OptionError(f"model: the regressor {fitted!r} predicts no numbers ({what}). Use another regressor.")
    return found
