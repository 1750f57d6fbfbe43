"""Policies as arrays: probabilities of every action in every row, given so or as a function of features."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from semiope._arrays import Booleans, Floats, Integers, as_floats, frozen
from semiope._extras import need
from semiope._memory import refuse_beyond_memory
from semiope._options import Progress
from semiope.data.episodes import Episodes
from semiope.data.labels import ABSENT, Vocabulary
from semiope.data.logbook import Logbook
from semiope.data.repeat import Resample
from semiope.data.tables import take_rows
from semiope.errors import SHOWN, OptionError, SchemaError, SemiopeError, count, nearest
from semiope.policies.cells import Cells
from semiope.policies.lookup import ArrayLookup, RowProbs
from semiope.policies.policy import SUM_TOLERANCE, softened

# Rows for which a policy is asked at a time.
ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True, eq=False)
class ArrayPolicy:
    """Probabilities (n_rows, n_actions) in the rows of some episodes; rows without a decision are 0.

    `source` are these, or what they are made from row by row.
    """

    source: Floats | RowProbs
    actions: Vocabulary
    labels: Vocabulary

    @cached_property
    def probs(self) -> Floats:
        """The probability of every action in every row."""
        if isinstance(self.source, np.ndarray):
            return self.source
        return frozen(self.source.at(np.arange(self.source.shape[0])))

    @classmethod
    def from_array(
        cls, probs: Any, episodes: Episodes, *, actions: Vocabulary | None = None, name: str = "policy"
    ) -> ArrayPolicy:
        """Build from an array (n_rows, n_actions), rows as in the table that the episodes were read from.

        Columns are in the order of `episodes.actions`, or of the vocabulary given.
        """
        words = episodes.actions if actions is None else actions
        array = as_floats(probs, name)
        if array.shape != (episodes.n_steps, len(words)):
            raise SchemaError(
                f"{name}: an array of shape {array.shape}, but there are {episodes.n_steps:,} rows and {len(words)} "
                f"actions ({_listed(words)}). Give one row for each row of the episodes, one column for each action."
            )
        array = array if episodes.order is None else array[episodes.order]
        decided: Booleans = np.asarray(episodes.action != ABSENT)
        _check(array, decided, np.arange(episodes.n_steps), episodes, name)
        return cls(frozen(np.where(decided[:, None], array, 0.0)), words, episodes.labels)

    def soften(self, epsilon: float) -> ArrayPolicy:
        """Move a share epsilon of each action's probability to the other actions, equally (see `Policy.soften`)."""
        decided: Booleans = np.any(self.probs, axis=1)
        return replace(self, source=frozen(np.where(decided[:, None], softened(self.probs, epsilon), 0.0)))

    def resampled(self, by: Resample) -> ArrayPolicy:
        """The policy in a resample of the episodes."""
        return replace(self, source=frozen(self.probs[by.source_rows]), labels=by.labels)

    def bind(self, logbook: Logbook, cells: Cells, name: str) -> ArrayLookup:
        """Look the policy up row by row, whatever the cells."""
        episodes = logbook.episodes
        if self.source.shape[0] != episodes.n_steps or not self.labels.words.equals(episodes.labels.words):
            raise SchemaError(f"{name}: its probabilities belong to other episodes. Make the policy from these.")
        own = self.actions.positions_of(logbook.actions)
        same = np.array_equal(own, np.arange(self.source.shape[1]))
        return ArrayLookup(self.source, logbook, None if same else own)

    def __repr__(self) -> str:
        return f"ArrayPolicy({self.source.shape[0]:,} rows, {len(self.actions):,} actions)"


