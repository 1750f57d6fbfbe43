"""The augmented behavior policy where states are features: Definition 1 row by row.

    pi_b+(a|x) = sum over a' of W(a|x, a') pi_b(a'|x),   W(a|x, a') = E[ w(a) | x, a' ].

No x comes twice, so that the mean split weight of a where a' was taken cannot be counted in x. It is taken from other
episodes, by one of these, each of which contains the one before it:

    the actions     the mean over all decisions that took a', whatever their features
    the policy      the same, apart for actions that the policy may take in x and for others: if only the former are
                    asked about, their mean over all decisions is too small
    the features    logistic regressions on features, step, action taken, action, and pi_e(a|x): one of w(a), as a share
                    of the largest, for actions that were not taken and that the policy may take; one of w(a') for the
                    action taken
    curves          the same, with a curve in each feature

The one is taken that predicts the weights of other episodes best: the sum of w log W - W is largest where W is the mean
of w, whatever w is distributed like. If questions were drawn at random, that is as a rule the first: pi_b+ is then what
it would be in a single cell. Of the others, each episode has the one that was fitted to other folds, so that questions
do not make themselves likely. Weights that sum to one have means that do: they are divided by their sum.

What is assumed: given features, step and action taken, whether a question was asked does not depend on how things went.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np

from semiope._arrays import Booleans, Floats, Integers
from semiope._random import generator
from semiope.data.labels import ABSENT
from semiope.data.logbook import Logbook
from semiope.models.basis import Inputs
from semiope.policies.lookup import BoundPolicy, RowLookup
from semiope.weights.inclusion_regression import MOST_QUESTIONS, fit_logistic, logistic
from semiope.weights.split import SplitWeights, sum_to_one

# Entries (row, action taken, action) at once.
ENTRIES = 1 << 20
ACTIONS, POLICY, FEATURES, CURVES = "actions", "policy", "features", "curves"
WORDS = {
    ACTIONS: "the action taken and the action asked about",
    POLICY: "the action taken, the action asked about, and whether the policy may take it",
    FEATURES: "the features, the step, the action taken, the action asked about, and how likely the policy takes it",
}
WORDS[CURVES] = WORDS[FEATURES]


class Sample(NamedTuple):
    """Decisions: inputs x, pi_e of every action (`likely`), the action taken, and the split weight of every action."""

    inputs: Floats
    likely: Floats
    taken: Integers
    weight: Floats

    def part(self, which: Booleans) -> Sample:
        """Some of them."""
        return Sample(self.inputs[which], self.likely[which], self.taken[which], self.weight[which])

    @property
    def own(self) -> tuple[Integers, Integers]:
        """Where the entries of the actions taken are."""
        return np.arange(len(self.taken)), self.taken


class Means(Protocol):
    """Mean split weights as a function of inputs and pi_e."""

    def at(self, inputs: Floats, likely: Floats) -> Floats:
        """W(a|x, a') in each row, (n, n_actions, n_actions): action taken, action."""


class Counted(NamedTuple):
    """Means by action taken and action: `others[k]` of actions not taken, `own[k]` of those taken.

    k is 1 for actions that the policy may take, and also for others if they are not told `apart`.
    """

    others: Floats
    own: Floats
    apart: bool

    @classmethod
    def of(cls, sample: Sample, *, apart: bool) -> Counted:
        """Count; each mean leans on that of the action, and this on that of all, as on one decision more."""
        n_actions = sample.weight.shape[1]
        needed = sample.likely > 0 if apart else np.ones(sample.likely.shape, dtype=np.bool_)
        away = np.ones(needed.shape, dtype=np.bool_)
        away[sample.own] = False
        others, own = np.zeros((2, n_actions, n_actions)), np.zeros((2, n_actions))
        half = 0.5 * float(sample.weight.max(initial=0.0))  # Jeffreys' prior, for weights of any size
        for k in (0, 1):
            counts, sums = np.zeros((2, n_actions, n_actions))
            asked = away & (needed == k)
            np.add.at(counts, sample.taken, asked)
            np.add.at(sums, sample.taken, np.where(asked, sample.weight, 0.0))
            overall = (sums.sum() + half) / (counts.sum() + 1)
            of_action = (sums.sum(axis=0) + overall) / (counts.sum(axis=0) + 1)
            others[k] = (sums + of_action) / (counts + 1)
            here = needed[sample.own] == k
            taken, weight = sample.taken[here], sample.weight[sample.own][here]
            overall = (weight.sum() + half) / (len(weight) + 1)
            times, total = np.bincount(taken, minlength=n_actions), np.bincount(taken, weight, n_actions)
            own[k] = (total + overall) / (times + 1)
        return cls(others, own, apart)

    def at(self, inputs: Floats, likely: Floats) -> Floats:
        """W(a|x, a') in each row."""
        needed = likely > 0 if self.apart else np.ones(likely.shape, dtype=np.bool_)
        found = np.where(needed[:, None, :], self.others[1], self.others[0])
        every = np.arange(likely.shape[1])
        found[:, every, every] = self.own[needed.astype(np.int64), every]
        return np.asarray(found)


class Table(NamedTuple):
    """Means by action taken and action, as they are."""

    means: Floats

    def at(self, inputs: Floats, likely: Floats) -> Floats:
        """W(a|x, a') in each row."""
        return np.broadcast_to(self.means, (len(likely), *self.means.shape))


class Regressed(NamedTuple):
    """Means by two logistic regressions, of the weights of actions not taken and of actions taken, over their largest.

    Columns are 1, terms of the inputs, pi_e(a|x), and then: each action as that taken, and as a; for actions taken,
    each action, and whether the policy may take it. Actions that it may not take are counted.
    """

    inputs: Inputs
    curved: bool
    center: Floats
    scale: Floats
    counted: Counted
    others: Floats
    own: Floats
    largest: tuple[float, float]

    @classmethod
    def of(cls, sample: Sample, inputs: Inputs, *, curved: bool, start: Regressed | None = None) -> Regressed:
        """Fit both regressions, perhaps from a start near by."""
        n_actions = sample.weight.shape[1]
        terms = _terms(sample.inputs, inputs, curved)
        spread = terms.std(axis=0)
        center, scale = terms.mean(axis=0), np.where(spread > 0, spread, 1.0)
        z, which = (terms - center) / scale, np.eye(n_actions)
        away = sample.likely > 0
        away[sample.own] = False
        row, action = np.nonzero(away)
        weight, kept = sample.weight[row, action], sample.weight[sample.own]
        most, most_kept = max(float(weight.max(initial=0.0)), 1e-300), max(float(kept.max(initial=0.0)), 1e-300)
        columns = [np.ones((len(row), 1)), z[row], sample.likely[row, action][:, None]]
        x = np.hstack([*columns, which[sample.taken[row]], which[action]])
        others = fit_logistic(x, weight / most, None if start is None else start.others)
        likely = sample.likely[sample.own][:, None]
        x = np.hstack([np.ones((len(z), 1)), z, likely, which[sample.taken], likely > 0])
        own = fit_logistic(x, kept / most_kept, None if start is None else start.own)
        counted = Counted.of(sample, apart=True)
        return cls(inputs, curved, center, scale, counted, others, own, (most, most_kept))

    def at(self, inputs: Floats, likely: Floats) -> Floats:
        """W(a|x, a') in each row."""
        z, n_actions = (_terms(inputs, self.inputs, self.curved) - self.center) / self.scale, likely.shape[1]
        d, every = z.shape[1], np.arange(n_actions)

        def base(weights: Floats) -> tuple[Floats, Floats]:
            """What does not depend on the action taken, beside what may; and weights of the last columns."""
            found: Floats = (weights[0] + z @ weights[1 : d + 1])[:, None] + weights[d + 1] * likely
            return found, weights[d + 2 :]

        score, last = base(self.others)
        score = (score + last[n_actions:])[:, None, :] + last[:n_actions, None]
        found = self.counted.at(inputs, likely)
        found = np.where((likely > 0)[:, None, :], self.largest[0] * logistic(score), found)
        score, last = base(self.own)
        found[:, every, every] = self.largest[1] * logistic(score + last[:n_actions] + (likely > 0) * last[n_actions])
        return found


class ByFeatures(NamedTuple):
    """pi_b+ at the actions taken and annotated, and what mean split weights were `chosen` to depend on.

    `expected` is, for each row, the mean weight of all actions that were not taken and that the policy may take.
    """

    lookup: RowLookup
    chosen: str
    expected: Floats

    @property
    def words(self) -> str:
        """What mean split weights depend on."""
        return WORDS[self.chosen]


def augmented_by_features(
    split: SplitWeights, by_action: Floats, behavior: BoundPolicy, evaluation: BoundPolicy, logbook: Logbook,
    fold: Integers,
) -> ByFeatures:  # fmt: skip
    """Definition 1 row by row, for one policy.

    `by_action` are mean weights by action taken and action over all decisions, (n_actions, n_actions); `behavior` knows
    all actions in every row; `fold` is that of each episode.
    """
    fold_of_row, whole = np.repeat(fold, logbook.episodes.lengths), sum_to_one(split, logbook)
    chosen, means = _choose(split, evaluation, logbook, fold_of_row, whole)
    if chosen == ACTIONS:
        means = [Table(by_action)] * len(means)
    return _look_up(chosen, means, behavior, evaluation, logbook, fold_of_row, whole)


def _choose(
    split: SplitWeights, evaluation: BoundPolicy, logbook: Logbook, fold_of_row: Integers, whole: bool
) -> tuple[str, list[Means]]:
    """The kind of means that predicts weights of other folds best, and the means for each fold, by the others."""
    rows = np.flatnonzero(logbook.episodes.action != ABSENT)
    share = MOST_QUESTIONS / max(len(rows) * len(logbook.actions), 1)
    rows = rows[generator(0).random(len(rows)) < share] if share < 1 else rows
    sample, fold = _sample(rows, split, evaluation, logbook), fold_of_row[rows]
    n_folds, inputs = int(fold_of_row.max()) + 1, Inputs.of(sample.inputs)
    best, chosen, found = 0.0, ACTIONS, list[Means]()
    for kind in WORDS:
        score, means = 0.0, list[Means]()
        for k in range(n_folds):
            own = fold == k
            start = means[-1] if means and isinstance(means[-1], Regressed) else None
            means.append(_fitted(kind, sample.part(~own if n_folds > 1 else own), inputs, start))
            score += _score(means[-1], sample.part(own), whole)
        if not found or score > best + 1e-9 * abs(best):
            best, chosen, found = score, kind, means
    return chosen, found


def _fitted(kind: str, sample: Sample, inputs: Inputs, start: Regressed | None) -> Means:
    if kind in (ACTIONS, POLICY):
        return Counted.of(sample, apart=kind == POLICY)
    return Regressed.of(sample, inputs, curved=kind == CURVES, start=start)


def _score(means: Means, sample: Sample, whole: bool) -> float:
    """The sum of w log W - W over all actions."""
    total = 0.0
    for part in _parts(np.arange(len(sample.taken)), sample.weight.shape[1]):
        mean = _scaled(means.at(sample.inputs[part], sample.likely[part]), whole)[
            np.arange(len(part)), sample.taken[part]
        ]
        total += float(np.sum(sample.weight[part] * np.log(np.maximum(mean, 1e-300)) - mean))
    return total


def _sample(rows: Integers, split: SplitWeights, evaluation: BoundPolicy, logbook: Logbook) -> Sample:
    """What is known of these decisions."""
    annotations, n_actions = logbook.annotations, len(logbook.actions)
    taken, weight = logbook.episodes.action[rows].astype(np.int64), np.zeros((len(rows), n_actions))
    place = np.minimum(np.searchsorted(rows, annotations.row), max(len(rows) - 1, 0))
    here = rows[place] == annotations.row
    weight[place[here], annotations.action[here]] = split.annotated[here]
    weight[np.arange(len(rows)), taken] = split.taken[rows]
    return Sample(_inputs_at(rows, logbook), evaluation.at(rows), taken, weight)


def _inputs_at(rows: Integers, logbook: Logbook) -> Floats:
    """Features of these rows, and the step if there are several."""
    episodes = logbook.episodes
    assert episodes.features is not None
    x = episodes.features.matrix[rows]
    return np.column_stack([x, episodes.step[rows]]) if int(episodes.lengths.max()) > 1 else x


def _look_up(
    chosen: str, means: list[Means], behavior: BoundPolicy, evaluation: BoundPolicy, logbook: Logbook,
    fold_of_row: Integers, whole: bool,
) -> ByFeatures:  # fmt: skip
    """Mix means by pi_b, fold by fold and some rows at a time; only what is looked up is kept."""
    episodes, annotations, n_actions = logbook.episodes, logbook.annotations, len(logbook.actions)
    of_taken, of_annotated = np.ones(episodes.n_steps), np.zeros(len(annotations.row))
    expected = np.zeros(episodes.n_steps)
    for k, one in enumerate(means):
        entries = np.flatnonzero(fold_of_row[annotations.row] == k)
        for rows in _parts(np.flatnonzero((fold_of_row == k) & (episodes.action != ABSENT)), n_actions):
            likely, every, taken = evaluation.at(rows), np.arange(len(rows)), episodes.action[rows].astype(np.int64)
            weights = _scaled(one.at(_inputs_at(rows, logbook), likely), whole)
            mixed = np.einsum("rb,rba->ra", behavior.at(rows), weights)
            of_taken[rows] = mixed[every, taken]
            away = likely > 0
            away[every, taken] = False
            expected[rows] = np.sum(weights[every, taken], axis=1, where=away)
            first, last = np.searchsorted(annotations.row[entries], [rows[0], rows[-1] + 1])
            here = entries[first:last]
            of_annotated[here] = mixed[np.searchsorted(rows, annotations.row[here]), annotations.action[here]]
    return ByFeatures(RowLookup(of_taken, of_annotated), chosen, expected)


def _scaled(means: Floats, whole: bool) -> Floats:
    """Means that sum to one over actions, if the weights do."""
    return means / means.sum(axis=2, keepdims=True) if whole else means


def _parts(rows: Integers, n_actions: int) -> Iterator[Integers]:
    """Some rows at a time."""
    size = max(ENTRIES // n_actions**2, 1)
    for first in range(0, len(rows), size):
        yield rows[first : first + size]


def _terms(x: Floats, inputs: Inputs, curved: bool) -> Floats:
    """Standardized inputs, perhaps with their curves."""
    z = inputs.standardized(x)
    return np.hstack([z, *inputs.curves(z)]) if curved else z
