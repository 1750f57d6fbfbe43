"""Small logs to plan with, and what a plan claims, computed the long way: whole covariance matrices."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import semiope as so
from semiope.domains import sepsis, tree
from semiope.planning.design import Design
from semiope.planning.planner import Planner

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
GAMMA = 0.99
NAME = "flip-200-seed-0"


def covariance(design: Design) -> Floats:
    """Of the answers of all cells: m of their kind, mu of their pair, delta of their own."""
    pair, variance, logged = design.pair, design.variance, design.logged
    same_pair = pair[:, None] == pair[None, :]
    same_kind = logged[pair][:, None] == logged[pair][None, :]
    level = np.where(logged[pair], design.levels[1], design.levels[0])
    found = np.where(same_pair, variance[pair], 0.0) + np.where(same_kind, level, 0.0)
    return found + design.step * np.eye(len(pair))


def posterior(design: Design, answered: Any) -> Floats:
    """The covariance of what is wanted, given one answer for each cell named (a cell may be named several times)."""
    whole, cells = covariance(design), np.asarray(answered, dtype=np.int64)
    told = whole[np.ix_(cells, cells)] + design.noise * np.eye(len(cells))
    left = whole - whole[:, cells] @ np.linalg.solve(told, whole[cells]) if len(cells) else whole
    found: Floats = design.mass @ left @ design.mass.T
    return found


def repeated(times: Floats) -> Integers:
    """The cells, each as often as it was answered."""
    return np.repeat(np.arange(len(times)), times.astype(int))


def random_design(seed: int, *, n_wanted: int = 1, answered: bool = False) -> Design:
    rng = np.random.default_rng(seed)
    n_pairs = int(rng.integers(1, 6))
    pair = np.sort(np.concatenate([np.arange(n_pairs), rng.integers(n_pairs, size=rng.integers(0, 6))]))
    times = rng.integers(0, 3, size=len(pair)).astype(float) if answered else np.zeros(len(pair))
    return Design(
        mass=rng.normal(size=(n_wanted, len(pair))),
        pair=pair.astype(np.int64),
        logged=rng.random(n_pairs) < 0.5,
        variance=rng.exponential(size=n_pairs),
        levels=rng.exponential(size=2),
        step=float(rng.exponential()),
        noise=float(rng.exponential()),
        times=times,
    )


def rows(plan: so.Plan, kind: str | None = None) -> list[dict[str, Any]]:
    """The rows of the sealed table, by rank those that are needed."""
    found = [row for row in plan.sealed.to_pylist() if kind in (None, row["kind"])]
    return sorted(found, key=lambda row: row["rank"] or 0)


def keys(plan: so.Plan, kind: str | None = None) -> list[tuple[Any, int, Any]]:
    return [(row["episode"], row["step"], row["action"]) for row in rows(plan, kind)]


def places(planner: Planner, asked: list[tuple[Any, int, Any]]) -> tuple[Integers, Integers]:
    """Rows of the episodes and ids of the actions of questions."""
    episodes, actions = planner.episodes, planner.logbook.actions.words.to_pylist()
    labels = {label: i for i, label in enumerate(episodes.labels.words.to_pylist())}
    row = [int(episodes.offsets[labels[episode]]) + step for episode, step, _ in asked]
    return np.array(row, dtype=np.int64), np.array([actions.index(action) for *_, action in asked], dtype=np.int64)


def both(first: so.Annotations, second: so.Annotations) -> so.Annotations:
    tables = [one.to_arrow().select(["episode", "step", "action", "value"]).to_pylist() for one in (first, second)]
    together = tables[0] + tables[1]
    return so.Annotations.from_arrays(**{name: [row[name] for row in together] for name in together[0]})


@cache
def patients(n: int = 200, seed: int = 1) -> so.Episodes:
    return sepsis.world().sample(n, seed=seed)


@cache
def told(policy: str, n: int = 200, *, taken: bool = False, std: float = 0.0) -> so.Annotations:
    expert = so.Annotator(std=std)
    return sepsis.world().annotate(patients(n), policy, annotators=expert, of_action_taken=taken)


@cache
def paths(n: int = 60, seed: int = 1) -> so.Episodes:
    return tree.tree(depth=3, reward_std=0.3).sample(n, seed=seed)


def plan(budget: float | None = 40, **options: Any) -> so.Plan:
    return so.plan(patients(), sepsis.world().policies[NAME], budget, **{"gamma": GAMMA, "least_gain": 0.0, **options})
