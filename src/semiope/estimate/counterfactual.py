"""Counterfactual-augmented importance sampling: C-IS, C-PDIS (Definitions 2 and 4) and C*-IS, C*-PDIS (3 and 5).

At each step the sample's weight is split between the action taken (w^a) and the annotated ones (w^a~), and ratios are
taken against the augmented behaviour policy pi_b+ (Definition 1): rho^a = pi_e(a|s) / pi_b+(a|s). Then

    v <- w^a rho^a (r + gamma v) + sum over annotated a~ of w^a~ rho^a~ g^a~.

An annotation stands for the whole rest of the episode after its action, so that nothing of the episode's own future
enters its term. The normaliser is the same without r and g; its mean is 1 (Corollary 5).
"""

from __future__ import annotations

import numpy as np

from semiope._arrays import Floats, Integers
from semiope.errors import SHOWN, SupportError, count
from semiope.estimate.problem import Problem, Slab, augmented


def split_factor(slab: Slab) -> Floats:
    """f = w rho of the action taken."""
    return slab.weight_taken * slab.ratio_taken(augmented)


def split_shares(slab: Slab) -> Floats:
    """h = w rho of each annotated action."""
    return slab.weight_annotated * slab.ratio_annotated(augmented)


def closed_factor(slab: Slab) -> Floats:
    """f = pi_e of the action taken: what equal weights come to if everything is annotated."""
    return slab.evaluation_taken()


def closed_shares(slab: Slab) -> Floats:
    """h = pi_e of each annotated action."""
    return slab.evaluation_annotated()


def require_full_annotation(problem: Problem) -> None:
    """Fail unless every action that the policy may take was taken or annotated, at every decision."""
    episodes = problem.evidence.logbook.episodes
    missing = np.flatnonzero(_uncovered(problem))
    if len(missing):
        shown = "; ".join(episodes.describe_row(int(row)) for row in missing[:SHOWN])
        raise SupportError(
            f"policy {problem.name!r}: c*-is and c*-pdis need every action that the policy may take to be taken or "
            f"annotated, and at {count(len(missing), 'step')} of {episodes.n_steps:,} one is neither. First: {shown}. "
            "Use c-pdis, which takes annotations where they are."
        )


def _uncovered(problem: Problem) -> Integers:
    """Number of actions that the policy may take and that were neither taken nor annotated, per row."""
    covered = [
        (slab.evaluation_taken() > 0) + slab.sum_per_row((slab.evaluation_annotated() > 0).astype(np.float64))
        for slab in problem.slabs()
    ]
    uncovered = problem.evaluation.choices() - np.concatenate(covered)
    return np.where(problem.evidence.logbook.episodes.action >= 0, uncovered, 0).astype(int)
