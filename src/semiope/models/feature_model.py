"""Q-hat for states that are features: a linear model in a rich basis, with variance components.

Without annotations it is fitted Q evaluation (Le, Voloshin and Yue, 2019): Q is regressed on r + gamma V of the next
decision, as often as the longest episode has decisions, so that each round looks a step further ahead. The basis is
fixed (`basis.py`), so that one pass over the rows gives all that rounds need: with columns X of what was done and X' of
what the policy does next, the matrices X'X, X'X' and products with rewards; nothing of the size of the rows is kept.
Predictions are weights: they are worked out where they are needed, some rows at a time.

Annotations add a regression of what they say beyond that, in the same basis, with an offset of each annotator and a
noise of each one's own. Variances of all blocks of terms, of offsets and of noise are those that make the data most
likely (`variance_components.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from semiope._arrays import Floats, Integers
from semiope._random import generator
from semiope.data.episodes import Episodes
from semiope.data.labels import ABSENT
from semiope.errors import OptionError
from semiope.models.basis import Basis
from semiope.models.folds import FOLDS, deal, refuse_alone
from semiope.models.study import Corrected, RowReturns, Study
from semiope.models.variance_components import Posterior, fit, solve
from semiope.policies.policy import AnyPolicy

ROWS_AT_ONCE = 1 << 11
# Rows from which means, standard deviations and quantiles of terms are taken, about.
MOST_LOOKED_AT = 20_000
# Rounds in which the noise of each annotator is found; rounds for variances of blocks in the first, and in each other.
ROUNDS, FIRST, FURTHER = 8, 12, 3
SETTLED = 1e-6
# Annotations of one annotator and fold, beside the number of columns, up to which they are taken as they are.
MOST_PER_COLUMN = 1


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
    """What was found for a policy in these episodes: the basis, weights of each fold, and the range of its returns."""

    episodes: Episodes
    basis: Basis
    weights: list[Floats]
    ranges: list[tuple[float, float]]


@dataclass(frozen=True, eq=False)
class FeatureReturns:
    """Q-hat as weights of a basis, within the range of what returns and annotations of other folds were.

    Where an action was hardly ever taken, a function of features may else run far beyond all returns there are.
    """

    study: Study
    basis: Basis
    weights: Floats
    range: tuple[float, float]

    def at(self, rows: Integers) -> Floats:
        """Q-hat of every action in these rows; 0 where there was no decision."""
        episodes, found = self.study.episodes, np.zeros((len(rows), self.basis.n_actions))
        assert episodes.features is not None
        decided = np.flatnonzero(episodes.action[rows] != ABSENT)
        for first in range(0, len(decided), ROWS_AT_ONCE):
            part = decided[first : first + ROWS_AT_ONCE]
            x, step = episodes.features.matrix[rows[part]], episodes.step[rows[part]]
            found[part] = np.clip(self.basis.predicted(x, step, self._coefficients), *self.range)
        return found

    @cached_property
    def _coefficients(self) -> Floats:
        return self.basis.coefficients(self.weights, int(self.study.episodes.lengths.max()))


class _Responses(NamedTuple):
    """Annotations for a regression: columns x, with one more for each of several annotators, and values y.

    `who` gave them, `scale` is their variance beside that of others. Each row stands for `n` annotations: many of one
    annotator and fold are rotated into as few as there are columns, with the same sums of products.
    """

    x: Floats
    y: Floats
    who: Integers
    scale: Floats
    n: Floats


@dataclass(frozen=True, eq=False)
class FeatureModel:
    """Q-hat by regression on features, the step and the action.

    `rounds` is how many rewards ahead it looks; None: to the end of the longest episode.
    """

    folds: int | None = FOLDS
    rounds: int | None = None
    _found: WeakKeyDictionary[AnyPolicy, dict[Key, _Known]] = field(default_factory=WeakKeyDictionary)
    _responses: WeakKeyDictionary[Study, list[_Responses]] = field(default_factory=WeakKeyDictionary)

    @property
    def told(self) -> str:
        """The model in a few words."""
        return f"regression on features with variance components, {self.folds} folds"

    def fit(self, study: Study, fold: int) -> FeatureReturns:
        """Q-hat of every action by the rows of other folds."""
        if study.fold is not None:
            refuse_alone(study.episodes.n_episodes)
        known = self._known(study)
        return FeatureReturns(study, known.basis, known.weights[fold], known.ranges[fold])

    def corrected(self, study: Study, fold: int, returns: Floats | RowReturns) -> Corrected:
        """Add a regression of what annotations in other folds say beyond the returns predicted."""
        assert isinstance(returns, FeatureReturns)
        basis, n = returns.basis, study.n_annotators
        if study not in self._responses:
            self._responses[study] = _responses(study, basis)
        own = self._responses[study]
        if fold == len(own) - 1:  # the last one to ask
            del self._responses[study]
        parts = own if study.fold is None else [part for k, part in enumerate(own) if k != fold]
        beyond = [part._replace(y=part.y - part.x[:, : basis.n_columns] @ returns.weights) for part in parts]
        if not any(len(part.y) for part in beyond):
            return Corrected(returns, np.zeros(n), np.ones(n + 1))
        found = _annotated(beyond, basis.blocks, n)
        said = _values_of_others(study, fold)
        wider = min(returns.range[0], float(said.min())), max(returns.range[1], float(said.max()))
        changed = FeatureReturns(study, basis, returns.weights + found.posterior.mean[: basis.n_columns], wider)
        at_start = _at_start(study, fold, basis)
        covariance = found.posterior.covariance[: basis.n_columns, : basis.n_columns]
        std = math.nan if at_start is None else math.sqrt(max(float(at_start @ covariance @ at_start), 0.0))
        return Corrected(changed, found.offsets, found.noise, found.between, std)

    def _known(self, study: Study) -> _Known:
        """What does not depend on annotations: found once for a policy, whatever annotations come with it."""
        found, n_actions = self._found.setdefault(study.policy, {}), study.probs.shape[1]
        key = study.gamma, n_actions, study.fold is not None
        if key not in found or found[key].episodes is not study.episodes:
            basis = _basis(study, study.decisions.row)
            rounds = int(study.decisions.episodes.lengths.max()) if self.rounds is None else self.rounds
            sums = _sums(study, basis)
            weights = [_evaluated(sums.without(fold), basis.blocks, rounds) for fold in range(len(sums.n))]
            found[key] = _Known(study.episodes, basis, weights, _ranges(study, len(weights)))
        return found[key]


def _ranges(study: Study, n_folds: int) -> list[tuple[float, float]]:
    """The smallest and the largest return from a decision on, outside each fold."""
    returns, fold = study.episodes.returns_to_go(study.gamma), study.fold_of_row
    decided = study.episodes.action != ABSENT
    lows = [float(returns[decided & (fold == k)].min(initial=math.inf)) for k in range(n_folds)]
    highs = [float(returns[decided & (fold == k)].max(initial=-math.inf)) for k in range(n_folds)]
    others = [[j for j in range(n_folds) if j != k] or [k] for k in range(n_folds)]
    return [(min(lows[j] for j in those), max(highs[j] for j in those)) for those in others]


def _values_of_others(study: Study, fold: int) -> Floats:
    """Annotations that a model for this fold may be fitted to."""
    aligned = study.logbook.annotations
    found: Floats = aligned.responses.value[study.train(fold)[aligned.row[aligned.responses.place]]]
    return found


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
    some = rows
    if len(rows) >= 2 * MOST_LOOKED_AT:
        # Drawn: every so many rows would be the same steps of all episodes, if these are equally long.
        some = rows[np.sort(generator(0).choice(len(rows), MOST_LOOKED_AT, replace=False))]
    return Basis(inputs_at(study, some), study.probs.shape[1], timed=_timed(study))


def _timed(study: Study) -> bool:
    """Whether episodes have several steps."""
    return int(study.episodes.lengths.max()) > 1


def _sums(study: Study, basis: Basis) -> Sums:
    """One pass over the decisions: fold by fold, and by the steps of a decision and of the next one."""
    decisions, step = study.decisions, study.episodes.step
    n_folds = 1 if study.fold is None else int(study.fold.max()) + 1
    d = basis.n_columns
    shapes: list[tuple[int, ...]] = [(), (d, d), (d, d), (d, d), (d,), (d,), ()]
    found = Sums._make(np.zeros((n_folds, *shape)) for shape in shapes)
    goes_on = np.ones(len(decisions.row), dtype=np.bool_)
    goes_on[decisions.episodes.offsets[1:] - 1] = False
    for k in range(n_folds):
        own = np.flatnonzero(study.fold_of_row[decisions.row] == k)
        now, ahead = step[decisions.row[own]], np.full(len(own), -1)
        ahead[goes_on[own]] = step[decisions.row[own[goes_on[own]] + 1]]
        order = np.lexsort((decisions.episodes.action[own], ahead, now))
        starts = np.flatnonzero(np.diff(now[order]) | np.diff(ahead[order])) + 1
        for part in np.split(order, starts) if len(order) else ():
            _add(found, k, study, basis, own[part], int(now[part[0]]), int(ahead[part[0]]))
    return found


def _add(found: Sums, fold: int, study: Study, basis: Basis, own: Integers, step: int, ahead: int) -> None:
    """Add sums over decisions made at one step, sorted by action, the next ones at the step `ahead` (-1: none)."""
    decisions, features = study.decisions, study.episodes.features
    assert features is not None
    n, m, n_actions = basis.n_functions, basis.n_mixed, basis.n_actions
    xx, xr, xn = np.zeros((n_actions, n, n)), np.zeros((n_actions, n)), np.zeros((n_actions, n, m))
    nn, nr = np.zeros((m, m)), np.zeros(m)
    for first in range(0, len(own), ROWS_AT_ONCE):
        part = own[first : first + ROWS_AT_ONCE]
        reward, action = decisions.episodes.reward[part], decisions.episodes.action[part]
        now = basis.of_features(features.matrix[decisions.row[part]])
        found.n[fold] += len(part)
        found.rr[fold] += reward @ reward
        bounds = np.searchsorted(action, np.arange(n_actions + 1))
        taken = [(a, slice(*bounds[a : a + 2])) for a in np.flatnonzero(np.diff(bounds))]
        for a, here in taken:
            xx[a] += now[here].T @ now[here]
            xr[a] += reward[here] @ now[here]
        if ahead >= 0:
            after = decisions.row[part + 1]
            following = basis.mixed_functions(basis.of_features(features.matrix[after]), study.probs[after])
            nn += following.T @ following
            nr += reward @ following
            for a, here in taken:
                xn[a] += now[here].T @ following[here]
    found.xx[fold] += basis.spread(step, basis.spread(step, basis.squared_functions(xx)).T)
    found.xr[fold] += basis.spread(step, basis.taken_functions(xr))
    if ahead >= 0:
        discount = study.gamma ** (ahead - step)
        found.xn[fold] += discount * basis.spread(ahead, basis.spread(step, basis.taken_functions(xn)).T).T
        found.nn[fold] += discount**2 * basis.spread(ahead, basis.spread(ahead, nn).T)
        found.nr[fold] += discount * basis.spread(ahead, nr)


def _parts(fold: Integers, n_folds: int) -> Iterator[tuple[int, Integers]]:
    """Positions of the decisions of each fold, some at a time."""
    for k in range(n_folds):
        own = np.flatnonzero(fold == k)
        for first in range(0, len(own), ROWS_AT_ONCE):
            yield k, own[first : first + ROWS_AT_ONCE]


def _evaluated(sums: Sums, blocks: Integers, rounds: int) -> Floats:
    """Weights of Q-hat after so many rounds of fitted Q evaluation; variances are found anew in rounds 1, 2, 4, 8..."""
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


def _responses(study: Study, basis: Basis) -> list[_Responses]:
    """Annotations for a regression, of each fold."""
    aligned, n = study.logbook.annotations, study.n_annotators
    place = aligned.responses.place
    who, fold = study.annotator_of % (n + 1), study.fold_of_row[aligned.row[place]]
    n_folds = 1 if study.fold is None else int(study.fold.max()) + 1

    def at(part: Integers) -> Floats:
        """Columns and values."""
        x = basis.taken(basis.of(inputs_at(study, aligned.row[place[part]])), aligned.action[place[part]])
        return np.column_stack([x, aligned.responses.value[part]])

    found = []
    for k in range(n_folds):
        parts = []
        for one in range(n + 1):
            own = np.flatnonzero((fold == k) & (who == one))
            if len(own) <= MOST_PER_COLUMN * (basis.n_columns + 1):
                rows, scale = at(own), study.noise_scale[own]
            else:
                rows = np.zeros((0, basis.n_columns + 1))
                for first in range(0, len(own), ROWS_AT_ONCE):
                    part = own[first : first + ROWS_AT_ONCE]
                    more = at(part) / np.sqrt(study.noise_scale[part])[:, None]
                    rows = np.asarray(np.linalg.qr(np.vstack([rows, more]), mode="r"))
                scale = np.ones(len(rows))
            named = np.zeros((len(rows), n if n > 1 else 0))
            if one < named.shape[1]:
                named[:, one] = rows[:, 0]  # as the intercept, whether or not rows were rotated
            times = np.full(len(rows), len(own) / max(len(rows), 1))
            x = np.hstack([rows[:, :-1], named])
            parts.append(_Responses(x, rows[:, -1].copy(), np.full(len(rows), one), scale, times))
        found.append(_Responses._make(np.concatenate(column) for column in zip(*parts, strict=True)))
    return found


def _at_start(study: Study, fold: int, basis: Basis) -> Floats | None:
    """The mean of columns for the policy at the first decisions of a fold; None if there are none."""
    features = study.episodes.features
    assert features is not None
    first = study.decisions.row[study.decisions.episodes.offsets[:-1]]
    first = first if study.fold is None else first[study.fold_of_row[first] == fold]
    step, total = study.episodes.step[first], np.zeros(basis.n_columns)
    for k in np.unique(step):
        here, sums = first[step == k], np.zeros(basis.n_mixed)
        for start in range(0, len(here), ROWS_AT_ONCE):
            rows = here[start : start + ROWS_AT_ONCE]
            sums += basis.mixed_functions(basis.of_features(features.matrix[rows]), study.probs[rows]).sum(axis=0)
        total += basis.spread(float(k), sums)
    return total / len(first) if len(first) else None


def _annotated(parts: Sequence[_Responses], blocks: Integers, n: int) -> _Annotators:
    """Regress y on columns x and offsets of n annotators; noise is each annotator's own, times its scale.

    Each annotator's noise leans on that of all as on one annotation more.
    """
    several = n > 1
    if several:
        blocks = np.append(blocks, np.full(n, int(blocks.max()) + 1))
    noise = np.ones(n + 1)
    times = sum((np.bincount(part.who, weights=part.n, minlength=n + 1) for part in parts), np.zeros(n + 1))
    total = float(times.sum())
    posterior: Posterior | None = None
    there, d = np.flatnonzero(times), len(blocks)
    # Of each annotator, once: sums of products as if the noise were 1.
    grams, crosses, squared = np.zeros((len(there), d, d)), np.zeros((len(there), d)), np.zeros(len(there))
    for k, one in enumerate(there):
        for part in parts:
            own = part.who == one
            weighted = part.x[own] / part.scale[own, None]
            grams[k] += part.x[own].T @ weighted
            crosses[k] += weighted.T @ part.y[own]
            squared[k] += float(np.sum(part.y[own] ** 2 / part.scale[own]))
    for _ in range(ROUNDS):
        weight = 1 / noise[there]
        gram, cross, square = np.tensordot(weight, grams, 1), weight @ crosses, float(weight @ squared)
        start = None if posterior is None else (posterior.blocks, posterior.noise)
        rounds = FIRST if posterior is None else FURTHER
        posterior = fit(gram, cross, square, total, blocks, start, rounds)
        sums = np.zeros(n + 1)
        for part in parts:
            squares = (part.y - part.x @ posterior.mean) ** 2 / part.scale
            sums += np.bincount(part.who, weights=squares, minlength=n + 1)
        overall = float(sums.sum()) / total
        if not several or not overall > 0:
            break
        after = (sums + overall) / (times + 1)
        # The scale of all together is the regression's own.
        after /= float(np.sum(after * times) / total)
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
