"""Q-hat for states that are features: a linear model in a rich basis, with variance components.

Without annotations it is fitted Q evaluation (Le, Voloshin and Yue, 2019): Q is regressed on r + gamma V of the next
decision, as often as the longest episode has decisions, so that each round looks a step further ahead. The basis is
fixed (`basis.py`), so that one pass over the rows gives all that rounds need: with columns X of what was done and X' of
what the policy does next, the matrices X'X, X'X' and products with rewards; nothing of the size of the rows is kept.

Annotations add a regression of what they say beyond that, in the same basis, with an offset of each annotator and a
noise of each one's own. Variances of all blocks of terms, of offsets and of noise are those that make the data most
likely (`variance_components.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from semiope._arrays import Floats, Integers
from semiope.data.episodes import Episodes
from semiope.data.labels import ABSENT
from semiope.errors import OptionError
from semiope.models.basis import Basis
from semiope.models.folds import FOLDS, deal, refuse_alone
from semiope.models.study import Corrected, Study, following
from semiope.models.variance_components import Posterior, fit, solve
from semiope.policies.policy import AnyPolicy

ROWS_AT_ONCE = 1 << 12
# Rows from which means, standard deviations and quantiles of terms are taken, about.
MOST_LOOKED_AT = 20_000
# Rounds in which the noise of each annotator is found; rounds for variances of blocks in the first, and in each other.
ROUNDS, FIRST, FURTHER = 8, 12, 3
SETTLED = 1e-6


# Of what was found: the discount factor, the number of actions, and whether episodes are in folds.
Key = tuple[float, int, bool]


class Sums(NamedTuple):
    """Over the decisions of a fold: products of columns X, of X' of the next decision times gamma, and of rewards r."""

    n: Floats
    xx: Floats
    xn: Floats
    nn: Floats
    xr: Floats
    nr: Floats
    rr: Floats

    def without(self, fold: int) -> Sums:
        """Sums over all folds but one."""
        return Sums._make(np.delete(total, fold, axis=0).sum(axis=0) if len(total) > 1 else total[0] for total in self)


class _Known(NamedTuple):
    """What was found for a policy in these episodes: the basis, the sums of each fold, and weights by fold."""

    episodes: Episodes
    basis: Basis
    sums: Sums
    weights: dict[int, Floats]


@dataclass(frozen=True, eq=False)
class FeatureModel:
    """Q-hat by regression on features, the step and the action.

    `rounds` is how many rewards ahead it looks; None: to the end of the longest episode.
    """

    folds: int | None = FOLDS
    rounds: int | None = None
    _found: WeakKeyDictionary[AnyPolicy, dict[Key, _Known]] = field(default_factory=WeakKeyDictionary)

    @property
    def told(self) -> str:
        """The model in a few words."""
        return f"regression on features with variance components, {self.folds} folds"

    def fit(self, study: Study, fold: int) -> Floats:
        """Predict Q-hat of every action from the rows of other folds, in rows of the fold and rows with annotations."""
        if study.fold is not None:
            refuse_alone(study.episodes.n_episodes)
        known = self._known(study)
        rounds = int(study.decisions.episodes.lengths.max()) if self.rounds is None else self.rounds
        if fold not in known.weights:
            known.weights[fold] = _evaluated(known, fold, rounds)
        return _predicted(study, fold, known.basis, known.weights[fold])

    def corrected(self, study: Study, fold: int, returns: Floats) -> Corrected:
        """Add a regression of what annotations in other folds say beyond the returns predicted."""
        aligned, n = study.logbook.annotations, study.n_annotators
        responses = aligned.responses
        train = study.train(fold)[aligned.row[responses.place]]
        place = responses.place[train]
        row, action, value = aligned.row[place], aligned.action[place], responses.value[train]
        if not len(row):
            return Corrected(returns, np.zeros(n), np.ones(n + 1))
        basis = self._known(study).basis
        x = basis.taken(basis.of(inputs_at(study, row)), action)
        beyond = value - returns[row, action]
        found = _annotated(x, beyond, basis.blocks, study.annotator_of[train], study.noise_scale[train], n)
        weights = found.posterior.mean[: basis.n_columns]
        changed = _predicted(study, fold, basis, weights, returns)
        first = study.decisions.row[study.decisions.episodes.offsets[:-1]]
        first = first if study.fold is None else first[~study.train(fold)[first]]
        at_start = basis.mixed(basis.of(inputs_at(study, first)), study.probs[first]).mean(axis=0)
        own = found.posterior.covariance[: basis.n_columns, : basis.n_columns]
        std = math.sqrt(max(float(at_start @ own @ at_start), 0.0)) if len(first) else math.nan
        return Corrected(changed, found.offsets, found.noise, found.between, std)

    def _known(self, study: Study) -> _Known:
        """What does not depend on annotations: found once for a policy, whatever annotations come with it."""
        found, n_actions = self._found.setdefault(study.policy, {}), study.probs.shape[1]
        key = study.gamma, n_actions, study.fold is not None
        if key not in found or found[key].episodes is not study.episodes:
            basis = _basis(study, study.decisions.row)
            found[key] = _Known(study.episodes, basis, _sums(study, basis), {})
        return found[key]


