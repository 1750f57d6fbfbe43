"""How often "better than today's policy" is wrong, and how often it is missed: 26 policies of the sepsis world.

    python benchmarks/decisions.py --datasets 50 --episodes 1000

Beside it, the paper's plain comparison, which calls a policy better if its estimate reaches the logs' mean return.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np

import semiope as so
from semiope.domains import sepsis
from semiope.errors import quietly


class Calls(NamedTuple):
    """Whether each policy of each dataset is called better, (datasets, policies)."""

    alone: np.ndarray
    together: np.ndarray
    plain: np.ndarray


def calls(datasets: int, episodes: int, *, std: float = 0.0, alpha: float = 0.05, seed: int = 0) -> Calls:
    """Simulate logs and answers for every policy, and decide."""
    world, found = sepsis.world(), []
    for number in range(datasets):
        logs = world.sample(episodes, seed=seed, first=number * episodes)
        expert = so.Annotator(std=std)
        answers = {name: world.annotate(logs, name, annotators=expert, seed=seed + number) for name in world.policies}
        with quietly():
            results = so.evaluate(
                logs, world.policies, annotations=answers, estimators="c-pdis", cell="step,state", gamma=sepsis.GAMMA
            )
        comparison = so.compare(results, alpha=alpha)
        stands = [comparison[name] for name in world.policies]
        found.append([(one.better, one.surely, one.value >= comparison.today.value) for one in stands])
    return Calls(*np.array(found).transpose(2, 0, 1))


def main() -> None:
    """Print rates as a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", type=int, default=50)
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--std", type=float, default=0.0, help="of the experts' noise")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    world = sepsis.world()
    today = world.mdp.value(world.behavior)
    better = np.array([world.mdp.value(policy) > today for policy in world.policies.values()])
    made = calls(given.datasets, given.episodes, std=given.std, seed=given.seed)
    print(f"| rule | called better wrongly (of {(~better).sum()}) | error of it | any wrong in a dataset | power |")
    print("|---|---|---|---|---|")
    for name, called in zip(("at 5%", "all at once at 5%", "estimate reaches the mean return"), made, strict=True):
        wrong = called[:, ~better]
        # Policies of one dataset share its luck: the error is that of means of datasets.
        error = wrong.mean(axis=1).std(ddof=1) / np.sqrt(given.datasets)
        print(
            f"| {name} | {wrong.mean():.1%} | {error:.1%} | {wrong.any(axis=1).mean():.0%} "
            f"| {called[:, better].mean():.1%} |"
        )


if __name__ == "__main__":
    main()
