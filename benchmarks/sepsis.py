"""The sepsis world of the paper: error and coverage of the headline beside the paper's own ways.

    python benchmarks/sepsis.py [--datasets 20] [--seed 1] [--intervals 4] [--jobs 2]

Each row is a kind of annotations. Entries are means over datasets of 1000 episodes: the RMSE over policies of `c-pdis`
as the paper has it, after the paper's own repair, and of `pp-dr`; and how often the 95% interval of `pp-dr` holds the
truth, over a few of the 26 policies.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

import semiope as so
from semiope.domains import sepsis
from semiope.domains.world import World
from semiope.errors import quietly

EPISODES = 1000


class Kind(NamedTuple):
    """Annotators, whose returns they speak of, our repair if it takes one, and the paper's."""

    annotators: Any
    about: str = "evaluation"
    repair: str | None = None
    papers: str | None = None


KINDS = {
    "exact, all": Kind(so.Annotator()),
    "of the behavior policy, all": Kind(so.Annotator(), "behavior", "convert", "convert:authors"),
    "noise 1.0, all": Kind(so.Annotator(std=1.0)),
    "noise 0.2, 10%": Kind(so.Annotator(std=0.2, ratio=0.1), papers="impute"),
    "noise 1.0, 10%": Kind(so.Annotator(std=1.0, ratio=0.1), papers="impute"),
}


@cache
def world() -> World:
    """The world, once a process."""
    return sepsis.world()


def measured(seed: int, intervals: int, dataset: int) -> dict[str, list[float]]:
    """One dataset: RMSE of c-pdis, of the paper's repair, of pp-dr, and the share of pp-dr's intervals that hold."""
    built = world()
    policies = built.policies
    truth = np.array([built.mdp.value(policy) for policy in policies.values()])
    episodes = built.sample(EPISODES, seed=seed, first=EPISODES * dataset)
    found = {}
    for name, kind in KINDS.items():
        about: Any = "behavior" if kind.about == "behavior" else policies
        annotations = built.annotate(episodes, about, annotators=kind.annotators, seed=seed + dataset)

        def estimates(estimator: str, repair: str | None, given: Any = annotations) -> list[so.Estimate]:
            with quietly():
                results = so.evaluate(
                    episodes, policies, annotations=given, estimators=estimator, repair=repair, gamma=0.99,
                    cell="step,state",
                )  # fmt: skip
            return [one[estimator] for one in results.values()]

        def rmse(those: list[so.Estimate]) -> float:
            return float(np.sqrt(np.mean((np.array([one.value for one in those]) - truth) ** 2)))

        ours = estimates("pp-dr", kind.repair)
        some = [(dataset + k * len(ours) // intervals) % len(ours) for k in range(intervals)]
        held = [ours[i].interval().low <= truth[i] <= ours[i].interval().high for i in some]
        found[name] = [
            rmse(estimates("c-pdis", None)), rmse(estimates("c-pdis", kind.papers)), rmse(ours), float(np.mean(held))
        ]  # fmt: skip
    return found


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--intervals", type=int, default=4, help="of how many policies in each dataset")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    with ProcessPoolExecutor(given.jobs) as pool:
        parts = list(pool.map(partial(measured, given.seed, given.intervals), range(given.datasets)))
    print("| annotations | c-pdis | the paper's repair | pp-dr | its intervals hold |\n|---|---|---|---|---|")
    for name in KINDS:
        numbers = np.mean([part[name] for part in parts], axis=0)
        print(f"| {name} | " + " | ".join(f"{number:.4f}" for number in numbers[:3]) + f" | {numbers[3]:.1%} |")


if __name__ == "__main__":
    main()
