"""The steps of a repair by name, and walking through them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from semiope.data.annotations import Annotations
from semiope.errors import OptionError, nearest
from semiope.repair.case import Case
from semiope.repair.convert import convert
from semiope.repair.impute import impute
from semiope.repair.model import model
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
    "model": Step(model, (), "missing and noisy answers from the logs' model, corrected by the answers there are"),
}


def read_steps(repair: str | Sequence[str] | None) -> list[tuple[str, str]]:
    """Names and options of the steps in 'pool,convert:authors' or a list of such words."""
    if repair is not None and not isinstance(repair, str | Sequence):
        raise OptionError(f"repair: {repair!r} is no list of steps. Known: {', '.join(STEPS)}.")
    words = repair.split(",") if isinstance(repair, str) else list(repair or ())
    found: list[tuple[str, str]] = []
    for word in words:
        name, _, option = str(word).strip().lower().partition(":")
        if name not in STEPS:
            raise OptionError(f"repair: {word!r} is no step.{nearest(name, STEPS)} Known: {', '.join(STEPS)}.")
        if option and option not in STEPS[name].options:
            known = ", ".join(STEPS[name].options) or "none"
            raise OptionError(
                f"repair: {name} has no option {option!r}.{nearest(option, STEPS[name].options)} Known: {known}."
            )
        if name in (earlier for earlier, _ in found):
            raise OptionError(f"repair: {name} is there twice. Each step is done once.")
        found.append((name, option))
    return found


def repaired(annotations: Annotations, case: Case, steps: Sequence[tuple[str, str]]) -> tuple[Annotations, list[str]]:
    """Walk through the steps; also return a sentence for each on what was done.

    Until they are converted, if they are, the answers speak of the behaviour policy.
    """
    notes = []
    for place, (name, option) in enumerate(steps):
        before = any(later == "convert" for later, _ in steps[place:])
        annotations, note = STEPS[name].function(annotations, replace(case, about_today=before), option)
        notes.append(f"policy {case.name!r}: {note}")
    return annotations, notes
