"""A finite-horizon tabular MDP: values, optimal policies and state distributions exactly, and datasets drawn from it.

An episode is a row per step t = 0 ... horizon - 1 at most. In a state with a decision an action is taken, a reward with
mean `reward[s, a]` is paid and a next state is drawn; the episode ends early if the transition leads to END. A terminal
state is a row of its own without an action: it pays its reward and the episode ends. Rewards are deterministic, or
Gaussian where `reward_std` is above 0, and independent of the next state given state and action.

    Q_t(s, a) = reward(s, a) + gamma sum_s' p(s'|s, a) V_{t+1}(s'),   V_t(s) = sum_a pi_t(a|s) Q_t(s, a),   V_T = 0

so values are discounted from their own step, as annotations are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar, overload

import numpy as np
import pyarrow as pa

from semiope._arrays import Booleans, Floats, as_floats, frozen
from semiope._memory import refuse_beyond_memory
from semiope._options import check_count, check_gamma
from semiope._random import Seed
from semiope.data.episodes import Episodes
from semiope.data.labels import ABSENT, Vocabulary
from semiope.data.naming import refuse_pairs, refuse_states
from semiope.errors import OptionError, SchemaError
from semiope.models import planning, sampling
from semiope.models.transitions import END, Transitions
from semiope.policies.policy import Policy

AnyTable = Policy | Floats | Sequence[Any]
Labels = Sequence[str] | Sequence[int] | None
Progress = sampling.Progress
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class TabularMDP:
    """States, actions, what follows, what it pays, where episodes start, gamma and horizon; checked when built.

    `reward` and `reward_std` are (n_states, n_actions), `initial` and `terminal` (n_states,), `available`
    (n_states, n_actions): actions that exist in a state.
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
        state_words, action_words = _words(states, pay.shape[0], "states"), _words(actions, pay.shape[1], "actions")
        mdp = cls(
            states=state_words,
            actions=action_words,
            transitions=Transitions.of(state, action, next_state, prob, state_words, action_words),
            reward=frozen(pay),
            reward_std=frozen(_spread(as_floats(reward_std, "reward_std"), pay.shape, "reward_std")),
            initial=frozen(as_floats(initial, "initial")),
            terminal=frozen(_flags(terminal, pay.shape[:1], False, "terminal")),
            available=frozen(_flags(available, pay.shape, True, "available")),
            gamma=check_gamma(gamma),
            horizon=check_count(horizon, "horizon"),
        )
        return mdp._checked(allow_unreachable=allow_unreachable)

    @classmethod
    def from_dense(cls, transitions: Any, **options: Any) -> TabularMDP:
        """Build from an array (n_states, n_actions, n_states), or None if nothing follows any step; else as sparse."""
        if transitions is None:
            shape = as_floats(options.get("reward", ()), "reward").shape
            state, action = (index.ravel() for index in np.indices(shape)) if len(shape) == 2 else ((), ())
            return cls.from_sparse(
                state=np.array(state, dtype=int), action=np.array(action, dtype=int),
                next_state=np.full(len(state), END), prob=np.ones(len(state)), **options,
            )  # fmt: skip
        table = as_floats(transitions, "transitions")
        if table.ndim != 3 or table.shape[0] != table.shape[2]:
            raise SchemaError(f"transitions: an array of shape {table.shape}; give (n_states, n_actions, n_states).")
        # NaN counts as an entry, so that it is found and named.
        state, action, next_state = np.nonzero(table)
        prob = table[state, action, next_state]
        return cls.from_sparse(state=state, action=action, next_state=next_state, prob=prob, **options)

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.states)

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return len(self.actions)

    @cached_property
    def reachable(self) -> Booleans:
        """States that an episode can come to under some policy, whatever the horizon."""
        open_pairs = self.available & ~self.terminal[:, None]
        return frozen(self.transitions.reached_from(self.initial > 0, open_pairs))

    @cached_property
    def _reachable_by_step(self) -> Booleans:
        refuse_beyond_memory(float(self.horizon * self.n_states), "states by step", "Take a shorter horizon.")
        open_pairs = self.available & ~self.terminal[:, None]
        return frozen(self.transitions.reached_by_step(self.initial > 0, open_pairs, self.horizon))

    # Exact answers ---------------------------------------------------------------------------------------------------

    @overload
    def action_values(self, policy: Mapping[str, AnyTable]) -> dict[str, Floats]: ...
    @overload
    def action_values(self, policy: AnyTable) -> Floats: ...
    def action_values(self, policy: Any) -> Any:
        """Q_t(s, a) of a policy, (horizon, n_states, n_actions); of several by name if given a dict.

        Pairs that are not available have NaN.
        """
        several = policy if isinstance(policy, Mapping) else {"policy": policy}
        size = 8.0 * len(several) * self.horizon * self.reward.size
        refuse_beyond_memory(
            size, "values per step, state and action", "Take fewer policies at once or a shorter horizon."
        )
        found = {}
        for name, one in several.items():
            found[name] = np.empty((self.horizon, *self.reward.shape))
            planning.evaluate(self.dynamics, self.probs(one, name), self.gamma, found[name])
        return found if isinstance(policy, Mapping) else found["policy"]

    def values(self, policy: AnyTable) -> Floats:
        """V_t(s) of a policy, (horizon, n_states)."""
        probs, q = self.probs(policy), self.action_values(policy)
        averaged = np.where(probs > 0, probs * q, 0.0).sum(axis=2)
        found: Floats = np.where(self.terminal, self.reward[:, 0], averaged)
        return found

    def value(self, policy: AnyTable) -> float:
        """The value of a policy: its expected return over the initial states."""
        return float(self.initial @ self.values(policy)[0])

    def initial_std(self, policy: AnyTable) -> float:
        """Standard deviation of V_0 over the initial states: the part of the spread no estimator can remove."""
        first = self.values(policy)[0]
        return float(np.sqrt(self.initial @ (first - self.initial @ first) ** 2))

    def optimal(self, *, infinite: bool = False) -> Policy:
        """The best policy: per step for the finite horizon, or one for all steps of an infinite one.

        Ties go to the action with the lowest id.
        """
        if infinite:
            chosen = planning.best_forever(self.dynamics, self.gamma)
        else:
            refuse_beyond_memory(8.0 * self.horizon * self.reward.size, "a policy per step", "Take a shorter horizon.")
            chosen = planning.best_per_step(self.dynamics, self.gamma, self.horizon)
        return self.policy(np.eye(self.n_actions)[chosen])

    def distributions(self, policy: AnyTable) -> Floats:
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
        policy: AnyTable,
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
        size = float(n) * self.horizon * (8 + 8 * propensities + 4)
        refuse_beyond_memory(size, "these episodes", "Draw fewer at a time: `first` says where to go on.")
        rows = sampling.draw(
            self.dynamics, self.probs(policy), self.initial, horizon=self.horizon, n=n, first=start, seed=seed,
            progress=progress,
        )  # fmt: skip
        return rows.episodes(self.states, self.actions, propensities=propensities)

    def policy(self, probs: Floats) -> Policy:
        """A policy with this model's labels from an array (n_states, n_actions), or (n_steps, n_states, n_actions)."""
        return Policy.from_table(probs, states=self.states, actions=self.actions)

    def probs(self, policy: AnyTable, name: str = "policy") -> Floats:
        """Probabilities of a policy in this model's ids: (horizon, n_states, n_actions), or (1, ...) if stationary."""
        own = policy if isinstance(policy, Policy) else self._own(policy, name)
        table = self._looked_up(own, name)
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

    def _own(self, policy: Any, name: str) -> Policy:
        table = as_floats(policy, name)
        if table.shape[-2:] != self.reward.shape:
            raise SchemaError(
                f"{name}: an array of shape {table.shape}; "
                f"give ({self.n_states}, {self.n_actions}) or (n_steps, {self.n_states}, {self.n_actions})."
            )
        return self.policy(table)

    def _looked_up(self, policy: Policy, name: str) -> Floats:
        if not (policy.states.comparable(self.states) and policy.actions.comparable(self.actions)):
            raise SchemaError(
                f"{name}: its labels are {policy.states.kind} for states and {policy.actions.kind} for actions, those "
                f"of the model {self.states.kind} and {self.actions.kind}. Use the same labels in both."
            )
        state = self.states.positions_of(policy.states)[policy.state]
        action = self.actions.ids_of(policy.actions, name)
        step = np.zeros(len(state), dtype=np.int64) if policy.step is None else policy.step
        keep = (state != ABSENT) & (step < self.horizon)
        table = np.zeros((1 if policy.step is None else self.horizon, *self.reward.shape))
        table[step[keep, None], state[keep, None], action] = policy.probs[keep]
        return table

    @cached_property
    def dynamics(self) -> planning.Dynamics:
        """The arrays that compiled passes over this model read."""
        t = self.transitions
        return planning.Dynamics(
            t.offsets, t.following, t.prob, self.reward, self.reward_std, self.terminal, self.available
        )

    # Checks ----------------------------------------------------------------------------------------------------------

    def _checked(self, *, allow_unreachable: bool) -> TabularMDP:
        words = self.states, self.actions
        for name, table in (("reward", self.reward), ("reward_std", self.reward_std)):
            refuse_pairs(~np.isfinite(table) & self.available, f"{name}: not a finite number in", *words)
        refuse_pairs((self.reward_std < 0) & self.available, "reward_std: negative in", *words)
        self._check_initial()
        self.transitions.check_sums(self.available & ~self.terminal[:, None], self.states, self.actions)
        stuck = ~self.available.any(axis=1) & ~self.terminal
        refuse_states(stuck, "available: no action is available in", self.states, "Mark such states as terminal.")
        self._check_terminal()
        if not allow_unreachable:
            way_out = "Correct the transitions, leave these states out, or pass allow_unreachable=True."
            refuse_states(~self.reachable, "states: no policy can come to", self.states, way_out)
        return self

    def _check_initial(self) -> None:
        if self.initial.shape != (self.n_states,):
            raise SchemaError(f"initial: an array of shape {self.initial.shape}; give ({self.n_states},).")
        refuse_states(~(self.initial >= 0), "initial: no probability (0 or more) is given for", self.states)
        if abs(self.initial.sum() - 1) > 1e-9:
            raise SchemaError(f"initial: the probabilities sum to {self.initial.sum():.12g}, not 1.")

    def _check_terminal(self) -> None:
        """A terminal state has no decision: all its actions pay the same, and nothing is paid after it."""
        for table in (self.reward, self.reward_std):
            differs = self.terminal & (table != table[:, :1]).any(axis=1)
            what = "terminal: the reward depends on the action in"
            refuse_states(differs, what, self.states, "A terminal state has no decision.")
        quiet = self.terminal & ~self.reward.any(axis=1) & ~self.reward_std.any(axis=1)
        t = self.transitions
        entry_state = np.repeat(np.arange(len(t.offsets) - 1) // self.n_actions, np.diff(t.offsets))
        paid_later = self.terminal[entry_state] & (t.following != END) & ~quiet[t.following]
        wrong = np.bincount(entry_state[paid_later], minlength=self.n_states) > 0
        what = "terminal: something is still paid after"
        way_out = "Leave out what follows a terminal state, or let it lead to terminal states that pay nothing."
        refuse_states(wrong, what, self.states, way_out)

    def __repr__(self) -> str:
        return (
            f"TabularMDP({self.n_states:,} states, {self.n_actions:,} actions, "
            f"{len(self.transitions.prob):,} transitions, gamma {self.gamma:g}, horizon {self.horizon:,})"
        )


def _words(labels: Labels, n: int, name: str) -> Vocabulary:
    if labels is None:
        return Vocabulary.integers(n)
    words = pa.array(list(labels))
    if len(words) != n or len(words.unique()) != n:
        raise OptionError(f"{name}: give {n:,} different labels, one for each.")
    return Vocabulary(words)


def _spread(values: Floats, shape: tuple[int, ...], name: str) -> Floats:
    try:
        return np.broadcast_to(values, shape).copy()
    except ValueError:
        raise SchemaError(f"{name}: an array of shape {values.shape}; give one number or {shape}.") from None


def _flags(values: Any, shape: tuple[int, ...], default: bool, name: str) -> Booleans:
    if values is None:
        return np.full(shape, default)
    flags = np.asarray(values)
    if flags.dtype != np.bool_ or flags.shape != shape:
        raise SchemaError(f"{name}: {flags.dtype} of shape {flags.shape}; give booleans of shape {shape}.")
    return flags.copy()
