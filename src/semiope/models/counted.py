"""Q-hat by the MDP counted from the logs of other folds, with annotations as they tell its Bellman errors."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from semiope._arrays import Floats
from semiope._random import generator
from semiope.data.episodes import Episodes
from semiope.errors import OptionError, SchemaError
from semiope.models.annotation_model import PROBES, Annotated, fit
from semiope.models.bellman import BellmanModel
from semiope.models.decisions import some_of
from semiope.models.folds import FOLDS, refuse_alone
from semiope.models.records import Records
from semiope.models.study import Corrected, Study
from semiope.policies.policy import AnyPolicy, Policy


@dataclass(frozen=True, eq=False)
class Counted:
    """Q-hat of the policy in the MDP counted from the logs of other folds.

    A pair never logged is worth what its state's other pairs are, a state never seen what others at its step are.
    """

    folds: int | None = FOLDS
    _records: WeakKeyDictionary[Episodes, dict[Any, Records | None]] = field(default_factory=WeakKeyDictionary)
    _models: WeakKeyDictionary[Study, dict[int, BellmanModel | None]] = field(default_factory=WeakKeyDictionary)

    @property
    def told(self) -> str:
        """The model in a few words."""
        return f"empirical, {self.folds} folds"

    def fit(self, study: Study, fold: int) -> Floats:
        """Predict Q-hat of every action in every row."""
        model = self.model(study, fold)
        return np.zeros_like(study.probs) if model is None else _at_rows(study, model, model.returns())

    def corrected(self, study: Study, fold: int, returns: Floats) -> Corrected:
        """Q-hat by logs and annotations of other folds together."""
        model, given = self.model(study, fold), study.logbook.annotations
        train = study.train(fold)[given.row[given.responses.place]]
        if model is None:
            return Corrected(returns, np.zeros(study.n_annotators), np.ones(study.n_annotators + 1))
        found = fit(model, annotated_in(study, model).part(train), study.n_annotators)
        known = found.variances
        return Corrected(
            _at_rows(study, model, found.returns), found.offsets, known.unit * np.sqrt(known.noise),
            known.unit * math.sqrt(known.offsets), found.std_of(model.at_start(_starts(study, model, fold))),
        )  # fmt: skip

    def model(self, study: Study, fold: int) -> BellmanModel | None:
        """The policy in the MDP of other folds; None if no decision is left."""
        models = self._models.setdefault(study, {})
        if fold not in models:
            records = self.records(study, fold)
            models[fold] = None if records is None else bellman_model(records, study.policy, study.name)
        return models[fold]

    def records(self, study: Study, fold: int) -> Records | None:
        """The logs of other folds, the same for all policies; None if no decision is left."""
        labels = tuple(study.logbook.actions.words.to_pylist())
        known, key = self._records.setdefault(study.episodes, {}), (fold, study.gamma, labels)
        if key not in known:
            decisions = study.decisions
            if study.fold is not None:
                refuse_alone(study.episodes.n_episodes)
            _refuse_pauses(study)
            _refuse_late_starts(study)
            kept = study.train(fold)[decisions.row[decisions.episodes.offsets[:-1]]]
            horizon = int(decisions.episodes.lengths.max())
            some = some_of(decisions.episodes, kept) if kept.any() else None
            known[key] = None if some is None else Records(some, labels, study.gamma, horizon)
        return known[key]


def can_be_counted(study: Study) -> bool:
    """Whether an MDP can be counted: the policy is over states that recur, and only first or last rows lack a decision.

    States recur if they were decided in twice, in the mean.
    """
    if not isinstance(study.policy, Policy):
        return False
    decisions, episodes = study.decisions, study.decisions.episodes
    if not len(decisions.row) or len(decisions.row) < 2 * len(np.unique(episodes.state)):
        return False
    try:
        _refuse_pauses(study)
        _refuse_late_starts(study)
    except SchemaError:
        return False
    return True


def first_states(study: Study, model: BellmanModel) -> Floats:
    """Share of the episodes whose first decision is in each state."""
    decisions = study.decisions.episodes
    return np.bincount(decisions.state[decisions.offsets[:-1]], minlength=model.shape[1]) / decisions.n_episodes


def bellman_model(records: Records, policy: AnyPolicy, name: str) -> BellmanModel:
    """A policy in the MDP counted from logs."""
    if not isinstance(policy, Policy):
        raise OptionError(
            f"policy {name!r} is given row by row; a model counted from the logs needs one over states. "
            "Use a model by regression on features (so.FittedQ), or one of your own."
        )
    probs = records.empirical.mdp.look_up(policy, f"policy {name!r}")
    return BellmanModel.of(records.episodes, records.rows, records.empirical, records.behavior, probs)


def behavior_model(records: Records) -> BellmanModel:
    """The behavior policy, as it was counted, in the MDP counted from logs."""
    return BellmanModel.of(records.episodes, records.rows, records.empirical, records.behavior, records.behavior[None])


def annotated_in(study: Study, model: BellmanModel) -> Annotated:
    """All annotations at their places in the model."""
    aligned, decisions = study.logbook.annotations, study.decisions
    responses = aligned.responses
    row = aligned.row[responses.place]
    at = np.searchsorted(decisions.row, row)
    ids = model.empirical.mdp.actions.positions_of(study.logbook.actions)
    sign = np.empty((len(row), PROBES))
    # Signs go by row and size, so that labels of states and actions, and the unit of returns, do not matter.
    sign[np.lexsort((np.abs(responses.value), row))] = generator(0).choice((-1.0, 1.0), size=sign.shape)
    return Annotated(
        decisions.step[at], decisions.episodes.state[at].astype(np.int64), ids[aligned.action[responses.place]],
        responses.value, study.annotator_of, study.noise_scale, sign,
    )  # fmt: skip


def _starts(study: Study, model: BellmanModel, fold: int) -> Floats:
    """Share of the fold's episodes whose first decision is in each state."""
    first = study.decisions.episodes.offsets[:-1]
    own = ~study.train(fold)[study.decisions.row[first]] if study.fold is not None else np.ones(len(first), np.bool_)
    found = np.bincount(study.decisions.episodes.state[first[own]], minlength=model.shape[1])
    return found / max(int(own.sum()), 1)


def _at_rows(study: Study, model: BellmanModel, table: Floats) -> Floats:
    """The entries of a table (horizon, n_states, n_actions) at every row."""
    mdp, decisions = model.empirical.mdp, study.decisions
    state, ids = decisions.episodes.state, mdp.actions.positions_of(study.logbook.actions)
    rows = table[decisions.step, state][:, ids]
    strange = mdp.terminal[state]
    if strange.any():
        rows[strange] = _usual(model, table)[decisions.step[strange], None]
    found = np.zeros_like(study.probs)
    found[decisions.row] = rows
    return found


def _usual(model: BellmanModel, table: Floats) -> Floats:
    """What a state is worth in the mean over the rows of each step; at steps without rows, as at the last."""
    step, state = model.rows.step, model.rows.state
    worth = np.bincount(step, weights=model.values(table)[step, state], minlength=len(table))
    times = np.bincount(step, minlength=len(table))
    return (worth / np.maximum(times, 1))[np.minimum(np.arange(len(table)), int(step.max()))]


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
