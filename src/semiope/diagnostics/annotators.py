"""Lights on annotators: bias, noise, agreement, and whether the std they state is the one they have."""

from __future__ import annotations

import math
from collections.abc import Callable

from semiope.diagnostics.findings import AMBER, GREEN, Finding, Rule, worst
from semiope.diagnostics.quality import ENOUGH, LAST, AnnotatorQuality, Quality

BIAS = Rule(amber=0.1, red=0.3)
NOISE = Rule(amber=0.5, red=1.0)
AGREEMENT = Rule(amber=0.75, red=0.5, form="{:.2f}")
BY = {
    "peers": "others' answers",
    "persons": "others' answers",
    "another": "others' answers",
    "twins": "outcomes",
    "outcomes": "outcomes",
    "repeats": "repeated answers",
}
HONESTY = Rule(amber=1.5, red=2.0, form="{:.1f}")


def judge_annotators(quality: Quality, scatter: float) -> list[Finding]:
    """What can be judged from these data; `scatter` is the std of returns, in which bias and noise are measured."""
    found = [_bias(quality, scatter), _noise(quality, scatter), _agreement(quality), _honesty(quality)]
    return [one for one in found if one is not None]


def _bias(quality: Quality, scatter: float) -> Finding | None:
    judged = [one for one in quality.annotators if one.bias.episodes >= ENOUGH and math.isfinite(one.bias.std_error)]
    if not judged or not scatter > 0:
        return None
    lights = []
    for one in judged:
        # What is beyond doubt: the end of the interval that is nearer to 0.
        low, high = one.bias.interval()
        sure = max(low, -high, 0.0) / scatter
        light = BIAS.light(sure)
        lights.append(light if one.basis == LAST or not one.caveat else AMBER if light != GREEN else GREEN)
    light = worst(lights)
    caveat = next((one.caveat for one in judged if one.caveat), "")
    return Finding(
        "bias of annotators", light, _listed(judged, _told_bias),
        f"surely beyond, in stds of returns: {BIAS}" + ("; amber at most where policies mix in" if caveat else ""),
        f"Answers about actions that were taken, minus what came of them. {caveat}".strip(),
        "" if light == GREEN else "See 'annotations against logs': it weighs outcomes to the policy.",
    )  # fmt: skip


def _noise(quality: Quality, scatter: float) -> Finding | None:
    judged = [one for one in quality.annotators if one.noise.episodes >= ENOUGH and math.isfinite(one.noise.value)]
    if not judged or not scatter > 0:
        return None
    light = worst([NOISE.light(one.noise.value / scatter) for one in judged])
    sources = ", ".join(dict.fromkeys(BY[one.noise.source] for one in judged))
    return Finding(
        "noise of annotators", light, _listed(judged, lambda one: f"{one.noise.value:.3g}"),
        f"in stds of returns: {NOISE}",
        f"How much answers scatter around what is right, judged by {sources}; returns scatter by {scatter:.3g}.",
        "" if light == GREEN else "Noise costs certainty, not rightness: pp-dr weighs it.",
    )  # fmt: skip


def _agreement(quality: Quality) -> Finding | None:
    found = quality.agreement
    if found.questions < ENOUGH or not math.isfinite(found.icc):
        return None
    low, high = found.interval()
    light = AGREEMENT.light(found.icc)
    return Finding(
        "agreement of annotators", light, f"ICC {found.icc:.2f} ({low:.2f} to {high:.2f})", f"ICC: {AGREEMENT}",
        f"Of what answers differ by, {max(found.icc, 0):.0%} lies between the {found.questions:,} questions that "
        "several answered, the rest between the people.",
        "" if light == GREEN else "Look at the questions on which they differ most; pp-dr takes their offsets out.",
    )  # fmt: skip


def _honesty(quality: Quality) -> Finding | None:
    candidates = (quality.honesty_peers, quality.honesty_outcomes)
    ratio = next((one for one in candidates if one.episodes >= ENOUGH and one.value > 0), None)
    if ratio is None:
        return None
    light = HONESTY.light(max(ratio.value, 1 / ratio.value))
    too = "smaller" if ratio.value > 1 else "larger"
    return Finding(
        "stated std of annotators", light, f"{ratio.value:.2f} times", f"times too small or too large: {HONESTY}",
        f"Answers scatter {ratio.value:.2f} times as much as their std says ({ratio.source or 'outcomes'})"
        + ("." if light == GREEN else f": the stated std is {too} than it should be."),
        "" if light == GREEN else "Leave the column std out, so that scatter is estimated.",
    )  # fmt: skip


def _told_bias(one: AnnotatorQuality) -> str:
    return f"{one.bias.value:+.3g} +- {one.bias.std_error:.2g} ({one.bias.n:,} answers, {one.basis})"


def _listed(judged: list[AnnotatorQuality], told: Callable[[AnnotatorQuality], str]) -> str:
    return "; ".join(f"{one.name} {told(one)}" for one in judged[:6])
