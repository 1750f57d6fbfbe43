"""Ways to choose questions, tried on one sepsis dataset: estimates by the number of questions asked.

All ways have the same estimator: the annotation model completes the answers (`planning`), so that they differ by the
questions alone. Experts answer for the policy, or for usual care, with noise or without.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from semiope._arrays import Floats, Integers
from semiope.data.annotations import Annotations
from semiope.domains import sepsis
from semiope.domains.annotators import Annotator
from semiope.paper.settings import Settings
from semiope.paper.trials import Dataset
from semiope.planning.planner import Planner
from semiope.planning.wishes import Wishes
from semiope.policies.policy import Policy

WAYS = ("random", "mattering", "deviations", "planned")
BUDGETS = (5, 10, 20, 50, 100, 200, 400, 1000, 3000)
NOISES = (0.0, 0.2, 1.0)
SOFT = 0.1


def ask_alone(settings: Settings, number: int) -> dict[str, Any]:
    """Each policy planned on its own, answers about its own returns."""
    return _ask_each(settings, number, sepsis.world().policies, "policy")


def ask_softened(settings: Settings, number: int) -> dict[str, Any]:
    """The same for policies that do otherwise with a probability of SOFT, every third of them."""
    return _ask_each(settings, number, every_third(softened()), "policy")


def ask_for_today(settings: Settings, number: int) -> dict[str, Any]:
    """Every third policy planned on its own, answers about usual care."""
    return _ask_each(settings, number, every_third(sepsis.world().policies), "behavior")


def every_third(policies: dict[str, Policy]) -> dict[str, Policy]:
    """Every third policy."""
    return dict(list(policies.items())[::3])


def ask_together(settings: Settings, number: int) -> dict[str, Any]:
    """All policies at once, answers about usual care."""
    data = Dataset.of(settings, number)
    found: dict[str, Floats] = {}
    planner = Planner(data.episodes, sepsis.world().policies, None, wishes("behavior"))
    for noise in NOISES:
        desk = Desk(planner, _told(data, sepsis.world().behavior, noise), data.seed)
        found |= {f"{noise} {way}": desk.curve(way) for way in WAYS}
        found[f"{noise} all"] = desk.estimates(desk.codes)
    return found


def softened() -> dict[str, Policy]:
    """Policies that take the other vasopressor choice now and then."""
    world = sepsis.world()
    other = np.arange(sepsis.N_ACTIONS) ^ 1
    return {
        name: world.mdp.policy((1 - SOFT) * policy.probs + SOFT * policy.probs[:, other])
        for name, policy in world.policies.items()
    }


def wishes(about: str) -> Wishes:
    """A budget is given question by question here, and experts need not be kept blind."""
    return Wishes(budget=1.0, about=about, goal="value", gamma=sepsis.GAMMA, decoys=0.0, least_gain=0.0)


def _told(data: Dataset, policy: Policy, noise: float) -> Annotations:
    """Answers to every question about the returns of a policy."""
    return sepsis.world().annotate(data.episodes, policy, annotators=Annotator(std=noise), seed=data.seed)


def _ask_each(settings: Settings, number: int, policies: dict[str, Policy], about: str) -> dict[str, Any]:
    data = Dataset.of(settings, number)
    found: dict[str, list[Floats]] = {}
    recorded = None
    for name, policy in policies.items():
        planner = Planner(data.episodes, {name: policy}, None, wishes(about))
        if recorded is not None:
            vars(planner)["recorded"] = recorded
        recorded = planner.recorded
        for noise in NOISES:
            desk = Desk(
                planner, _told(data, policy if about == "policy" else sepsis.world().behavior, noise), data.seed
            )
            for way in WAYS:
                found.setdefault(f"{noise} {way}", []).append(desk.curve(way))
            found.setdefault(f"{noise} all", []).append(desk.estimates(desk.codes))
    return {name: np.concatenate(parts, axis=-1) for name, parts in found.items()}


class Desk:
    """A planner without answers, all that experts would answer, and the seed of what is chosen at random."""

    def __init__(self, planner: Planner, told: Annotations, seed: int) -> None:
        self.planner, self.seed = planner, seed
        row = planner.episodes.rows_of(told.labels, told.episode, told.step, "annotations")
        codes = self._code(row, planner.logbook.actions.positions_of(told.actions)[told.action])
        order = np.argsort(codes, kind="stable")
        self.codes, self.annotations = codes[order], told.some(order)

    def _code(self, row: Integers, action: Integers) -> Integers:
        found: Integers = row.astype(np.int64) * len(self.planner.logbook.actions) + action
        return found

    def answered(self, codes: Integers) -> Planner:
        """The planner with answers to these questions."""
        place = np.searchsorted(self.codes, np.sort(codes))
        return self.planner.answered_by(self.annotations.some(place) if len(place) else None)

    def estimates(self, codes: Integers) -> Floats:
        """Of each policy."""
        return self.answered(codes).estimates()

    def curve(self, way: str) -> Floats:
        """Estimates after so many questions, (n_budgets, n_policies); a way that has no more to ask stays as it is."""
        order = _ORDERS[way](self) if way in _ORDERS else np.empty(0, dtype=np.int64)
        found: list[Floats] = []
        planner, asked = self.planner, np.empty(0, dtype=np.int64)
        for budget in BUDGETS:
            if way == "planned":
                new = planner.next_questions(budget - len(asked)).question
                codes = self._code(planner.matters.row[new], planner.matters.action[new])
                wanted = np.concatenate([asked, codes])
            else:
                wanted = order[:budget]
            if len(wanted) > len(asked) or not found:
                asked, planner = wanted, self.answered(wanted)
                found.append(planner.estimates())
            else:
                found.append(found[-1])
        return np.array(found)

    def mattering(self) -> Integers:
        """Questions whose answers are in an estimate themselves."""
        matters = self.planner.matters
        return self._code(matters.row[matters.direct], matters.action[matters.direct])


def _random(desk: Desk) -> Integers:
    """All questions, in any order: the paper's experiments with missing answers."""
    return np.random.default_rng(desk.seed).permutation(desk.codes)


def _mattering(desk: Desk) -> Integers:
    """Questions whose answers are in an estimate themselves, in any order."""
    return np.random.default_rng(desk.seed).permutation(desk.mattering())


def _deviations(desk: Desk) -> Integers:
    """Where most hangs on the answer, one question of each cell; then the others."""
    matters = desk.planner.matters
    codes, cell = desk.mattering(), matters.cell[matters.direct]
    size = np.sqrt(np.sum(matters.own_mass**2, axis=0))[cell]
    again = np.ones(len(codes), dtype=np.int64)
    again[np.unique(cell, return_index=True)[1]] = 0
    return codes[np.lexsort((codes, -size, again))]


_ORDERS: dict[str, Callable[[Desk], Integers]] = {
    "random": _random, "mattering": _mattering, "deviations": _deviations,
}  # fmt: skip
