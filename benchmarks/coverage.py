"""How often 95% intervals hold the truth, on worlds where it is known.

    python benchmarks/coverage.py [--datasets 2000] [--methods t,bca] [--worlds sepsis-250,bandit-100] [--jobs 2]

Datasets are drawn under the behaviour policy, all counterfactuals are annotated with exact expectations (sepsis) or
with draws from the reward distribution (bandits), and every policy is evaluated. Prints a table: the mean, least and
greatest coverage over policies, for how many it lies between 93% and 97%, for how many below 90%, and in what share of
datasets the light of those is red, annotators being taken to be right, as they are here.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial

import numpy as np

import semiope as so
from semiope.diagnostics.findings import RED
from semiope.domains import bandit, sepsis
from semiope.domains.world import World
from semiope.errors import quietly
from semiope.pipeline.diagnosis import trust

ESTIMATORS = ("c*-pdis", "c-pdis", "c-wis", "pdis", "pdwis")
WORLDS = ("sepsis-250", "sepsis-1000", "bandit-100", "bandit-1000")
SEED = 2026


@cache
def world_of(name: str) -> tuple[World, int]:
    """A world and how many episodes a dataset has, from a name such as sepsis-250."""
    kind, _, number = name.partition("-")
    built = sepsis.world() if kind == "sepsis" else bandit.two_state((1.0, 2.0), (0.5, 0.5))
    return built, int(number)


def covered(name: str, methods: tuple[str, ...], dataset: int) -> np.ndarray:
    """Whether each interval holds the truth, and last whether its light is red: (policies, estimators, methods + 1)."""
    world, n = world_of(name)
    episodes = world.sample(n, seed=SEED, first=n * dataset)
    expert = so.Annotator() if world.name == "sepsis" else so.Annotator(std=bandit.PAPER_STD)
    annotations = world.annotate(episodes, world.policies, annotators=expert, seed=dataset)
    with quietly():
        results = so.evaluate(
            episodes, world.policies, annotations=annotations, estimators=ESTIMATORS, gamma=world.mdp.gamma
        )

    def held() -> Iterator[bool]:
        for policy, found in results.items():
            truth = world.mdp.value(world.policies[policy])
            for estimator in ESTIMATORS:
                for method in methods:
                    low, high = found[estimator].interval(method=method, seed=dataset)
                    yield low <= truth <= high
                yield trust(found, estimator, annotators=False) == RED

    return np.array(list(held())).reshape(len(results), len(ESTIMATORS), len(methods) + 1)


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", type=int, default=2000)
    parser.add_argument("--methods", default="t")
    parser.add_argument("--worlds", default=",".join(WORLDS))
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    methods = tuple(options.methods.split(","))
    print("| world | estimator | method | mean | least | greatest | within 93% to 97% | below 90% | light red there |")
    print("|---|---|---|---|---|---|---|---|---|")
    with ProcessPoolExecutor(options.jobs) as pool:
        for name in options.worlds.split(","):
            parts = pool.map(partial(covered, name, methods), range(options.datasets), chunksize=20)
            shares = sum(part.astype(float) for part in parts) / options.datasets
            for j, estimator in enumerate(ESTIMATORS):
                for k, method in enumerate(methods):
                    one = shares[:, j, k]
                    within = f"{np.sum((one >= 0.93) & (one <= 0.97))} of {len(one)}"
                    ends = " | ".join(f"{100 * share:.1f}%" for share in (one.mean(), one.min(), one.max()))
                    below = one < 0.9
                    red = f"{100 * shares[below, j, -1].mean():.0f}%" if below.any() else ""
                    print(
                        f"| {name} | `{estimator}` | `{method}` | {ends} | {within} | {below.sum()} | {red} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
