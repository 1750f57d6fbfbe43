"""A finite-horizon tabular MDP: values, optimal policies and state distributions exactly, and datasets drawn from it.

An episode is a row per step t = 0 ... horizon - 1 at most. In a state with a decision an action is taken, a reward with
mean `reward[s, a]` is paid and a next state is drawn; the episode ends early if the transition leads to END. A terminal
state is a row of its own without an action: it pays its reward and the episode ends. Rewards are deterministic, or
Gaussian where `reward_std` is above 0, and independent of the next state given state and action.

    Q_t(s, a) = reward(s, a) + gamma sum_s' p(s'|s, a) V_{t+1}(s'),   V_t(s) = sum_a pi_t(a|s) Q_t(s, a),   V_T = 0

so values are discounted from their own step, as annotations are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np

from semiope._arrays import Booleans, Floats, as_floats, frozen
from semiope._memory import refuse_beyond_memory
from semiope._options import Progress, check_count, check_gamma
from semiope._random import Seed
from semiope.data.episodes import Episodes
from semiope.data.labels import ABSENT, Vocabulary
from semiope.data.naming import refuse_pairs, refuse_states
from semiope.errors import SchemaError, nearest
from semiope.models import planning, sampling
from semiope.models.checks import Labels, broadcast, check_model, flags, words_of
from semiope.models.transitions import END, SUM_TOLERANCE, Transitions
from semiope.policies.policy import Policy, RowPolicy

# A policy, or its probabilities as an array.
PolicyLike = Policy | Floats | Sequence[Any]
_NOT_KEPT = _NOTHING = np.empty((0, 0, 0))


@dataclass(frozen=True, eq=False)
class TabularMDP:
    """States, actions, what follows, what it pays, where episodes start, gamma and horizon.

    Build one with `from_sparse`, `from_dense` or `one_step`, which check it. `reward` and `reward_std` are
    (n_states, n_actions), `initial` and `terminal` (n_states,), `available` (n_states, n_actions): actions that exist
    in a state.
    """

    states: Vocabulary
    actions: Vocabulary
    transitions: Transitions
    reward: Floats
    reward_std: Floats
    initial: Floats
    terminal: Booleans
    available: Booleans
    gamma: float
    horizon: int

    @classmethod
    def from_sparse(
        cls,
        *,
        state: Any,
        action: Any,
        next_state: Any,
        prob: Any,
        reward: Any,
        initial: Any,
        horizon: int,
        gamma: float = 1.0,
        reward_std: Any = 0.0,
        terminal: Any = None,
        available: Any = None,
        states: Labels = None,
        actions: Labels = None,
        allow_unreachable: bool = False,
    ) -> TabularMDP:
        """Build from one entry per possible transition (ids from 0; next state -1 means that the episode ends).

        Every state must be reachable under some policy unless `allow_unreachable`; `states` and `actions` are labels to
        use instead of the ids.
        """
        pay = as_floats(reward, "reward")
        if pay.ndim != 2 or not pay.size:
            raise SchemaError(f"reward: an array of shape {pay.shape}; give (n_states, n_actions).")
        state_words, action_words = words_of(states, pay.shape[0], "states"), words_of(actions, pay.shape[1], "actions")
        mdp = cls(
            states=state_words,
            actions=action_words,
            transitions=Transitions.of(state, action, next_state, prob, state_words, action_words),
            reward=frozen(pay),
            reward_std=frozen(broadcast(reward_std, (pay.shape,), "reward_std")),
            initial=frozen(as_floats(initial, "initial")),
            terminal=frozen(flags(terminal, pay.shape[:1], False, "terminal")),
            available=frozen(flags(available, pay.shape, True, "available")),
            gamma=check_gamma(gamma),
            horizon=check_count(horizon, "horizon"),
        )
        check_model(mdp, allow_unreachable=allow_unreachable)
        return mdp

    @classmethod
    def from_dense(
        cls,
        transitions: Any,
        *,
        reward: Any,
        initial: Any,
        horizon: int,
        gamma: float = 1.0,
        reward_std: Any = 0.0,
        terminal: Any = None,
        available: Any = None,
        states: Labels = None,
        actions: Labels = None,
        allow_unreachable: bool = False,
    ) -> TabularMDP:
        """Build from probabilities (n_states, n_actions, n_states); all else as in `from_sparse`."""
        table = as_floats(transitions, "transitions")
        if table.ndim != 3 or table.shape[0] != table.shape[2]:
            raise SchemaError(f"transitions: an array of shape {table.shape}; give (n_states, n_actions, n_states).")
        # NaN counts as an entry, so that it is found and named.
        state, action, next_state = np.nonzero(table)
        return cls.from_sparse(
            state=state, action=action, next_state=next_state, prob=table[state, action, next_state], reward=reward,
            initial=initial, horizon=horizon, gamma=gamma, reward_std=reward_std, terminal=terminal,
            available=available, states=states, actions=actions, allow_unreachable=allow_unreachable,
        )  # fmt: skip

    @classmethod
    def one_step(
        cls, reward: Any, *, initial: Any, reward_std: Any = 0.0, states: Labels = None, actions: Labels = None
    ) -> TabularMDP:
        """Build a problem of a single decision, after which nothing follows: a contextual bandit."""
        pay = as_floats(reward, "reward")
        pair = np.arange(pay.size)
        n_actions = max(1, pay.shape[-1] if pay.ndim else 1)
        return cls.from_sparse(
            state=pair // n_actions, action=pair % n_actions, next_state=np.full(len(pair), END),
            prob=np.ones(len(pair)), reward=pay, initial=initial, horizon=1, reward_std=reward_std, states=states,
            actions=actions,
        )  # fmt: skip

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.states)

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return len(self.actions)

    @cached_property
    def decisions(self) -> Booleans:
        """Pairs of state and action that can be chosen, (n_states, n_actions)."""
        return frozen(self.available & ~self.terminal[:, None])

    @cached_property
    def reachable(self) -> Booleans:
        """States that an episode can come to under some policy, whatever the horizon."""
        return frozen(self.transitions.reached_from(self.initial > 0, self.decisions))

    @cached_property
    def _reachable_by_step(self) -> Booleans:
        refuse_beyond_memory(float(self.horizon * self.n_states), "states by step", "Take a shorter horizon.")
        return frozen(self.transitions.reached_by_step(self.initial > 0, self.decisions, self.horizon))

    # Exact answers ---------------------------------------------------------------------------------------------------

    @overload
    def action_values(self, policy: Mapping[str, PolicyLike]) -> dict[str, Floats]: ...
    @overload
    def action_values(self, policy: PolicyLike) -> Floats: ...
    def action_values(self, policy: Any) -> Any:
        """Q_t(s, a) of a policy, (horizon, n_states, n_actions); of several by name if given a dict.

        Pairs that are not available have NaN.
        """
        several = policy if isinstance(policy, Mapping) else {"policy": policy}
        size = 8.0 * len(several) * self.horizon * self.reward.size
        way_out = "Take fewer policies at once or a shorter horizon."
        refuse_beyond_memory(size, "values per step, state and action", way_out)
        found = {}
        for name, one in several.items():
            found[name], _ = self.solved(self.probs(one, name))
        return found if isinstance(policy, Mapping) else found["policy"]

    def solved(self, probs: Floats) -> tuple[Floats, float]:
        """Q_t(s, a), as `action_values` has them, and the value of a policy given as by `probs`."""
        returns, first = np.empty((self.horizon, *self.reward.shape)), np.empty((1, self.n_states))
        self._evaluate(probs, returns, first)
        return returns, self.over_initial(first[0])

    def values(self, policy: PolicyLike) -> Floats:
        """V_t(s) of a policy, (horizon, n_states)."""
        refuse_beyond_memory(8.0 * self.horizon * self.n_states, "values per step", "Take a shorter horizon.")
        found = np.empty((self.horizon, self.n_states))
        self._evaluate(self.probs(policy), _NOT_KEPT, found)
        return found

    def initial_values(self, policy: PolicyLike) -> Floats:
        """V_0(s) of a policy, (n_states,)."""
        found = np.empty((1, self.n_states))
        self._evaluate(self.probs(policy), _NOT_KEPT, found)
        first: Floats = found[0]
        return first

    def value(self, policy: PolicyLike) -> float:
        """The value of a policy: its expected return over the initial states."""
        return self.over_initial(self.initial_values(policy))

    def initial_std(self, policy: PolicyLike) -> float:
        """Standard deviation of V_0 over the initial states: what scatter of episodes remains at the very least."""
        first = self.initial_values(policy)
        return math.sqrt(self.over_initial((first - self.over_initial(first)) ** 2))

    def over_initial(self, values: Floats) -> float:
        """Mean of values (n_states,) over the initial states; what others are worth, or whether, is all the same."""
        return float(self.initial @ np.where(self.initial > 0, values, 0.0))

    def evaluate_with(self, unknown: Floats, probs: Floats) -> Floats:
        """Q_t(s, a) of a policy in this model's ids, where actions that are not available are worth `unknown`.

        `unknown` is (horizon, n_states, n_actions), or (horizon, n_states, 1) if all are alike. For models that know
        only some actions, as those counted from logs.
        """
        size = 8.0 * self.horizon * self.reward.size
        refuse_beyond_memory(size, "values per step, state and action", "Group states, or take shorter episodes.")
        returns = np.empty((self.horizon, *self.reward.shape))
        values = np.empty((1, self.n_states))
        planning.evaluate(self.dynamics, probs, self.gamma, self.horizon, returns, values, unknown)
        return returns

    def _evaluate(self, probs: Floats, returns: Floats, values: Floats) -> None:
        planning.evaluate(self.dynamics, probs, self.gamma, self.horizon, returns, values, _NOTHING)

    def optimal(self, *, infinite: bool = False) -> Policy:
        """The best policy: per step for the finite horizon, or one for all steps of an infinite one.

        Ties go to the action with the lowest id.
        """
        if infinite:
            chosen = planning.best_forever(self.dynamics, self.gamma)
        else:
            self._check_per_step("a policy")
            chosen = planning.best_per_step(self.dynamics, self.gamma, self.horizon)
        return self.policy(np.eye(self.n_actions)[chosen])

    def state_distributions(self, policy: PolicyLike) -> Floats:
        """Probability that an episode has a row in each state at each step, (horizon, n_states).

        A step's probabilities sum to less than one where episodes have ended.
        """
        refuse_beyond_memory(8.0 * self.horizon * self.n_states, "distributions per step", "Take a shorter horizon.")
        found = np.zeros((self.horizon, self.n_states))
        found[0] = self.initial
        planning.follow(self.dynamics, self.probs(policy), found)
        return found

    # Data ------------------------------------------------------------------------------------------------------------

    def sample(
        self,
        policy: PolicyLike,
        n_episodes: int,
        *,
        seed: Seed = 0,
        first: int = 0,
        propensities: bool = False,
        progress: Progress | None = None,
    ) -> Episodes:
        """Draw episodes first ... first + n_episodes - 1 of the endless series that a seed stands for.

        The same episode is drawn however the work is divided. `propensities`: log the probability of the action taken
        in `behavior_prob`.
        """
        n, start = check_count(n_episodes, "n_episodes"), check_count(first, "first", least=0)
        check_count(n + start, "first + n_episodes")
        # At the peak the columns exist as parts and as a whole, the state as two kinds of ids.
        size = 2.0 * n * self.horizon * (8 + 8 + 4)
        refuse_beyond_memory(size, "these episodes", "Draw fewer at a time.")
        rows = sampling.draw(
            self.dynamics, self.probs(policy), self.initial, horizon=self.horizon, n=n, first=start, seed=seed,
            progress=progress,
        )  # fmt: skip
        return rows.episodes(self.states, self.actions, propensities=propensities)

    def per_step(self, given: Any, name: str) -> Floats:
        """A number, or an array (n_states, n_actions) or (horizon, n_states, n_actions), as the last of these.

        The result is a view and takes no memory of its own.
        """
        shape = self.reward.shape
        return broadcast(given, ((), shape, (self.horizon, *shape)), name)

    def policy(self, probs: Floats) -> Policy:
        """A policy with this model's labels from an array (n_states, n_actions), or (n_steps, n_states, n_actions)."""
        table = as_floats(probs, "policy")
        if table.ndim not in (2, 3) or table.shape[-2:] != self.reward.shape:
            n, m = self.reward.shape
            raise SchemaError(f"policy: an array of shape {table.shape}; give ({n}, {m}) or (n_steps, {n}, {m}).")
        return Policy.from_table(table, states=self.states, actions=self.actions)

    def probs(self, policy: PolicyLike, name: str = "policy") -> Floats:
        """Probabilities of a policy in this model's ids: (horizon, n_states, n_actions), or (1, ...) if stationary."""
        own = policy if isinstance(policy, Policy) else self._own(policy, name)
        table = self.look_up(own, name)
        sums = table.sum(axis=2)
        given = (sums > 0) & (np.abs(sums - 1) > SUM_TOLERANCE)
        what = f"{name}: exact answers need probabilities that sum to 1 to {SUM_TOLERANCE:g}; they do not in"
        refuse_states(given.any(axis=0), what, self.states, "Divide by their sum, or give more digits.")
        asked = self.reachable[None] if len(table) == 1 else self._reachable_by_step
        asked = asked & ~self.terminal
        gaps = asked & ~(table > 0).any(axis=2)
        if gaps.any():
            step = "" if len(table) == 1 else f" at step {np.argmax(gaps.any(axis=1))}"
            what = f"{name}: the policy says nothing{step} about"
            refuse_states(
                gaps[np.argmax(gaps.any(axis=1))], what, self.states, "They can be reached: say what it does there."
            )
        impossible = (table > 0) & ~self.available & asked[..., None]
        refuse_pairs(
            impossible, f"{name}: the policy takes actions that are not available in", self.states, self.actions
        )
        return table

    def _check_per_step(self, what: str) -> None:
        """Fail if probabilities per step, state and action, with a few copies on their way, would not fit."""
        refuse_beyond_memory(32.0 * self.horizon * self.reward.size, f"{what} per step", "Take a shorter horizon.")

    def _own(self, policy: Any, name: str) -> Policy:
        if isinstance(policy, str | RowPolicy) or policy is None:
            raise SchemaError(f"{name}: {type(policy).__name__}; give a Policy or an array of probabilities.")
        return self.policy(policy)

    def look_up(self, policy: Policy, name: str) -> Floats:
        """Probabilities of a policy in this model's ids, as `probs` has them, 0 where it says nothing."""
        if not (policy.states.comparable(self.states) and policy.actions.comparable(self.actions)):
            raise SchemaError(
                f"{name}: its labels are {policy.states.kind} for states and {policy.actions.kind} for actions, those "
                f"of the model {self.states.kind} and {self.actions.kind}. Use the same labels in both."
            )
        state = self.states.positions_of(policy.states)[policy.state]
        action = self.actions.positions_of(policy.actions)
        strangers = np.flatnonzero((action == ABSENT) & (policy.probs > 0).any(axis=0))
        if len(strangers):
            unknown = str(policy.actions[int(strangers[0])])
            close = nearest(unknown, [str(word) for word in self.actions.words.to_pylist()])
            raise SchemaError(f"{name}: the model has no action {unknown!r}.{close}")
        step = np.zeros(len(state), dtype=np.int64) if policy.step is None else policy.step
        keep = (state != ABSENT) & (step < self.horizon)
        if policy.step is not None:
            self._check_per_step(name)
        table = np.zeros((1 if policy.step is None else self.horizon, *self.reward.shape))
        shared = action != ABSENT
        table[step[keep, None], state[keep, None], action[shared]] = policy.probs[keep][:, shared]
        return table

    @cached_property
    def dynamics(self) -> planning.Dynamics:
        """The arrays that compiled passes over this model read."""
        t = self.transitions
        arrays = t.offsets, t.following, t.prob, self.reward, self.reward_std, self.terminal, self.available
        # All contiguous and read-only, so that passes are compiled once.
        return planning.Dynamics(*(frozen(np.ascontiguousarray(array)) for array in arrays))

    def __repr__(self) -> str:
        return (
            f"TabularMDP({self.n_states:,} states, {self.n_actions:,} actions, "
            f"{len(self.transitions.prob):,} transitions, gamma {self.gamma:g}, horizon {self.horizon:,})"
        )
