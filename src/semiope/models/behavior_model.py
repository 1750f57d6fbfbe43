"""The behavior policy fitted to features: a classifier of the action taken, cross-fitted by episode and calibrated.

Each episode's probabilities come from a classifier that saw other episodes only. They are calibrated by one number: p
becomes proportional to p^s, with the s that makes the actions of other folds most likely (temperature scaling; Guo et
al., 2017). Before and after, each p leans on all actions alike as on one decision more: n decisions of other folds give
(n p + 1 / n_actions) / (n + 1), so that no action that was ever taken has probability 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from semiope._arrays import Floats, Integers, frozen
from semiope._extras import need
from semiope._options import check_count
from semiope.data.episodes import Episodes, read_episodes
from semiope.data.labels import ABSENT
from semiope.errors import OptionError, SupportError, count, nearest
from semiope.models.folds import FOLDS, deal
from semiope.policies.array import ArrayPolicy, is_classifier

CLASSIFIERS = ("logistic", "boosting")
# Exponents between these are tried in calibration.
SOFTEST, SHARPEST = 0.02, 50.0
BINS = 10


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
    x, rows = inputs_of(episodes), np.flatnonzero(episodes.action != ABSENT)
    folds = _folds(episodes, check_count(folds, "folds", least=2))
    if not len(rows):
        raise OptionError("behavior: there is no decision in the episodes.")
    action, fold = episodes.action[rows].astype(np.int64), deal(episodes.n_episodes, folds)
    fold = np.repeat(fold, episodes.lengths)[rows]
    n_actions = len(episodes.actions)
    train = len(rows) - np.bincount(fold, minlength=folds)[fold]
    raw = np.zeros((len(rows), n_actions))
    for k in np.unique(fold):
        own = fold == k
        raw[own] = _predicted(maker, x[rows], action, own, n_actions)
    found, exponents = _calibrated(_leaning(raw, train), action, fold, folds)
    probs = np.zeros((episodes.n_steps, n_actions))
    probs[rows] = _leaning(found, train)
    policy = ArrayPolicy(frozen(probs), episodes.actions, episodes.labels)
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


def _leaning(probs: Floats, n: Integers) -> Floats:
    """Probabilities in rows with n decisions to learn from, with one more in which all actions were alike."""
    found: Floats = (probs * n[:, None] + 1 / probs.shape[1]) / (n[:, None] + 1)
    return found


def read_classifier(given: Any) -> Any:
    """A classifier to be fitted, by its name or as it is."""
    if isinstance(given, str):
        if given not in CLASSIFIERS:
            known = ("count", *CLASSIFIERS)
            raise OptionError(
                f"behavior: {given!r} is not known.{nearest(given, known)} Use 'count', 'logistic', 'boosting', a "
                "classifier of scikit-learn, or a policy."
            )
        if given == "boosting":
            ensemble = need("sklearn.ensemble", "models", "A fitted behavior policy")
            return ensemble.HistGradientBoostingClassifier(random_state=0)
        linear = need("sklearn.linear_model", "models", "A fitted behavior policy")
        scaled = need("sklearn.preprocessing", "models", "A fitted behavior policy").StandardScaler()
        pipeline = need("sklearn.pipeline", "models", "A fitted behavior policy")
        return pipeline.make_pipeline(scaled, linear.LogisticRegression(max_iter=1000))
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


def inputs_of(episodes: Episodes) -> Floats:
    """Features of each row, and the step if there are several."""
    if episodes.features is None:
        raise OptionError(
            "behavior: a fitted behavior policy needs features. Name them: so.read_episodes(..., features=[...]) "
            "(--features)."
        )
    x = episodes.features.matrix
    return np.column_stack([x, episodes.step]) if episodes.step.any() else x


def _predicted(maker: Any, x: Floats, action: Integers, own: Any, n_actions: int) -> Floats:
    """Probabilities in the rows of one fold by a classifier fitted to the others."""
    found = np.zeros((int(own.sum()), n_actions))
    train = action[~own]
    if len(np.unique(train)) < 2:  # nothing to tell apart
        found[:, train[:1] if len(train) else slice(None)] = 1.0 if len(train) else 1.0 / n_actions
        return found
    clone = need("sklearn.base", "models", "A fitted behavior policy").clone
    try:
        fitted = clone(maker).fit(x[~own], train)
        predicted = np.asarray(fitted.predict_proba(x[own]), dtype=np.float64)
        found[:, np.asarray(fitted.classes_, dtype=np.int64)] = predicted
    except Exception as error:
        raise OptionError(
            f"behavior: the classifier {type(maker).__name__} failed: {type(error).__name__}: "
            f"{' '.join(str(error).split())[:300]}"
        ) from error
    if not np.isfinite(found).all() or (found < 0).any() or (np.abs(found.sum(axis=1) - 1) > 1e-4).any():
        raise OptionError(
            f"behavior: the classifier {type(maker).__name__} predicts no probabilities. Use another one."
        )
    return found


def _calibrated(probs: Floats, action: Integers, fold: Integers, folds: int) -> tuple[Floats, Floats]:
    """Probabilities to the power at which actions of the other folds are most likely, one power a fold."""
    from scipy.optimize import minimize_scalar

    logs = np.log(probs)
    exponents = np.ones(folds)
    found = np.empty_like(probs)
    for k in range(len(exponents)):
        others = fold != k
        own, rows = action[others], logs[others]
        if others.any():

            def loss(log_power: float, own: Integers = own, rows: Floats = rows) -> float:
                scaled = np.exp(log_power) * rows
                top = scaled.max(axis=1)
                total = top + np.log(np.exp(scaled - top[:, None]).sum(axis=1))
                return float(np.mean(total - scaled[np.arange(len(own)), own]))

            bounds = float(np.log(SOFTEST)), float(np.log(SHARPEST))
            best = minimize_scalar(loss, bounds=bounds, method="bounded")
            exponents[k] = float(np.exp(best.x))
        scaled = exponents[k] * logs[~others]
        powers = np.exp(scaled - scaled.max(axis=1, keepdims=True))
        found[~others] = powers / powers.sum(axis=1, keepdims=True)
    return found, exponents


def _shares(episodes: Episodes) -> Floats:
    """The share of each action in all decisions."""
    action = episodes.action[episodes.action != ABSENT]
    found: Floats = np.bincount(action, minlength=len(episodes.actions)) / max(len(action), 1)
    return found
