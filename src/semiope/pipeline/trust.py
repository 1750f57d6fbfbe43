"""Whether annotators can be trusted: estimates that trust them against estimates that do not, and the tipping point."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from semiope._arrays import frozen
from semiope.data.annotations import REWARD
from semiope.data.logbook import Logbook
from semiope.diagnostics.findings import AMBER, GREEN, RED, Finding
from semiope.estimate.problem import Problem
from semiope.estimate.registry import ESTIMATORS
from semiope.estimate.result import NO_CHANCE, Estimate, Rival
from semiope.models.feature_model import explained
from semiope.pipeline.evaluate import again
from semiope.pipeline.results import Results, one_of
from semiope.pipeline.rivals import LOGGED, follow, rivals_of
from semiope.repair.steps import converts, imputes

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
    if worst.apart**2 > NO_CHANCE:
        return Finding(
            title, RED, f"{estimate.unshrunk:.4g} and {worst.value:.4g}", rule,
            f"{_beside(estimate, worst)} {_done(estimate)}",
            f"Find out who is wrong before you decide. {_ask(problem)}",
        )  # fmt: skip
    best = rivals[0]
    covers = ", and the interval covers both" if estimate.rivals else ""
    light = GREEN if best.apart_error <= estimate.std_error else AMBER
    return Finding(
        title, light, f"{estimate.unshrunk:.4g} and {best.value:.4g}", rule,
        f"{_beside(estimate, best)} A difference of less than {1.96 * best.apart_error:.2g} would not show{covers}. "
        f"Annotations are {share:.0%} of the estimate.",
        "" if light == GREEN else _ask(problem),
    )  # fmt: skip


def _ask(problem: Problem) -> str:
    return MORE if len(problem.annotations.of_action_taken) else ASK


def _beside(estimate: Estimate, rival: Rival) -> str:
    drawn = f"{estimate.trusting:.4g}"
    also = "" if drawn == f"{estimate.unshrunk:.4g}" else f" ({drawn} drawn towards the model)"
    return (
        f"Trusting annotations gives {estimate.unshrunk:.4g}{also}; {_words(rival.name)} gives {rival.value:.4g}: "
        f"{abs(rival.apart):.1f} standard errors apart."
    )


def _words(name: str) -> str:
    return {
        "actions taken": "without the bias that they show about actions taken, if they have the same about others, it",
        "logs alone": "correcting the model by the logs alone (dm+-is)",
        "model of the logs": "the model counted from the logs alone",
    }[name]


def _done(estimate: Estimate) -> str:
    if estimate.bias:
        return f"A bias of {estimate.bias:+.3g} was taken out; the interval covers what is left of it." + (
            " What is left is halfway to the model counted from the logs." if estimate.compromise else ""
        )
    if estimate.compromise:
        return "Nobody knows which is wrong: the value goes halfway, and the interval covers both."
    return "The interval covers both." if estimate.rivals else "The interval of pp-dr would cover both."


def judge_following(results: Results) -> Finding | None:
    """Whether the logs can tell what follows annotated actions, where annotations were completed or converted by it.

    None where annotations are returns of the policy itself: they say what follows by themselves.
    """
    run, problem = results.origin, results.origin.weighed.problem
    said = None if run.annotations is None else run.annotations.said
    rewards = said is not None and bool(np.any(said.kind == REWARD))
    converted = converts(results.settings["repair"])
    counted = problem.modelled.of_all_logs if rewards or converted else None
    if counted is None or counted.model.shape[0] == 1:
        return None
    share = counted.never_logged
    light = RED if share > LOGGED else GREEN
    how = "converted from the behavior policy" if converted else "completed from rewards"
    return Finding(
        "what follows annotated actions", light, f"{share:.1%}", f"red if above {LOGGED:.0%} of the policy's decisions",
        f"Annotations were {how} by what the logs say follows. Of the decisions that the policy comes to, {share:.1%} "
        "were never logged: what follows them "
        + ("matters little." if light == GREEN else "is not known, and neither interval nor rehearsal contains it."),
        "" if light == GREEN else "Ask what return is expected if the policy itself is followed.",
    )  # fmt: skip


def judge_filled_in(results: Results) -> Finding | None:
    """Whether annotations that nobody gave stand for others; None if none do."""
    run, problem = results.origin, results.origin.weighed.problem
    if run.annotations is None or not imputes(results.settings["repair"]):
        return None
    logbook = Logbook.of(run.episodes, run.annotations, {"policy": run.policy.actions})
    given, used = len(logbook.annotations.row), len(problem.annotations.row)
    share = max(used - given, 0) / max(used, 1)
    light = RED if share > NEGLIGIBLE else GREEN
    return Finding(
        "annotations filled in", light, f"{share:.0%}", f"red if above {NEGLIGIBLE:.0%} of the annotations used",
        f"{share:.0%} of the annotations used were given by nobody: each is the mean of others of its state and "
        "action. If returns differ by more than state and action, the estimate is off, and no interval contains that.",
        "" if light == GREEN else "Use pp-dr without impute: it corrects what it fills in.",
    )  # fmt: skip


def judge_states(results: Results, name: str) -> Finding | None:
    """Whether states hold all that matters for what follows.

    None where nothing rests on a counted model or is compared with one, none can be counted, or there is one step.
    """
    modelled, kind = results.origin.weighed.problem.modelled, ESTIMATORS[name]
    converted = converts(results.settings["repair"])
    rests = converted or (kind.model_only and modelled.is_counted)
    counted = modelled.of_all_logs if rests or kind.shrinks else None
    if counted is None or counted.model.shape[0] == 1:
        return None
    apart, told = counted.model.dependence, 0.0
    if results.origin.episodes.features is not None:
        row, left = counted.model.residuals
        told = explained(modelled.study, modelled.study.decisions.row[row], left)
    light = GREEN if max(apart**2, told**2) <= NO_CHANCE else RED if rests else AMBER
    what = "the episode's past" if apart**2 > NO_CHANCE else "features that are not in the state"
    apart = apart if apart**2 > NO_CHANCE or told < abs(apart) else told
    return Finding(
        "what states leave out", light, f"{apart:+.1f} standard errors",
        "amber if what the model misses goes together within episodes, or with features, at 5%; red where the model is "
        "not corrected",
        "Given its state and action, what follows does not depend on the episode's past, as far as the logs show."
        if light == GREEN else
        f"Given its state and action, what follows depends on {what}: states leave out something that "
        "matters. A model counted over them is wrong" + (", and nothing corrects it here." if rests else
        ". The headline does not need it; but if those who acted knew what is left out, all estimates may be off."),
        "" if light == GREEN else "Put what matters into the state, or evaluate with features.",
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
        return (
            f"If annotators are right, the policy is worth {self.value:.4g}, and current practice {self.observed:.4g}. "
            f"If all annotations were {side} by {abs(self.bias):.3g}, both would be worth the same."
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
    value = estimate.trusting
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
        left = found.trusting - observed
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
