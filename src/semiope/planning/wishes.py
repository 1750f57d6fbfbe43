"""What a user may say about a plan, and what cannot be meant."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from semiope._options import check_count, check_gamma
from semiope._random import generator
from semiope.errors import OptionError, nearest
from semiope.planning.blind import n_decoys
from semiope.planning.goals import check_goal
from semiope.planning.questions import Cost, n_shared
from semiope.uncertainty.intervals import check_alpha

ABOUT = ("policy", "behavior")
DESIGNS = ("random", "best")
# Squares of numbers must be numbers.
LARGEST = 1e100


@dataclass(frozen=True, eq=False)
class Wishes:
    """Everything that a user may say about a plan, checked."""

    budget: float | None
    about: str
    goal: str
    gamma: float
    decoys: float
    least_gain: float
    batch: float | None = None
    noise: float | None = None
    cost: Cost = None
    experts: Sequence[str] = ("expert",)
    overlap: float = 0.0
    shared_by: int = 2
    per_episode: int | None = None
    per_expert: int | None = None
    alpha: float = 0.05
    target_width: float | None = None
    seed: int = 0
    design: str = "best"

    def __post_init__(self) -> None:
        """Fail where numbers cannot be meant."""
        if self.budget is None and self.target_width is None:
            raise OptionError("budget: how many questions may be asked? Give a number, or a target_width to reach.")
        for name in ("budget", "batch"):
            given = getattr(self, name)
            if given is not None and not (_is_number(given) and given >= 1):
                raise OptionError(f"{name}: {given!r} is not a number of at least 1 (and at most {LARGEST:g}).")
        for name, low, high in (("overlap", 0, 1), ("least_gain", 0, 1), ("decoys", 0, 10)):
            given = getattr(self, name)
            if not _is_number(given) or not low <= given <= high:
                raise OptionError(f"{name}: {given!r} is not a number between {low} and {high}.")
        for name in ("noise", "target_width"):
            given = getattr(self, name)
            if given is not None and not (_is_number(given) and (given > 0 or (name == "noise" and given == 0))):
                raise OptionError(
                    f"{name}: {given!r} is not a number {'of at least' if name == 'noise' else 'above'} 0."
                )
        for name in ("per_episode", "per_expert"):
            if getattr(self, name) is not None:
                check_count(getattr(self, name), name)
        check_count(self.shared_by, "shared_by", least=2)
        if self.overlap and len(self.experts) < 2:
            raise OptionError("overlap: one expert alone shares no questions. Name several experts.")
        if self.about not in ABOUT:
            raise OptionError(
                f"about: {self.about!r} is not known.{nearest(str(self.about), ABOUT)} Use {' or '.join(ABOUT)}."
            )
        if self.design not in DESIGNS:
            raise OptionError(
                f"design: {self.design!r} is not known.{nearest(str(self.design), DESIGNS)} Use {' or '.join(DESIGNS)}."
            )
        check_goal(self.goal)
        check_alpha(self.alpha)
        check_gamma(self.gamma)
        if not isinstance(self.seed, Integral) or self.seed >= 1 << 63:
            raise OptionError(
                f"seed: {self.seed!r} is not a whole number from 0 to 2**63 - 1: it is kept with the plan."
            )
        generator(int(self.seed))
        if self.overlap and self.shared_by > len(self.experts):
            raise OptionError(f"shared_by: {self.shared_by}, but there are only {len(self.experts)} experts.")
        if self.most_needed == 0:
            raise OptionError(
                f"per_expert: with at most {self.per_expert} for each expert there is no room for a needed question "
                "and its decoys. Allow more, or take fewer decoys or less overlap."
            )

    @property
    def about_today(self) -> bool:
        """Whether experts answer for usual care."""
        return self.about == "behavior"

    @property
    def copies(self) -> float:
        """How many experts a question goes to, on average."""
        return 1 + self.overlap * (self.takers - 1)

    @property
    def takers(self) -> int:
        """How many experts share a question."""
        return min(self.shared_by, len(self.experts))

    @property
    def most_needed(self) -> int | None:
        """How many different questions all experts have time for, decoys aside; None if time does not matter."""
        if self.per_expert is None:
            return None
        time = self.per_expert * len(self.experts)
        found = math.floor(time / self.copies / (1 + self.decoys)) + self.takers
        while found and self._dealt(found) > time:
            found -= 1
        return found

    def _dealt(self, n_needed: int) -> int:
        """How many questions are dealt to all experts together, if so many different ones are needed."""
        others = n_decoys(self.decoys, n_needed)
        shared = n_shared(self.overlap, n_needed) + n_shared(self.overlap, others)
        return n_needed + others + shared * (self.takers - 1)


def _is_number(given: Any) -> bool:
    known = isinstance(given, int | float | np.integer | np.floating) and not isinstance(given, bool)
    return known and bool(abs(given) <= LARGEST)
