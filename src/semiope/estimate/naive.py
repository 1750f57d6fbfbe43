"""The naive baselines: annotations simply added as data (section 3.1 and appendix E.2). Biased; here to be compared.

Each annotation at step t becomes a new episode that shares the logged one up to t and ends there with the annotated
action and the annotated value in place of the reward. An episode with L - 1 annotations so becomes L samples, and
ordinary IS is applied to all of them, with the behaviour policy counted in the augmented data.

    unweighted   each sample weighs 1: states that were annotated appear more often than they occur
    weighted     each sample weighs 1 / L: the first state is right, those after it are not
"""

from __future__ import annotations

import numpy as np

from semiope._arrays import Floats, Integers
from semiope._compiled import compiled
from semiope.estimate.evidence import Evidence
from semiope.estimate.problem import Problem, Slab
from semiope.estimate.scan import Terms
from semiope.policies.behavior import shares
from semiope.policies.lookup import Lookup, TableLookup


def unweighted_factor(slab: Slab) -> Floats:
    """f = rho of the action taken, each sample weighing 1."""
    return slab.ratio_taken(pooled_unweighted)


def unweighted_shares(slab: Slab) -> Floats:
    """h = rho of each annotated action: all samples of an episode at once."""
    return slab.ratio_annotated(pooled_unweighted)


def count_samples(slab: Slab, terms: Terms) -> Terms:
    """Each of an episode's L samples weighs 1; divide by the number of samples."""
    squares = slab.sum_per_row(unweighted_shares(slab) ** 2)
    return terms._replace(samples=1 + slab.annotations_per_episode(), k_squared=squares)


def weighted_factor(slab: Slab) -> Floats:
    """f = rho of the action taken, each sample weighing 1 / L."""
    return slab.ratio_taken(pooled_weighted)


def weighted_shares(slab: Slab) -> Floats:
    """h = rho of each annotated action: all samples of an episode at once."""
    return slab.ratio_annotated(pooled_weighted)


def share_weight(slab: Slab, terms: Terms) -> Terms:
    """Each of an episode's L samples weighs 1 / L; divide by the number of episodes."""
    squares = slab.sum_per_row(weighted_shares(slab) ** 2)
    return terms._replace(weight=1 / (1 + slab.annotations_per_episode()), k_squared=squares)


def pooled_unweighted(problem: Problem) -> Lookup:
    """The behaviour policy counted in the augmented data, each sample with weight 1."""
    return problem.evidence.derived(_pooled_unweighted)


def pooled_weighted(problem: Problem) -> Lookup:
    """The behaviour policy counted in the augmented data, each sample with weight 1 / L."""
    return problem.evidence.derived(_pooled_weighted)


def _pooled_unweighted(evidence: Evidence) -> Lookup:
    return _pooled(evidence, weighted=False)


def _pooled_weighted(evidence: Evidence) -> Lookup:
    return _pooled(evidence, weighted=True)


def _pooled(evidence: Evidence, *, weighted: bool) -> Lookup:
    counts = np.zeros_like(evidence.counts)
    episodes, annotations = evidence.logbook.episodes, evidence.logbook.annotations
    _count_samples(
        evidence.cells.of_row, episodes.action, episodes.offsets, annotations.row, annotations.action, weighted, counts
    )
    return TableLookup(shares(counts), evidence.cells, evidence.logbook)


@compiled
def _count_samples(
    cell: Integers,
    action: Integers,
    offsets: Integers,
    annotated_row: Integers,
    annotated_action: Integers,
    weighted: bool,
    counts: Floats,
) -> None:
    """Count actions over all samples; a logged step is part of the logged episode and of every sample ending later."""
    stop = len(annotated_row)
    for i in range(len(offsets) - 2, -1, -1):
        start = stop
        while start > 0 and annotated_row[start - 1] >= offsets[i]:
            start -= 1
        weight = 1.0 / (1 + stop - start) if weighted else 1.0
        later, j = 0, stop - 1
        for row in range(offsets[i + 1] - 1, offsets[i] - 1, -1):
            if action[row] >= 0:
                counts[cell[row], action[row]] += weight * (1 + later)
            while j >= start and annotated_row[j] == row:
                counts[cell[row], annotated_action[j]] += weight
                later += 1
                j -= 1
        stop = start
