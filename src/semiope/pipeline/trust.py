"""Whether annotators can be trusted: estimates that trust them against estimates that do not, and the tipping point."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from semiope._arrays import frozen
from semiope.data.annotations import REWARD
from semiope.diagnostics.findings import AMBER, GREEN, RED, Finding
from semiope.estimate.problem import Problem
from semiope.estimate.registry import ESTIMATORS
from semiope.estimate.result import NO_CHANCE, Estimate
from semiope.models.counted import Counted, can_be_counted, first_states
from semiope.pipeline.evaluate import again
from semiope.pipeline.results import Results, one_of
from semiope.pipeline.rivals import LOGGED, follow, rivals_of
from semiope.repair.steps import converts

ASK = "Ask annotators about some actions that were taken as well: their outcomes are known."
MORE = "Ask annotators about more of the actions that were taken: their outcomes are known."
# With less of an estimate from annotations, it does not rest on them.
NEGLIGIBLE = 0.01
# Steps of the secant method, each an evaluation.
SECANT = 3


def judge_trust(results: Results, name: str) -> Finding:
    """Hausman's test: an estimate that trusts annotations against one that does not."""
    _, estimate, problem = results.chosen(name)
    rivals = estimate.rivals or rivals_of(problem, ESTIMATORS[name], estimate)
    share = float(follow(problem, ESTIMATORS[name], estimate).annotated.mean())
    rule = "red if they differ at 5% or there is nothing to check by, amber if the check is less sure than the estimate"
    title = "annotations against logs"
    if not rivals:
        light = RED if share > NEGLIGIBLE else GREEN
        return Finding(
            title, light, "not known", rule,
            "Nothing in these data tells whether all annotators are too high, or too low, alike: their word is taken "
            f"for {share:.0%} of the estimate. The interval holds if they share no bias.",
            _ask(problem) if light == RED else "",
        )  # fmt: skip
    worst = max(rivals, key=lambda one: abs(one.apart))
    apart = abs(worst.apart)
    if apart > math.sqrt(NO_CHANCE):
        return Finding(
            title, RED, f"{estimate.unshrunk:.4g} and {worst.value:.4g}", rule,
            f"Trusting annotations gives {estimate.unshrunk:.4g}; {_words(worst.name)} gives {worst.value:.4g}: "
            f"{apart:.1f} standard errors apart. {_done(estimate)}",
            f"Find out who is wrong before you decide. {_ask(problem)}",
        )  # fmt: skip
    best = rivals[0]
    covers = ", and the interval covers both" if estimate.rivals else ""
    light = GREEN if best.apart_error <= estimate.std_error else AMBER
    return Finding(
        title, light, f"{estimate.unshrunk:.4g} and {best.value:.4g}", rule,
        f"Trusting annotations gives {estimate.unshrunk:.4g}; {_words(best.name)} gives {best.value:.4g}: "
        f"{abs(best.apart):.1f} standard errors apart. A difference of less than {1.96 * best.apart_error:.2g} would "
        f"not show{covers}. Annotations are {share:.0%} of the estimate.",
        "" if light == GREEN else _ask(problem),
    )  # fmt: skip


def _ask(problem: Problem) -> str:
    return MORE if len(problem.annotations.of_action_taken) else ASK


def _words(name: str) -> str:
    return {
        "actions taken": "without the bias that they show about actions taken, if they have the same about others, it",
        "logs alone": "correcting the model by the logs alone (dm+-is)",
        "model of the logs": "the model counted from the logs alone",
    }[name]


def _done(estimate: Estimate) -> str:
    if estimate.bias:
        return f"A bias of {estimate.bias:+.3g} was taken out; the interval covers what is left of it."
    return "The interval covers both." if estimate.rivals else "The interval of pp-dr would cover both."


