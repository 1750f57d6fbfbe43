"""Whole studies: a plan asks in batches, annotators answer, and decisions are written down at every look."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from datasets import Dataset

import semiope as so

# Needed questions in all and in a batch, and what annotators are like: noise in standard deviations of Q.
BUDGET, BATCH = 100, 25
NOISES = {"ann": 0.1, "ben": 0.2, "cem": 0.4}
OVERLAP = 0.2


def study(data: Dataset, design: str) -> dict[str, Any]:
    """Plan, annotate and go on until the plan says stop; then evaluate.

    `looks` are the decisions at each look: the difference to the behavior policy, its bounds, and the call.
    """
    rng = np.random.default_rng([data.seed, 11])
    looks: list[dict[str, Any]] = []
    plan = so.plan(
        data.episodes, data.policy, BUDGET, batch=BATCH, experts=list(NOISES), overlap=OVERLAP, design=design,
        least_gain=0.0, seed=data.seed, **data.options,
    )  # fmt: skip
    tables: list[pa.Table] = []
    late = _asked_too_late(plan)
    while plan.stop is None:
        tables += [_annotated(data, name, asked, rng) for name, asked in plan.questions.items() if asked.num_rows]
        plan = plan.next(pa.concat_tables(tables))
        decision = plan.to_dict()["decisions"][0]
        looks.append({name: decision[name] for name in ("difference", "low", "high", "call")})
    annotations = so.read_annotations(pa.concat_tables(tables))
    results = so.evaluate(
        data.episodes, data.policy, annotations=annotations, plan=plan, estimators="pp-dr", **data.options
    )
    estimate = results["pp-dr"]
    low, high = estimate.interval()
    return {
        "looks": looks, "stop": plan.stop.reason, "used": plan.used, "value": estimate.value, "low": low, "high": high,
        "std_error": estimate.std_error, "trusting": estimate.trusting, "late": late + _asked_too_late(plan),
    }  # fmt: skip


def _annotated(data: Dataset, name: str, asked: pa.Table, rng: np.random.Generator) -> pa.Table:
    """What one annotator says to these questions."""
    episode = np.array([int(label) for label in asked.column("episode").to_pylist()])
    step, action = asked.column("step").to_numpy(), asked.column("action").to_pylist()
    value = data.returns_of(episode, step, action) + NOISES[name] * data.unit * rng.normal(size=len(step))
    return asked.append_column("value", pa.array(value)).append_column("annotator", pa.array([name] * len(step)))


def _asked_too_late(plan: so.Plan) -> int:
    """Questions about a step that an annotator gets after one about a later step of the same episode."""
    shown: dict[tuple[str, Any], int] = {}
    late = 0
    for table in plan.asked:
        columns = (table.column(name).to_pylist() for name in ("expert", "episode", "step"))
        for expert, episode, step in zip(*columns, strict=True):
            late += step < shown.get((expert, episode), -1)
            shown[expert, episode] = max(step, shown.get((expert, episode), -1))
    return late