@dataclass(frozen=True, eq=False)
class FeaturePolicy:
    """A policy that depends on features.

    Parameters
    ----------
    predict
        A function from features (n, n_features) to probabilities (n, n_actions), or a classifier with `predict_proba`
        and `classes_`. One fitted to a data frame gets a data frame with the columns it knows.
    actions
        Labels of the columns of what a function returns. None: those of the episodes, in their order.

    Examples
    --------
    >>> import numpy as np
    >>> import semiope as so
    >>> def treat_the_fast(x):
    ...     fast = x[:, 0] > 90
    ...     return np.column_stack([fast, ~fast])
    >>> so.FeaturePolicy(treat_the_fast, actions=["treat", "wait"])
    FeaturePolicy(treat_the_fast, 2 actions)
    """

    predict: Any
    actions: Sequence[int | str] | None = None

    def __post_init__(self) -> None:
        owner = getattr(self.predict, "__self__", None)
        if is_classifier(owner) and getattr(self.predict, "__name__", "") == "predict_proba":
            object.__setattr__(self, "predict", owner)  # which knows the order of its classes

    def at(self, episodes: Episodes, *, name: str = "policy", progress: Progress | None = None) -> ArrayPolicy:
        """Return the probabilities in every row of these episodes, asked for part by part."""
        if isinstance(self.predict, type):
            raise OptionError(f"{name}: {_called(self.predict)} is a class. Give an object of it, fitted.")
        words = self._words(episodes, name)
        inputs = _Inputs(self.predict, episodes, name)
        refuse_beyond_memory(8.0 * episodes.n_steps * len(words), f"{name}: its probabilities", "Take fewer rows.")
        probs = np.zeros((episodes.n_steps, len(words)))
        decided = np.flatnonzero(episodes.action != ABSENT)
        for first in range(0, len(decided), ROWS_AT_ONCE):
            rows = decided[first : first + ROWS_AT_ONCE]
            found = self._called(inputs.at(rows), len(rows), words, name)
            _check(found, np.ones(len(rows), dtype=np.bool_), rows, episodes, name)
            probs[rows] = found
            if progress:
                progress(min(first + ROWS_AT_ONCE, len(decided)), len(decided))
        return ArrayPolicy(frozen(probs), words, episodes.labels)

    def _words(self, episodes: Episodes, name: str) -> Vocabulary:
        """The vocabulary of the columns; those of a classifier are its classes."""
        labels: Any = self.actions
        if labels is None and is_classifier(self.predict):
            if not hasattr(self.predict, "classes_"):
                raise OptionError(
                    f"{name}: the classifier {_called(self.predict)} is not fitted: it has no classes_. Fit it first. "
                    "If it never has any, name its actions: so.FeaturePolicy(model, actions=[...])."
                )
            labels = self.predict.classes_
        if labels is None:
            return episodes.actions
        whose = "classes_" if self.actions is None else "actions"
        try:
            given = np.asarray(labels).tolist() if isinstance(labels, np.ndarray) else list(labels)
            whole = [int(x) if isinstance(x, bool | float) and float(x).is_integer() else x for x in given]
            words = Vocabulary(pa.array(whole), from_text=episodes.actions.from_text)
            if not (pa.types.is_integer(words.words.type) or pa.types.is_string(words.words.type)):
                raise TypeError
        except (pa.ArrowException, TypeError, ValueError):
            raise OptionError(
                f"{name}: the {whose} of {_called(self.predict)} are no labels of actions, which are integers or "
                f"strings: {str(labels)[:60]}. The logs have the actions {_listed(episodes.actions)}."
            ) from None
        if len(set(whole)) < len(whole):
            raise OptionError(f"{name}: the {whose} of {_called(self.predict)} name an action twice: {_listed(words)}.")
        if not words.comparable(episodes.actions) or not (words.positions_of(episodes.actions) != ABSENT).any():
            raise OptionError(
                f"{name}: the {whose} of {_called(self.predict)} are {_listed(words)}, and the logs have the actions "
                f"{_listed(episodes.actions)}. Use the same labels in both."
            )
        return words

    def _called(self, given: Any, n_rows: int, words: Vocabulary, name: str) -> Floats:
        """Probabilities in some rows, by their features."""
        what, order = _called(self.predict), f"one column for each action ({_listed(words)})"
        call: Callable[[Any], Any] = self.predict.predict_proba if is_classifier(self.predict) else self.predict
        try:
            returned = call(given)
        except SemiopeError:
            raise
        except Exception as error:
            raise OptionError(
                f"{name}: {what} failed on features of shape {np.shape(given)}: {type(error).__name__}: "
                f"{' '.join(str(error).split())[:300]}"
            ) from error
        if hasattr(returned, "columns"):
            raise OptionError(
                f"{name}: {what} returned a {type(returned).__name__}. Return an array (its to_numpy()), {order}."
            )
        try:
            found = as_floats(returned, name)
        except SchemaError:
            raise OptionError(
                f"{name}: {what} returned a {type(returned).__name__}, not an array of numbers. Return probabilities, "
                f"{order}."
            ) from None
        if found.shape != (n_rows, len(words)):
            raise OptionError(
                f"{name}: {what} returned an array of shape {found.shape} for {n_rows:,} rows. Return shape "
                f"{(n_rows, len(words))}: {order}."
            )
        return found

    def __repr__(self) -> str:
        known = "" if self.actions is None else f", {len(self.actions)} actions"
        return f"FeaturePolicy({_called(self.predict)}{known})"


