"""Evidence: logs, annotations, behaviour and split weights, prepared once; and what one policy makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from semiope._arrays import Floats, Integers
from semiope._compiled import compiled
from semiope.data.annotations import AlignedAnnotations, Annotations, align
from semiope.data.episodes import Episodes
from semiope.data.labels import Vocabulary
from semiope.data.schema import SHOWN
from semiope.errors import SchemaError, count
from semiope.policies.behavior import shares
from semiope.policies.cells import Cells, cells_of, count_actions
from semiope.policies.lookup import Lookup, RowLookup, TableLookup, divide, row_lookup, safe_ratio
from semiope.policies.policy import Policy, RowPolicy
from semiope.weights.augmented import augmented_policy
from semiope.weights.split import SplitWeights, weighting

Derived = TypeVar("Derived")
AnyPolicy = Policy | RowPolicy
ROWS_PER_SLAB = 1 << 17


@dataclass(frozen=True, eq=False)
class Evidence:
    """All that does not depend on the policy under evaluation.

    `behavior_table` is pi_b per cell and action, `counts` how often each action was taken in each cell; `behavior`
    looks pi_b up at the actions taken. Action ids are those of `actions`: the logged ones first, then those that only
    policies know.
    """

    episodes: Episodes
    annotations: AlignedAnnotations
    actions: Vocabulary
    cells: Cells
    counts: Floats
    behavior_table: Floats
    behavior: Lookup
    split: SplitWeights
    _derived: dict[Callable[[Evidence], Any], Any] = field(default_factory=dict)

    def derived(self, build: Callable[[Evidence], Derived]) -> Derived:
        """Return `build(self)`, computed on first use."""
        if build not in self._derived:
            self._derived[build] = build(self)
        found: Derived = self._derived[build]
        return found

    def lookup(self, table: Floats) -> TableLookup:
        """Return a lookup in a table per cell and action."""
        return TableLookup(table, self.cells.of_row, self.episodes, self.annotations)


def gather(
    episodes: Episodes,
    annotations: Annotations | None,
    policies: list[AnyPolicy],
    *,
    behavior: AnyPolicy | str | None,
    cell: str,
    weights: Any,
) -> Evidence:
    """Prepare the evidence: align annotations, count or look up the behaviour policy, split the weights."""
    actions = episodes.actions
    for policy in [*policies, *([behavior] if isinstance(behavior, Policy | RowPolicy) else [])]:
        if not actions.comparable(policy.actions):
            raise SchemaError(
                f"policy: column 'action' holds {policy.actions.kind}, that of the episodes {actions.kind}. "
                "Use the same labels in both."
            )
        actions = actions.extended(policy.actions)
    aligned = AlignedAnnotations.none() if annotations is None else align(annotations, episodes, actions)
    if isinstance(behavior, Policy) and behavior.step is not None:
        cell = "step,state"
    cells = cells_of(episodes, cell)
    counts = count_actions(cells, episodes.action, len(actions))
    table, lookup = _behavior(episodes, aligned, actions, cells, counts, behavior)
    split = weighting(weights, actions)(episodes, aligned)
    return Evidence(episodes, aligned, actions, cells, counts, table, lookup, split)


def behavior(evidence: Evidence) -> Lookup:
    """pi_b at the actions taken."""
    return evidence.behavior


def behavior_table(evidence: Evidence) -> Floats:
    """pi_b per cell and action."""
    return evidence.behavior_table


def augmented_table(evidence: Evidence) -> Floats:
    """pi_b+ of Definition 1 per cell and action."""
    return augmented_policy(
        evidence.behavior_table,
        evidence.counts,
        evidence.split,
        evidence.cells,
        evidence.episodes,
        evidence.annotations,
    )


def augmented(evidence: Evidence) -> Lookup:
    """pi_b+ at the actions taken and annotated.

    Where propensities were logged row by row, an action taken keeps its own, times what the annotations make of pi_b in
    its cell, pi_b+ / pi_b.
    """
    table = evidence.derived(augmented_table)
    in_cells = evidence.lookup(table)
    if isinstance(evidence.behavior, TableLookup):
        return in_cells
    change = evidence.lookup(safe_ratio(table, evidence.behavior_table))
    all_rows = slice(0, evidence.episodes.n_steps)
    all_annotated = slice(0, len(evidence.annotations.row))
    return RowLookup(evidence.behavior.taken(all_rows) * change.taken(all_rows), in_cells.annotated(all_annotated))


@dataclass(frozen=True, eq=False)
class Problem:
    """One policy to evaluate, before the evidence."""

    name: str
    evidence: Evidence
    policy: AnyPolicy
    evaluation: Lookup
    gamma: float
    _ratios: dict[Callable[[Evidence], Lookup], Lookup] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, policy: AnyPolicy, evidence: Evidence, gamma: float) -> Problem:
        """Look the policy up at every action taken and annotated."""
        episodes = evidence.episodes
        lookup: Lookup
        if isinstance(policy, RowPolicy):
            lookup = row_lookup(policy, episodes, evidence.annotations, evidence.actions, f"policy {name!r}")
        else:
            cells, counts = evidence.cells, evidence.counts
            if policy.step is not None and cells.step is None:
                cells = cells_of(episodes, "step,state")
                counts = count_actions(cells, episodes.action, len(evidence.actions))
            table = policy.on(cells, episodes.states, evidence.actions, counts.sum(axis=1), f"policy {name!r}")
            lookup = TableLookup(table, cells.of_row, episodes, evidence.annotations)
        return cls(name, evidence, policy, lookup, gamma)

    def ratio(self, denominator: Callable[[Evidence], Lookup]) -> Lookup:
        """Return pi_e over another policy: `behavior`, `augmented`, or any that an estimator derives."""
        if denominator not in self._ratios:
            self._ratios[denominator] = divide(self.evaluation, self.evidence.derived(denominator))
        return self._ratios[denominator]

    def choices(self) -> Integers:
        """Return how many actions the policy may take at each row."""
        if isinstance(self.evaluation, TableLookup):
            in_cell: Integers = np.count_nonzero(self.evaluation.table, axis=1)
            return in_cell[self.evaluation.cell]
        assert isinstance(self.policy, RowPolicy)
        row, _, prob = self.policy.on(self.evidence.episodes, self.evidence.actions, self.name)
        return np.bincount(row[prob > 0], minlength=self.evidence.episodes.n_steps)

    def slabs(self) -> Iterator[Slab]:
        """Cut the data into runs of whole episodes that are small enough for the processor's cache."""
        offsets, first = self.evidence.episodes.offsets, 0
        while first < len(offsets) - 1:
            last = int(np.searchsorted(offsets, offsets[first] + ROWS_PER_SLAB, side="right")) - 1
            last = max(last, first + 1)
            yield Slab(self, first, last)
            first = last


