"""Compiled passes over a model: backward for values and best actions, forward for state distributions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from semiope._arrays import Booleans, Floats, Integers
from semiope._compiled import compiled
from semiope.errors import OptionError
from semiope.models.transitions import END

# Actions are tied whose values differ by less than this, relative to the largest value or reward around.
TIE = 1e-10
PRECISION = 1e-12
MOST_SWEEPS = 1_000_000
# Without discounting nothing makes the values settle but episodes that end.
MOST_SWEEPS_UNDISCOUNTED = 100_000


class Dynamics(NamedTuple):
    """The arrays of a model that compiled code reads."""

    offsets: Integers
    following: Integers
    prob: Floats
    reward: Floats
    reward_std: Floats
    terminal: Booleans
    available: Booleans


def best_per_step(model: Dynamics, gamma: float, horizon: int) -> Integers:
    """The best action of each step and state, (horizon, n_states)."""
    chosen = np.zeros((horizon, len(model.terminal)), dtype=np.int64)
    _improve(model, gamma, np.zeros(len(model.terminal)), chosen)
    return chosen


def best_forever(model: Dynamics, gamma: float) -> Integers:
    """The best action of each state, (n_states,), for an infinite horizon, by value iteration.

    Stops when the values are known to PRECISION of their size: a change of at most d in one sweep leaves an error of at
    most d gamma / (1 - gamma).
    """
    worth, chosen = np.zeros(len(model.terminal)), np.zeros((1, len(model.terminal)), dtype=np.int64)
    shortfall = (1 - gamma) / gamma if 0 < gamma < 1 else 1.0
    most = MOST_SWEEPS if gamma < 1 else MOST_SWEEPS_UNDISCOUNTED
    for _ in range(most):
        change = _improve(model, gamma, worth, chosen)
        if change <= PRECISION * shortfall * float(np.abs(worth).max()):
            found: Integers = chosen[0]
            return found
    raise OptionError(
        f"optimal: the values for an infinite horizon with gamma {gamma:g} do not settle in {most:,} sweeps. "
        "Take a smaller gamma, or the finite horizon."
    )


@compiled
def _ahead(model: Dynamics, pair: int, worth: Floats) -> float:
    total = 0.0
    for i in range(model.offsets[pair], model.offsets[pair + 1]):
        if model.following[i] != END:
            total += model.prob[i] * worth[model.following[i]]
    return total


@compiled
def evaluate(
    model: Dynamics, probs: Floats, gamma: float, horizon: int, returns: Floats, values: Floats, unknown: Floats
) -> None:
    """Fill in what a policy, given per step or with one entry for all, is worth.

    `unknown`, (horizon, n_states, n_actions) or (horizon, n_states, 1), is what actions that are not available are
    taken to be worth; NaN if it is empty. Where the policy says nothing, a state is worth their mean.

    `returns` takes Q_t(s, a), (horizon, n_states, n_actions), unless it is empty; `values` takes V_t(s), (horizon,
    n_states), or V_0(s) alone if it has one row.
    """
    n_states, n_actions = model.reward.shape
    worth, earlier = np.zeros(n_states), np.zeros(n_states)
    for step in range(horizon - 1, -1, -1):
        policy = probs[step if len(probs) > 1 else 0]
        for state in range(n_states):
            total, silent = 0.0, True
            for action in range(n_actions):
                value = unknown[step, state, min(action, unknown.shape[2] - 1)] if len(unknown) else np.nan
                if model.terminal[state]:
                    value = model.reward[state, action]
                elif model.available[state, action]:
                    value = model.reward[state, action] + gamma * _ahead(model, state * n_actions + action, worth)
                if len(returns):
                    returns[step, state, action] = value
                if policy[state, action] > 0:
                    silent = False
                    total += policy[state, action] * value
            # The policy may say nothing where it never comes.
            if silent:
                total = np.mean(unknown[step, state]) if len(unknown) else np.nan
            earlier[state] = model.reward[state, 0] if model.terminal[state] else total
        for state in range(n_states):
            worth[state] = earlier[state]
            if step < len(values):
                values[step, state] = worth[state]


@compiled
def _improve(model: Dynamics, gamma: float, worth: Floats, chosen: Integers) -> float:
    """Sweep backward once per row of `chosen`, from the values in `worth`; return the last sweep's largest change."""
    n_states, n_actions = model.reward.shape
    earlier, values = np.zeros(n_states), np.zeros(n_actions)
    change = largest = 0.0
    for state in range(n_states):
        for action in range(n_actions):
            if model.available[state, action] or model.terminal[state]:
                largest = max(largest, abs(model.reward[state, action]))
    for step in range(len(chosen) - 1, -1, -1):
        change = 0.0
        size = largest
        for state in range(n_states):
            size = max(size, abs(worth[state]))
        for state in range(n_states):
            if model.terminal[state]:
                chosen[step, state] = 0
                earlier[state] = model.reward[state, 0]
            else:
                best = -np.inf
                for action in range(n_actions):
                    values[action] = -np.inf
                    if model.available[state, action]:
                        ahead = _ahead(model, state * n_actions + action, worth)
                        values[action] = model.reward[state, action] + gamma * ahead
                    best = max(best, values[action])
                for action in range(n_actions):
                    if values[action] >= best - TIE * size:
                        chosen[step, state] = action
                        break
                earlier[state] = best
        for state in range(n_states):
            change = max(change, abs(earlier[state] - worth[state]))
            worth[state] = earlier[state]
    return change


@compiled
def follow(model: Dynamics, probs: Floats, found: Floats) -> None:
    """Fill in the probability of a row in each state at each step, (horizon, n_states), from that of the first."""
    horizon, n_states = found.shape
    n_actions = model.reward.shape[1]
    for step in range(horizon - 1):
        policy = probs[step if len(probs) > 1 else 0]
        for state in range(n_states):
            if found[step, state] > 0 and not model.terminal[state]:
                for action in range(n_actions):
                    mass = found[step, state] * policy[state, action]
                    if mass > 0:
                        pair = state * n_actions + action
                        for i in range(model.offsets[pair], model.offsets[pair + 1]):
                            if model.following[i] != END:
                                found[step + 1, model.following[i]] += mass * model.prob[i]


@compiled
def rest(model: Dynamics, probs: Floats, gamma: float, mass: Floats, found: Floats, passing: Floats) -> None:
    """Fill in what rests on the `unknown` of `evaluate`, if `mass` rests on the returns of available actions.

    Both are (horizon, n_states, n_actions); `evaluate` the other way round. `passing`, (n_states, n_actions), takes how
    much passes through available actions on the way, at all steps together.
    """
    horizon, n_states, n_actions = found.shape
    here, ahead = np.zeros(n_states), np.zeros(n_states)
    for step in range(horizon):
        policy = probs[step if len(probs) > 1 else 0]
        ahead[:] = 0.0
        for state in range(n_states):
            if model.terminal[state]:
                continue
            # Where the policy says nothing, a state is worth the mean of what actions are taken to be worth.
            silent = not np.any(policy[state] > 0)
            for action in range(n_actions):
                arrived, pair = here[state] * policy[state, action], state * n_actions + action
                if silent:
                    found[step, state, action] = here[state] / n_actions
                elif not model.available[state, action]:
                    found[step, state, action] = arrived
                else:
                    passing[state, action] += arrived
                passed = gamma * (arrived + mass[step, state, action]) if model.available[state, action] else 0.0
                if passed != 0.0:
                    for i in range(model.offsets[pair], model.offsets[pair + 1]):
                        if model.following[i] != END:
                            ahead[model.following[i]] += model.prob[i] * passed
        here, ahead = ahead, here
