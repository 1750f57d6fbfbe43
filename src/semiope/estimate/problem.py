"""One policy before the evidence, and the slabs of episodes in which estimators see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np

from semiope._arrays import Booleans, Floats, Integers, frozen
from semiope._compiled import compiled
from semiope.data.logbook import AlignedAnnotations
from semiope.estimate.critic import Critic, untouched
from semiope.estimate.evidence import Evidence, augmented_probs, behavior_by_row, behavior_probs
from semiope.estimate.modelled import Modelled
from semiope.models.folds import deal
from semiope.models.predictions import WithPredictions
from semiope.models.study import Outcomes
from semiope.policies.behavior import shares
from semiope.policies.cells import Cells, count_actions
from semiope.policies.lookup import (
    ArrayLookup,
    BoundPolicy,
    ListedLookup,
    Lookup,
    RowLookup,
    TableLookup,
    divide,
    safe_ratio,
)
from semiope.policies.policy import AnyPolicy
from semiope.weights.augmented import augmented_by_row, mean_split_weights
from semiope.weights.by_features import ByFeatures, augmented_by_features
from semiope.weights.inclusion import Inclusion, inclusion
from semiope.weights.prefix import PrefixAugmented, prefix_augmented
from semiope.weights.split import SplitWeights

ROWS_PER_SLAB = 1 << 17
# Propensities logged in one cell for one action that differ by less, relatively, are the same.
SAME = 1e-6
Derived = TypeVar("Derived")


class CountedBehavior(NamedTuple):
    """How often each action was taken in each cell."""

    cells: Cells
    counts: Floats


@dataclass(frozen=True, eq=False)
class Problem:
    """One policy to evaluate: `evaluation` is pi_e, bound to the logbook; `modelled` are its returns by a model.

    What was found about a `fixed` problem, if there is one, is not found again. Counts of actions are taken `times`
    as large as they are.
    """

    name: str
    evidence: Evidence
    evaluation: BoundPolicy
    gamma: float
    modelled: Modelled
    fixed: Problem | None = None
    times: float = 1.0
    _ratios: dict[Denominator, Lookup] = field(default_factory=dict)
    _derived: dict[Callable[[Problem], Any], Any] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, policy: AnyPolicy, evidence: Evidence, gamma: float, outcomes: Outcomes) -> Problem:
        """Look the policy up at every action taken and annotated."""
        bound = policy.bind(evidence.logbook, evidence.cells, f"policy {name!r}")
        return cls(name, evidence, bound, gamma, Modelled(name, policy, bound, evidence.logbook, gamma, outcomes))

    def with_values(self, value: Floats) -> Problem:
        """The same problem with other values of its annotations: ratios, which are kept, do not depend on them."""
        return replace(self, evidence=self.evidence.with_values(value), fixed=None, _derived={})

    def with_counts(self, times: float) -> Problem:
        """The same problem with the behavior policy times a number: to see what hangs on its counts, and that alone."""
        scaled = replace(self.evidence, behavior=self.evidence.behavior.times(times), _derived={})
        return replace(self, evidence=scaled, fixed=self, times=times, _ratios={}, _derived={})

    @cached_property
    def without_predictions(self) -> Problem:
        """The same without predictions from outside, which are of actions not taken alone.

        A model that depends on which action was taken would bias estimators that correct it by ratios.
        """
        outcomes = self.modelled.outcomes
        if not isinstance(outcomes, WithPredictions):
            return self
        return replace(self, modelled=replace(self.modelled, outcomes=outcomes.outcomes), _derived={})

    def once(self, build: Callable[[Problem], Derived]) -> Derived:
        """Return `build(self)`, computed on first use; `build` must be a function of a module, not one made anew."""
        if build not in self._derived:
            self._derived[build] = build(self)
        found: Derived = self._derived[build]
        return found

    @cached_property
    def inclusion(self) -> Inclusion:
        """How likely the questions that this policy needs were to be asked."""
        if self.fixed is not None:
            return self.fixed.inclusion
        logbook = self.evidence.logbook
        return inclusion(logbook, self.evaluation, deal(logbook.episodes.n_episodes))

    @cached_property
    def counted_in_folds(self) -> CountedBehavior:
        """Actions taken, counted within each fold; over all rows if the model has no folds or nothing was annotated.

        A model of other folds depends on which actions these took. Counted in its own fold, an action weighs as often
        as it was taken where this model is used, whatever others took.
        """
        if self.fixed is not None:
            return self.fixed.counted_in_folds
        evidence = self.evidence
        if self.modelled.outcomes.folds is None or not len(self.annotations.row):
            return CountedBehavior(evidence.cells, evidence.counts)
        cells = evidence.cells.within(self.modelled.study.fold_of_row)
        n_actions = evidence.counts.shape[1]
        return CountedBehavior(cells, count_actions(cells, evidence.logbook.episodes.action, n_actions))

    @cached_property
    def behavior_at_questions(self) -> tuple[Floats, Floats] | None:
        """pi_b at the actions taken and at those annotated; None where only that of actions taken is known.

        Where propensities were logged and are the same throughout a cell, counts stand for them: they say the same, and
        also of actions that were not taken.
        """
        evidence = self.evidence
        rows, entries = slice(0, evidence.logbook.episodes.n_steps), slice(0, len(self.annotations.row))
        if evidence.derived(differing_propensities):
            return None
        lookup: Lookup = evidence.behavior.lookup
        if evidence.behavior.origin not in ("given", "fitted"):
            cells, counts = self.counted_in_folds
            lookup = TableLookup(self.times * shares(counts), cells, evidence.logbook)
        return lookup.taken(rows), lookup.annotated(entries)

    @property
    def annotations(self) -> AlignedAnnotations:
        """The annotations that speak about this policy."""
        return self.evidence.logbook.annotations

    @property
    def split_weights(self) -> SplitWeights:
        """How the samples are split for this policy."""
        return self.evidence.split_weights

    def ratio(self, denominator: Denominator) -> Lookup:
        """Return pi_e over another policy: `behavior`, `augmented`, or any that an estimator derives.

        A denominator is a function of a module, not one made anew for each call, so that the ratio is computed once.
        """
        if denominator not in self._ratios:
            self._ratios[denominator] = divide(self.evaluation, denominator(self), self.evidence.logbook)
        return self._ratios[denominator]

    @cached_property
    def prefix(self) -> PrefixAugmented:
        """pi_b+ by prefix-weighted means, for this policy."""
        known = self.evidence
        return prefix_augmented(self.evaluation, known.behavior, known.split_weights, known.cells, known.logbook)

    @cached_property
    def by_features(self) -> ByFeatures:
        """pi_b+ row by row for this policy, with mean split weights that may depend on features."""
        evidence = self.evidence
        behavior = evidence.derived(behavior_by_row)
        assert behavior is not None
        split, logbook = evidence.split_weights, evidence.logbook
        by_action = mean_split_weights(split, evidence.cells, logbook)[0]
        fold = deal(logbook.episodes.n_episodes)
        return augmented_by_features(split, by_action, behavior, self.evaluation, logbook, fold)

    @cached_property
    def no_critic(self) -> Critic:
        """Rewards and annotations as they are."""
        return untouched(self.evidence.logbook)

    def slabs(self, critic: Critic | None = None) -> Iterator[Slab]:
        """Cut the data into runs of whole episodes that are small enough for the processor's cache."""
        critic = self.no_critic if critic is None else critic
        offsets, first = self.evidence.logbook.episodes.offsets, 0
        while first < len(offsets) - 1:
            last = int(np.searchsorted(offsets, offsets[first] + ROWS_PER_SLAB, side="right")) - 1
            last = max(last, first + 1)
            yield Slab(self, first, last, critic)
            first = last


