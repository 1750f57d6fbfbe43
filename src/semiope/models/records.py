"""Logs with the MDP counted from them: what repairs and models of returns look things up in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from semiope._arrays import Floats, Integers
from semiope.data.annotations import Annotations
from semiope.data.episodes import Episodes
from semiope.data.logbook import AlignedAnnotations, Logbook
from semiope.errors import SchemaError
from semiope.models.empirical import Empirical, empirical_mdp
from semiope.models.places import Places, places_of_answers, places_of_rows
from semiope.models.tabular import TabularMDP
from semiope.policies.behavior import shares

# What a pair never logged pays in the paper's code, where it leads to death.
AUTHORS_UNSEEN = -1.0


@dataclass(frozen=True, eq=False)
class Records:
    """Logs with the MDP counted from them; shared by all policies.

    `actions` are labels of all that exist; `horizon` is that of the MDP, by default the longest episode.
    """

    episodes: Episodes
    actions: tuple[Any, ...]
    gamma: float
    horizon: int | None = None

    @cached_property
    def empirical(self) -> Empirical:
        """The model: pairs never logged are not available in it."""
        return empirical_mdp(self.episodes, actions=self.other_actions, gamma=self.gamma, horizon=self.horizon)

    @cached_property
    def other_actions(self) -> list[Any]:
        """Labels of actions that nobody took."""
        known = set(self.episodes.actions.words.to_pylist())
        return [action for action in dict.fromkeys(self.actions) if action not in known]

    @cached_property
    def behavior(self) -> Floats:
        """pi_b(a|s), counted."""
        return shares(self.empirical.counts)

    @cached_property
    def authors(self) -> TabularMDP:
        """The model by the conventions of the paper's code: pairs never logged pay -1 and end, a cut is an end."""
        return empirical_mdp(
            self.episodes, actions=self.other_actions, gamma=self.gamma, truncated="end", unseen=AUTHORS_UNSEEN
        ).mdp

    @cached_property
    def rows(self) -> Places:
        """Where each row lies in the model."""
        return places_of_rows(self.empirical.mdp, self.episodes)

    def places(self, annotations: Annotations) -> Places:
        """Where each answer lies in the model."""
        return places_of_answers(self.empirical.mdp, self.episodes, annotations)

    def rows_of(self, annotations: Annotations) -> Integers:
        """The row that each answer speaks about, in a type in which products do not overflow."""
        rows = self.episodes.rows_of(annotations.labels, annotations.episode, annotations.step, "annotations")
        return rows.astype(np.int64)

    def counterfactual(self, annotations: Annotations) -> tuple[Places, Floats]:
        """Places and values of answers about actions that were not taken, pooled by question."""
        aligned = self.aligned(annotations)
        if not len(aligned.row):
            raise SchemaError("repair: all annotations are about actions that were taken: nothing to learn from.")
        return self.places_of(aligned), aligned.value

    def places_of(self, aligned: AlignedAnnotations) -> Places:
        """Where aligned answers lie in the model."""
        return Places(self.rows.step[aligned.row], self.rows.state[aligned.row], aligned.action)

    def aligned(self, annotations: Annotations) -> AlignedAnnotations:
        """Answers about actions that were not taken, one a question, by row and action in the model's ids."""
        found = Logbook.of(self.episodes, annotations, {"model": self.empirical.mdp.actions})
        ids = self.empirical.mdp.actions.positions_of(found.actions)
        aligned = found.annotations
        order = np.lexsort((ids[aligned.action], aligned.row))
        row = aligned.row[order].astype(np.int64)
        std = None if aligned.std is None else aligned.std[order]
        action, value = ids[aligned.action][order], aligned.value[order]
        included = None if aligned.inclusion_prob is None else aligned.inclusion_prob[order]
        return aligned._replace(row=row, action=action, value=value, weight=None, std=std, inclusion_prob=included)