def explained(study: Study, row: Integers, left: Floats) -> float:
    """How well features predict what a model leaves in these rows, in standard errors over episodes; 0 if not at all.

    A regression on features and the action taken, cross-fitted by episode; each prediction is multiplied by what it
    predicts. Where features tell nothing beyond the model, the mean of that is 0 or less.
    """
    basis, action = _basis(study, row), study.episodes.action[row]
    fold = deal(study.episodes.n_episodes)[study.episodes.episode_of(row)]
    unit = max(float(np.abs(left).max(initial=0.0)), 1e-150)
    y, products = left / unit, np.zeros(len(row))
    d, n_folds = basis.n_columns, int(fold.max(initial=0)) + 1
    grams, crosses, squares = np.zeros((n_folds, d, d)), np.zeros((n_folds, d)), np.zeros(n_folds)
    for k, part in _parts(fold, n_folds):
        x = basis.taken(basis.of(inputs_at(study, row[part])), action[part])
        grams[k] += x.T @ x
        crosses[k] += x.T @ y[part]
        squares[k] += y[part] @ y[part]
    times = np.bincount(fold, minlength=n_folds)
    weights = []
    for k in range(n_folds):
        gram, cross = (np.delete(one, k, axis=0).sum(axis=0) for one in (grams, crosses))
        square, n = float(squares.sum() - squares[k]), float(len(y) - times[k])
        weights.append(fit(gram, cross, square, n, basis.blocks).mean)
    for k, part in _parts(fold, n_folds):
        x = basis.taken(basis.of(inputs_at(study, row[part])), action[part])
        products[part] = (x @ weights[k]) * y[part]
    sums = np.bincount(study.episodes.episode_of(row), weights=products, minlength=study.episodes.n_episodes)
    size = float(np.linalg.norm(sums - sums.mean()))
    return max(float(sums.sum()) / size, 0.0) if size > 0 else 0.0


def inputs_at(study: Study, rows: Integers) -> Floats:
    """Features of these rows, and the step if there are several."""
    features, step = study.episodes.features, study.episodes.step
    if features is None:
        raise OptionError("model: there are no features. Name them: so.read_episodes(..., features=[...]).")
    x = features.matrix[rows]
    return np.column_stack([x, step[rows]]) if _timed(study) else x


