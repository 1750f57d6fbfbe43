"""Refutation: what must hold if an estimate is right, tried by evaluating again with something changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from semiope._arrays import Floats
from semiope.data.annotations import Annotations
from semiope.diagnose.findings import GREEN, Finding, Rule
from semiope.errors import SupportError
from semiope.estimate.registry import ESTIMATORS
from semiope.pipeline.evaluate import again
from semiope.pipeline.results import Results
from semiope.policies.behavior import estimate_behavior

APART = Rule(amber=1.0, red=2.0, form="{:.0f}")


def placebo(results: Results, estimator: str) -> Finding:
    """Evaluate the policy that acted, as counted from the logs: it must be worth what was observed.

    Answers are left out, since they speak of the new policy.
    """
    run, plain = results.origin, ESTIMATORS[estimator].plain or estimator
    plain = plain if ESTIMATORS[plain].support == "logged" else "pdis"
    policy = estimate_behavior(run.episodes, cell=run.weighed.problem.evidence.cells.kind)
    found = again(results, policy=policy, annotations=None, estimators=plain, repair=None, weights="equal")[plain]
    observed = run.observed
    error = float(np.hypot(observed.std_error, 1e-9 * max(abs(observed.value), 1e-300)))
    apart = abs(found.value - observed.value) / error
    light = APART.light(apart)
    return Finding(
        "placebo: today's policy", light, f"{found.value:.4g} against {observed.value:.4g}",
        f"{APART} standard errors apart",
        f"Evaluated like the new one, the policy that acted comes to {found.value:.4g}; {observed.value:.4g} was "
        f"observed{' as it must' if light == GREEN else ': these should be the same'}.",
        "" if light == GREEN else "The behaviour policy given or logged is not the one that acted: behavior='count'.",
    )  # fmt: skip


class LeftOut(NamedTuple):
    """Estimates without each annotator, and the standard error that annotators add (jackknife)."""

    annotators: list[str]
    values: Floats
    std_error: float


def annotators_left_out(results: Results, estimator: str) -> LeftOut:
    """Evaluate again without each of the annotators in turn."""
    annotations = results.origin.annotations
    assert annotations is not None
    names, values = [], []
    for name, others in _without_each(annotations):
        try:
            values.append(again(results, annotations=others, estimators=estimator)[estimator].value)
            names.append(name)
        except SupportError:  # c*-estimators need all answers
            continue
    n = len(values)
    spread = float(np.sqrt((n - 1) / n * np.sum((np.array(values) - np.mean(values)) ** 2))) if n > 1 else np.nan
    return LeftOut(names, np.array(values), spread)


def leave_one_out(results: Results, estimator: str) -> Finding:
    """Whether the estimate hangs on one annotator."""
    found, own = annotators_left_out(results, estimator), results[estimator]
    apart = float(np.max(np.abs(found.values - own.value))) / own.std_error if len(found.values) else np.nan
    light = APART.light(apart)
    listed = ", ".join(f"{name} {value:.4g}" for name, value in zip(found.annotators, found.values, strict=True))
    return Finding(
        "leaving out one annotator", light, f"{apart:.1f} standard errors", f"{APART} standard errors",
        f"Without each of them in turn the estimate is: {listed} (all: {own.value:.4g}). Clustered by annotator, its "
        f"standard error is {float(np.hypot(own.std_error, found.std_error)):.2g} instead of {own.std_error:.2g}.",
        "" if light == GREEN else "Look at that annotator's bias and noise; pool answers with repair='pool'.",
    )  # fmt: skip


def _without_each(annotations: Annotations) -> Iterator[tuple[str, Annotations]]:
    who = annotations.annotator
    assert who is not None
    for name in dict.fromkeys(who.to_pylist()):
        keep = np.flatnonzero([other != name for other in who.to_pylist()])
        yield str(name), annotations.some(keep)
