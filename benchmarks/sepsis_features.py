"""Planned studies on the sepsis world, given as features only: error of the estimate after so many annotations.

    python benchmarks/sepsis_features.py [--studies 60] [--seed 1] [--budgets 100,400] [--noise 0.2] [--jobs 2]

Each study draws a dataset of 1000 episodes and one of the 26 policies. The logs hold the eight variables of a state as
columns and no state; policies are given row by row. Questions are drawn in four batches (`design="random"`), and one
annotator answers with noise. Prints the RMSE of `pp-dr` over studies, how often its 95% interval holds the truth, and
how often the bounds of the plan hold it at all looks; and the RMSE with every annotation there and exact, which no
annotations can better. Each budget is a study of its own.
"""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from multiprocessing import get_context
from typing import NamedTuple

import numpy as np
import pyarrow as pa

import semiope as so
from semiope.domains import sepsis
from semiope.domains.annotators import annotate
from semiope.domains.world import World
from semiope.errors import quietly

EPISODES = 1000
# Variables of a state in order of significance, and how many levels each has.
VARIABLES = {
    "diabetes": 2, "heart_rate": 3, "pressure": 3, "oxygen": 2, "glucose": 5, "antibiotics": 2, "vasopressors": 2,
    "ventilation": 2,
}  # fmt: skip


class Study(NamedTuple):
    """One study: the error of its estimate, whether its interval holds the truth, and bounds at all looks do."""

    error: float
    exact: float
    held: bool
    bounds_held: bool
    call: str
    better: bool


@cache
def world() -> World:
    """The world, once a process."""
    return sepsis.world()


def variables(state: np.ndarray) -> dict[str, np.ndarray]:
    """The eight variables of each state; those of the two absorbing states are all 0."""
    left, found = np.where(state < 1440, state, 0), {}
    for name, levels in reversed(VARIABLES.items()):
        left, found[name] = np.divmod(left, levels)
    return {name: found[name].astype(float) for name in VARIABLES}


def conducted(seed: int, budget: int, noise: float, number: int) -> Study:
    """Plan in four batches, annotate, evaluate."""
    built = world()
    name = list(built.policies)[int(np.random.default_rng([seed, number]).integers(len(built.policies)))]
    policy, gamma = built.policies[name], built.mdp.gamma
    logs = built.sample(EPISODES, seed=seed, first=EPISODES * number)
    states = np.array([int(label) for label in logs.states.words.to_pylist()])[logs.state]
    table = logs.to_arrow().drop_columns(["state"])
    for column, values in variables(states).items():
        table = table.append_column(column, pa.array(values))
    episodes = so.read_episodes(table, features=list(VARIABLES))
    probs = built.mdp.probs(policy)[0][np.minimum(states, built.mdp.n_states - 1)]
    actions = built.mdp.actions.words.to_pylist()
    labels = np.array(logs.labels.words.to_pylist())[logs.episode_of(np.arange(logs.n_steps))]
    by_row = so.RowPolicy.from_arrays(
        episode=np.repeat(labels, len(actions)),
        step=np.repeat(logs.step, len(actions)), action=np.tile(actions, logs.n_steps), prob=probs.ravel(),
    )  # fmt: skip
    # Whatever is asked is answered, also decoys about actions that the paper does not ask about.
    given = annotate(logs, built.mdp, policy, annotators=so.Annotator(std=noise), of_action_taken=True, seed=number)
    truth = built.mdp.value(policy)
    gain, bounds = truth - built.mdp.value(built.behavior), True
    with quietly():
        exact = so.evaluate(
            episodes, by_row, annotations=built.annotate(logs, policy), estimators="c*-pdis", gamma=gamma
        )["c*-pdis"]
        plan = so.plan(
            episodes, by_row, budget, batch=budget / 4, gamma=gamma, goal="value", least_gain=0.0, seed=number
        )
        while plan.stop is None:
            plan = plan.next(plan.answers(given))
            bounds &= plan.decisions[0].low <= gain <= plan.decisions[0].high
        results = so.evaluate(
            episodes, by_row, annotations=plan.answers(given), plan=plan, estimators="pp-dr", gamma=gamma
        )
    estimate = results["pp-dr"]
    low, high = estimate.interval()
    return Study(
        estimate.value - truth, exact.value - truth, low <= truth <= high, bounds, plan.decisions[0].call, gain > 0
    )


def main() -> None:
    """Run the studies and print a line for each budget."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--budgets", default="100,400")
    parser.add_argument("--noise", type=float, default=0.2)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    with ProcessPoolExecutor(given.jobs, get_context("spawn")) as pool:
        for budget in map(int, given.budgets.split(",")):
            found = list(pool.map(partial(conducted, given.seed, budget, given.noise), range(given.studies)))
            rmse, floor = (np.sqrt(np.mean(np.square(column))) for column in list(zip(*found, strict=True))[:2])
            wrong = sum(
                (one.call == "better" and not one.better) or (one.call == "worse" and one.better) for one in found
            )
            print(
                f"{budget} annotations, {len(found)} studies: RMSE {rmse:.4f} (all exact: {floor:.4f}), intervals hold "
                f"{np.mean([one.held for one in found]):.1%}, bounds at all looks "
                f"{np.mean([one.bounds_held for one in found]):.1%}, wrong calls {wrong}",
                flush=True,
            )


if __name__ == "__main__":
    main()