class Slab:
    """A run of whole episodes, seen by one policy: everything that an estimator may ask for."""

    def __init__(self, problem: Problem, first: int, last: int) -> None:
        self.problem, self.evidence, self.first, self.last = problem, problem.evidence, first, last
        offsets, row = self.evidence.episodes.offsets, self.evidence.annotations.row
        self.rows = slice(int(offsets[first]), int(offsets[last]))
        self.entries = slice(*map(int, _positions(row, offsets[[first, last]])))
        self.offsets: Integers = offsets[first : last + 1] - offsets[first]
        self.reward: Floats = self.evidence.episodes.reward[self.rows]

    def ratio_taken(self, denominator: Callable[[Evidence], Lookup]) -> Floats:
        """Return the ratios of the actions taken, 1 where there was no decision."""
        return self.problem.ratio(denominator).taken(self.rows)

    def ratio_annotated(self, denominator: Callable[[Evidence], Lookup]) -> Floats:
        """Return the ratios of the annotated actions."""
        return self.problem.ratio(denominator).annotated(self.entries)

    @property
    def weight_taken(self) -> Floats:
        """Split weights of the actions taken."""
        return self.evidence.split.taken[self.rows]

    @property
    def weight_annotated(self) -> Floats:
        """Split weights of the annotated actions."""
        return self.evidence.split.annotated[self.entries]

    @property
    def annotation(self) -> Floats:
        """g: the annotated values."""
        return self.evidence.annotations.value[self.entries]

    def sum_per_row(self, numbers: Floats) -> Floats:
        """Sum numbers of annotated actions over each row."""
        sums = np.zeros(self.rows.stop - self.rows.start)
        _sum_at(self.evidence.annotations.row[self.entries], self.rows.start, numbers, sums)
        return sums

    def annotations_per_episode(self) -> Floats:
        """Return how many annotations each episode has."""
        row = self.evidence.annotations.row[self.entries]
        return np.diff(_positions(row, self.offsets + self.rows.start)).astype(np.float64)


