"""How far distributions of returns are from the truth on sepsis: `python benchmarks/distribution.py`.

The truth is that of 200,000 episodes under the policy itself. Annotations are exact means.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

from semiope.data.labels import Vocabulary
from semiope.domains import sepsis
from semiope.errors import StatisticalWarning
from semiope.estimate.evidence import gather
from semiope.estimate.problem import Problem
from semiope.models.outcomes import Counted
from semiope.uncertainty.distribution import Distribution, returns_distribution

POLICY = "optimal"
STATISTICS = {
    "mean": lambda d: d.mean,
    "std": lambda d: float(np.sqrt(d.weights @ (d.returns - d.mean) ** 2 / d.weights.sum())),
    "below 0": lambda d: d.probability_below(0.0),
    "worst tenth": lambda d: d.cvar(0.1),
}


def truth(world: sepsis.World) -> Distribution:
    """Returns under the policy itself."""
    logs = world.mdp.sample(world.policies[POLICY], 200_000, seed=99)
    returns = np.add.reduceat(sepsis.GAMMA**logs.step * logs.reward, logs.offsets[:-1])
    n = len(returns)
    return Distribution(returns, np.ones(n), np.arange(n), np.zeros(n, dtype=bool), Vocabulary.integers(n))


def main() -> None:
    """Print means over datasets, and how often 95% intervals hold the truth."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", type=int, default=100)
    parser.add_argument("--episodes", type=int, default=1000)
    options = parser.parse_args()
    warnings.simplefilter("ignore", StatisticalWarning)
    world = sepsis.world()
    true, policy = truth(world), world.policies[POLICY]
    found: dict[tuple[str, str], list[tuple[float, bool]]] = {}
    for seed in range(options.datasets):
        episodes = world.sample(options.episodes, seed=seed)
        answers = world.annotate(episodes, POLICY, seed=seed)
        evidence = gather(episodes, answers, {POLICY: policy}, behavior=None, cell="state", weights="equal")
        problem = Problem.of(POLICY, policy, evidence, sepsis.GAMMA, Counted())
        for estimator in ("wis", "c-wis"):
            one = returns_distribution(problem, estimator)
            for name, statistic in STATISTICS.items():
                low, high = one.interval(statistic, seed=seed)
                holds = low <= statistic(true) <= high
                found.setdefault((estimator, name), []).append((statistic(one), holds))
    for (estimator, name), results in found.items():
        values, held = zip(*results, strict=True)
        print(
            f"{estimator:6} {name:12} true {STATISTICS[name](true):7.3f}  mean {np.mean(values):7.3f}  "
            f"std {np.std(values):6.3f}  covered {np.mean(held):.0%}"
        )


if __name__ == "__main__":
    main()
