"""How far estimates are off in a world: the yardstick of the tests of repairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import semiope as so
from semiope.domains.world import World


def rmse(
    world: World, policies: Mapping[str, so.Policy], episodes: so.Episodes, annotations: Any, repair: str | None
) -> float:
    """Root mean squared error over policies of c-pdis, cells per step and state."""
    options: dict[str, Any] = {"cell": "step,state", "estimators": ["c-pdis"], "gamma": world.mdp.gamma}
    results = so.evaluate(episodes, policies, annotations=annotations, repair=repair, **options)
    errors = [result["c-pdis"].value - world.mdp.value(policies[name]) for name, result in results.items()]
    return float(np.sqrt(np.mean(np.square(errors))))