def _behavior(
    episodes: Episodes,
    annotations: AlignedAnnotations,
    actions: Vocabulary,
    cells: Cells,
    counts: Floats,
    given: AnyPolicy | str | None,
) -> tuple[Floats, Lookup]:
    """Return pi_b per cell and action, and pi_b at the actions taken: given, logged or counted."""
    lookup: Lookup
    nowhere = np.zeros(len(annotations.row))
    if isinstance(given, Policy):
        table = given.on(cells, episodes.states, actions, counts.sum(axis=1), "behavior")
        lookup = TableLookup(table, cells.of_row, episodes, annotations)
    elif isinstance(given, RowPolicy):
        lookup = row_lookup(given, episodes, annotations, actions, "behavior")
        row, action, prob = given.on(episodes, actions, "behavior")
        sums = np.zeros_like(counts)
        decided = episodes.action[row] >= 0
        np.add.at(sums, (cells.of_row[row][decided], action[decided]), prob[decided])
        table = shares(sums)
    elif given is None and episodes.behavior_prob is not None:
        propensity = np.where(episodes.action >= 0, episodes.behavior_prob, 1.0)
        lookup = RowLookup(propensity, nowhere)
        # Among the rows that took a, the mean of 1 / pi_b(a) is 1 over the mean of pi_b(a) in the cell.
        inverse = np.zeros_like(counts)
        decided = episodes.action >= 0
        np.add.at(inverse, (cells.of_row[decided], episodes.action[decided]), 1 / propensity[decided])
        return safe_ratio(counts, inverse), lookup
    else:
        table = shares(counts)
        return table, TableLookup(table, cells.of_row, episodes, annotations)
    _refuse_impossible(lookup, episodes)
    return table, lookup


def _refuse_impossible(lookup: Lookup, episodes: Episodes) -> None:
    wrong = np.flatnonzero(lookup.taken(slice(0, episodes.n_steps)) <= 0)
    if len(wrong):
        shown = "; ".join(
            f"{episodes.describe_row(int(row))} action {episodes.actions[episodes.action[row]]!r}"
            for row in wrong[:SHOWN]
        )
        raise SchemaError(
            f"behavior: the behaviour policy gives probability 0 to the action taken at {count(len(wrong), 'step')}. "
            f"First: {shown}. It cannot be the policy that made these logs."
        )


def _positions(row: Integers, bounds: Integers) -> Integers:
    """Where these bounds fall among sorted rows, in the rows' own type: numpy would else convert all rows each time."""
    return row.searchsorted(bounds.astype(row.dtype))


@compiled
def _sum_at(row: Integers, start: int, numbers: Floats, sums: Floats) -> None:
    for j in range(len(row)):
        sums[row[j] - start] += numbers[j]
