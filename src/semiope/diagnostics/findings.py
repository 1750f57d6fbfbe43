"""Findings: a figure with a traffic light, the rule behind it, what it means in plain words, and the way out."""

from __future__ import annotations

import math
from typing import NamedTuple

from semiope.diagnostics.weight import tail_index, top_share
from semiope.errors import count
from semiope.estimate.result import EpisodeValues, Estimate

# The rule of findings about the behaviour policy where it does not matter.
SETTLED = "for information: all is answered for, and the behaviour policy cancels"
GREEN, AMBER, RED = "green", "amber", "red"
ORDER = (GREEN, AMBER, RED)


class Rule(NamedTuple):
    """When a figure is amber and when it is red: below these limits, or above them if the red one is the larger."""

    amber: float
    red: float
    form: str = "{:.0%}"

    def light(self, figure: float) -> str:
        """The colour of a figure; what is not known (NaN) is amber."""
        if math.isnan(figure):
            return AMBER
        sign = 1 if self.red > self.amber else -1
        return RED if sign * figure > sign * self.red else AMBER if sign * figure > sign * self.amber else GREEN

    def __str__(self) -> str:
        side = "above" if self.red > self.amber else "below"
        return f"amber {side} {self.form.format(self.amber)}, red {side} {self.form.format(self.red)}"


class Finding(NamedTuple):
    """`figure` is what was found, `rule` when its light changes, `sentence` what it means, `way_out` what to do."""

    name: str
    light: str
    figure: str
    rule: str
    sentence: str
    way_out: str = ""


def worst(lights: list[str]) -> str:
    """The worst of several lights; green if there is none."""
    return max(lights, key=ORDER.index, default=GREEN)


# From the coverage study in the documentation: with less, 95% intervals of pdis and pdwis held the truth in fewer than
# 90% of datasets for most policies of the sepsis world.
ESS_SHARE = Rule(amber=0.5, red=0.2)
ESS = Rule(amber=100, red=30, form="{:.0f}")
TOP = Rule(amber=5, red=10, form="{:.0f} times")
TAIL = Rule(amber=0.5, red=0.7, form="{:.1f}")
AVERAGE = Rule(amber=0.02, red=0.1)


def judge_weights(estimate: Estimate) -> list[Finding]:
    """Effective sample size, weight of the heaviest episodes, tail: what intervals rest on."""
    n, ess = len(estimate.values), estimate.ess
    listen = "Ask experts about what the policy would do where it leaves the logs, or collect more episodes."
    light = worst([ESS_SHARE.light(ess / n), ESS.light(ess)])
    found = [
        Finding(
            "effective sample size", light, f"{ess:,.0f} of {n:,}", f"{ESS_SHARE} of the episodes; {ESS} episodes",
            f"Its weights are worth as much as those of {ess:,.0f} episodes collected under the new policy"
            + ("; with so few, intervals are too narrow." if light == RED else "."),
            "" if light == GREEN else listen,
        )
    ]  # fmt: skip
    return [*found, _judge_top(estimate, listen), _judge_tail(estimate, listen)]


def _judge_top(estimate: Estimate, listen: str) -> Finding:
    top = top_share(estimate.normalizers)
    light = TOP.light(top.share / top.even)
    sentence = (
        f"{top.share:.0%} of the weight lies on the {count(top.episodes, 'episode')} that weigh most; if all counted "
        f"the same, it would be {top.even:.0%}."
    )
    return Finding(
        "weight of the heaviest 1%", light, "-" if math.isnan(top.share) else f"{top.share:.0%}",
        f"{TOP} what it would be if all counted the same",
        "No episode has any weight." if math.isnan(top.share) else sentence,
        "" if light == GREEN else f"Look at these episodes: one mistake among them moves the estimate. {listen}",
    )  # fmt: skip


def _judge_tail(estimate: Estimate, listen: str) -> Finding:
    index = tail_index(estimate.normalizers)
    light = TAIL.light(index) if not math.isinf(index) else GREEN if index < 0 else RED
    meaning = {
        GREEN: "No few episodes dominate: the estimate settles as more are collected.",
        AMBER: "The weights have a heavy tail: the estimate settles slowly, and intervals are optimistic."
        if not math.isnan(index)
        else "There are too few episodes to tell whether a few dominate.",
        RED: "The tail of the weights is so heavy that their variance may be infinite: an interval says little.",
    }
    shown = "none" if math.isinf(index) and index < 0 else "-" if math.isnan(index) else f"{index:.2f}"
    return Finding("tail of the weights", light, shown, str(TAIL), meaning[light], "" if light == GREEN else listen)


def judge_average(estimate: Estimate, *, counted: bool) -> Finding:
    """Ratios average one if the behaviour policy and the support are right."""
    ratios = Estimate("", "", EpisodeValues(estimate.normalizers, estimate.normalizers, estimate.per_episode[3]))
    mean, error = ratios.value, ratios.std_error
    beyond = max(abs(mean - 1) - 3 * error, 0.0) if math.isfinite(mean) else math.inf
    light = AVERAGE.light(beyond)
    form = ".3f" if abs(mean) < 1e6 else ".3g"
    return Finding(
        "mean of the ratios", light, f"{mean:{form}} +- {error:{form}}",
        f"off 1 by more than three standard errors: {AVERAGE}",
        "Ratios should average 1, and within their error they do." if light == GREEN else
        "Ratios should average 1, and do not: actions of the new policy have no support, the behaviour policy used is "
        "not the one that acted, or so few episodes matter that none of them was logged (see the tail of the weights).",
        "" if light == GREEN else
        f"See the support below; use a self-normalised form, or {'finer states' if counted else 'count the policy'}.",
    )  # fmt: skip
