"""Action values in the MDP counted from logs, as a linear function of its Bellman errors.

The counted MDP is wrong: pairs of state and action were logged a few times or never. Let e(s, a) be what it misses at
one step, the Bellman error of the pair. Then, backward over the steps,

    Q_t(s, a) = r-hat(s, a) + gamma sum_s' p-hat(s'|s, a) V_{t+1}(s') + e(s, a),      V_t(s) = sum_a pi(a|s) Q_t(s, a),

and a pair never logged has the mean of its state's logged pairs, weighted by the behavior policy, in the place of r-hat
and p-hat. Q is linear in e: an error that is made at one pair is in all values from which a path leads there.
`changes` is this linear map, `attributed` its transpose; neither is ever written out as a matrix.

If the counts are right but few, e of a pair logged n times has mean 0 and variance `within`^2 / n, where `within` is
the standard deviation of r + gamma V of the next state around its mean. Among the actions of a state, Q has the
standard deviation `between`: as much may be missed of a pair never logged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from semiope._arrays import Booleans, Floats, Integers, frozen
from semiope._compiled import compiled
from semiope._memory import refuse_beyond_memory
from semiope.data.episodes import Episodes
from semiope.models.empirical import Empirical, successors
from semiope.models.places import Places
from semiope.models.planning import Dynamics
from semiope.models.transitions import END

NOTHING = np.empty((0, 0))
# Variances below this share of that of all values are rounding.
ROUNDING = 1e-12


class Spread(NamedTuple):
    """Standard deviations: of r + gamma V within a state-action pair, and of Q between the actions of a state."""

    within: float
    between: float


@dataclass(frozen=True, eq=False)
class BellmanModel:
    """A policy in the MDP counted from logs.

    `rows` are the places of all rows in the MDP; `behavior` is pi_b(a|s), counted; `policy` is (n_steps or 1, n_states,
    n_actions), and follows the behavior policy where it says nothing.
    """

    episodes: Episodes
    rows: Places
    empirical: Empirical
    behavior: Floats
    policy: Floats

    @classmethod
    def of(
        cls, episodes: Episodes, rows: Places, empirical: Empirical, behavior: Floats, policy: Floats
    ) -> BellmanModel:
        """Build; where the policy says nothing, it does what was done."""
        mdp = empirical.mdp
        size = 8.0 * mdp.horizon * mdp.reward.size
        refuse_beyond_memory(3 * size, "values per step, state and action", "Group states, or take shorter episodes.")
        silent = ~(policy > 0).any(axis=2, keepdims=True)
        return cls(episodes, rows, empirical, behavior, frozen(np.where(silent, behavior[None], policy)))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Horizon, number of states, number of actions."""
        mdp = self.empirical.mdp
        return mdp.horizon, mdp.n_states, mdp.n_actions

    @property
    def logged(self) -> Booleans:
        """Pairs that were logged, (n_states, n_actions)."""
        return self.empirical.counts > 0

    def returns(self, errors: Floats | None = None) -> Floats:
        """Q_t(s, a) with these Bellman errors (None: none), (horizon, n_states, n_actions)."""
        found = np.empty(self.shape)
        given = np.zeros(self.shape[1:]) if errors is None else errors
        _backward(self._dynamics, self.behavior, self.policy, self.empirical.mdp.gamma, 1.0, frozen(given), found)
        return found

    def changes(self, errors: Floats) -> Floats:
        """What Bellman errors (n_states, n_actions) add to Q_t(s, a)."""
        found = np.empty(self.shape)
        _backward(self._dynamics, self.behavior, self.policy, self.empirical.mdp.gamma, 0.0, frozen(errors), found)
        return found

    def attributed(self, weights: Floats) -> Floats:
        """How much of each Bellman error is in the sum of weights times Q: the transpose of `changes`."""
        found: Floats = self._forward(weights, 1)[0]
        return found

    def _forward(self, weights: Floats, n_steps: int) -> Floats:
        """`attributed`, of all steps at once (n_steps 1) or of each step (the horizon)."""
        found = np.zeros((n_steps, *self.shape[1:]))
        _forward(self._dynamics, self.behavior, self.policy, self.empirical.mdp.gamma, frozen(weights), found)
        return found

    def values(self, returns: Floats) -> Floats:
        """V_t(s) from Q_t(s, a), (horizon, n_states)."""
        mdp = self.empirical.mdp
        found: Floats = (self.policy * returns).sum(axis=2)
        return np.where(mdp.terminal, mdp.reward[:, 0], found)

    def at_start(self, share: Floats) -> Floats:
        """Weights on Q, as `attributed` takes them, of the mean value over states at the first step."""
        weights = np.zeros(self.shape)
        weights[0] = share[:, None] * self.policy[0]
        return weights

    def never_logged(self, share: Floats) -> float:
        """The share of the decisions that the policy comes to, from first states with these shares, never logged."""
        visits = self.attributed(self.at_start(share))
        total = float(visits.sum())
        return float(visits[~self.logged].sum()) / total if total > 0 else 0.0

    @property
    def _dynamics(self) -> Dynamics:
        return self.empirical.mdp.dynamics

    def std_error_of(self, share: Floats) -> float:
        """Standard error of the mean value over first states with these shares, because logs are few.

        By the delta method: where the policy comes to a pair d_t times at step t, a row of the pair, one of n, moves
        the value by 1 / n of the sum over t of d_t (r + gamma V_{t+1}(s') - Q_t). Moves are added up by episode: so
        what its rows share is contained, whether or not states hold all that matters. Residuals around a mean of n have
        1 - 1/n of the variance; a pair logged once shows none, and has that of all. It is not less than if all pairs
        had that: few residuals may miss what is rare.
        """
        mdp, counts = self.empirical.mdp, self.empirical.counts
        visits = self._forward(self.at_start(share), self.shape[0])
        row = np.flatnonzero(self.rows.action >= 0)
        at, times = self.rows.part(row), visits.sum(axis=0)
        followed, following = successors(self.episodes, row, self.shape[0], "unknown")
        ahead = np.zeros(len(row))
        values = self.values(self.returns())
        _ahead(frozen(visits), frozen(values), at.state, at.action, frozen(following), ahead)
        pair = at.state.astype(np.int64) * self.shape[2] + at.action
        reward = times[at.state, at.action] * self.episodes.reward[row]
        everywhere = np.ones(len(row), dtype=np.bool_)
        moves = _around_means(reward, pair, everywhere) + mdp.gamma * _around_means(ahead, pair, followed)
        unit = max(float(np.abs(moves).max(initial=0.0)), 1e-150)
        by_episode = np.bincount(
            self.episodes.episode_of(row), weights=moves / unit, minlength=self.episodes.n_episodes
        )
        within = self.spread.within
        once = within * float(np.linalg.norm(np.where(counts == 1, times, 0.0)))
        alike = within * float(np.linalg.norm(times / np.sqrt(np.maximum(counts, 1))))
        return max(math.hypot(unit * float(np.linalg.norm(by_episode)), once), alike)

    @cached_property
    def dependence(self) -> float:
        """How far residuals of one episode go together, in standard errors: in an MDP over these states, they do not.

        Given state and action, the residual of a row is of mean 0 whatever came before. So the sum of products of two
        residuals of an episode has mean 0. If states leave out something that lasts, it has not.
        """
        counts, (row, off) = self.empirical.counts, self.residuals
        at = self.rows.part(row)
        unit = float(np.abs(off).max(initial=0.0))
        if unit <= ROUNDING * float(np.abs(at.read(self.returns())).max(initial=0.0)):  # nothing varies
            return 0.0
        # The residual of a pair logged once is 0 by itself.
        off = np.where(counts[at.state, at.action] > 1, off / unit, 0.0)
        episode, n = self.episodes.episode_of(row), self.episodes.n_episodes
        sums, squares = (np.bincount(episode, weights=column, minlength=n) for column in (off, off**2))
        products = sums**2 - squares
        size = float(np.linalg.norm(products))
        return float(products.sum()) / size if size > 0 else 0.0

    @cached_property
    def residuals(self) -> tuple[Integers, Floats]:
        """Rows with a decision, and r + gamma V of the next state less Q there."""
        returns = self.returns()
        row = np.flatnonzero(self.rows.action >= 0)
        ahead = _next_values(self.episodes, self.rows, self.values(returns))[row]
        mean = self.rows.part(row).read(returns)
        return row, self.episodes.reward[row] + self.empirical.mdp.gamma * ahead - mean

    @cached_property
    def spread(self) -> Spread:
        """How much what follows varies, within pairs and between the actions of a state, as the logs tell."""
        counts, (row, off) = self.empirical.counts, self.residuals
        at, returns = self.rows.part(row), self.returns()
        mean = at.read(returns)
        # In units of the largest, so that squares of extreme rewards stay in range.
        unit = max(float(np.abs(off).max(initial=0.0)), float(np.abs(mean).max(initial=0.0)), 1e-150)
        off, mean = off / unit, mean / unit
        n = counts[at.state, at.action]
        total = float(np.var(mean)) + float(np.mean(off**2)) if len(row) else 0.0
        free = float(np.sum(1 - 1 / n))
        within = float(np.sum(np.where(n > 1, off**2, 0.0))) / free if free > 0 else total
        between = max(self._between(returns / unit, at, within, total), ROUNDING * total)
        return Spread(unit * math.sqrt(within), unit * math.sqrt(between))

    def _between(self, returns: Floats, at: Places, within: float, total: float) -> float:
        """Variance of Q between the actions of a state, less what is due to few logs (analysis of variance)."""
        counts = self.empirical.counts
        usual = (self.behavior * np.where(self.logged, returns, 0.0)).sum(axis=2)
        off = np.zeros_like(counts)
        np.add.at(off, (at.state, at.action), at.read(returns) - usual[at.step, at.state])
        off /= np.maximum(counts, 1)
        several = (counts > 0).sum(axis=1) > 1
        n, in_state = counts[several], counts[several].sum(axis=1, keepdims=True)
        weight = float(np.sum(n * (1 - n / in_state)))
        if not weight:
            return total
        chance = within * np.where(n > 0, 1 / np.maximum(n, 1) - 1 / in_state, 0.0)
        return float(np.sum(n * (off[several] ** 2 - chance))) / weight


