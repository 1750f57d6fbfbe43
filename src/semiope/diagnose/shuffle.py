"""Whether answers know something: exchanged among the questions, they must lose their benefit."""

from __future__ import annotations

import numpy as np

from semiope.diagnose.findings import GREEN, Finding, Rule
from semiope.estimate.passes import Recipe, episode_values
from semiope.estimate.problem import Problem
from semiope.estimate.result import Estimate

AS_GOOD = Rule(amber=0.05, red=0.2)
SHUFFLES = 40


def judge_shuffled(problem: Problem, recipe: Recipe, estimate: Estimate, seed: int = 0) -> Finding:
    """Compare the standard error with those from shuffled answers."""
    rng, value = np.random.default_rng(seed), problem.annotations.value
    errors = []
    for _ in range(SHUFFLES):
        values = episode_values(problem.with_values(rng.permutation(value)), recipe)
        errors.append(Estimate(estimate.policy, estimate.estimator, values, estimate.self_normalized).std_error)
    as_good = (1 + sum(error <= estimate.std_error for error in errors)) / (1 + SHUFFLES)
    light = AS_GOOD.light(as_good)
    middle = float(np.median(errors))
    return Finding(
        "shuffled answers", light, f"{estimate.std_error:.3g} against {middle:.3g}",
        f"share of {SHUFFLES} shuffles that do as well: {AS_GOOD}",
        f"With answers given to the wrong questions the standard error is {middle:.3g} instead of "
        f"{estimate.std_error:.3g}: "
        + ("the right ones know something." if light == GREEN else "they say little about what they were given for."),
        "" if light == GREEN else
        "Check that answers are matched to the right episodes and steps; else do not rely on them (dm+-is, pdwis).",
    )  # fmt: skip
