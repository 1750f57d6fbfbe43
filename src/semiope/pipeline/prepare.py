"""Annotations repaired and weights chosen, for each policy, before anything is estimated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from semiope.data.annotations import Annotations
from semiope.data.episodes import Episodes
from semiope.errors import OptionError
from semiope.models.outcomes import Counted, Given
from semiope.models.study import Outcomes
from semiope.policies.policy import AnyPolicy, Policy
from semiope.repair.mend import Workshop
from semiope.weights.auto import choose_weights
from semiope.weights.split import ESTIMATED


@dataclass(frozen=True, eq=False)
class Prepared:
    """What one policy is evaluated with, a sentence on each thing that was done or chosen, and what to be warned of."""

    annotations: Annotations | None
    weights: Any
    steps: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)

    @property
    def estimated(self) -> str | None:
        """The kind of weights, if they are to be estimated."""
        return self.weights if isinstance(self.weights, str) and self.weights in ESTIMATED else None


def prepare(
    episodes: Episodes,
    policies: Mapping[str, AnyPolicy],
    answers: Mapping[str, Annotations | None],
    steps: list[tuple[str, str]],
    weights: Any,
    outcomes: Mapping[str, Outcomes],
    gamma: float,
) -> dict[str, Prepared]:
    """Repair and choose, policy by policy."""
    auto = isinstance(weights, str) and weights == "auto"
    if steps and not any(answers.values()):
        raise OptionError("repair: there are no annotations to repair.")
    if not steps and not auto and all(one is None or one.said is None for one in answers.values()):
        return {name: Prepared(one, weights) for name, one in answers.items()}
    workshop = Workshop(episodes, policies, list(answers.values()), gamma)
    found = {}
    for name, own in answers.items():
        model = outcomes[name]
        done: list[str] = []
        notes: list[str] = []
        doubts: list[str] = []
        kind = weights
        by_state = isinstance(model, Counted) or (isinstance(model, Given) and isinstance(policies[name], Policy))
        regression = None if by_state else model
        if own is not None and (steps or own.said is not None):
            own, done, notes, doubts = workshop.mend(name, own, steps, regression)
        if auto:
            kind, why = choose_weights(own, workshop.case(name, regression))
            notes.append(f"policy {name!r}: {why}")
        found[name] = Prepared(own, kind, done, notes, [f"policy {name!r}: {doubt}" for doubt in doubts])
    return found
