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
    by_features = not evidence.logbook.episodes.has_states
    if by_features:
        columns = _columns(problem)

        def share(value: Floats) -> float:
            return explained_linearly(value, columns)
    else:
        question = evidence.cells.of_row[answers.row].astype(np.int64) * len(evidence.logbook.actions) + answers.action
        asked = np.unique(question, return_inverse=True)[1]

        def share(value: Floats) -> float:
            return explained(value, asked)

    own, rng = share(answers.value), generator(seed)
    shuffled = [share(rng.permutation(answers.value)) for _ in range(SHUFFLES)]
    # Sums in another order are off by rounding.
    as_good = (1 + sum(one >= own - 1e-12 for one in shuffled)) / (1 + SHUFFLES) if not math.isnan(own) else math.nan
    light, middle = AS_GOOD.light(as_good), float(np.median(shuffled))
    what = "features, step" if by_features else "state"
    name, rule = "shuffled answers", f"share of {SHUFFLES} shuffles that do as well: {AS_GOOD}"
    if math.isnan(own):
        why = "All answers are the same, no two are to the same question, or all are: exchanging them changes nothing."
        return Finding(name, light, "-", rule, why)
    return Finding(
        name, light, f"{own:.0%} against {middle:.0%}", rule,
        f"What was asked, {what} and action, explains {own:.0%} of how answers differ, and {middle:.0%} of how they do "
        "when given to the wrong questions: "
        + ("the right ones know something." if light == GREEN else "they say little about what they were given for."),
        "" if light == GREEN else
        "Check that answers are matched to the right episodes and steps; else do not rely on them (dm+-is, pdwis).",
    )  # fmt: skip


def _columns(problem: Problem) -> Floats:
    """Features of the rows asked about, their squares, the step and the action, orthogonal to each other and to 1."""
    answers, episodes = problem.annotations, problem.evidence.logbook.episodes
    assert episodes.features is not None
    x = np.column_stack([episodes.features.matrix[answers.row], episodes.step[answers.row]])
    x = (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-300)
    actions = np.equal.outer(answers.action, np.unique(answers.action)).astype(np.float64)
    parts = [x, actions, x**2]
    # As many as leave some to be explained.
    while len(parts) > 1 and sum(part.shape[1] for part in parts) > len(x) // 3:
        parts.pop()
    joined = np.column_stack(parts)
    left, size, _ = np.linalg.svd(joined - joined.mean(axis=0), full_matrices=False)
    found: Floats = left[:, size > 1e-9 * size.max(initial=1e-300)]
    return found


def explained_linearly(value: Floats, columns: Floats) -> float:
    """Share of the variance that lies in the span of orthonormal columns; NaN where there is none, or all must."""
    off = value - value.mean()
    total = float(off @ off)
    if not 0 < columns.shape[1] < len(value) - 1 or total <= 1e-24 * float(value @ value):
        return math.nan
    return float(np.sum((columns.T @ off) ** 2)) / total


def explained(value: Floats, group: Integers) -> float:
    """Share of the variance that lies between groups; NaN where there is none, one group, or one for each value."""
    number = np.bincount(group)
    off = value - value.mean()
    total = float(off @ off)
    if len(number) in (1, len(value)) or total <= 1e-24 * float(value @ value):
        return math.nan
    return float(np.sum(np.bincount(group, weights=off) ** 2 / number)) / total
