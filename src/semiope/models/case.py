"""What a repair looks at: logs, answers, the policy under evaluation, and the model counted from the logs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from semiope._arrays import Floats, Integers, root_mean_square
from semiope.data.annotations import Annotations
from semiope.data.episodes import Episodes
from semiope.data.logbook import AlignedAnnotations, Logbook
from semiope.errors import OptionError, SchemaError
from semiope.models.empirical import Empirical, empirical_mdp, successors
from semiope.models.places import Places, places_of_answers, places_of_rows
from semiope.models.residuals import Prior
from semiope.models.study import Outcomes, Study
from semiope.models.tabular import TabularMDP
from semiope.policies.behavior import shares
from semiope.policies.policy import AnyPolicy, Policy

AUTHORS_UNSEEN = -1.0
# Where answers turn others from today's policy to another, what the model has wrong of today's returns nearly cancels:
# what it thinks of a pair is in what it thinks of those that lead there. Of the variance of logged pairs, this is left.
UNCANCELLED = 0.1


@dataclass(frozen=True, eq=False)
class Records:
    """Logs with the model counted from them; shared by all policies.

    `actions` are labels of all that exist; `horizon` is that of the model, by default the longest episode; `noise` the
    standard deviation of an answer, if somebody knows.
    """

    episodes: Episodes
    actions: tuple[Any, ...]
    gamma: float
    horizon: int | None = None
    noise: float | None = None

    @cached_property
    def empirical(self) -> Empirical:
        """The model: pairs never logged are not available in it."""
        return empirical_mdp(self.episodes, actions=self.other_actions, gamma=self.gamma, horizon=self.horizon)

    @cached_property
    def followed(self) -> Floats:
        """How often it is known what followed each pair, (n_states, n_actions): not where an episode was cut."""
        decided = np.flatnonzero(self.rows.action >= 0)
        known, _ = successors(self.episodes, decided, self.empirical.mdp.horizon, "unknown")
        return self._by_pair(self.rows.part(decided), known.astype(np.float64))

    def _by_pair(self, at: Places, values: Floats) -> Floats:
        """Sums by pair, (n_states, n_actions)."""
        counts = self.empirical.counts
        pair = at.state.astype(np.int64) * counts.shape[1] + at.action
        return np.bincount(pair, weights=values, minlength=counts.size).astype(np.float64).reshape(counts.shape)

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
    def behavior_returns(self) -> Floats:
        """Q_t of pi_b in the model; a pair never logged is worth as much as its state."""
        mdp = self.empirical.mdp
        # Today's policy takes logged actions only: what others are worth does not matter to its values.
        nothing = np.zeros((mdp.horizon, mdp.n_states, 1))
        returns = mdp.evaluate_with(nothing, self.behavior[None])
        unseen = ~mdp.available & ~mdp.terminal[:, None]
        worth = (self.behavior * returns).sum(axis=2)
        return np.where(unseen, worth[:, :, None], returns)

    @cached_property
    def behavior_values(self) -> Floats:
        """V_t of pi_b in the model, (horizon, n_states)."""
        mdp = self.empirical.mdp
        worth: Floats = (self.behavior * self.behavior_returns).sum(axis=2)
        return np.where(mdp.terminal, mdp.reward[:, 0], worth)

    @cached_property
    def scatter(self) -> float:
        """Root mean square of observed returns minus what the model expects of today's policy, over all decisions.

        Where a pair was logged once, the model says what was observed, and that tells nothing: the share of such
        decisions in the scatter of returns themselves is the least.
        """
        decided = np.flatnonzero(self.rows.action >= 0)
        at, returns = self.rows.part(decided), self.returns_from(decided)
        once = float(np.mean(self.empirical.counts[at.state, at.action] <= 1))
        least = math.sqrt(once) * root_mean_square(returns - returns.mean())
        return max(root_mean_square(returns - at.read(self.behavior_returns)), least)

    @cached_property
    def innovations(self) -> Floats:
        """By how much what follows a pair varies: the mean square of reward and next value beyond what is expected.

        Under today's policy, by the model; pairs lean on the mean of all as on two observations more.
        """
        here = np.flatnonzero(self.rows.action >= 0)
        at, counts, following = (
            self.rows.part(here),
            self.empirical.counts,
            np.minimum(here + 1, len(self.rows.step) - 1),
        )
        goes_on = self.episodes.episode_of(following) == self.episodes.episode_of(here)
        goes_on &= following > here
        after = self.rows.part(following)
        ahead = np.where(goes_on, self.behavior_values[after.step, after.state], 0.0)
        off = self.episodes.reward[here] + self.gamma * ahead - at.read(self.behavior_returns)
        squares = self._by_pair(at, off * off)
        general = math.fsum(squares.ravel()) / max(float(np.maximum(counts - 1, 0).sum()), 1.0)
        found: Floats = (squares + 2 * general) / (np.maximum(counts - 1, 0) + 2)
        return found

    @cached_property
    def prior(self) -> Prior:
        """What the logs say beforehand of the model's errors."""
        return Prior(self.scatter, self.episodes.n_episodes, self.noise)

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

    def returns_from(self, rows: Integers) -> Floats:
        """The discounted return that was observed from each of these rows on."""
        return self._observed_returns[rows]

    @cached_property
    def _observed_returns(self) -> Floats:
        return self.episodes.returns_to_go(self.gamma)

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
        return aligned._replace(row=row, action=action, value=value, weight=None, std=std)


@dataclass(frozen=True, eq=False)
class Regression:
    """A model that does without states that recur, and what it is fitted to: all episodes, without folds."""

    model: Outcomes
    study: Study

    def logbook(self, annotations: Annotations) -> Logbook:
        """These answers, aligned, in the same ids of actions."""
        return Logbook.of(self.study.episodes, annotations, {"model": self.study.logbook.actions})


@dataclass(frozen=True, eq=False)
class Case:
    """One policy before the records; `about_today`: so far, the answers speak of the behaviour policy.

    With a `regression`, returns are fitted on features instead of counted by state. Steps add to `doubts` what a user
    is to be warned of.
    """

    records: Records
    policy: AnyPolicy
    name: str
    about_today: bool = False
    regression: Regression | None = None
    doubts: list[str] = field(default_factory=list)

    @property
    def prior(self) -> Prior:
        """What the logs say beforehand of what answers say beyond the model."""
        found = self.records.prior
        return found._replace(logged=UNCANCELLED) if self.about_today else found

    @property
    def expected(self) -> Floats:
        """What the model expects answers to be: Q_t of the policy that they speak of."""
        return self.records.behavior_returns if self.about_today else self.returns

    @property
    def spoken_of(self) -> Floats:
        """The policy that the answers speak of, in the model's ids."""
        return self.records.behavior[None] if self.about_today else self.evaluation

    @cached_property
    def evaluation(self) -> Floats:
        """pi_e in the model's ids."""
        if not isinstance(self.policy, Policy):
            raise OptionError(
                f"policy {self.name!r} is given row by row; a model counted from the logs needs one over states. "
                "Use a model by regression on features (so.FittedQ), or one of your own."
            )
        return self.records.empirical.mdp.look_up(self.policy, f"policy {self.name!r}")

    @cached_property
    def returns(self) -> Floats:
        """Q_t of pi_e in the model, where a pair never logged is worth what its state is worth under pi_b.

        What the logs cannot tell is left as it is today.
        """
        return self.records.empirical.mdp.evaluate_with(self.records.behavior_values[:, :, None], self.evaluation)
