"""Whether answers can be true: within reach of returns, at the level of the logs, and in agreement with them."""

from __future__ import annotations

import numpy as np

from semiope.diagnostics.findings import GREEN, Finding, Rule
from semiope.estimate.problem import Problem

OUTSIDE = Rule(amber=0.25, red=0.5)


def judge_reach(problem: Problem) -> Finding:
    """Annotations are expected returns: if most lie beyond all returns, they are in other units, or of something else.

    A policy may be better than any that was logged, and noise carries some annotations farther.
    """
    episodes, value = problem.evidence.logbook.episodes, problem.annotations.value
    to_go = np.append(episodes.returns_to_go(problem.gamma), 0.0)
    low, high = float(to_go.min()), float(to_go.max())
    share = float(np.mean((value < low) | (value > high)))
    light = OUTSIDE.light(share)
    return Finding(
        "annotations beyond all returns", light, f"{share:.0%}", str(OUTSIDE),
        f"{share:.0%} of the annotations lie outside of {low:.4g} to {high:.4g}, between which all logged returns of "
        f"{episodes.n_episodes:,} episodes lie, from any step on.",
        "" if light == GREEN else "Annotations are expected returns from their step on, discounted from there.",
    )  # fmt: skip
