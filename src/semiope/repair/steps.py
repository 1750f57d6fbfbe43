"""The steps of a repair by name, and walking through them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from semiope.data.annotations import Annotations
from semiope.errors import OptionError, nearest
from semiope.repair.auto import choose
from semiope.repair.case import Case
from semiope.repair.convert import convert
from semiope.repair.impute import impute
from semiope.repair.kinds import as_returns
from semiope.repair.pool import pool

Function = Callable[[Annotations, Case, str], tuple[Annotations, str]]


class Step(NamedTuple):
    """A function that repairs annotations for a policy, and the options it has."""

    function: Function
    options: tuple[str, ...]
    meaning: str


STEPS = {
    "pool": Step(pool, (), "several annotators made one: what each is above the others taken off, weighed by noise"),
    "convert": Step(convert, ("authors",), "annotations of the behavior policy converted to the policy evaluated"),
    "impute": Step(impute, ("step",), "missing annotations as the mean of those of the same state and action"),
}
# The steps are chosen by what the annotations look like.
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
        if name == "model":
            raise OptionError("repair: there is no step 'model'. pp-dr and pp-pdis complete annotations by themselves.")
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
    return found


def converts(steps: Sequence[str]) -> bool:
    """Whether one of these steps takes annotations of the behavior policy to the one evaluated."""
    return any(step.partition(":")[0] == "convert" for step in steps)


def imputes(steps: Sequence[str]) -> bool:
    """Whether one of these steps fills in annotations that nobody gave."""
    return any(step.partition(":")[0] == "impute" for step in steps)


class Repaired(NamedTuple):
    """Annotations after all steps, the steps, a sentence for each on what was done, and what to be warned of.

    `between` is the standard error of the annotators' mean, where they were pooled.
    """

    annotations: Annotations
    steps: list[str]
    notes: list[str]
    doubts: list[str]
    between: float


def repaired(
    annotations: Annotations, case: Case, steps: Sequence[tuple[str, str]], *, about_behavior: bool = False
) -> Repaired:
    """Walk through the steps.

    Annotations that are not returns are made so first. Until they are converted, if they are, they speak of the
    behavior policy.
    """
    notes: list[str] = []
    if steps == AUTO:
        steps, notes = choose(annotations, about_behavior=about_behavior)
    names = [name for name, _ in steps]
    annotations, told = as_returns(annotations, replace(case, about_behavior="convert" in names))
    notes += told
    for place, (name, option) in enumerate(steps):
        before = "convert" in names[place:]
        annotations, note = STEPS[name].function(annotations, replace(case, about_behavior=before), option)
        notes.append(note)
    notes = [f"policy {case.name!r}: {note}" for note in notes]
    done = [f"{name}:{option}" if option else name for name, option in steps]
    return Repaired(annotations, done, notes, case.doubts, max(case.between, default=0.0))