Denominator = Callable[[Problem], Lookup]


def differing_propensities(evidence: Evidence) -> int:
    """How many logged propensities differ from the mean of their cell and action."""
    episodes, prob = evidence.logbook.episodes, evidence.logbook.episodes.behavior_prob
    if prob is None or evidence.behavior.origin != "logged":
        return 0
    decided = episodes.action >= 0
    own, mean = prob[decided], evidence.behavior.probs[evidence.cells.of_row[decided], episodes.action[decided]]
    return int(np.count_nonzero(np.abs(own - mean) > SAME * mean))


def behavior(problem: Problem) -> Lookup:
    """pi_b at the actions taken."""
    return problem.evidence.behavior.lookup


def augmented(problem: Problem) -> Lookup:
    """pi_b+ at the actions taken and annotated."""
    evidence = problem.evidence
    if evidence.by_features:
        return problem.by_features.lookup
    return problem.prefix.lookup if evidence.by_prefix else evidence.derived(_augmented)


def behavior_support(problem: Problem) -> Floats:
    """pi_b per cell and action: what the logs know of."""
    return problem.evidence.derived(behavior_probs)


def augmented_support(problem: Problem) -> Floats:
    """pi_b+ per cell and action: what logs and annotations know of, by samples that arrive, where any do."""
    in_cells = problem.evidence.derived(augmented_probs)
    if not problem.evidence.by_prefix:
        return in_cells
    probs = problem.prefix.probs
    return np.where(probs.sum(axis=1, keepdims=True) > 0, probs, in_cells)