def judge_following(results: Results) -> Finding | None:
    """Whether the logs can tell what follows annotated actions, where annotations were completed or converted by it.

    None where annotations are returns of the policy itself: they say what follows by themselves.
    """
    run, problem = results.origin, results.origin.weighed.problem
    said = None if run.annotations is None else run.annotations.said
    rewards = said is not None and bool(np.any(said.kind == REWARD))
    converted = converts(results.settings["repair"])
    counted, study = Counted(folds=None), problem.modelled.study
    if not (rewards or converted) or not can_be_counted(study):
        return None
    alone = replace(study, fold=None)
    model = counted.model(alone, 0)
    if model is None or model.shape[0] == 1:
        return None
    share = model.never_logged(first_states(alone, model))
    light = RED if share > LOGGED else GREEN
    how = "converted from the behavior policy" if converted else "completed from rewards"
    return Finding(
        "what follows annotated actions", light, f"{share:.1%}", f"red if above {LOGGED:.0%} of the policy's decisions",
        f"Annotations were {how} by what the logs say follows. Of the decisions that the policy comes to, {share:.1%} "
        "were never logged: what follows them "
        + ("matters little." if light == GREEN else "is not known, and neither interval nor rehearsal contains it."),
        "" if light == GREEN else "Ask what return is expected if the policy itself is followed.",
    )  # fmt: skip


class TippingPoint(NamedTuple):
    """How large a bias shared by all annotators would have to be for the policy to be worth what was observed.

    `bias` is what all annotations are too high by; infinite if no bias does it. `value` and `observed` are the estimate
    and the mean return of the logs.
    """

    bias: float
    value: float
    observed: float

    def __str__(self) -> str:
        if not math.isfinite(self.bias):
            return "No bias that annotators share would change which is better: the estimate hardly rests on them."
        side = "too high" if self.bias > 0 else "too low"
        better = "better" if self.value > self.observed else "worse"
        return (
            f"If annotators are right, the policy is {better} than current practice ({self.value:.4g} against "
            f"{self.observed:.4g}). If all annotations were {side} by {abs(self.bias):.3g}, it would be worth the same."
        )


def tipping_point(results: Any, estimator: str | None = None) -> TippingPoint:
    """Find the shared bias at which the decision flips, by evaluating again with all annotations moved.

    Parameters
    ----------
    results
        What `so.evaluate` returns, of one policy.
    estimator
        Whose estimate is held against the mean return of the logs. Default: the headline's.
    """
    results = one_of(results, "tipping_point")
    chosen, estimate, problem = results.chosen(estimator)
    observed, annotations = results.origin.observed.value, results.origin.annotations
    value = estimate.value + estimate.bias
    if annotations is None or not len(problem.annotations.row):
        return TippingPoint(math.inf, value, observed)
    share = float(follow(problem, ESTIMATORS[chosen], estimate).annotated.mean())
    if not share > 0:
        return TippingPoint(math.inf, value, observed)
    before, gap = 0.0, value - observed
    bias = gap / share
    for _ in range(SECANT):
        moved = replace(annotations, value=frozen(annotations.value - bias))
        found = again(results, annotations=moved, estimators=chosen)[chosen]
        left = found.value + found.bias - observed
        if left == gap:
            return TippingPoint(math.inf, value, observed)
        before, bias, gap = bias, bias + left * (bias - before) / (gap - left), left
        if abs(left) <= 1e-3 * abs(value - observed):
            break
    return TippingPoint(bias if np.isfinite(bias) else math.inf, value, observed)


def judge_tipping(results: Results, name: str) -> Finding:
    """The tipping point as a finding: no light of its own, since nobody can tell how large a bias is likely."""
    found = tipping_point(results, name)
    spread = float(np.std(results.origin.observed.values))
    shown = f"{found.bias:+.3g}" if math.isfinite(found.bias) else "none"
    return Finding(
        "tipping point", GREEN, shown, "for information: the shared bias that would flip the decision",
        f"{found} Returns have a standard deviation of {spread:.3g}.",
    )  # fmt: skip
