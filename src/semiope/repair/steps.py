"""The steps of a repair by name, and walking through them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import pyarrow.compute as pc

from semiope.data.annotations import Annotations
from semiope.errors import OptionError, nearest
from semiope.models.case import Case
from semiope.repair.auto import choose
from semiope.repair.convert import convert
from semiope.repair.impute import impute
from semiope.repair.kinds import as_returns, only_returns
from semiope.repair.model import TODAY, model
from semiope.repair.pool import pool

Function = Callable[[Annotations, Case, str], tuple[Annotations, str]]


class Step(NamedTuple):
    """A function that repairs annotations for a policy, and the options it has."""

    function: Function
    options: tuple[str, ...]
    meaning: str


STEPS = {
    "pool": Step(pool, (), "several annotators made one: each one's bias taken out, weighed by its noise"),
    "convert": Step(convert, ("authors", "state"), "answers about today's policy turned to the policy evaluated"),
    "impute": Step(impute, ("step",), "missing answers as the mean of those about the same state and action"),
    "model": Step(
        model, (TODAY,), "missing and noisy answers from the logs' model, corrected by the answers there are"
    ),
}


# What needs no states that recur, if returns are modelled by regression on features.
BY_REGRESSION = ("model",)
# The steps are chosen by what the answers look like.
AUTO = [("auto", "")]


def read_steps(repair: str | Sequence[str] | None) -> list[tuple[str, str]]:
    """Names and options of the steps in 'pool,convert:authors' or a list of such words."""
    if repair is not None and not isinstance(repair, str | Sequence):
        raise OptionError(f"repair: {repair!r} is no list of steps. Known: {', '.join(STEPS)}.")
    words = re.split(r"[,\s]+", repair.strip()) if isinstance(repair, str) else list(repair or ())
    if [str(word).strip().lower() for word in words] == ["auto"]:
        return AUTO
    found: list[tuple[str, str]] = []
    for word in words:
        name, _, option = str(word).strip().lower().partition(":")
        if name not in STEPS:
            alone = " It stands alone." if name == "auto" else nearest(name, STEPS)
            raise OptionError(f"repair: {word!r} is no step.{alone} Known: {', '.join(STEPS)}, or auto.")
        if option and option not in STEPS[name].options:
            known = ", ".join(STEPS[name].options) or "none"
            raise OptionError(
                f"repair: {name} has no option {option!r}.{nearest(option, STEPS[name].options)} Known: {known}."
            )
        if name in (earlier for earlier, _ in found):
            raise OptionError(f"repair: {name} is there twice. Each step is done once.")
        found.append((name, option))
    if sum(_turns(name, option) for name, option in found) > 1:
        raise OptionError("repair: convert and model:today both turn answers to the policy. Take one of them.")
    return found


def _turns(name: str, option: str) -> bool:
    """Whether a step takes answers about today's policy, and leaves answers about the one evaluated."""
    return name == "convert" or (name, option) == ("model", TODAY)


def turned(steps: Sequence[str]) -> bool:
    """Whether one of these steps, as a result tells them, turns answers from today's policy to the one evaluated."""
    return any(_turns(*step.partition(":")[::2]) for step in steps)


def for_usual_care(answers: Sequence[Annotations | None]) -> str:
    """What to do with answers that a plan asked for about usual care: nothing needs to be found out about that."""
    experts = [one.annotator for one in answers if one is not None and one.annotator is not None]
    several = any(pc.count_distinct(one).as_py() > 1 and not one.null_count for one in experts)
    return f"pool,model:{TODAY}" if several else f"model:{TODAY}"


class Mended(NamedTuple):
    """Annotations after all steps, the steps, a sentence for each on what was done, and what to be warned of."""

    annotations: Annotations
    steps: list[str]
    notes: list[str]
    doubts: list[str]


def repaired(annotations: Annotations, case: Case, steps: Sequence[tuple[str, str]]) -> Mended:
    """Walk through the steps.

    Answers that are not returns are made so first. Until they are turned, if they are, the answers speak of the
    behaviour policy.
    """
    notes: list[str] = []
    if steps == AUTO:
        annotations, steps, notes = _chosen(annotations, case)
    annotations, told = as_returns(annotations, replace(case, about_today=any(_turns(*step) for step in steps)))
    notes += told
    for place, (name, option) in enumerate(steps):
        before = any(_turns(*later) for later in steps[place:])
        annotations, note = STEPS[name].function(annotations, replace(case, about_today=before), option)
        notes.append(note)
    if steps:
        notes.append(
            "standard errors take the repaired answers as given; what the repair does not know is not in them."
        )
    notes = [f"policy {case.name!r}: {note}" for note in notes]
    return Mended(annotations, [f"{name}:{option}" if option else name for name, option in steps], notes, case.doubts)


def _chosen(annotations: Annotations, case: Case) -> tuple[Annotations, list[tuple[str, str]], list[str]]:
    """The steps that the answers ask for, judged by those that are returns if there are any, and why."""
    reasons = []
    if annotations.annotator is not None and annotations.annotator.null_count:
        annotations = replace(annotations, annotator=None)
        reasons.append("repair: who gave which answer is left aside, because the column 'annotator' has gaps.")
    returns = only_returns(annotations)
    if returns is not None:
        steps, why = choose(returns, case)
        return annotations, steps, [*reasons, *why]
    # Rewards and preferences have been completed by returns of the policy itself: they cannot speak of another.
    annotations, told = as_returns(annotations, case)
    steps, why = choose(annotations, case)
    return annotations, [step for step in steps if step[0] != "convert"], [*reasons, *told, *why]
