"""How the effective sample size falls over the steps of an episode."""

from __future__ import annotations

import numpy as np

from semiope.diagnostics.findings import ESS_SHARE, GREEN, Finding
from semiope.diagnostics.weight import weights_by_step
from semiope.estimate.passes import Recipe
from semiope.estimate.problem import Problem

# Steps that fewer episodes reach do not matter to the light.
REACHED = 0.1


def judge_steps(problem: Problem, recipe: Recipe) -> Finding:
    """Name the first step from which on too few episodes carry the estimate."""
    n = problem.evidence.logbook.episodes.n_episodes
    found = weights_by_step(problem, recipe)
    shares = np.where(found.alive >= REACHED, found.ess / n, 1.0)
    least = float(shares.min())
    light = ESS_SHARE.light(least)
    below = np.flatnonzero(shares < ESS_SHARE.amber)
    when = (
        f"From step {below[0]} on fewer than half of the episodes count" if len(below) else "Most count at every step"
    )
    return Finding(
        "effective sample size over steps", light, f"at least {least:.0%}", f"{ESS_SHARE} of the episodes, at any step "
        f"that {REACHED:.0%} of them reach",
        f"{when}; at step {int(shares.argmin())} it is {least:.0%} of them.",
        "" if light == GREEN else "Ask experts about earlier steps: an answer stands for the whole rest of an episode.",
    )  # fmt: skip
