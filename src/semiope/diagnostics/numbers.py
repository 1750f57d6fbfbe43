"""Estimates that are no numbers, have no standard error, or rest on next to nothing: why, and what to do."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from semiope.estimate.problem import Problem
from semiope.estimate.registry import ESTIMATORS
from semiope.estimate.result import Estimate
from semiope.models.outcomes import Given

# Ratios that average one but for chance: so many standard errors, and at least so much.
DEVIATIONS, NOTICEABLE = 4, 0.02
# Fewer effective episodes than this carry no conclusion.
FEW = 10


def judge_numbers(policy: str, estimates: Mapping[str, Estimate]) -> list[str]:
    """Return a message for each estimate that cannot be given as it should, and one for those that rest on little."""
    messages, few = [], {}
    for name, estimate in estimates.items():
        n = len(estimate.values)
        if not estimate.values.any() and not estimate.normalizers.any():
            what = "undefined" if math.isnan(estimate.value) else "0 without meaning"
            messages.append(
                f"policy {policy!r}: {name} is {what}, since no episode has a ratio above 0: none does what the policy "
                "would do. The logs cannot tell; annotate steps at which the policy would act otherwise."
            )
        elif math.isnan(estimate.value) or math.isinf(estimate.value):
            messages.append(f"policy {policy!r}: {name} exceeds the range of numbers. {_beyond(estimate)}")
        elif estimate.value == 0.0 and estimate.values.any() and any(estimate.per_episode[2:4]):
            messages.append(f"policy {policy!r}: {name} is too small for the range of numbers. {_beyond(estimate)}")
        elif estimate.ess < min(FEW, n / 2):
            few[name] = estimate.ess
    if any(len(estimate.values) == 1 for estimate in estimates.values()):
        messages.append("there is only one episode: no standard error, no interval.")
    elif any(len(estimate.values) < FEW for estimate in estimates.values()):
        messages.append(f"there are only {n} episodes: intervals from so few mean little. Log more.")
    elif few:
        listed = ", ".join(f"{name} ({ess:.1f})" for name, ess in few.items())
        messages.append(
            f"policy {policy!r}: a handful of episodes carries the estimate; of {n:,} the effective number is below "
            f"{FEW} for {listed}. Neither values nor intervals can be relied on; annotate more episodes."
        )
    return messages


def judge_models(problem: Problem, names: Sequence[str]) -> list[str]:
    """Warn where a cross-fitted model rests on a handful of episodes."""
    concerned = [name for name in names if ESTIMATORS[name].recipe.critic]
    n, folds = problem.evidence.logbook.episodes.n_episodes, problem.modelled.outcomes.folds
    if not concerned or folds is None or n >= 2 * folds or isinstance(problem.modelled.outcomes, Given):
        return []
    return [
        f"policy {problem.name!r}: {n:,} episodes are too few for a model in {folds} folds; {', '.join(concerned)} "
        "rest on next to nothing. Give a model of your own, or use estimators without one."
    ]


def judge_normalizers(
    policy: str, estimates: Mapping[str, Estimate], unsupported: float, *, way_out: str, by_features: bool = False
) -> list[str]:
    """Warn where ratios with annotations do not average one, as they should if the augmented policy were right.

    `unsupported` is the mass of the policy without support: it explains as much, and has a warning of its own.
    `by_features`: it is known row by row, from a behavior policy and mean split weights that depend on features.
    """
    messages = []
    why = (
        "The behavior policy is off, or which questions were asked depends on more than features and actions."
        if by_features
        else "The mean split weights are counted, and for actions of the behaviour policy that were not logged in a "
        "state they are not known."
    )
    for name, estimate in estimates.items():
        if ESTIMATORS[name].support != "augmented" or estimate.self_normalized or len(estimate.normalizers) < 2:
            continue
        mean = float(estimate.normalizers.mean())
        error = float(estimate.normalizers.std(ddof=1)) / len(estimate.normalizers) ** 0.5
        if math.isfinite(mean) and abs(mean - 1) > unsupported + max(DEVIATIONS * error, NOTICEABLE):
            also = f"{ESTIMATORS[name].normalized} or " if ESTIMATORS[name].normalized else ""
            messages.append(
                f"policy {policy!r}: the ratios of {name} average {mean:.3g} where 1 is expected: it is biased. "
                f"{why} Use {also}{way_out}."
            )
    return messages


def _beyond(estimate: Estimate) -> str:
    if estimate.self_normalized:
        return "The ratios of whole episodes vanish beside those of their first steps; use pdwis-step or annotations."
    return "The ratios of such long episodes multiply to nearly nothing or nearly infinity; use a self-normalised form."