def is_classifier(given: Any) -> bool:
    """Whether this is a classifier: an object, not a class, with `predict_proba`."""
    return hasattr(given, "predict_proba") and not isinstance(given, type)


class _Inputs:
    """What a policy is asked with: the matrix of features, or a data frame for what was fitted to one."""

    def __init__(self, predict: Any, episodes: Episodes, name: str) -> None:
        what = _called(predict)
        if episodes.features is None:
            raise OptionError(
                f"{name}: {what} is a function of features, and the episodes have none. Name them: "
                "so.read_episodes(..., features=[...]) (--features)."
            )
        self.features = episodes.features
        self.columns: list[str] = []
        self.table: pa.Table | None = None
        known = getattr(predict, "feature_names_in_", None) if is_classifier(predict) else None
        wanted, n = getattr(predict, "n_features_in_", None), len(self.features)
        if known is not None:
            self.columns = [str(column) for column in known]
            self.table = self._table(episodes, what, name)
        elif wanted is not None and wanted != n:
            raise OptionError(
                f"{name}: {what} was fitted to {wanted} features, and the episodes have {n}: "
                f"{', '.join(self.features.names)}. Name the same features, in the same order."
            )

    def at(self, rows: Integers) -> Any:
        """Return the features of these rows."""
        return self.features.matrix[rows] if self.table is None else take_rows(self.table, rows).to_pandas()

    def _table(self, episodes: Episodes, what: str, name: str) -> pa.Table:
        """The columns that a classifier was fitted to: those of the table read, else those of the matrix."""
        need("pandas", "pandas", "A classifier that was fitted to a data frame")
        table = episodes.to_arrow()
        encoded = dict(zip(self.features.names, self.features.matrix.T, strict=True))
        lacking = [column for column in self.columns if column not in table.column_names and column not in encoded]
        if lacking:
            known = [*dict.fromkeys([*self.features.columns, *self.features.names])]
            raise OptionError(
                f"{name}: {what} was fitted to columns that the episodes do not have: "
                f"{', '.join(repr(column) for column in lacking[:SHOWN])}.{nearest(lacking[0], known)} The features "
                f"are {', '.join(known)}."
            )
        raw = all(column in table.column_names for column in self.columns)
        columns = {
            column: table.column(column) if raw or column not in encoded else pa.array(encoded[column])
            for column in self.columns
        }
        return pa.table(columns)


def _check(probs: Floats, decided: Booleans, rows: Integers, episodes: Episodes, name: str) -> None:
    """Fail where these are no probabilities of decisions."""
    with np.errstate(invalid="ignore"):
        sums = probs.sum(axis=1)
        checks = {
            "is not a finite number": ~np.isfinite(sums),
            "is below 0 or above 1 (are these logits?)": ((probs < 0) | (probs > 1 + SUM_TOLERANCE)).any(axis=1),
            "do not sum to 1": ~(np.abs(sums - 1) <= SUM_TOLERANCE),
        }
    for what, found in checks.items():
        wrong = np.flatnonzero(found & decided)
        if len(wrong):
            subject = "probabilities" if what.startswith("do") else "a probability"
            shown = "; ".join(
                f"{episodes.describe_row(int(rows[i]))}: {_rounded(probs[i])}" for i in wrong[:SHOWN].tolist()
            )
            raise SchemaError(
                f"{name}: {subject} {what} at {count(len(wrong), 'decision')}. First: {shown}. Give the probability of "
                "each action; they sum to 1."
            )


def _rounded(probs: Floats) -> str:
    shown = ", ".join(f"{p:.4g}" for p in probs[:6])
    return f"[{shown}, ...]" if len(probs) > 6 else f"[{shown}]"


def _listed(words: Vocabulary) -> str:
    labels = words.words.to_pylist()
    return ", ".join(repr(label) for label in labels[:8]) + (", ..." if len(labels) > 8 else "")


def _called(predict: Any) -> str:
    return str(getattr(predict, "__name__", type(predict).__name__))
