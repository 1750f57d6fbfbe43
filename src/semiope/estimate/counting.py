"""What counting the behaviour policy does to an estimate: the part of its influence that cancels.

Ratios are made of counts from the same episodes. An episode that takes an action more often than others raises its
count, and lowers the weight of all that took it. To first order, with S(c, a) the sum over all samples of what passes
through action a in cell c, N(c) its decisions, and w(a) the split weights of a row (1 for the action taken, without
annotations), each row in cell c takes from its episode's influence

    sum over a of  S(c, a) / N(c)  (w(a) / pi_b+(a|c) - 1).

That is for factors and shares that are ratios: they fall as their count rises, by as much. Of others, S counts what
passes through an action as often as its factor falls faster; how fast is seen by changing all counts a little.

Where means are weighted by prefixes, pi_b+ = sum of P w / sum of P depends on the steps before as well. An episode's
weight only enters as a factor of its own P, so that its influence is the derivative y of the estimate by P at its
first step. Backward over the steps, with z(a) = g for the annotated actions, z(a) = r + gamma y of the next step for
the action taken, M(c) the sum of P in a cell and S(c, a) that of P w(a) rho(a) z(a),

    y  =  sum over a of  w(a) rho(a) z(a)  -  S(c, a) / M(c)  (w(a) / pi_b+(a|c) - 1).

Without it, a policy that is close to today's seems to differ from it for sure: its estimate is then nearly the mean
return, whatever the counts, and only this term knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from semiope._arrays import Booleans, Floats, Integers, frozen
from semiope._compiled import compiled
from semiope.estimate.evidence import augmented_probs
from semiope.estimate.passes import Recipe
from semiope.estimate.predicted import never_asked
from semiope.estimate.problem import CountedBehavior, Problem, augmented
from semiope.estimate.registry import Estimator
from semiope.estimate.scan import NOTHING
from semiope.policies.behavior import shares
from semiope.policies.lookup import safe_ratio
from semiope.weights.prefix import Walk, walk_of


class Correction(NamedTuple):
    """What to take from each episode's numerator and normaliser before they are linearised."""

    values: Floats
    normalizers: Floats


# Counts are changed by this share to see how much factors and shares change with them.
NUDGE = 1e-4


def counting_correction(problem: Problem, estimator: Estimator) -> Correction | None:
    """The correction, or None where nothing is counted, or it is not known, or leaves the range of numbers."""
    evidence, recipe = problem.evidence, estimator.recipe
    if evidence.behavior.origin != "counted" or recipe.per_step or recipe.finish or estimator.support == "asked":
        return None
    if estimator.support is None:
        return None
    splits = estimator.support == "augmented"
    if splits and evidence.by_prefix:
        return _by_prefix(problem, recipe)
    episodes, answers = evidence.logbook.episodes, evidence.logbook.annotations
    decided = episodes.action >= 0
    rows, action = np.flatnonzero(decided), episodes.action[decided]
    split = evidence.split_weights
    weight = split.taken[decided] if splits else np.ones(len(rows))
    found = [np.zeros(episodes.n_steps), np.zeros(episodes.n_steps)]
    pulls, told = _through_counts(problem, estimator)
    for (cells, counts), whose, asked in _counted_for(problem, estimator):
        probs, decisions = evidence.derived(augmented_probs) if splits else shares(counts), counts.sum(axis=1)
        for per_row, own, others in zip(found, pulls, told, strict=True):
            passing = np.zeros_like(probs)
            np.add.at(passing, (cells.of_row[rows], action), np.where(whose, own, 0.0)[rows])
            if asked:
                np.add.at(passing, (cells.of_row[answers.row], answers.action), others)
            passing /= np.maximum(decisions, 1)[:, None]
            relative = safe_ratio(passing, probs)
            per_row[rows] += weight * relative[cells.of_row[rows], action] - passing.sum(axis=1)[cells.of_row[rows]]
            if splits:
                shared = split.annotated * relative[cells.of_row[answers.row], answers.action]
                np.add.at(per_row, answers.row, shared)
    corrected = [np.add.reduceat(per_row, episodes.offsets[:-1]) for per_row in found]
    return Correction(*corrected) if all(np.isfinite(one).all() for one in corrected) else None


def _counted_for(problem: Problem, estimator: Estimator) -> list[tuple[CountedBehavior, Booleans, bool]]:
    """Which counts the factors of which rows are made of, and whether shares of annotations are."""
    evidence = problem.evidence
    n, of_all = evidence.logbook.episodes.n_steps, CountedBehavior(evidence.cells, evidence.counts)
    if estimator.support != "divided":
        return [(of_all, np.ones(n, dtype=np.bool_), True)]
    never = problem.once(never_asked)
    return [(problem.counted_in_folds, ~never, True), (of_all, never, False)]


