"""How often a wrong behavior policy turns red, and how often the true one does, in worlds whose states are features.

    python benchmarks/propensities.py [--held-out] [--datasets 20] [--families vitals,glucose] [--episodes 1000]

The worlds are those of the gauntlet. Each dataset is logged by the behavior policy of its world, and the finding
"behavior policy by features" is made for several: the true one, one sharpened (p^1.6), one flattened (p^(1/1.6)),
the shares of actions whatever the features, and classifiers fitted to the same rows; given for all actions, or logged
for the actions taken alone. Cross-fitted ones stand beside them, fitted by the call or given to it. Prints
red/amber/green for each.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent / "gauntlet"))

import numpy as np
import pyarrow as pa
from datasets import HELD_OUT
from feature_worlds import FEATURE_FAMILIES, FeatureWorld, Log, log
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

import semiope as so
from semiope.data.labels import Vocabulary
from semiope.diagnostics.findings import AMBER, GREEN, RED
from semiope.diagnostics.propensities import CHANCE, MOST_ACTIONS, checks_against, rivals_of
from semiope.estimate.evidence import gather
from semiope.policies.array import ArrayPolicy

SHARP = 1.6


def power(probs: np.ndarray, exponent: float) -> np.ndarray:
    """Probabilities to a power, normalized."""
    powers = probs**exponent
    return powers / powers.sum(axis=1, keepdims=True)


def fitted_to_the_same_rows(logs: Log, n_actions: int, classifier: Any) -> np.ndarray:
    """What a classifier predicts of the rows that it was fitted to; no action taken has probability 0."""
    x = np.column_stack([logs.x, logs.step])
    probs = np.zeros((len(x), n_actions))
    fitted = classifier.fit(x, logs.action)
    probs[:, fitted.classes_] = fitted.predict_proba(x)
    return (1 - 1e-6) * probs + 1e-6 / n_actions


def behaviors(world: FeatureWorld, logs: Log) -> Iterator[tuple[str, np.ndarray]]:
    """Behavior policies by name: the true one and wrong ones."""
    probs, n_actions = world.behavior_probs(logs.x), world.n_actions
    yield "true", probs
    yield "sharpened", power(probs, SHARP)
    yield "flattened", power(probs, 1 / SHARP)
    yield "shares", np.tile(np.bincount(logs.action, minlength=n_actions) / len(logs.action), (len(probs), 1))
    if n_actions <= MOST_ACTIONS:
        yield "same rows, boosting", fitted_to_the_same_rows(logs, n_actions, HistGradientBoostingClassifier())
    yield "same rows, forest", fitted_to_the_same_rows(logs, n_actions, RandomForestClassifier(50))


def lights(family: str, seed: int, n: int) -> Iterator[tuple[str, str]]:
    """The light of each behavior policy in one dataset."""
    rng = np.random.default_rng([seed, len(family)])
    world = FEATURE_FAMILIES[family](rng)
    logs = log(world, world.behavior_probs, n, rng)
    columns = {name: logs.x[:, k] for k, name in enumerate(world.features)}
    action = pa.array(world.actions).take(pa.array(logs.action))
    episodes = so.Episodes.from_arrow(
        {"episode": logs.episode, "step": logs.step, "action": action, "reward": logs.reward, **columns},
        features=list(columns),
    )
    rivals, words = rivals_of(episodes), Vocabulary(pa.array(world.actions))

    def light(behavior: Any, of: so.Episodes = episodes, fitted: Any = None) -> str:
        evidence = gather(of, None, {}, behavior=behavior, cell="state", weights="equal")
        if fitted is not None:
            evidence = replace(evidence, fitted=fitted, behavior=evidence.behavior._replace(origin="fitted"))
        return CHANCE.light(checks_against(evidence, rivals).p_value)

    for name, probs in behaviors(world, logs):
        probs = np.maximum(probs, 1e-300)
        yield name, light(ArrayPolicy.from_array(probs, episodes, actions=words))
        taken = probs[np.arange(len(probs)), logs.action]
        yield f"{name}, logged", light(None, replace(episodes, behavior_prob=taken))
    for classifier in ("logistic", "boosting") if world.n_actions <= MOST_ACTIONS else ("logistic",):
        fitted = so.fit_behavior(episodes, classifier)
        yield f"cross-fitted {classifier}", light(fitted.policy, fitted=fitted)
        yield f"cross-fitted {classifier}, given", light(fitted.policy)


def main() -> None:
    """Read the command line, run, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--held-out", action="store_true", help="run the seeds that are there to report")
    parser.add_argument("--datasets", type=int, default=20, help="of each family")
    parser.add_argument("--families", default=",".join(FEATURE_FAMILIES))
    parser.add_argument("--episodes", type=int, default=1000)
    given = parser.parse_args()
    first, families = HELD_OUT if given.held_out else 0, given.families.split(",")
    found: dict[str, dict[str, Counter[str]]] = {}
    for family in families:
        start = time.perf_counter()
        for seed in range(first, first + given.datasets):
            for name, light in lights(family, seed, given.episodes):
                found.setdefault(name, {}).setdefault(family, Counter())[light] += 1
        print(f"{family}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    print("| behavior policy | " + " | ".join(families) + " | all |")
    print("|---" * (len(families) + 2) + "|")
    for name, by_family in found.items():
        counts = [by_family.get(family, Counter()) for family in families]
        cells = [
            "/".join(str(one[light]) for light in (RED, AMBER, GREEN)) for one in [*counts, sum(counts, Counter())]
        ]
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
