"""Small MDPs with every trajectory, pattern of annotations and draw of answers, and the true distribution of returns.

All answers of an episode are quantiles of their returns at one level, drawn uniformly. Quantiles are step functions of
the level, so that between all their steps nothing changes: one copy of a trajectory for each such stretch, with its
length as probability, is everything that can happen.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import semiope as so
from semiope.estimate.evidence import gather
from semiope.estimate.problem import Problem
from semiope.models.counted import Counted
from tests.contract.worlds import Logs

Floats = NDArray[np.float64]
GAMMA = 0.9
PAIRS = [(0, 0), (0, 1), (1, 0), (1, 1)]


def problem_of(
    episodes: so.Episodes, policy: so.Policy, annotations: so.Annotations | None = None, **options: Any
) -> Problem:
    gamma = options.pop("gamma", GAMMA)
    settings: dict[str, Any] = {"behavior": None, "cell": "state", "weights": "equal", **options}
    return Problem.of("e", policy, gather(episodes, annotations, {"e": policy}, **settings), gamma, Counted())


def problem_from(logs: Logs, **options: Any) -> Problem:
    annotations = so.Annotations.from_arrays(**logs.annotations) if len(logs.annotations["step"]) else None
    options = {"behavior": so.Policy.from_table(logs.behavior), **options}
    episodes = so.Episodes.from_arrays(**logs.episodes)
    return problem_of(episodes, so.Policy.from_table(logs.evaluation), annotations, **options)


@dataclass(frozen=True)
class Outcomes:
    """Values with their probabilities, in ascending order."""

    value: Floats
    chance: Floats

    @classmethod
    def mixed(cls, parts: list[tuple[float, Outcomes]]) -> Outcomes:
        """Of one of the parts, with their probabilities; each value once."""
        value, place = np.unique(np.concatenate([part.value for _, part in parts]).round(12), return_inverse=True)
        chance = np.concatenate([prob * part.chance for prob, part in parts])
        return cls(value, np.bincount(place, chance).astype(np.float64))

    def after(self, reward: float) -> Outcomes:
        """Of reward + GAMMA * outcome."""
        return Outcomes(reward + GAMMA * self.value, self.chance)

    @property
    def mean(self) -> float:
        return float(self.value @ self.chance)

    def cdf(self, x: Floats) -> Floats:
        return np.array([self.chance[self.value <= one].sum() for one in x])

    def at(self, level: float) -> float:
        """The quantile."""
        return float(self.value[np.searchsorted(np.cumsum(self.chance)[:-1], level)])

    def shortfall(self, x: Floats) -> Floats:
        """E max(x - value, 0): what the convex order compares, beside means."""
        return np.array([np.maximum(one - self.value, 0) @ self.chance for one in x])

    def cvar(self, share: float) -> float:
        """max over x of x - E max(x - value, 0) / share (Rockafellar and Uryasev, 2000), reached at an outcome."""
        return float((self.value - self.shortfall(self.value) / share).max())


class Everything(NamedTuple):
    """All that can happen as logs, with the probability of each episode, and the returns under pi_e."""

    problem: Problem
    probability: Floats
    returns: Outcomes


class Small:
    """A random MDP of two states and two actions that ends after `horizon` steps."""

    def __init__(self, seed: int, horizon: int, *, unsupported: bool = False) -> None:
        rng = np.random.default_rng(seed)
        self.horizon = horizon
        self.start, self.following = rng.dirichlet(np.ones(2)), rng.dirichlet(np.ones(2), size=(2, 2))
        self.behavior, self.evaluation = rng.dirichlet(np.ones(2), size=(2, 2))
        if unsupported:
            self.behavior = np.tile([1.0, 0.0], (2, 1))
        self.reward = rng.normal(size=(2, 2))
        self.rest: dict[tuple[int, int, int], Outcomes] = {}
        ahead = [Outcomes(np.zeros(1), np.ones(1))] * 2
        for t in reversed(range(horizon)):
            for s, a in PAIRS:
                later = Outcomes.mixed([(self.following[s, a, z], ahead[z]) for z in (0, 1)])
                self.rest[t, s, a] = later.after(self.reward[s, a])
            ahead = [Outcomes.mixed([(self.evaluation[s, a], self.rest[t, s, a]) for a in (0, 1)]) for s in (0, 1)]
        self.returns = Outcomes.mixed([(self.start[s], ahead[s]) for s in (0, 1)])

    def everything(self, answers: str, *, asked: str) -> Everything:
        """`answers`: "draws" or "means"; `asked`: "none", "all", or "each or not", with probability 1/2."""
        steps = range(self.horizon)
        levels = np.unique(
            np.concatenate([[0.0, 1.0], *(np.cumsum(one.chance) for one in self.rest.values())]).round(12)
        )
        stretches = list(zip((levels[1:] + levels[:-1]) / 2, np.diff(levels), strict=True))
        if answers == "means" or asked == "none":
            stretches = [(0.5, 1.0)]
        patterns = {"none": [(0,) * self.horizon], "all": [(1,) * self.horizon]}
        flags = patterns.get(asked) or [*itertools.product((0, 1), repeat=self.horizon)]
        rows: list[Any] = []
        told: list[Any] = []
        probability: list[float] = []
        possible = [pair for pair in PAIRS if self.behavior[pair] > 0]
        for way in itertools.product(possible, repeat=self.horizon):
            chance = self.start[way[0][0]] * np.prod([self.behavior[pair] for pair in way])
            chance *= np.prod([self.following[way[t]][way[t + 1][0]] for t in steps[:-1]])
            for flagged, (level, length) in itertools.product(flags, stretches):
                n = len(probability)
                probability.append(float(chance) * float(length) / len(flags))
                rows += [(n, t, s, a, self.reward[s, a]) for t, (s, a) in enumerate(way)]
                for t in np.flatnonzero(flagged):
                    s, other = way[t][0], 1 - way[t][1]
                    rest = self.rest[int(t), s, other]
                    told.append((n, t, other, rest.mean if answers == "means" else rest.at(float(level))))
        columns = dict(zip(("episode", "step", "state", "action", "reward"), zip(*rows, strict=True), strict=True))
        names = ("episode", "step", "action", "value")
        problem = problem_of(
            so.Episodes.from_arrays(**columns),
            so.Policy.from_table(self.evaluation),
            so.Annotations.from_arrays(**dict(zip(names, zip(*told, strict=True), strict=True))) if told else None,
            behavior=so.Policy.from_table(self.behavior),
        )
        return Everything(problem, np.array(probability), self.returns)
