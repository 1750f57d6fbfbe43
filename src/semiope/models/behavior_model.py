"""The behavior policy fitted to features: a classifier of the action taken, cross-fitted by episode and calibrated.

Each episode's probabilities come from a classifier that saw other episodes only. They are calibrated by one number: p
becomes proportional to p^s, with the s that makes the actions of other folds most likely (temperature scaling; Guo et
al., 2017). That s must not depend on the episode either: it is found on other folds, each predicted by a classifier
that saw neither it nor the fold that is calibrated. Before and after, each p leans on all actions alike as on one
decision more: n decisions of other folds give (n p + 1 / n_actions) / (n + 1), so that no action that was ever taken
has probability 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from semiope._arrays import Floats, Integers, frozen, id_dtype
from semiope._compiled import compiled
from semiope._extras import need
from semiope._options import check_count
from semiope.data.episodes import Episodes, read_episodes
from semiope.data.labels import ABSENT
from semiope.errors import OptionError, SupportError, count, nearest
from semiope.models.folds import FOLDS, deal
from semiope.models.logistic import Logistic, fit_logistic
from semiope.policies.array import ArrayPolicy, is_classifier
from semiope.policies.policy import SUM_TOLERANCE

CLASSIFIERS = ("logistic", "boosting")
# Boosting of large trees is too sure of itself where decisions are a few thousand.
SMALL_TREES = {"max_iter": 50, "max_leaf_nodes": 8}
# Exponents between these are tried in calibration.
SOFTEST, SHARPEST = 0.02, 50.0
BINS = 10
# Up to so many decisions, a fold is calibrated on all others; beyond, on two of them, which tell enough.
CALIBRATED_ON_ALL = 50_000
# Decisions that are predicted at a time.
ROWS_AT_ONCE = 1 << 14
# Up to so many numbers, one thread is faster than several that wait for each other.
ONE_THREAD = 5_000_000


class Reliability(NamedTuple):
    """Predicted and observed shares of actions, in bins of what was predicted; `n` is how many entries a bin has."""

    predicted: Floats
    observed: Floats
    n: Integers


@dataclass(frozen=True, eq=False)
class FittedBehavior:
    """A behavior policy fitted to logs.

    `policy` holds the probability of every action in every row, each by a classifier that did not see its episode.
    `exponents` are those of the calibration, one a fold: below 1, the classifier was too sure of itself.
    """

    policy: ArrayPolicy
    episodes: Episodes
    name: str
    folds: int
    exponents: Floats

    @property
    def probs(self) -> Floats:
        """The probability of every action in every row, (n_rows, n_actions), sorted by episode and step.

        To `so.evaluate`, give `policy` or this object: an array goes by the rows of the table that was read.
        """
        return self.policy.probs

    @cached_property
    def log_loss(self) -> float:
        """The mean of -log of the probability of the action taken."""
        rows = np.flatnonzero(self.episodes.action != ABSENT)
        return float(-np.mean(np.log(self.probs[rows, self.episodes.action[rows]])))

    @cached_property
    def log_loss_of_shares(self) -> float:
        """The same if every row had the overall share of each action."""
        share = _shares(self.episodes)
        return float(-np.sum(share * np.log(np.where(share > 0, share, 1.0))))

    @cached_property
    def reliability(self) -> Reliability:
        """How often actions were taken where they were said to be this likely, in bins of equal numbers."""
        rows = np.flatnonzero(self.episodes.action != ABSENT)
        predicted = self.probs[rows].ravel()
        observed = np.zeros((len(rows), self.probs.shape[1]))
        observed[np.arange(len(rows)), self.episodes.action[rows]] = 1.0
        parts = np.array_split(np.argsort(predicted, kind="stable"), BINS)
        parts = [part for part in parts if len(part)]
        return Reliability(
            np.array([predicted[part].mean() for part in parts]),
            np.array([observed.ravel()[part].mean() for part in parts]),
            np.array([len(part) for part in parts]),
        )

    def __repr__(self) -> str:
        gain = 1 - self.log_loss / self.log_loss_of_shares if self.log_loss_of_shares > 0 else 0.0
        return f"FittedBehavior({self.name}, {self.folds} folds, log loss {self.log_loss:.4f}, {gain:.0%} below shares)"


def fit_behavior(
    episodes: Any, classifier: Any = "logistic", *, features: Any = None, folds: int = FOLDS
) -> FittedBehavior:
    """Fit the behavior policy to features of the state and the step, cross-fitted by episode and calibrated.

    Parameters
    ----------
    episodes
        As made by `read_episodes(..., features=[...])`.
    classifier
        "logistic", "boosting", or a scikit-learn classifier that is not fitted yet.
    features
        Names of columns, if the episodes were read without.
    folds
        Into how many parts episodes are dealt.

    Returns
    -------
    FittedBehavior
        Its `policy` can be given to `so.evaluate` as `behavior`; `log_loss` and `reliability` say how good it is.
    """
    episodes = episodes if isinstance(episodes, Episodes) else read_episodes(episodes, features=features)
    episodes = episodes if features is None else episodes.with_features(features)
    maker = read_classifier(classifier)
    _refuse_without_features(episodes)
    folds = _folds(episodes, check_count(folds, "folds", least=2))
    if (episodes.action == ABSENT).all():
        raise OptionError("behavior: there is no decision in the episodes.")
    fold = deal(episodes.n_episodes, folds).astype(id_dtype(folds))
    logs = _Logs(maker, episodes, np.repeat(fold, episodes.lengths))
    with _threads(maker, episodes):
        exponents = logs.exponents(folds)
        others = ([other for other in range(folds) if other != k] for k in range(folds))
        found = _Calibrated(logs, [logs.fitted(seen) for seen in others], exponents)
        # What is quickly worked out again takes no memory; any other classifier predicts once.
        probs = found if maker == "logistic" else frozen(found.at(np.arange(episodes.n_steps)))
    policy = ArrayPolicy(probs, episodes.actions, episodes.labels)
    return FittedBehavior(policy, episodes, called(classifier), folds, exponents)


def _folds(episodes: Episodes, asked: int) -> int:
    """How many folds there are: those asked for; in a resample, which leaves episodes out, perhaps fewer."""
    n = episodes.n_episodes
    if n < (2 if episodes.is_resample else asked):
        raise SupportError(
            f"behavior: {count(n, 'episode')} cannot be dealt into {asked} folds, and a fitted behavior policy must "
            "not see the episodes it is used for. Give more episodes, the behavior policy, or a column behavior_prob"
            + ("." if n < 2 else "; or fewer folds: so.fit_behavior(..., folds=2).")
        )
    return min(n, asked)


def _threads(maker: Any, episodes: Episodes) -> AbstractContextManager[Any]:
    """Hold classifiers to one thread where more would only wait for each other."""
    assert episodes.features is not None
    if maker != "logistic" and episodes.features.matrix.size > ONE_THREAD:
        return nullcontext()
    limits = need("threadpoolctl", "models", "A fitted behavior policy").threadpool_limits(1)
    found: AbstractContextManager[Any] = limits
    return found


def read_classifier(given: Any) -> Any:
    """A classifier to be fitted, by its name or as it is; "logistic" stays a name (`logistic.py`)."""
    if isinstance(given, str):
        if given not in CLASSIFIERS:
            known = ("count", *CLASSIFIERS)
            raise OptionError(
                f"behavior: {given!r} is not known.{nearest(given, known)} Use 'count', 'logistic', 'boosting', a "
                "classifier of scikit-learn, or a policy."
            )
        if given == "boosting":
            ensemble = need("sklearn.ensemble", "models", "A fitted behavior policy")
            return ensemble.HistGradientBoostingClassifier(**SMALL_TREES, early_stopping=False, random_state=0)
        return given
    need("sklearn.base", "models", "A fitted behavior policy")
    if isinstance(given, type):
        raise OptionError(f"behavior: {given.__name__} is a class. Give an object of it: {given.__name__}().")
    if not is_classifier(given):
        raise OptionError(
            f"behavior: a {type(given).__name__} gives no probabilities (predict_proba). Use another one."
        )
    if not is_unfitted(given):
        raise OptionError(
            f"behavior: the {type(given).__name__} is fitted already. Give one that is not (sklearn.base.clone), or "
            "give it to so.evaluate as the behavior policy."
        )
    return given


def is_unfitted(given: Any) -> bool:
    """Whether this is a classifier that is still to be fitted."""
    return is_classifier(given) and hasattr(given, "fit") and not hasattr(given, "classes_")


def called(classifier: Any) -> str:
    """A classifier in a word."""
    return classifier if isinstance(classifier, str) else type(classifier).__name__


def _refuse_without_features(episodes: Episodes) -> None:
    if episodes.features is None:
        raise OptionError(
            "behavior: a fitted behavior policy needs features. Name them: so.read_episodes(..., features=[...]) "
            "(--features)."
        )


class _Fitted(NamedTuple):
    """A classifier, or the only action there was, and how many decisions it was fitted to."""

    classifier: Any
    n: int


class _Logs(NamedTuple):
    """Decisions, the fold of each row, and what is to be fitted to them."""

    maker: Any
    episodes: Episodes
    fold: Integers

    def rows(self, folds: Sequence[int]) -> Integers:
        """Rows with a decision in these folds."""
        return np.flatnonzero(np.isin(self.fold, folds) & (self.episodes.action != ABSENT))

    def inputs(self, rows: Integers) -> Floats:
        """Features of these rows, and the step if there are several."""
        features = self.episodes.features
        assert features is not None
        found = np.empty((len(rows), len(features) + int(self.episodes.lengths.max() > 1)))
        _read(features.matrix, self.episodes.step, rows, found)
        return found

    def fitted(self, folds: Sequence[int]) -> _Fitted:
        """A classifier fitted to these folds."""
        rows = self.rows(folds)
        action = self.episodes.action[rows].astype(np.int64)
        if not len(action) or action.min() == action.max():  # nothing to tell apart
            return _Fitted(int(action.max(initial=0)), len(action))
        if self.maker == "logistic":
            return _Fitted(fit_logistic(self.inputs, rows, action), len(action))
        clone = need("sklearn.base", "models", "A fitted behavior policy").clone
        try:
            return _Fitted(clone(self.maker).fit(self.inputs(rows), action), len(action))
        except Exception as error:
            raise self._failed(error) from error

    def predicted(self, by: _Fitted, rows: Integers) -> Floats:
        """Probabilities in these rows."""
        found = np.zeros((len(rows), len(self.episodes.actions)))
        if isinstance(by.classifier, int):
            found[:, by.classifier] = 1.0
        elif isinstance(by.classifier, Logistic):
            found[:, by.classifier.classes] = by.classifier.predict(self.inputs(rows))
        else:
            try:
                predicted = np.asarray(by.classifier.predict_proba(self.inputs(rows)), dtype=np.float64)
                found[:, np.asarray(by.classifier.classes_, dtype=np.int64)] = predicted
            except Exception as error:
                raise self._failed(error) from error
        sums = found.sum(axis=1)
        if not np.isfinite(sums).all() or (found < 0).any() or (np.abs(sums - 1) > SUM_TOLERANCE).any():
            raise OptionError(
                f"behavior: the classifier {type(self.maker).__name__} predicts no probabilities. Use another one."
            )
        return _leaning(found, by.n)

    def exponents(self, folds: int) -> Floats:
        """The power of each fold at which actions of other folds are most likely; 1 if there are but two folds.

        One classifier for each pair of folds sees neither of them. It predicts each for the other.
        """
        found = np.ones(folds)
        if folds < 3:
            return found
        known: list[list[tuple[Floats, Floats]]] = [[] for _ in range(folds)]
        pairs = list(combinations(range(folds), 2))
        if np.count_nonzero(self.episodes.action != ABSENT) > CALIBRATED_ON_ALL:
            pairs = [(k, (k + 1) % folds) for k in range(folds)]
        left = [sum(k in pair for pair in pairs) for k in range(folds)]
        for pair in pairs:
            fitted = self.fitted([k for k in range(folds) if k not in pair])
            for own, other in (pair, pair[::-1]):
                for rows in _parts(self.rows([other])):
                    probs = self.predicted(fitted, rows)
                    logs = np.ascontiguousarray(np.log(probs / probs.max(axis=1, keepdims=True)).T)
                    known[own].append((logs, logs[self.episodes.action[rows], np.arange(len(rows))]))
                left[own] -= 1
                if not left[own]:
                    found[own] = _exponent(known[own]) if known[own] else 1.0
                    known[own].clear()
        return found

    def _failed(self, error: Exception) -> OptionError:
        return OptionError(
            f"behavior: the classifier {type(self.maker).__name__} failed: {type(error).__name__}: "
            f"{' '.join(str(error).split())[:300]}"
        )


@dataclass(frozen=True, eq=False)
class _Calibrated:
    """Probabilities in rows of each fold by the classifier of the others, calibrated."""

    logs: _Logs
    fitted: Sequence[_Fitted]
    exponents: Floats

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of actions."""
        return self.logs.episodes.n_steps, len(self.logs.episodes.actions)

    def at(self, rows: Integers) -> Floats:
        """The probability of every action in these rows; 0 where there was no decision."""
        found = np.zeros((len(rows), self.shape[1]))
        decided, fold = self.logs.episodes.action[rows] != ABSENT, self.logs.fold[rows]
        for k, by in enumerate(self.fitted):
            for part in _parts(np.flatnonzero(decided & (fold == k))):
                logs = np.log(self.logs.predicted(by, rows[part]))
                found[part] = _leaning(_powers(logs, self.exponents[k]), by.n)
        return found


