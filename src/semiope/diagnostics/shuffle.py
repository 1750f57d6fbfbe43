"""Whether answers know what they were asked: exchanged among the questions, they must say less."""

from __future__ import annotations

import math

import numpy as np

from semiope._arrays import Floats, Integers
from semiope._random import Seed, generator
from semiope.diagnostics.findings import GREEN, Finding, Rule
from semiope.estimate.problem import Problem

AS_GOOD = Rule(amber=0.05, red=0.2)
SHUFFLES = 40


def judge_shuffled(problem: Problem, seed: Seed = 0) -> Finding:
    """Compare how much of the answers' variance the questions explain with what they explain of shuffled answers."""
    answers, evidence = problem.annotations, problem.evidence
    question = evidence.cells.of_row[answers.row].astype(np.int64) * len(evidence.logbook.actions) + answers.action
    asked = np.unique(question, return_inverse=True)[1]
    own = explained(answers.value, asked)
    rng = generator(seed)
    shuffled = [explained(rng.permutation(answers.value), asked) for _ in range(SHUFFLES)]
    # Sums in another order are off by rounding.
    as_good = (1 + sum(one >= own - 1e-12 for one in shuffled)) / (1 + SHUFFLES) if not math.isnan(own) else math.nan
    light, middle = AS_GOOD.light(as_good), float(np.median(shuffled))
    name, rule = "shuffled answers", f"share of {SHUFFLES} shuffles that do as well: {AS_GOOD}"
    if math.isnan(own):
        why = "All answers are the same, no two are to the same question, or all are: exchanging them changes nothing."
        return Finding(name, light, "-", rule, why)
    return Finding(
        name, light, f"{own:.0%} against {middle:.0%}", rule,
        f"What was asked, state and action, explains {own:.0%} of how answers differ, and {middle:.0%} of how they do "
        "when given to the wrong questions: "
        + ("the right ones know something." if light == GREEN else "they say little about what they were given for."),
        "" if light == GREEN else
        "Check that answers are matched to the right episodes and steps; else do not rely on them (dm+-is, pdwis).",
    )  # fmt: skip


def explained(value: Floats, group: Integers) -> float:
    """Share of the variance that lies between groups; NaN where there is none, one group, or one for each value."""
    number = np.bincount(group)
    off = value - value.mean()
    total = float(off @ off)
    if len(number) in (1, len(value)) or total <= 1e-24 * float(value @ value):
        return math.nan
    return float(np.sum(np.bincount(group, weights=off) ** 2 / number)) / total
