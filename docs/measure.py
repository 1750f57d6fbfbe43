"""Measure estimators, repairs and weights on the sepsis world: the tables of the documentation.

    python docs/measure.py [DATASETS] [SEED] [FIRST ROW] [ROWS]
    python docs/measure.py repairs [DATASETS] [SEED]

Each row is a kind of annotations, each column a way to use them; entries are the mean over datasets of 1000 episodes of
the RMSE over 26 policies, with its standard error. `repairs`: c-pdis with equal weights, repair by repair.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
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
    "exact, 3%": ("evaluation", so.Annotator(ratio=0.03)),
    "noise 0.2, 1%": ("evaluation", so.Annotator(std=0.2, ratio=0.01)),
    "noise 1.0, 1%": ("evaluation", so.Annotator(std=1.0, ratio=0.01)),
}
ESTIMATED = list(ANNOTATIONS)[:8]
REPAIRED: dict[str, tuple[str | None, ...]] = {
    "of today's policy, all": (None, "convert:authors", "convert", "convert:state"),
    "exact, all": (None, "model"),
    "noise 1.0, all": (None, "model"),
    "noise 0.2, 10%": (None, "impute", "model"),
    "noise 1.0, 10%": (None, "impute", "model"),
    "exact, 3%": ("model",),
    "noise 0.2, 1%": ("model",),
    "noise 1.0, 1%": ("model",),
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


def drawn(kind: str, dataset: int, seed: int) -> tuple[so.Episodes, Any]:
    """A dataset and annotations of this kind."""
    under, experts = ANNOTATIONS[kind]
    episodes, policies = world().sample(N, seed=seed, first=N * dataset), world().policies
    whose: Any = policies if under == "evaluation" else dict.fromkeys(policies, world().behavior)
    answers: Any = world().annotate(episodes, whose, annotators=experts, seed=dataset)
    if experts is THREE:
        answers = {name: some_of(one, dataset) for name, one in answers.items()}
    return episodes, answers


def rmse(episodes: so.Episodes, answers: Any, names: tuple[str, ...], **chosen: Any) -> list[float]:
    """Of estimators, over policies."""
    results = so.evaluate(
        episodes, world().policies, annotations=answers, cell="step,state", gamma=0.99, estimators=list(names), **chosen
    )
    off = [[results[policy][name].value - value for policy, value in truth().items()] for name in names]
    return [float(np.sqrt(np.mean(np.square(one)))) for one in off]


def errors(task: tuple[str, int, int]) -> dict[str, float]:
    """RMSE of all ways on one dataset with one kind of annotations."""
    warnings.simplefilter("ignore")
    data = drawn(*task)
    found = [*rmse(*data, PLAIN), *rmse(*data, AUTO, repair="auto", weights="auto")]
    return dict(zip(WAYS, found, strict=True))


def repaired(task: tuple[str, int, int]) -> dict[str, float]:
    """The same of c-pdis with each repair."""
    warnings.simplefilter("ignore")
    data = drawn(*task)
    return {str(repair): rmse(*data, ("c-pdis",), repair=repair)[0] for repair in REPAIRED[task[0]]}


def rows(of: Callable[[tuple[str, int, int]], dict[str, float]], kinds: list[str], datasets: int, seed: int) -> None:
    """Print a row for each kind of annotations."""
    with ProcessPoolExecutor() as pool:
        for kind in kinds:
            measured = list(pool.map(of, [(kind, dataset, seed) for dataset in range(datasets)]))
            columns = {way: np.array([one[way] for one in measured]) for way in measured[0]}
            shown = {way: f"{x.mean():.4f} ± {x.std(ddof=1) / len(x) ** 0.5:.4f}" for way, x in columns.items()}
            cells = shown.values() if of is errors else (f"{text} (`{way}`)" for way, text in shown.items())
            print(f"| {kind} | {' | '.join(cells)} |", flush=True)


def estimators(datasets: int = 50, seed: int = 1, first: int = 0, n: int = len(ESTIMATED)) -> None:
    """Print the table of estimators, or some of its rows."""
    print(f"| annotations | {' | '.join(WAYS)} |")
    print("|---" * (len(WAYS) + 1) + "|")
    rows(errors, ESTIMATED[first : first + n], datasets, seed)


def repairs(datasets: int = 40, seed: int = 1) -> None:
    """Print rows with each repair."""
    rows(repaired, list(REPAIRED), datasets, seed)


if __name__ == "__main__":
    if sys.argv[1:2] == ["repairs"]:
        repairs(*map(int, sys.argv[2:]))
    else:
        estimators(*map(int, sys.argv[1:]))