def asked_support(problem: Problem) -> Floats:
    """1 per cell and action, 0 where nothing was ever asked about a pair that the policy needs."""
    return np.where(problem.inclusion.never[problem.evidence.cells.state], 0.0, 1.0)


def divided_support(problem: Problem) -> Floats:
    """What logs or annotations know of: pi_b per cell and action, and 1 where questions were asked."""
    return np.maximum(behavior_support(problem), asked_support(problem))


def _augmented(evidence: Evidence) -> Lookup:
    """Definition 1 in cells or, for a pi_b known in every row, row by row.

    Where only the propensity of the action taken is known, that action keeps its own, times pi_b+ / pi_b of its cell.
    """
    probs, pi_b = evidence.derived(augmented_probs), evidence.behavior
    if isinstance(pi_b.lookup, ListedLookup | ArrayLookup):
        means = mean_split_weights(evidence.split_weights, evidence.cells, evidence.logbook)
        return augmented_by_row(means, pi_b.lookup, evidence.cells, evidence.logbook)
    in_cells = TableLookup(probs, evidence.cells, evidence.logbook)
    if isinstance(pi_b.lookup, TableLookup):
        return in_cells
    change = TableLookup(safe_ratio(probs, pi_b.probs), evidence.cells, evidence.logbook)
    rows = slice(0, evidence.logbook.episodes.n_steps)
    entries = slice(0, len(evidence.logbook.annotations.row))
    return RowLookup(pi_b.lookup.taken(rows) * change.taken(rows), in_cells.annotated(entries))


class Slab:
    """A run of whole episodes, seen by one policy: everything that an estimator may ask for.

    Rewards and annotations are as the critic shapes them, if there is one.
    """

    def __init__(self, problem: Problem, first: int, last: int, critic: Critic) -> None:
        self.problem, self.first, self.last = problem, first, last
        episodes = problem.evidence.logbook.episodes
        self.rows = slice(int(episodes.offsets[first]), int(episodes.offsets[last]))
        self.entries = slice(*map(int, _positions(problem.annotations.row, episodes.offsets[[first, last]])))
        self.offsets: Integers = episodes.offsets[first : last + 1] - episodes.offsets[first]
        self.reward: Floats = critic.reward[self.rows]
        self.told: Floats = critic.annotated[self.entries]

    @property
    def decided(self) -> Booleans:
        """Rows with a decision."""
        return self.problem.evidence.logbook.episodes.action[self.rows] >= 0

    def evaluation_taken(self) -> Floats:
        """Return pi_e of the actions taken, 1 where there was no decision."""
        return self.problem.evaluation.taken(self.rows)

    def evaluation_annotated(self) -> Floats:
        """Return pi_e of the annotated actions."""
        return self.problem.evaluation.annotated(self.entries)

    def ratio_taken(self, denominator: Denominator) -> Floats:
        """Return the ratios of the actions taken, 1 where there was no decision."""
        return self.problem.ratio(denominator).taken(self.rows)

    def ratio_annotated(self, denominator: Denominator) -> Floats:
        """Return the ratios of the annotated actions."""
        return self.problem.ratio(denominator).annotated(self.entries)

    @property
    def weight_taken(self) -> Floats:
        """Split weights of the actions taken."""
        return self.problem.split_weights.taken[self.rows]

    @property
    def weight_annotated(self) -> Floats:
        """Split weights of the annotated actions."""
        return self.problem.split_weights.annotated[self.entries]

    def sum_per_row(self, numbers: Floats) -> Floats:
        """Sum numbers of annotated actions over each row."""
        row = self.problem.annotations.row[self.entries] - self.rows.start
        return np.bincount(row, weights=numbers, minlength=self.rows.stop - self.rows.start).astype(np.float64)

    def additions(self, share: Floats) -> tuple[Floats, Floats]:
        """Return c and k: the sums over the annotated actions of each row of share times g, and of the shares."""
        c, k = np.zeros(len(self.reward)), np.zeros(len(self.reward))
        row = self.problem.annotations.row[self.entries]
        _add_annotations(row, self.rows.start, frozen(share), frozen(self.told), c, k)
        return c, k

    def annotations_per_episode(self) -> Floats:
        """Return how many annotations each episode has."""
        row = self.problem.annotations.row[self.entries]
        return np.diff(_positions(row, self.offsets + self.rows.start)).astype(np.float64)


def _positions(row: Integers, bounds: Integers) -> Integers:
    """Where these bounds fall among sorted rows, in the rows' own type: numpy would else convert all rows each time."""
    return row.searchsorted(bounds.astype(row.dtype))


@compiled
def _add_annotations(row: Integers, start: int, share: Floats, g: Floats, c: Floats, k: Floats) -> None:
    for j in range(len(row)):
        c[row[j] - start] += share[j] * g[j]
        k[row[j] - start] += share[j]