def _basis(study: Study, rows: Integers) -> Basis:
    """Terms for functions of the features of these rows."""
    some = rows[:: max(len(rows) // MOST_LOOKED_AT, 1)]
    return Basis(inputs_at(study, some), study.probs.shape[1], timed=_timed(study))


def _timed(study: Study) -> bool:
    """Whether episodes have several steps."""
    return int(study.episodes.lengths.max()) > 1


def _sums(study: Study, basis: Basis) -> Sums:
    """One pass over the decisions, fold by fold."""
    decisions = study.decisions
    n_folds = 1 if study.fold is None else int(study.fold.max()) + 1
    d = basis.n_columns
    shapes: list[tuple[int, ...]] = [(), (d, d), (d, d), (d, d), (d,), (d,), ()]
    found = Sums._make(np.zeros((n_folds, *shape)) for shape in shapes)
    nexts, discount = following(study)
    for fold, part in _parts(study.fold_of_row[decisions.row], n_folds):
        rows, reward = decisions.row[part], decisions.episodes.reward[part]
        now = basis.taken(basis.of(inputs_at(study, rows)), decisions.episodes.action[part])
        ahead = np.zeros_like(now)
        goes_on = np.flatnonzero(nexts[part] >= 0)
        after = decisions.row[nexts[part[goes_on]]]
        ahead[goes_on] = discount[part[goes_on], None] * basis.mixed(
            basis.of(inputs_at(study, after)), study.probs[after]
        )
        found.n[fold] += len(part)
        for total, product in (
            (found.xx, now.T @ now), (found.xn, now.T @ ahead), (found.nn, ahead.T @ ahead), (found.xr, now.T @ reward),
            (found.nr, ahead.T @ reward), (found.rr, reward @ reward),
        ):  # fmt: skip
            total[fold] += product
    return found


def _parts(fold: Integers, n_folds: int) -> Iterator[tuple[int, Integers]]:
    """Positions of the decisions of each fold, some at a time."""
    for k in range(n_folds):
        own = np.flatnonzero(fold == k)
        for first in range(0, len(own), ROWS_AT_ONCE):
            yield k, own[first : first + ROWS_AT_ONCE]


def _evaluated(known: _Known, fold: int, rounds: int) -> Floats:
    """Weights of Q-hat after so many rounds of fitted Q evaluation; variances are found anew in rounds 1, 2, 4, 8..."""
    sums, blocks = known.sums.without(fold), known.basis.blocks
    weights = np.zeros(len(blocks))
    n = float(sums.n)
    posterior: Posterior | None = None
    if not n:
        return weights
    for k in range(1, rounds + 1):
        cross = sums.xr + sums.xn @ weights
        before = weights
        if posterior is None or not k & (k - 1) or k == rounds:
            square = float(sums.rr + 2 * sums.nr @ weights + weights @ sums.nn @ weights)
            start = None if posterior is None else (posterior.blocks, posterior.noise)
            posterior = fit(sums.xx, cross, square, n, blocks, start, FIRST if posterior is None else FURTHER)
            weights = posterior.mean
        else:
            weights = solve(sums.xx, cross, blocks, posterior.blocks, posterior.noise)
        if not posterior.noise > 0:
            return weights
        change = weights - before
        if float(change @ sums.xx @ change) <= SETTLED**2 * float(weights @ sums.xx @ weights):
            break
    return weights


class _Annotators(NamedTuple):
    """A regression of annotations, with offsets of annotators, the std of each one's noise, and that of offsets."""

    posterior: Posterior
    offsets: Floats
    noise: Floats
    between: float


def _annotated(x: Floats, y: Floats, blocks: Integers, annotator: Integers, scale: Floats, n: int) -> _Annotators:
    """Regress y on columns x and offsets of n annotators; noise is each annotator's own, times its scale.

    Each annotator's noise leans on that of all as on one annotation more.
    """
    several = n > 1
    who = annotator % (n + 1)
    if several:
        named = np.zeros((len(y), n))
        there = annotator >= 0
        named[np.flatnonzero(there), annotator[there]] = 1.0
        x, blocks = np.hstack([x, named]), np.append(blocks, np.full(n, int(blocks.max()) + 1))
    noise = np.ones(n + 1)
    times = np.bincount(who, minlength=n + 1)
    posterior: Posterior | None = None
    for _ in range(ROUNDS):
        weight = 1 / (noise[who] * scale)
        weighted = x * weight[:, None]
        start = None if posterior is None else (posterior.blocks, posterior.noise)
        square = float(weight @ y**2)
        rounds = FIRST if posterior is None else FURTHER
        posterior = fit(x.T @ weighted, weighted.T @ y, square, float(len(y)), blocks, start, rounds)
        squares = (y - x @ posterior.mean) ** 2 / scale
        overall = float(squares.sum()) / len(y)
        if not several or not overall > 0:
            break
        sums = np.bincount(who, weights=squares, minlength=n + 1)
        after = (sums + overall) / (times + 1)
        # The scale of all together is the regression's own.
        after /= float(np.sum(after * times) / len(y))
        settled = np.abs(after - noise).max() <= 1e-3
        noise = after
        if settled:
            break
    assert posterior is not None
    offsets, between = np.zeros(n), 0.0
    if several:
        offsets = posterior.mean[-n:] - posterior.mean[-n:].mean()
        between = math.sqrt(max(float(posterior.blocks[-1]), 0.0))
    return _Annotators(posterior, offsets, np.sqrt(noise * max(posterior.noise, 0.0)), between)


def _predicted(study: Study, fold: int, basis: Basis, weights: Floats, base: Floats | None = None) -> Floats:
    """The function with these weights, on top of a base, in rows of the fold and rows with annotations; 0 elsewhere.

    Other rows are never looked at: as long as nobody writes to them, they take no memory.
    """
    needed = (study.fold_of_row == fold) & (study.episodes.action != ABSENT)
    needed[study.logbook.annotations.row] = True
    rows, found = np.flatnonzero(needed), np.zeros_like(study.probs)
    for first in range(0, len(rows), ROWS_AT_ONCE):
        part = rows[first : first + ROWS_AT_ONCE]
        found[part] = basis.predicted(basis.of(inputs_at(study, part)), weights)
        if base is not None:
            found[part] += base[part]
    return found
