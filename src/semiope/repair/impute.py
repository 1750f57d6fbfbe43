"""Missing annotations as the mean of those of the same state and action (appendix D.2)."""

from __future__ import annotations

import numpy as np

from semiope._arrays import Integers
from semiope.data.annotations import Annotations
from semiope.errors import count
from semiope.models.case import Case
from semiope.models.places import Places
from semiope.repair.fill import Questions, answered, questions


def impute(annotations: Annotations, case: Case, option: str = "") -> tuple[Annotations, str]:
    """Fill in what was not annotated, where others of the same pair are; what was stays.

    Pairs are pooled over steps; the option `step` takes only answers about the same step.
    """
    records = case.records
    shape = records.behavior_returns.shape
    size = int(np.prod(shape))

    def cell(places: Places) -> Integers:
        step = places.step if option == "step" else np.zeros_like(places.step)
        return np.ravel_multi_index((step, places.state, places.action), shape)

    at, value = records.counterfactual(annotations)
    times = np.bincount(cell(at), minlength=size)
    means = np.bincount(cell(at), weights=value, minlength=size) / np.maximum(times, 1)
    asked = questions(records, np.any(times.reshape(shape) > 0, axis=0))
    where = cell(asked.places(records))
    kept = times[where] > 0
    asked, filled = Questions(asked.row[kept], asked.action[kept]), means[where[kept]]
    # Answers that were given stay: both lists are in the order of rows and actions.
    n_actions = shape[2]
    given = records.aligned(annotations)
    code = asked.row * n_actions + asked.action
    position = np.searchsorted(code, given.row * n_actions + given.action)
    filled[position] = given.value
    added = count(len(code) - len(given.row), "answer")
    done = f"impute: {added} filled in beside {count(len(given.row), 'answer')} given."
    return answered(records.episodes, records.empirical.mdp.actions, asked, filled), done
