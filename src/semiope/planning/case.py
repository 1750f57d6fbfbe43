"""What a plan looks at: the model counted from the logs, and one policy before it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from semiope._arrays import Floats, Integers, root_mean_square
from semiope.errors import OptionError
from semiope.models import records
from semiope.models.empirical import successors
from semiope.models.places import Places
from semiope.planning.residuals import Prior
from semiope.policies.policy import AnyPolicy, Policy

# Where answers turn others from today's policy to another, what the model has wrong of today's returns nearly cancels:
# what it thinks of a pair is in what it thinks of those that lead there. Of the variance of logged pairs, this is left.
UNCANCELLED = 0.1


@dataclass(frozen=True, eq=False)
class Records(records.Records):
    """Logs with the MDP counted from them, and how far it may be off; shared by all policies.

    `noise` is the standard deviation of an annotation, if somebody knows.
    """

    noise: float | None = None

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

    def returns_from(self, rows: Integers) -> Floats:
        """The discounted return that was observed from each of these rows on."""
        return self._observed_returns[rows]

    @cached_property
    def _observed_returns(self) -> Floats:
        return self.episodes.returns_to_go(self.gamma)


@dataclass(frozen=True, eq=False)
class Case:
    """One policy before the records; `about_today`: the answers speak of the behavior policy."""

    records: Records
    policy: AnyPolicy
    name: str
    about_today: bool = False

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
