"""The behaviour policy: given, logged as propensities, or estimated by counting."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from semiope._arrays import Floats, frozen
from semiope.data.episodes import Episodes, read_episodes
from semiope.data.logbook import Logbook
from semiope.errors import SHOWN, OptionError, SchemaError, count
from semiope.policies.cells import Cells, cells_of, count_actions
from semiope.policies.lookup import Lookup, RowLookup, TableLookup, safe_ratio
from semiope.policies.policy import AnyPolicy, Policy

FIT_INSTEAD = (
    "A behavior policy is counted over states, and fitted to features: so.fit_behavior(episodes, features=[...]), or "
    "behavior='logistic'."
)


class Behavior(NamedTuple):
    """pi_b as `probs` per cell and action, and as a `lookup` at the actions taken.

    `origin` is "given", "fitted", "counted", or "logged": then only the probabilities of the actions taken are known.
    """

    probs: Floats
    lookup: Lookup
    origin: str

    def times(self, factor: float) -> Behavior:
        """All probabilities times a factor."""
        assert isinstance(self.lookup, TableLookup)
        probs = self.probs * factor
        return Behavior(probs, replace(self.lookup, table=self.lookup.table * factor), self.origin)


def estimate_behavior(episodes: Any, *, cell: str = "state", features: Any = None) -> Policy:
    """Estimate pi_b(a|s) as the share of decisions in the cell (`state` or `step,state`) that took a.

    Where features are the state, there is nothing to count: `so.fit_behavior` fits a classifier then.
    """
    if features is not None:
        raise OptionError(f"features: there are none to count over. {FIT_INSTEAD}")
    episodes = episodes if isinstance(episodes, Episodes) else read_episodes(episodes)
    refuse_counting(episodes)
    cells = cells_of(episodes, cell)
    counts = count_actions(cells, episodes.action, len(episodes.actions))
    decided = counts.sum(axis=1) > 0
    return Policy(
        probs=frozen(shares(counts)[decided]),
        state=frozen(cells.state[decided]),
        step=None if cells.step is None else frozen(cells.step[decided]),
        states=episodes.states,
        actions=episodes.actions,
    )


def refuse_counting(episodes: Episodes) -> None:
    """Fail where there are no states over which a behavior policy could be counted."""
    if not episodes.has_states:
        raise OptionError(f"behavior: the episodes have features and no states. {FIT_INSTEAD}")


def counted(logbook: Logbook, cells: Cells, counts: Floats) -> Behavior:
    """pi_b as the share of decisions in the cell that took each action."""
    probs = shares(counts)
    return Behavior(probs, TableLookup(probs, cells, logbook), "counted")


def logged(logbook: Logbook, cells: Cells, counts: Floats) -> Behavior:
    """pi_b as logged in `behavior_prob`; in a cell, the mean that the propensities of the actions taken imply.

    Among the rows of a cell that took a, the mean of 1 / pi_b(a) is 1 over the mean of pi_b(a) in the cell.
    """
    episodes = logbook.episodes
    decided = episodes.action >= 0
    assert episodes.behavior_prob is not None
    propensity = np.where(decided, episodes.behavior_prob, 1.0)
    inverse = np.zeros_like(counts)
    np.add.at(inverse, (cells.of_row[decided], episodes.action[decided]), 1 / propensity[decided])
    return Behavior(safe_ratio(counts, inverse), RowLookup(propensity, None), "logged")


def given(policy: AnyPolicy, logbook: Logbook, cells: Cells, origin: str = "given") -> Behavior:
    """pi_b as given, or fitted to features; in a cell, the mean over its decisions."""
    lookup = policy.bind(logbook, cells, "behavior")
    _refuse_impossible(lookup, logbook.episodes)
    return Behavior(lookup.mean_probs(cells), lookup, origin)


def shares(counts: Floats) -> Floats:
    """Return each row of counts divided by its sum; rows without counts stay zero."""
    totals = counts.sum(axis=1, keepdims=True)
    return counts / np.where(totals > 0, totals, 1.0)


def _refuse_impossible(lookup: Lookup, episodes: Episodes) -> None:
    wrong = np.flatnonzero(lookup.taken(slice(0, episodes.n_steps)) <= 0)
    if len(wrong):
        shown = "; ".join(
            f"{episodes.describe_row(int(row))} action {episodes.actions[episodes.action[row]]!r}"
            for row in wrong[:SHOWN]
        )
        raise SchemaError(
            f"behavior: the behaviour policy gives probability 0 to the action taken at {count(len(wrong), 'step')}. "
            f"First: {shown}. It cannot be the policy that made these logs."
        )
