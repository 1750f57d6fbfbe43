"""When to stop: the decisions are settled, the next batch would bring too little, or the budget is used.

An estimate is off for two reasons. The episodes are a sample: with all answers exact the difference to today's policy
would still have a standard error, nearly the same at every look. And answers are missing or noisy: as they come in,
what is expected of the difference moves towards what all exact answers would say, and the variance r^2 that remains
(`design.py`) falls. Seen backwards, from the end, that is a Brownian motion that has run for r^2, so that

    | difference - expected |  <  sqrt( (r^2 + rho) log( (r^2 + rho) / (rho alpha^2) ) )

holds at all looks at once with probability 1 - alpha (Robbins' normal mixture), whenever one looks and whyever one
stops. It is best where r^2 is about rho, and for a smaller one hardly falls: so there is one for each of several rho,
each a quarter of the one before, with half, a quarter ... of alpha, and the least of them is taken. The first gets most
of the error rate, by Student's t; the second the rest.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from scipy.stats import norm
from scipy.stats import t as student

from semiope._arrays import Floats

# Shares of the error rate.
OF_EPISODES, OF_ANSWERS = 0.8, 0.2
# The first rho in units of the variance before any answer, by how much each is smaller than the one before, how many.
MIXED, FINER, SCALES = 0.05, 4.0, 8
# Answers to fewer questions say nothing of how far answers are from what was expected.
FEW = 10
BETTER, WORSE, OPEN = "better", "worse", "open"


class Decision(NamedTuple):
    """Whether one policy is better than another (None: today's): the difference, and bounds that hold at every look.

    Each of the two bounds fails with at most the error rate; both together, with less than twice that.
    """

    policy: str
    than: str | None
    difference: float
    low: float
    high: float
    call: str

    def __str__(self) -> str:
        than = "today's policy" if self.than is None else repr(self.than)
        if math.isnan(self.difference):
            return f"{self.policy!r}: compared with {than} once there are annotations"
        verdict = f"{self.call} than" if self.call != OPEN else "not told apart from"
        return f"{self.policy!r}: {verdict} {than}: {self.difference:+.4g} ({self.low:+.4g} to {self.high:+.4g})"


class Stop(NamedTuple):
    """Why nothing more is asked: 'settled', 'width', 'budget', 'nothing' or 'gain', and a sentence."""

    reason: str
    sentence: str


def bound(remaining: float, before: float, alpha: float) -> float:
    """How far answers still missing may move a difference, at all looks at once."""
    if before <= 0:
        return 0.0
    return min(_mixture(remaining, MIXED * before / FINER**j, alpha / 2 ** (j + 1)) for j in range(SCALES))


def _mixture(remaining: float, rho: float, alpha: float) -> float:
    return math.sqrt((remaining + rho) * (math.log1p(remaining / rho) - 2 * math.log(alpha)))


def decide(name: str, than: str | None, differences: Floats, remaining: float, before: float, alpha: float) -> Decision:
    """Call a policy better or worse, from differences by episode and what was not known of answers now and before."""
    n = len(differences)
    value = float(differences.mean())
    error = float(differences.std(ddof=1)) / math.sqrt(n)
    width = float(student.isf(OF_EPISODES * alpha, n - 1)) * error + bound(remaining, before, OF_ANSWERS * alpha)
    call = BETTER if value - width > 0 else WORSE if value + width < 0 else OPEN
    return Decision(name, than, value, value - width, value + width, call)


def width(error: float, alpha: float) -> float:
    """Of an interval at one look, for a standard error."""
    return -2 * error * float(norm.ppf(alpha / 2))


class Spending(NamedTuple):
    """What answers have cost, what all may, what may be spent now, and what the cheapest question costs (if any)."""

    used: float
    budget: float
    now: float
    cheapest: float


def why_stop(
    decisions: list[Decision],
    settles: bool,
    spending: Spending,
    *,
    width: float,
    target: float | None,
    gain: float,
    least: float,
    alpha: float,
) -> Stop | None:
    """The first reason there is; `width` is that of intervals now, `target` the one wanted, if one is."""
    if settles and decisions and all(one.call != OPEN for one in decisions):
        told = "the decision is settled" if len(decisions) == 1 else f"all {len(decisions)} decisions are settled, each"
        return Stop("settled", f"{told} at an error rate of {alpha:g}, at whatever look.")
    if target is not None and width <= target:
        return Stop(
            "width",
            f"intervals for this look alone are expected to be {width:.3g} wide, within the {target:g} wanted (those "
            "shown hold at all looks, and are wider).",
        )
    used, budget, now, cheapest = spending
    if used >= budget:
        return Stop("budget", f"the budget is used: {used:g} of {budget:g}.")
    if math.isinf(cheapest):
        return Stop("nothing", "every question that matters and may be asked has been answered.")
    if cheapest > now:
        left = f"{used:g} of {budget:g} used, and {now:g} may be spent now"
        return Stop("budget", f"the budget does not reach: {left}; the next question costs {cheapest:g} at least.")
    if gain < least:
        return Stop("gain", f"the next batch would make the expected error {gain:.2%} smaller, less than {least:.2%}.")
    if gain <= 0:
        return Stop("gain", "a batch as small as this is not expected to make the error smaller. Raise the budget.")
    return None