def _around_means(column: Floats, group: Integers, known: Booleans) -> Floats:
    """What each entry moves the mean of its group by: 1 / n of how far off it is, as if not part of it."""
    n = np.bincount(group[known], minlength=int(group.max(initial=-1)) + 1)
    mean = np.bincount(group[known], weights=column[known], minlength=len(n)) / np.maximum(n, 1)
    times = np.maximum(n, 1)[group]
    off = (column - mean[group]) / times / np.sqrt(np.where(times > 1, 1 - 1 / times, 1.0))
    return np.where(known, off, 0.0)


def _next_values(episodes: Episodes, rows: Places, values: Floats) -> Floats:
    """V of the next row of the same episode, 0 after the last."""
    found = np.append(values[rows.step[1:], rows.state[1:]], 0.0)
    found[episodes.offsets[1:] - 1] = 0.0
    return found


@compiled
def _backward(
    model: Dynamics, behavior: Floats, policy: Floats, gamma: float, paid: float, errors: Floats, returns: Floats
) -> None:
    """Fill in Q_t(s, a); rewards count `paid` times, so that 0 leaves what the errors add."""
    horizon, n_states, n_actions = returns.shape
    worth, earlier = np.zeros(n_states), np.zeros(n_states)
    for step in range(horizon - 1, -1, -1):
        chances = policy[step if len(policy) > 1 else 0]
        for s in range(n_states):
            if model.terminal[s]:
                earlier[s] = paid * model.reward[s, 0]
                returns[step, s] = earlier[s]
                continue
            usual = 0.0
            for a in range(n_actions):
                if model.available[s, a]:
                    ahead = 0.0
                    for i in range(model.offsets[s * n_actions + a], model.offsets[s * n_actions + a + 1]):
                        if model.following[i] != END:
                            ahead += model.prob[i] * worth[model.following[i]]
                    returns[step, s, a] = paid * model.reward[s, a] + gamma * ahead
                    usual += behavior[s, a] * returns[step, s, a]
            total = 0.0
            for a in range(n_actions):
                if not model.available[s, a]:
                    returns[step, s, a] = usual
                returns[step, s, a] += errors[s, a]
                total += chances[s, a] * returns[step, s, a]
            earlier[s] = total
        for s in range(n_states):
            worth[s] = earlier[s]


