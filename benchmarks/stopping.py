"""How often studies that stop by their own rule decide wrongly, and how many questions they ask.

    python benchmarks/stopping.py [--studies 500] [--episodes 1000] [--noise 0.2] [--budget 400] [--batch 25] [--jobs 2]
                                  [--about policy|behavior]

Each study draws a dataset of the sepsis world and one of its 26 policies, plans in batches, lets a simulated expert
answer for the policy or for usual care, and goes on until the plan says stop. Prints how many ended for which reason,
the share of wrong calls with its standard error, and the mean number of questions beside the budget.
"""

from __future__ import annotations

import argparse
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np

import semiope as so
from semiope.domains import sepsis
from semiope.errors import quietly

SEED = 2027


class Study(NamedTuple):
    """How one study ended: why, what was called, whether the policy is better, and how many questions it took."""

    reason: str
    call: str
    better: bool
    questions: int


def conducted(number: int, *, episodes: int, noise: float, budget: int, batch: int, alpha: float, about: str) -> Study:
    """Plan and ask until the plan says stop."""
    world = sepsis.world()
    logs = world.sample(episodes, seed=SEED, first=episodes * number)
    name = list(world.policies)[int(np.random.default_rng([SEED, number]).integers(len(world.policies)))]
    policy = world.policies[name]
    spoken_of = policy if about == "policy" else world.behavior
    told = world.annotate(logs, spoken_of, annotators=so.Annotator(std=noise), of_action_taken=True, seed=number)
    with quietly():
        plan = so.plan(logs, {name: policy}, budget, batch=batch, gamma=world.mdp.gamma, alpha=alpha, about=about)
        while plan.stop is None:
            plan = plan.next(plan.answers(told))
    better = world.mdp.value(policy) > world.mdp.value(world.behavior)
    return Study(plan.stop.reason, plan.decisions[0].call, better, int(plan.used))


def main() -> None:
    """Run the studies."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("studies", 500), ("episodes", 1000), ("budget", 400), ("batch", 25), ("jobs", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--noise", type=float, default=0.2)
    parser.add_argument("--alpha", type=float, default=0.05)
    parser.add_argument("--about", choices=("policy", "behavior"), default="policy")
    options = parser.parse_args()
    chosen = {name: getattr(options, name) for name in ("episodes", "noise", "budget", "batch", "alpha", "about")}
    with ProcessPoolExecutor(options.jobs) as pool:
        found = list(pool.map(partial(conducted, **chosen), range(options.studies), chunksize=5))
    for reason, times in Counter(one.reason for one in found).items():
        print(f"ended because of {reason}: {times}")
    not_better = [one for one in found if not one.better]
    for title, wrong in (
        ("wrongly called better, of all studies", [one.call == "better" and not one.better for one in found]),
        ("wrongly called better, of those whose policy is not", [one.call == "better" for one in not_better]),
        ("wrongly called worse, of all studies", [one.call == "worse" and one.better for one in found]),
    ):
        share = float(np.mean(wrong))
        print(f"{title}: {share:.1%} +- {(share * (1 - share) / len(wrong)) ** 0.5:.1%}")
    print(
        f"called better, of those whose policy is: {np.mean([one.call == 'better' for one in found if one.better]):.1%}"
    )
    print(f"studies whose policy is not better: {len(not_better)}")
    print(f"questions: mean {np.mean([one.questions for one in found]):.0f} of a budget of {options.budget}")


if __name__ == "__main__":
    main()
