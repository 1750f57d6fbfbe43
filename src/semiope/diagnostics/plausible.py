"""Whether answers can be true: within reach of returns, at the level of the logs, and in agreement with them."""

from __future__ import annotations

import math
from contextlib import suppress

import numpy as np

from semiope.data.annotations import Annotations
from semiope.diagnostics.findings import AMBER, GREEN, RED, Finding, Rule, judge_weights, worst
from semiope.diagnostics.support import unsupported_mass
from semiope.errors import SemiopeError
from semiope.estimate.passes import episode_values
from semiope.estimate.problem import Problem, behavior_support
from semiope.estimate.registry import ESTIMATORS
from semiope.estimate.result import Estimate, standard_error
from semiope.policies.policy import Policy
from semiope.repair.auto import look_at
from semiope.repair.mend import Workshop

OUTSIDE = Rule(amber=0.05, red=0.25)
SHARED = Rule(amber=0.05, red=0.2)
APART = Rule(amber=2.0, red=3.0, form="{:.0f}")
# A standard error of the shared bias above this part of the scatter of returns tells nothing.
VAGUE = 0.15
# With more of the policy's decisions never logged, logs and answers speak of different things.
LOGGED = 0.01
CHECK = "Ask about some actions that were taken, whose outcomes are known; see what repair='auto' finds."


def judge_reach(problem: Problem) -> Finding:
    """Answers are expected returns, and cannot lie beyond all returns; noise may carry a few there."""
    episodes, value = problem.evidence.logbook.episodes, problem.annotations.value
    to_go = np.append(episodes.returns_to_go(problem.gamma), 0.0)
    low, high = float(to_go.min()), float(to_go.max())
    share = float(np.mean((value < low) | (value > high)))
    light = OUTSIDE.light(share)
    return Finding(
        "answers beyond all returns", light, f"{share:.0%}", str(OUTSIDE),
        f"{share:.0%} of the answers lie outside of {low:.4g} to {high:.4g}, between which all logged returns of "
        f"{episodes.n_episodes:,} episodes lie, from any step on.",
        "" if light == GREEN else "Answers are expected returns from their step on, discounted from there: check them.",
    )  # fmt: skip


def judge_shared_bias(policy: Policy, name: str, problem: Problem, answers: Annotations, scatter: float) -> Finding:
    """What all answers are off by alike, judged by those about pairs that were logged, against what came of these."""
    episodes = problem.evidence.logbook.episodes
    bias, error = 0.0, math.inf
    with suppress(SemiopeError):  # no model can be counted, and nothing is known
        look = look_at(answers, Workshop(episodes, {name: policy}, [answers], problem.gamma).case(name))
        bias, error = (look.level.bias, look.level.error) if look is not None else (bias, error)
    finding, rule = "bias that all answers share", f"surely beyond, in stds of returns: {SHARED}"
    if not error < VAGUE * scatter:
        return Finding(
            finding, AMBER, "not known", f"{rule}; amber if not known",
            "Nothing in these data tells whether all answers are too high, or too low, alike.", CHECK,
        )  # fmt: skip
    light = SHARED.light(max(abs(bias) - 2 * error, 0.0) / scatter)
    return Finding(
        finding, light, f"{bias:+.3g} +- {error:.2g}", rule,
        f"Answers about what was also logged are off what came of it by {bias:+.3g} in the mean (returns scatter by "
        f"{scatter:.3g}). An estimate is off by as much where it rests on answers.",
        "" if light == GREEN else f"repair='pool' takes it off; dm+-is does not depend on it. {CHECK}",
    )  # fmt: skip


def judge_agreement(problem: Problem, estimate: Estimate) -> Finding | None:
    """Whether logs alone say the same, where they can; None where they cannot."""
    plain = ESTIMATORS[estimate.estimator].plain
    if plain is None or unsupported_mass(problem, behavior_support(problem)).mass > LOGGED:
        return None
    kind = ESTIMATORS[plain]
    alone = Estimate(estimate.policy, plain, episode_values(problem, kind.recipe), kind.self_normalized)
    off = estimate.influence - alone.influence
    if not math.isfinite(alone.value) or not np.isfinite(off).all():
        return None
    if worst([one.light for one in judge_weights(alone)]) == RED:  # too few episodes count for the logs to say much
        return None
    error = standard_error(off, np.ones(len(off)))
    apart = abs(estimate.value - alone.value) / error if error > 0 else 0.0
    light = APART.light(apart)
    return Finding(
        "logs and answers", light, f"{alone.value:.4g} and {estimate.value:.4g}", f"{APART} standard errors apart",
        f"The logs alone ({plain}) say {alone.value:.4g}, with answers it is {estimate.value:.4g}: {apart:.1f} "
        "standard errors of their difference apart.",
        "" if light == GREEN else f"One of them is off, and answers are the likelier. {CHECK}",
    )  # fmt: skip