@compiled
def _read(features: Floats, step: Integers, rows: Integers, found: Floats) -> None:
    """Fill in features of these rows, and the step if there is a column left for it."""
    n = features.shape[1]
    for i in range(len(rows)):
        for k in range(n):
            found[i, k] = features[rows[i], k]
        if found.shape[1] > n:
            found[i, n] = step[rows[i]]


def _parts(rows: Integers) -> Iterator[Integers]:
    """Some of the rows at a time."""
    for first in range(0, len(rows), ROWS_AT_ONCE):
        yield rows[first : first + ROWS_AT_ONCE]


def _leaning(probs: Floats, n: int) -> Floats:
    """Probabilities learned from n decisions, with one more in which all actions were alike."""
    found: Floats = (probs * n + 1 / probs.shape[1]) / (n + 1)
    return found


def _exponent(known: Sequence[tuple[Floats, Floats]]) -> float:
    """The power of probabilities at which the actions taken are most likely.

    Of each part: logarithms of probabilities beside the largest, (n_actions, n), and those of the actions taken.
    """
    from scipy.optimize import minimize_scalar

    n = sum(len(taken) for _, taken in known)

    def loss(log_power: float) -> float:
        power = float(np.exp(log_power))
        total = sum(
            float(np.sum(np.log(np.exp(power * logs).sum(axis=0)))) - power * float(taken.sum())
            for logs, taken in known
        )  # fmt: skip
        return total / n

    bounds = float(np.log(SOFTEST)), float(np.log(SHARPEST))
    return float(np.exp(minimize_scalar(loss, bounds=bounds, method="bounded").x))


def _powers(logs: Floats, exponent: float) -> Floats:
    """Probabilities to a power, summing to 1."""
    scaled = exponent * logs
    powers = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    found: Floats = powers / powers.sum(axis=1, keepdims=True)
    return found


def _shares(episodes: Episodes) -> Floats:
    """The share of each action in all decisions."""
    action = episodes.action[episodes.action != ABSENT]
    found: Floats = np.bincount(action, minlength=len(episodes.actions)) / max(len(action), 1)
    return found
