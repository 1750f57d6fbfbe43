"""Finite datasets that are the population itself, for questions that depend on an episode's past.

Everything random is a ticket out of a few that are equally likely. Episodes for every combination of tickets, each
once, have every mean that the population has, so that whatever is counted in them is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import semiope as so

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
HORIZON, N_STATES, N_ACTIONS, GAMMA = 3, 2, 3, 0.9
END = N_STATES  # a state without a decision
ACTIONS = np.array([[0, 0, 1, 2], [1, 1, 2, 0]])  # tickets by state
HABIT = np.array([[0, 1, 1, 2], [0, 0, 1, 2]])  # the same after the first action, where behaviour depends on the past
STATES = np.array([[[0, 1], [0, 1], [1, END]], [[0, 1], [0, END], [1, 1]]])  # tickets by state and action
REWARD = np.array([[1.0, 0.8, 2.0], [0.5, 3.0, -1.0]])
BONUS = 0.7  # in the end
BEHAVIOR = np.array([np.bincount(row, minlength=N_ACTIONS) / len(row) for row in ACTIONS])
DETERMINISTIC = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
STOCHASTIC = np.array([[0.25, 0.5, 0.25], [0.6, 0.4, 0.0]])


@dataclass(frozen=True)
class Past:
    """What a rule may look at, at one step of all episodes: `coin` is 0 or 1, whatever else happens."""

    step: int
    states: Integers  # up to this step
    actions: Integers
    coin: Integers
    departed: NDArray[np.bool_]  # at an earlier step
    departs: NDArray[np.bool_]


Rule = Callable[[Past], Any]


def first_departure(past: Past) -> Any:
    """Only the first step at which an episode does not do what the policy likes best."""
    return past.departs & ~past.departed


def some_first_departures(past: Past) -> Any:
    return past.departs & ~past.departed & (past.coin == 1)


def after_an_action(past: Past) -> Any:
    """Only where the first action was chosen before; now and then at the first step."""
    return past.coin == 1 if past.step == 0 else past.actions[:, -2] == 0


def coin_by_previous_state(past: Past) -> Any:
    """Half of the time after one state, never after the other."""
    return (past.coin == 1) & (past.states[:, -2] == 1 if past.step else True)


def by_state(past: Past) -> Any:
    """Depends on nothing before."""
    return (past.states[:, -1] == 0) | (past.coin == 1)


RULES: list[Rule] = [first_departure, some_first_departures, after_an_action, coin_by_previous_state]


@dataclass(frozen=True)
class Population:
    """Columns of the tables, the behaviour policy in each row, the policy, and its value."""

    episodes: dict[str, Any]
    annotations: dict[str, Any]
    behavior: Floats
    evaluation: Floats
    value: float

    def evaluate(self, names: str, *, behavior: str = "count", **options: Any) -> so.Results:
        """Evaluate with a behaviour policy that is counted, given, logged, or given row by row."""
        columns, known = self.episodes, {"count": "count", "given": self.policy(BEHAVIOR), "logged": None}
        if behavior == "logged":
            prob = BEHAVIOR[np.minimum(columns["state"], N_STATES - 1), columns["action"]]
            columns = {**columns, "behavior_prob": np.where(columns["action"] >= 0, prob, 1.0)}
        if behavior == "by row":
            decided = np.flatnonzero(columns["action"] >= 0)
            rows, actions = np.repeat(decided, N_ACTIONS), np.tile(np.arange(N_ACTIONS), len(decided))
            known["by row"] = so.RowPolicy.from_arrays(
                episode=columns["episode"][rows], step=columns["step"][rows], action=actions,
                prob=self.behavior[rows, actions],
            )  # fmt: skip
        episodes = so.Episodes.from_arrays(**columns)
        options = {"annotations": so.Annotations.from_arrays(**self.annotations), "gamma": GAMMA, **options}
        found: so.Results = so.evaluate(
            episodes, self.policy(self.evaluation), behavior=known[behavior], estimators=names, **options
        )
        return found

    def policy(self, probs: Floats) -> so.Policy:
        """A policy as it must be given: over all states, the last included."""
        return so.Policy.from_table(np.vstack([probs, np.eye(1, N_ACTIONS)]))


def values_of(evaluation: Floats) -> Floats:
    """Exact returns of each action by step and state."""
    returns, worth = np.zeros((HORIZON, N_STATES, N_ACTIONS)), np.append(np.zeros(N_STATES), BONUS)
    for t in range(HORIZON - 1, -1, -1):
        after = worth if t + 1 < HORIZON else np.zeros(N_STATES + 1)
        returns[t] = REWARD + GAMMA * after[STATES].mean(axis=2)
        worth = np.append((evaluation * returns[t]).sum(axis=1), BONUS)
    return returns


def population(evaluation: Floats, rule: Rule, *, habit: bool = False) -> Population:
    """Every combination of tickets: first state, then action, coin and next state at each step; and a noise."""
    sizes = [N_STATES, *(4, 2, 2) * (HORIZON - 1), 4, 2, 2]
    tickets = np.indices(sizes).reshape(len(sizes), -1)
    n, returns, best = tickets.shape[1], values_of(evaluation), evaluation.argmax(axis=1)
    noise = 0.5 * tickets[-1] - 0.25
    state, departed = tickets[0], np.zeros(n, dtype=bool)
    states, actions = np.zeros((n, 0), dtype=np.int64), np.zeros((n, 0), dtype=np.int64)
    rows: dict[str, list[Any]] = {name: [] for name in ("episode", "step", "state", "action", "reward", "behavior")}
    answers: dict[str, list[Any]] = {name: [] for name in ("episode", "step", "action", "value", "weight")}
    alive = np.ones(n, dtype=bool)
    for t in range(HORIZON):
        on, place = alive & (state != END), np.minimum(state, N_STATES - 1)
        bowl = ACTIONS[place]
        if habit and t > 0:
            bowl = np.where(actions[:, -1:] == 0, HABIT[place], bowl)
        action = bowl[np.arange(n), tickets[1 + 3 * t]]
        probs = (bowl[:, :, None] == np.arange(N_ACTIONS)).mean(axis=1)
        states, actions = np.column_stack([states, place]), np.column_stack([actions, action])
        departs = action != best[place]
        asked = on & rule(Past(t, states, actions, tickets[2 + 3 * t], departed, departs))
        departed = departed | departs
        ended = alive & ~on
        paid = np.where(on, REWARD[place, action], BONUS)
        for who, what in ((on, action), (ended, np.full(n, -1))):
            _add(rows, np.flatnonzero(who), np.full(n, t), state, what, paid, probs)
        for other in range(N_ACTIONS):
            who = np.flatnonzero(asked & (action != other) & (evaluation[place, other] > 0))
            value = returns[t, place, other] + noise
            _add(answers, who, np.full(n, t), np.full(n, other), value, np.where(state == 0, 0.2, 0.45))
        alive = on
        if t + 1 < HORIZON:
            state = np.where(on, STATES[place, action, tickets[3 + 3 * t]], END)
    value = float(np.mean((evaluation * returns[0]).sum(axis=1)))
    tables = [{name: np.concatenate(column) for name, column in table.items()} for table in (rows, answers)]
    return Population(tables[0], tables[1], tables[0].pop("behavior"), evaluation, value)


def _add(table: dict[str, list[Any]], who: Integers, *columns: Any) -> None:
    for column, entries in zip(table.values(), (np.arange(len(columns[0])), *columns), strict=True):
        column.append(entries[who])
