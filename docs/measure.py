"""Measure estimators, repairs and weights on the sepsis world: the tables of the documentation.

    python docs/measure.py [DATASETS] [SEED] [FIRST ROW] [ROWS]

Each row is a kind of annotations, each column a way to use them; entries are the mean over datasets of 1000 episodes of
the RMSE over 26 policies, with its standard error.
"""

from __future__ import annotations

import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from typing import Any

import numpy as np

import semiope as so
from semiope.domains import sepsis
from semiope.domains.world import World

N = 1000
THREE = [so.Annotator("a", 0.0, 0.1), so.Annotator("b", 0.2, 0.3), so.Annotator("c", -0.3, 1.0)]
ANNOTATIONS: dict[str, tuple[str, Any]] = {
    "exact, all": ("evaluation", so.Annotator()),
    "of today's policy, all": ("behavior", so.Annotator()),
    "noise 1.0, all": ("evaluation", so.Annotator(std=1.0)),
    "noise 0.2, 10%": ("evaluation", so.Annotator(std=0.2, ratio=0.1)),
    "noise 1.0, 10%": ("evaluation", so.Annotator(std=1.0, ratio=0.1)),
    "bias 0.3, all": ("evaluation", so.Annotator(bias=0.3)),
    "bias 0.3, noise 0.2, 10%": ("evaluation", so.Annotator(bias=0.3, std=0.2, ratio=0.1)),
    "three annotators": ("evaluation", THREE),
}
PLAIN = ("pdis", "c-pdis", "dr", "dm+", "dm+-is", "dm+-wis", "dm+-is+")
AUTO = ("c-pdis", "dm+-is+")
WAYS = [*PLAIN, *(f"{name}, auto" for name in AUTO)]


@cache
def world() -> World:
    """The world, once a process."""
    return sepsis.world()


@cache
def truth() -> dict[str, float]:
    """The exact values."""
    return {name: world().mdp.value(policy) for name, policy in world().policies.items()}


def some_of(answers: so.Annotations, seed: int) -> so.Annotations:
    """Of three annotators' answers to all questions: each question by one of them, a fifth of them by two."""
    table = answers.to_arrow()
    n = len(table) // 3
    rng = np.random.default_rng(seed)
    first, both = rng.integers(3, size=n), rng.random(n) < 0.2
    second = (first + 1 + rng.integers(2, size=n)) % 3
    keep = np.concatenate([(first == j) | (both & (second == j)) for j in range(3)])
    return so.Annotations.from_arrow(table.filter(keep))


def errors(task: tuple[str, int, int]) -> dict[str, float]:
    """RMSE of all ways on one dataset with one kind of annotations."""
    warnings.simplefilter("ignore")
    kind, dataset, seed = task
    under, experts = ANNOTATIONS[kind]
    episodes, policies = world().sample(N, seed=seed, first=N * dataset), world().policies
    whose: Any = policies if under == "evaluation" else dict.fromkeys(policies, world().behavior)
    answers: Any = world().annotate(episodes, whose, annotators=experts, seed=dataset)
    if experts is THREE:
        answers = {name: some_of(one, dataset) for name, one in answers.items()}
    found = {}
    for names, chosen in ((PLAIN, {}), (AUTO, {"repair": "auto", "weights": "auto"})):
        options: dict[str, Any] = {"cell": "step,state", "gamma": 0.99, "estimators": list(names), **chosen}
        results = so.evaluate(episodes, policies, annotations=answers, **options)
        for name in names:
            off = [results[policy][name].value - value for policy, value in truth().items()]
            found[f"{name}, auto" if chosen else name] = float(np.sqrt(np.mean(np.square(off))))
    return found


def main(datasets: int = 50, seed: int = 1, first: int = 0, rows: int = len(ANNOTATIONS)) -> None:
    """Print the table, or some of its rows."""
    print(f"| annotations | {' | '.join(WAYS)} |")
    print("|---" * (len(WAYS) + 1) + "|")
    with ProcessPoolExecutor() as pool:
        for kind in list(ANNOTATIONS)[first : first + rows]:
            measured = list(pool.map(errors, [(kind, dataset, seed) for dataset in range(datasets)]))
            columns = {way: np.array([one[way] for one in measured]) for way in WAYS}
            shown = [f"{x.mean():.4f} ± {x.std(ddof=1) / len(x) ** 0.5:.4f}" for x in columns.values()]
            print(f"| {kind} | {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
