"""The range that per-episode values cannot leave, derived from that of returns or rewards and from the largest ratio.

Where every action that the policy may take is taken or annotated at every step, an episode's value by C-IS, C-PDIS with
equal weights, C*-IS or C*-PDIS is an average of returns and answers, and lies where they do. Without annotations, let R
be the largest ratio pi_e / pi_b of all cells. The value of IS is a return times a weight of at most R^n over n steps;
that of PDIS follows v <- rho (r + gamma v), and so stays within what U <- R (r_max + gamma U) comes to. The behaviour
policy is taken as known; a counted one makes the range hold for these counts. Of answers to some questions only, no
range can be derived: what the split weights of the next episode will be, data cannot tell.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from semiope._arrays import Floats
from semiope.errors import OptionError, SupportError
from semiope.estimate.counterfactual import require_full_annotation
from semiope.estimate.problem import Problem, behavior
from semiope.estimate.registry import ESTIMATORS, Estimator
from semiope.policies.lookup import TableLookup
from semiope.uncertainty.intervals import Interval

Ends = tuple[float, float]
ROUNDING = 1e-9


def value_range(
    problem: Problem, estimator: str, *, returns: Ends | None = None, rewards: Ends | None = None
) -> Interval:
    """Derive the range of the per-episode values of an ordinary estimate.

    State the range of an episode's discounted return (also of one that goes on, after any step, as an expert expects),
    or that of a reward.
    """
    kind = ESTIMATORS[estimator]
    if kind.bounded is None:
        raise OptionError(
            f"range: none can be derived for {estimator}, whose episodes are not independent terms of a mean. "
            "Take is, pdis, c-is, c-pdis or c*-pdis, or state the range of its values."
        )
    low, high = _checked(returns, rewards)
    episodes = problem.evidence.logbook.episodes
    steps = int(episodes.lengths.max())
    largest = _largest(problem, estimator)
    in_all = float(np.sum(problem.gamma ** np.arange(steps)))
    if largest <= 1 + ROUNDING:
        found = (low, high) if returns is not None else (min(low, low * in_all), max(high, high * in_all))
        return Interval(min(0.0, found[0]), max(0.0, found[1])) if largest < 1 - ROUNDING else Interval(*found)
    if kind.recipe.whole:
        times = 1.0 if returns is not None else in_all
        return _finite(low * times, high * times, largest, steps, lambda end: end * largest**steps)
    if rewards is None:
        raise OptionError(
            f"range: ratios of {estimator} are as large as {largest:.3g}, so that single rewards matter. State "
            "rewards=(low, high), the range of a reward, instead of that of returns."
        )
    return _finite(low, high, largest, steps, lambda end: _grown(end, largest, problem.gamma, steps))


def _checked(returns: Ends | None, rewards: Ends | None) -> Ends:
    if (returns is None) == (rewards is None):
        raise OptionError(
            "range: a bound needs to know how small and how large an episode's return can be, which data cannot tell. "
            "State returns=(low, high), or rewards=(low, high) for each step."
        )
    given = rewards if returns is None else returns
    try:
        low, high = (float(end) for end in given)  # type: ignore[union-attr]
    except (TypeError, ValueError):
        raise OptionError(f"range: {given!r} is no range. Give two numbers: (low, high).") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise OptionError(f"range: {low:g} to {high:g} is no range. State the least and the greatest value possible.")
    return low, high


def _finite(low: float, high: float, largest: float, steps: int, grown: Callable[[float], float]) -> Interval:
    """The range after growth, which includes 0, since ratios may vanish."""
    try:
        found = Interval(grown(min(0.0, low)), grown(max(0.0, high)))
    except OverflowError:
        found = Interval(-math.inf, math.inf)
    if not all(map(math.isfinite, found)):
        raise SupportError(
            f"range: with ratios of up to {largest:.3g} over {steps:,} steps there is no range to speak of. "
            "Annotations keep ratios small; take c*-pdis, or c-pdis with all actions annotated."
        )
    return found


def _grown(reward: float, largest: float, gamma: float, steps: int) -> float:
    found = 0.0
    for _ in range(steps):
        found = largest * (reward + gamma * found)
    return found


def _largest(problem: Problem, estimator: str) -> float:
    """The largest factor by which one step can multiply an episode's weight."""
    kind = ESTIMATORS[estimator]
    if kind.bounded == "averages":
        require_full_annotation(problem)
        if not np.allclose(np.concatenate(_sums(problem, kind)), 1, rtol=0, atol=ROUNDING):
            raise SupportError(
                f"range: the weights of {estimator} differ from episode to episode, and how far they can go is not "
                "known. Take c*-pdis, whose do not."
            )
        return 1.0
    ratio = problem.ratio(behavior)
    if not isinstance(ratio, TableLookup):
        raise OptionError(
            f"range: the ratios of {estimator} at steps that were not logged are not known. State the range of "
            "per-episode values yourself: semiope.uncertainty.bounds.lower_bound(values, low, high)."
        )
    return float(ratio.table.max())


def _sums(problem: Problem, kind: Estimator) -> list[Floats]:
    """What each step multiplies an episode's weight by."""
    found = [kind.recipe.terms(slab) for slab in problem.slabs()]
    return [terms.f + (0.0 if terms.k is None else terms.k) for terms in found]
