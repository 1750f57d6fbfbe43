"""Missing annotations as the mean of those of the same state and action (appendix D.2)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from semiope._arrays import Booleans, Floats, Integers
from semiope.data.annotations import Annotations
from semiope.errors import count
from semiope.models.places import Places
from semiope.models.records import Records
from semiope.repair.case import Case
from semiope.repair.fill import Questions, answered, questions


class Imputation(NamedTuple):
    """Which answers there are, which questions they can fill in, and how one gets from one to the other.

    It depends on who was asked what, not on the values: those of several policies are filled in alike.
    """

    asked: Questions
    given_cell: Integers
    asked_cell: Integers
    given_position: Integers
    times: Integers

    def fill(self, value: Floats) -> Floats:
        """Answers to all questions; those that were given stay."""
        sums = np.bincount(self.given_cell, weights=value, minlength=len(self.times))
        filled: Floats = (sums / np.maximum(self.times, 1))[self.asked_cell]
        filled[self.given_position] = value
        return filled


def imputation(
    annotations: Annotations, records: Records, option: str = "", rows: Booleans | None = None
) -> Imputation:
    """Look for the answers that others of the same pair can fill in; see `impute`. `rows`: where (None: everywhere)."""
    shape = (records.empirical.mdp.horizon, *records.empirical.counts.shape)

    def cell(places: Places) -> Integers:
        step = places.step if option == "step" else np.zeros_like(places.step)
        return np.ravel_multi_index((step, places.state, places.action), shape)

    given_cell = cell(records.counterfactual(annotations)[0])
    times = np.bincount(given_cell, minlength=int(np.prod(shape)))
    asked = questions(records, np.any(times.reshape(shape) > 0, axis=0))
    asked_cell = cell(asked.places(records))
    kept = times[asked_cell] > 0
    if rows is not None:
        kept &= rows[asked.row]
    asked = Questions(asked.row[kept], asked.action[kept])
    # Both lists are in the order of rows and actions.
    n_actions = shape[2]
    given = records.aligned(annotations)
    position = np.searchsorted(asked.row * n_actions + asked.action, given.row * n_actions + given.action)
    return Imputation(asked, given_cell, asked_cell[kept], position, times)


def impute(annotations: Annotations, case: Case, option: str = "") -> tuple[Annotations, str]:
    """Fill in what was not annotated, where others of the same pair are; what was stays.

    Pairs are pooled over steps; the option `step` takes only answers about the same step.
    """
    records = case.records
    plan = imputation(annotations, records, option)
    given = records.counterfactual(annotations)[1]
    added = count(len(plan.asked.row) - len(given), "answer")
    done = f"impute: {added} filled in beside {count(len(given), 'answer')} given."
    return answered(records.episodes, records.empirical.mdp.actions, plan.asked, plan.fill(given)), done
