"""How far estimates are off in a world: the yardstick of the tests of repairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import semiope as so
from semiope.domains.world import World
from semiope.models.outcomes import Automatic
from semiope.repair.case import Case


def rmse(
    world: World,
    policies: Mapping[str, so.Policy],
    episodes: so.Episodes,
    annotations: Any,
    repair: str | None,
    *,
    weights: str = "equal",
    estimator: str = "c-pdis",
) -> float:
    """Root mean squared error over policies of an estimator, cells per step and state."""
    options: dict[str, Any] = {"cell": "step,state", "estimators": [estimator], "gamma": world.mdp.gamma}
    results = so.evaluate(episodes, policies, annotations=annotations, repair=repair, weights=weights, **options)
    errors = [result[estimator].value - world.mdp.value(policies[name]) for name, result in results.items()]
    return float(np.sqrt(np.mean(np.square(errors))))


def case_of(episodes: so.Episodes, policy: Any, gamma: float = 1.0) -> Case:
    """One policy before the logs, as repairs see it."""
    words = tuple(dict.fromkeys([*episodes.actions.words.to_pylist(), *policy.actions.words.to_pylist()]))
    return Case(episodes, words, policy, "p", gamma, Automatic())
