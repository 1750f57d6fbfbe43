"""Annotations repaired and weights chosen, for each policy, before anything is estimated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from semiope.data.annotations import Annotations
from semiope.data.episodes import Episodes
from semiope.errors import OptionError, SchemaError
from semiope.models.study import Outcomes
from semiope.policies.policy import AnyPolicy
from semiope.repair.case import Case
from semiope.repair.steps import repaired
from semiope.weights.auto import choose_weights
from semiope.weights.split import ESTIMATED


@dataclass(frozen=True, eq=False)
class Prepared:
    """What one policy is evaluated with, a sentence on each thing that was done or chosen, and what to be warned of.

    `fitted`: annotations were repaired, or completed, by something that was fitted to the same episodes. `between` is
    the standard error of the mean of annotators who were pooled, because others could have been asked.
    """

    annotations: Annotations | None
    weights: Any
    steps: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    fitted: bool = False
    between: float = 0.0

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
    *,
    about_behavior: bool = False,
) -> dict[str, Prepared]:
    """Repair and choose, policy by policy; `about_behavior`: a plan asked about the behavior policy."""
    if steps and not any(answers.values()):
        raise OptionError("repair: there are no annotations to repair.")
    found = {}
    for name, own in answers.items():
        kind, fitted, between = weights, False, 0.0
        done: list[str] = []
        notes: list[str] = []
        doubts: list[str] = []
        if own is not None and (steps or own.said is not None):
            words = _all_actions(episodes, policies, answers)
            case = Case(episodes, words, policies[name], name, gamma, outcomes[name])
            fitted = own.said is not None
            own, done, notes, doubts, between = repaired(own, case, steps, about_behavior=about_behavior)
        if isinstance(weights, str) and weights == "auto":
            kind, why = choose_weights(own, episodes.n_episodes)
            notes.append(f"policy {name!r}: {why}")
        doubts = [f"policy {name!r}: {doubt}" for doubt in doubts]
        found[name] = Prepared(own, kind, done, notes, doubts, fitted or bool(done), between)
    return found


def _all_actions(
    episodes: Episodes, policies: Mapping[str, AnyPolicy], answers: Mapping[str, Annotations | None]
) -> tuple[int | str, ...]:
    """Labels of all actions that exist."""
    known = [policy.actions for policy in policies.values()]
    known += [one.actions for one in answers.values() if one is not None]
    if not all(episodes.actions.comparable(words) for words in known):
        raise SchemaError("repair: column 'action' holds integers here and strings there. Use the same labels.")
    return tuple(dict.fromkeys(label for words in known for label in words.words.to_pylist()))
