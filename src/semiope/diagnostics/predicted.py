"""Findings on prediction-powered estimates: what carries the correction, and how questions came to be asked."""

from __future__ import annotations

import math

import numpy as np

from semiope._arrays import Booleans, Floats, Integers
from semiope.diagnostics.findings import GREEN, Finding, Rule
from semiope.estimate.problem import Problem
from semiope.estimate.result import Estimate, standard_error
from semiope.models.folds import deal
from semiope.weights.inclusion import COLUMN, expected_per_row

DEGREES = Rule(amber=15, red=5, form="{:.0f}")
DEPENDS = Rule(amber=2.5, red=4.0, form="{:.1f}")


def judge_degrees(problem: Problem, estimate: Estimate) -> Finding:
    """How many episodes carry the standard error: few annotations of large weight leave few degrees of freedom."""
    degrees = min(estimate.degrees, len(estimate.values) - 1.0)
    light = DEGREES.light(degrees)
    n = len(problem.annotations.row)
    return Finding(
        "degrees of freedom", light, f"{degrees:.0f} of {len(estimate.values) - 1:,}", str(DEGREES),
        f"{n:,} annotated questions correct the model. The standard error is known as well as one of "
        f"{degrees + 1:.0f} episodes that count alike"
        + ("." if light == GREEN else ": a few annotations of large weight carry it."),
        "" if light == GREEN else "Ask more questions, most of all about what the policy does more often.",
    )  # fmt: skip


def judge_inclusion(problem: Problem) -> Finding:
    """What was assumed of how questions came to be asked, and whether being asked depends on what it should not.

    Given the strata, whether a question was asked must not depend on what came of the episode, before or after: the
    number asked beyond the number expected is held against the return so far and the return to go.
    """
    found, name = problem.inclusion, "how questions were chosen"
    share = f"{found.asked:,} of {found.questions:,} questions that the policy needs were asked"
    rule = f"dependence on returns, in standard errors: {DEPENDS}"
    if not found.estimated:
        known = "Inclusion probabilities are taken as they were written down" if found.origin == COLUMN else share
        return Finding(name, GREEN, f"{found.asked:,} of {found.questions:,}", "for information", f"{known}.")
    sure = _dependence(problem)
    light = DEPENDS.light(sure)
    return Finding(
        name, light, f"{sure:.1f} standard errors", rule,
        f"{share}; how likely each was is taken to depend on {found.words}, and on nothing else. Whether one was "
        + ("asked does not go with the returns of its episode." if light == GREEN else
           "asked goes with the returns of its episode: the assumption looks wrong, and the estimate may be off."),
        "" if light == GREEN else "Write down how likely each question was to be asked, in a column inclusion_prob.",
    )  # fmt: skip


def judge_mean_weights(problem: Problem) -> Finding:
    """What mean split weights rest on where states are features, and whether weights depend on what they should not.

    Given what means depend on, the weight of annotations must not depend on what came of the episode: what it is beyond
    its mean is held against the return so far and the return to go.
    """
    found, answers = problem.by_features, problem.annotations
    needed = problem.evaluation.annotated(slice(0, len(answers.row))) > 0
    weight = problem.split_weights.annotated[needed]
    told = np.bincount(answers.row[needed], weights=weight, minlength=len(found.expected))
    sure = _against_returns(problem, told - found.expected)
    light = DEPENDS.light(sure)
    return Finding(
        "mean split weights", light, f"{sure:.1f} standard errors",
        f"dependence on returns, in standard errors: {DEPENDS}",
        f"What annotations count on average is taken to depend on {found.words}, and on nothing else. What they count "
        + ("beyond that does not go with the returns of their episodes." if light == GREEN else
           "beyond that goes with the returns of their episodes: the assumption looks wrong, and the estimate may be "
           "off."),
        "" if light == GREEN else "Draw questions at random or by the features, and use pp-dr.",
    )  # fmt: skip


def _dependence(problem: Problem) -> float:
    """The larger of two z-scores of questions asked beyond expectation against returns, over episodes."""
    logbook, answers = problem.evidence.logbook, problem.annotations
    episodes = logbook.episodes
    needed = problem.evaluation.annotated(slice(0, len(answers.row))) > 0
    asked = np.bincount(answers.row[needed], minlength=episodes.n_steps)
    fold = deal(episodes.n_episodes)
    return _against_returns(problem, asked - expected_per_row(problem.inclusion, logbook, problem.evaluation, fold))


def _against_returns(problem: Problem, beyond: Floats) -> float:
    """The larger of two z-scores of a column of the rows: against the return so far, and against that to go."""
    episodes, cells = problem.evidence.logbook.episodes, problem.evidence.cells
    after = episodes.returns_to_go(problem.gamma)
    before = np.repeat(after[episodes.offsets[:-1]], episodes.lengths) - after
    decided = episodes.action >= 0
    return max(
        _z(beyond, _within(column, cells.of_row.astype(np.int64), decided), episodes.offsets)
        for column in (before, after)
    )


def _within(column: Floats, cell: Integers, decided: Booleans) -> Floats:
    """A column less its mean over the decisions of the same cell; 0 where nothing was decided."""
    n = np.bincount(cell[decided], minlength=int(cell.max()) + 1)
    mean = np.bincount(cell[decided], weights=column[decided], minlength=len(n)) / np.maximum(n, 1)
    return np.where(decided, column - mean[cell], 0.0)


def _z(one: Floats, other: Floats, offsets: Integers) -> float:
    products = np.add.reduceat(one * other, offsets[:-1])
    error = standard_error(products, np.ones(len(products)))
    return abs(float(products.mean())) / error if error > 0 and math.isfinite(error) else 0.0