@compiled
def _ahead(
    visits: Floats, values: Floats, state: Integers, action: Integers, following: Integers, found: Floats
) -> None:
    """For each row, the sum over steps t of visits_t(s, a) V_{t+1}(s'); 0 where nothing follows."""
    for i in range(len(state)):
        if following[i] >= 0:
            for step in range(len(visits) - 1):
                found[i] += visits[step, state[i], action[i]] * values[step + 1, following[i]]


@compiled
def _forward(model: Dynamics, behavior: Floats, policy: Floats, gamma: float, weights: Floats, found: Floats) -> None:
    """Add up, from the first step on, how much of each pair's Bellman error is in the weighted sum of all Q."""
    horizon, n_states, n_actions = weights.shape
    here, ahead = np.zeros(n_states), np.zeros(n_states)
    for step in range(horizon):
        chances = policy[step if len(policy) > 1 else 0]
        ahead[:] = 0.0
        for s in range(n_states):
            if model.terminal[s]:
                continue
            unlogged = 0.0
            for a in range(n_actions):
                weight = weights[step, s, a] + here[s] * chances[s, a]
                found[step if len(found) > 1 else 0, s, a] += weight
                if not model.available[s, a]:
                    unlogged += weight
            for a in range(n_actions):
                if model.available[s, a]:
                    weight = weights[step, s, a] + here[s] * chances[s, a] + behavior[s, a] * unlogged
                    if weight != 0.0:
                        for i in range(model.offsets[s * n_actions + a], model.offsets[s * n_actions + a + 1]):
                            if model.following[i] != END:
                                ahead[model.following[i]] += gamma * model.prob[i] * weight
        here, ahead = ahead, here
