"""What counting the behaviour policy does to an estimate: the part of its influence that cancels.

Ratios are made of counts from the same episodes. An episode that takes an action more often than others raises its
count, and lowers the weight of all that took it. To first order, with S(c, a) the sum over all samples of what passes
through action a in cell c, N(c) its decisions, and w(a) the split weights of a row (1 for the action taken, without
annotations), each row in cell c takes from its episode's influence

    sum over a of  S(c, a) / N(c)  (w(a) / pi_b+(a|c) - 1).

Without it, a policy that is close to today's seems to differ from it for sure: its estimate is then nearly the mean
return, whatever the counts, and only this term knows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from semiope._arrays import Floats, Integers, frozen
from semiope._compiled import compiled
from semiope.estimate.counterfactual import counterfactual
from semiope.estimate.evidence import augmented_probs
from semiope.estimate.importance import importance
from semiope.estimate.passes import Recipe
from semiope.estimate.problem import Problem, augmented
from semiope.estimate.scan import NOTHING
from semiope.policies.lookup import safe_ratio


class Correction(NamedTuple):
    """What to take from each episode's numerator and normaliser before they are linearised."""

    values: Floats
    normalizers: Floats


def counting_correction(problem: Problem, recipe: Recipe) -> Correction | None:
    """The correction, or None where nothing is counted, or it leaves the range of numbers."""
    evidence = problem.evidence
    if evidence.behavior.origin != "counted" or recipe.per_step or recipe.terms not in (importance, counterfactual):
        return None
    listens = recipe.terms is counterfactual
    episodes, answers, cells = evidence.logbook.episodes, evidence.logbook.annotations, evidence.cells
    decided = episodes.action >= 0
    rows, action = np.flatnonzero(decided), episodes.action[decided]
    pulls = np.zeros((2, episodes.n_steps))
    told = np.zeros((2, len(answers.row)))
    critic = recipe.critic(problem) if recipe.critic else None
    for slab in problem.slabs(critic):
        terms = recipe.terms(slab)
        c, k = (NOTHING if one is None else one for one in (terms.c, terms.k))
        before = np.zeros((3, len(slab.reward)))
        given = [frozen(one) for one in (terms.f, c, k)]
        here = frozen(slab.reward), frozen(slab.offsets), problem.gamma, recipe.whole
        _pulls(*here, *given, *pulls[:, slab.rows], *before)
        if listens:
            at = answers.row[slab.entries] - slab.rows.start
            share = slab.weight_annotated * slab.ratio_annotated(augmented)
            product, discount, earned = before[:, at]
            told[0, slab.entries] = product * share * (earned + discount * slab.told)
            told[1, slab.entries] = product * share
    probs = evidence.derived(augmented_probs) if listens else evidence.behavior.probs
    split = evidence.split_weights
    weight = split.taken[decided] if listens else np.ones(len(rows))
    found = []
    decisions = evidence.counts.sum(axis=1)
    for own, others in zip(pulls, told, strict=True):
        passing = np.zeros_like(probs)
        np.add.at(passing, (cells.of_row[rows], action), own[rows])
        if listens:
            np.add.at(passing, (cells.of_row[answers.row], answers.action), others)
        passing /= np.maximum(decisions, 1)[:, None]
        relative = safe_ratio(passing, probs)
        per_row = np.zeros(episodes.n_steps)
        per_row[rows] = weight * relative[cells.of_row[rows], action] - passing.sum(axis=1)[cells.of_row[rows]]
        if listens:
            np.add.at(per_row, answers.row, split.annotated * relative[cells.of_row[answers.row], answers.action])
        found.append(np.add.reduceat(per_row, episodes.offsets[:-1]))
    return Correction(*found) if all(np.isfinite(one).all() for one in found) else None


@compiled
def _pulls(
    reward: Floats, offsets: Integers, gamma: float, whole: bool, f: Floats, c: Floats, k: Floats, pull_v: Floats,
    pull_m: Floats, product: Floats, discount: Floats, earned: Floats,
) -> None:  # fmt: skip
    """Per row, what passes through the action taken, of the value and of the normaliser; and what arrives there."""
    for i in range(len(offsets) - 1):
        v, m = 0.0, 1.0
        for t in range(offsets[i + 1] - 1, offsets[i] - 1, -1):
            pull_v[t], pull_m[t] = v, m
            v = f[t] * ((m * reward[t] if whole else reward[t]) + gamma * v) + (c[t] if len(c) else 0.0)
            m = f[t] * m + (k[t] if len(k) else 0.0)
        arrive, power, so_far = 1.0, 1.0, 0.0
        for t in range(offsets[i], offsets[i + 1]):
            product[t], discount[t], earned[t] = arrive, power, so_far
            after = power * (reward[t] * (pull_m[t] if whole else 1.0) + gamma * pull_v[t])
            pull_v[t] = arrive * f[t] * (after + so_far * pull_m[t])
            pull_m[t] = arrive * f[t] * pull_m[t]
            so_far += power * reward[t] if whole else 0.0
            arrive *= f[t]
            power *= gamma