def _through_counts(problem: Problem, estimator: Estimator) -> tuple[Floats, Floats]:
    """What of the value and of the normalizer hangs on the counts of each row's action, and of each annotated one.

    That is what passes through an action, times how much its factor or share falls, relatively, as its count rises.
    """
    evidence, recipe = problem.evidence, estimator.recipe
    episodes, answers = evidence.logbook.episodes, evidence.logbook.annotations
    pulls, told = np.zeros((2, episodes.n_steps)), np.zeros((2, len(answers.row)))
    critic = recipe.critic_of(problem)
    nudged = [problem.with_counts(1 + by).slabs(critic) for by in (-NUDGE, NUDGE, -2 * NUDGE, 2 * NUDGE)]
    for slab, *others in zip(problem.slabs(critic), *nudged, strict=True):
        terms = recipe.terms(slab)
        c, k = (NOTHING if one is None else one for one in (terms.c, terms.k))
        before = np.zeros((3, len(slab.reward)))
        given = [frozen(one) for one in (terms.f, c, k)]
        here = frozen(slab.reward), frozen(slab.offsets), problem.gamma, recipe.whole
        _pulls(*here, *given, *pulls[:, slab.rows], *before)
        pulls[:, slab.rows] *= safe_ratio(_fall([recipe.factor(other) for other in others]), terms.f)
        if recipe.shares is not None:
            falls = _fall([recipe.shares(other) for other in others])
            product, discount, earned = before[:, answers.row[slab.entries] - slab.rows.start]
            told[0, slab.entries] = product * falls * (earned + discount * slab.told)
            told[1, slab.entries] = product * falls
    return pulls, told


def _fall(changed: Sequence[Floats]) -> Floats:
    """Minus the derivative by the logarithm of counts, from values with counts changed by -d, d, -2d and 2d.

    Richardson's extrapolation of two central differences: what is left of order d^4 is below rounding.
    """
    below, above, far_below, far_above = changed
    near, far = (below - above) / (2 * NUDGE), (far_below - far_above) / (4 * NUDGE)
    found: Floats = (4 * near - far) / 3
    return found


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


class Known(NamedTuple):
    """What `_backward` needs to know of means by prefixes: ratios, pi_b+ in cells, and P of rows."""

    rho_taken: Floats
    rho_annotated: Floats
    probs: Floats
    arrive: Floats


def _by_prefix(problem: Problem, recipe: Recipe) -> Correction | None:
    """The correction where means are weighted by prefixes, of everything discounted to the first step.

    What `gain` a row brings beside its action, what its answers told, and what an episode has in the end: for weights
    of whole episodes that is the return so far, as it is of the branches that answers make.
    """
    evidence = problem.evidence
    episodes, row = evidence.logbook.episodes, evidence.logbook.annotations.row
    critic = recipe.critic_of(problem)
    discount = problem.gamma ** episodes.step.astype(np.float64)
    gain, told, end = discount * critic.reward, discount[row] * critic.annotated, np.zeros(episodes.n_episodes)
    if recipe.whole:
        so_far = np.append(0.0, np.cumsum(gain))
        told = told + (so_far[:-1] - np.repeat(so_far[episodes.offsets[:-1]], episodes.lengths))[row]
        end, gain = np.diff(so_far[episodes.offsets]), np.zeros(episodes.n_steps)
    walk = walk_of(problem.evaluation, evidence.split_weights, evidence.cells, evidence.logbook)
    ratio = problem.ratio(augmented)
    rho = ratio.taken(slice(0, episodes.n_steps)), ratio.annotated(slice(0, len(row)))
    known = Known(*(frozen(np.ascontiguousarray(one)) for one in (*rho, problem.prefix.probs, problem.prefix.arrive)))
    found = []
    for paid, said, left in ((gain, told, end), (np.zeros(len(gain)), np.ones(len(told)), np.ones(len(end)))):
        plain, corrected = left.copy(), left.copy()
        _backward(walk, known, frozen(paid), frozen(said), plain, corrected)
        found.append(plain - corrected)
    return Correction(*found) if all(np.isfinite(one).all() for one in found) else None


@compiled
def _backward(walk: Walk, known: Known, gain: Floats, told: Floats, plain: Floats, corrected: Floats) -> None:
    """Go back from what each episode has in the end to its value, and to the derivative of the sum of all values."""
    passing, mass = np.zeros(known.probs.shape), np.zeros(len(known.probs))
    for t in range(len(walk.first_rows) - 2, -1, -1):
        rows = walk.order[walk.first_rows[t] : walk.first_rows[t + 1]]
        for row in rows:
            c, a, arrive = walk.cell[row], walk.action[row], known.arrive[row]
            if a >= 0:
                z = gain[row] + corrected[walk.episode[row]]
                mass[c] += arrive
                passing[c, a] += arrive * walk.taken[row] * known.rho_taken[row] * z
                for j in range(walk.first_answers[row], walk.first_answers[row + 1]):
                    passing[c, walk.answered[j]] += arrive * walk.annotated[j] * known.rho_annotated[j] * told[j]
        for row in rows:
            c, a, i = walk.cell[row], walk.action[row], walk.episode[row]
            plain[i] += gain[row]
            corrected[i] += gain[row]
            if a < 0:
                continue
            plain[i] *= walk.taken[row] * known.rho_taken[row]
            corrected[i] *= walk.taken[row] * known.rho_taken[row]
            per_mass = 1 / mass[c] if mass[c] > 0 else 0.0
            corrected[i] += per_mass * passing[c].sum()
            if known.probs[c, a] > 0:
                corrected[i] -= per_mass * passing[c, a] * walk.taken[row] / known.probs[c, a]
            for j in range(walk.first_answers[row], walk.first_answers[row + 1]):
                other, share = walk.answered[j], walk.annotated[j] * known.rho_annotated[j] * told[j]
                plain[i] += share
                corrected[i] += share
                if known.probs[c, other] > 0:
                    corrected[i] -= per_mass * passing[c, other] * walk.annotated[j] / known.probs[c, other]
