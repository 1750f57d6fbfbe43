"""Families of worlds with known truth, each drawn from a seed; those whose states are features are in `feature_worlds`.

A family is a function from a random generator to a `World`: sizes, dynamics, rewards, horizon, the behavior policy and
the policy to evaluate are all drawn anew. Nothing here knows an estimator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from draws import Floats, discount, log_uniform, softmax
from feature_worlds import FEATURE_FAMILIES, FeatureWorld

from semiope.domains import sepsis as sepsis_domain
from semiope.domains import tree as tree_domain
from semiope.models.tabular import TabularMDP


class World(NamedTuple):
    """A tabular world: its model, and both policies as arrays (n_states, n_actions) in the model's ids.

    `observed` is what the logs show of each state, if that is not all; both policies then depend on it alone.
    """

    mdp: TabularMDP
    behavior: Floats
    evaluation: Floats
    observed: np.ndarray | None = None


def candidate(rng: np.random.Generator, mdp: TabularMDP, behavior: Floats) -> Floats:
    """A policy to evaluate: the best one, the behavior policy improved or changed, or one drawn anew."""
    kind = rng.integers(4)
    if kind == 0:
        return mdp.optimal(infinite=False).probs.reshape(mdp.horizon, mdp.n_states, -1)[0].copy()
    returns = np.nan_to_num(mdp.action_values(mdp.policy(behavior))[0])
    if kind == 1:
        spread = max(float(returns.std()), 1e-9)
        return softmax(np.log(behavior + 1e-3) + rng.uniform(0.5, 3.0) * returns / spread)
    other = softmax(rng.uniform(0.5, 2.0) * rng.normal(size=behavior.shape))
    return other if kind == 2 else 0.5 * behavior + 0.5 * other


def garnet(rng: np.random.Generator) -> World:
    """A Garnet MDP: each pair leads to a few random states; rewards are drawn for each pair."""
    mdp = _garnet(rng, horizon=int(rng.integers(2, 21)))
    behavior = softmax(rng.uniform(0.3, 1.5) * rng.normal(size=mdp.reward.shape))
    return World(mdp, behavior, candidate(rng, mdp, behavior))


def _garnet(rng: np.random.Generator, horizon: int) -> TabularMDP:
    return _garnet_and_table(rng, horizon)[0]


def _garnet_and_table(rng: np.random.Generator, horizon: int) -> tuple[TabularMDP, Floats]:
    n_states, n_actions = round(log_uniform(rng, 4, 60)), int(rng.integers(2, 7))
    table = _branching(rng, n_states, n_actions, min(int(rng.integers(2, 6)), n_states))
    reward = rng.normal(size=(n_states, n_actions)) * (rng.random((n_states, n_actions)) < rng.uniform(0.3, 1.0))
    initial = rng.dirichlet(np.ones(n_states) * rng.uniform(0.2, 1.0))
    mdp = TabularMDP.from_dense(
        table, reward=reward, reward_std=rng.uniform(0.0, 1.0), initial=initial, horizon=horizon, gamma=discount(rng),
        allow_unreachable=True,
    )  # fmt: skip
    return mdp, table


def _branching(rng: np.random.Generator, n_states: int, n_actions: int, branches: int) -> Floats:
    """Transitions of each pair to a few random states, (n_states, n_actions, n_states)."""
    table = np.zeros((n_states, n_actions, n_states))
    for s in range(n_states):
        for a in range(n_actions):
            table[s, a, rng.choice(n_states, branches, replace=False)] = rng.dirichlet(np.ones(branches))
    return table


def aliased(rng: np.random.Generator) -> World:
    """Patients of two kinds that the logs do not tell apart: states do not hold all that matters.

    Kinds differ in rewards and in what follows, as drawn: from hardly at all to altogether. Annotators see the kind,
    both policies do not.
    """
    common, shared = _garnet_and_table(rng, horizon=int(rng.integers(2, 16)))
    n_states, n_actions = common.reward.shape
    behavior = softmax(rng.uniform(0.3, 1.5) * rng.normal(size=common.reward.shape))
    evaluation = candidate(rng, common, behavior)
    apart, branches = rng.uniform(0.0, 1.0), min(int(rng.integers(2, 6)), n_states)
    tables, rewards = np.zeros((2 * n_states, n_actions, 2 * n_states)), []
    for kind in range(2):
        own = slice(kind * n_states, (kind + 1) * n_states)
        tables[own, :, own] = (1 - apart) * shared + apart * _branching(rng, n_states, n_actions, branches)
        rewards.append(common.reward + apart * (rng.normal() + rng.normal(size=common.reward.shape)))
    share = rng.uniform(0.2, 0.8)
    mdp = TabularMDP.from_dense(
        tables, reward=np.concatenate(rewards), reward_std=rng.uniform(0.0, 1.0),
        initial=np.concatenate([share * common.initial, (1 - share) * common.initial]), horizon=common.horizon,
        gamma=common.gamma, allow_unreachable=True,
    )  # fmt: skip
    return World(mdp, np.tile(behavior, (2, 1)), np.tile(evaluation, (2, 1)), np.tile(np.arange(n_states), 2))


def deterministic(rng: np.random.Generator) -> World:
    """A Garnet MDP whose behavior policy always does the same in some of the states."""
    mdp = _garnet(rng, horizon=int(rng.integers(2, 16)))
    behavior = softmax(rng.uniform(0.3, 1.5) * rng.normal(size=mdp.reward.shape))
    fixed = rng.random(mdp.n_states) < rng.uniform(0.2, 0.8)
    behavior[fixed] = np.eye(mdp.n_actions)[rng.integers(mdp.n_actions, size=mdp.n_states)][fixed]
    evaluation = candidate(rng, mdp, behavior)
    return World(mdp, behavior, evaluation)


def ward(rng: np.random.Generator) -> World:
    """A hospital ward: severity goes up and down, patients recover or die, some treatments were never given.

    What is left of the stay matters: those who are still there at the end get nothing.
    """
    levels, n_actions, horizon = int(rng.integers(4, 9)), int(rng.integers(3, 5)), int(rng.integers(8, 17))
    n_states = levels + 2
    table = np.zeros((n_states, n_actions, n_states))
    strength = np.sort(rng.uniform(-0.1, 0.4, size=(levels, n_actions)), axis=1)
    for s in range(levels):
        for a in range(n_actions):
            better = np.clip(0.25 + strength[s, a] - 0.03 * s, 0.03, 0.85)
            worse = (1 - better) * rng.uniform(0.3, 0.7)
            table[s, a, s - 1 if s else levels] += better
            table[s, a, s + 1 if s < levels - 1 else levels + 1] += worse
            table[s, a, s] += 1 - better - worse
    cost = rng.uniform(0.0, 0.05, size=n_actions)
    reward = np.concatenate([-np.tile(cost, (levels, 1)), np.ones((1, n_actions)), -np.ones((1, n_actions))])
    initial = np.append(rng.dirichlet(np.ones(levels)), [0.0, 0.0])
    mdp = TabularMDP.from_dense(
        table, reward=reward, initial=initial, terminal=np.arange(n_states) >= levels, horizon=horizon,
        gamma=discount(rng),
    )  # fmt: skip
    logits = rng.uniform(0.5, 1.5) * rng.normal(size=(n_states, n_actions))
    never = rng.random((n_states, n_actions)) < 0.4
    never[:, 0] = False
    behavior = softmax(np.where(never, -np.inf, logits))
    return World(mdp, behavior, candidate(rng, mdp, behavior))


def corridor(rng: np.random.Generator) -> World:
    """A long way with a reward at its end alone: 40 to 60 steps, two or three actions, a policy close to practice."""
    length, n_actions, horizon = int(rng.integers(8, 21)), int(rng.integers(2, 4)), int(rng.integers(40, 61))
    n_states = length + 2
    drift = np.clip(rng.normal(0.03, 0.05, size=(length, n_actions)), -0.2, 0.2)
    table = np.zeros((n_states, n_actions, n_states))
    for s in range(length):
        stay = rng.uniform(0.2, 0.6)
        up = (1 - stay) / 2 + drift[s]
        table[s, :, s + 1 if s < length - 1 else length] += up.reshape(-1)
        table[s, :, s] += stay
        table[s, :, s - 1 if s else length + 1] += 1 - stay - up
    reward = np.zeros((n_states, n_actions))
    reward[length], reward[length + 1] = 1.0, rng.choice([0.0, -1.0])
    initial = np.zeros(n_states)
    middle = slice(length // 3, length // 3 + length // 2)
    initial[middle] = rng.dirichlet(np.ones(length // 2))
    mdp = TabularMDP.from_dense(
        table, reward=reward, initial=initial, terminal=np.arange(n_states) >= length, horizon=horizon,
        gamma=float(rng.choice([1.0, 0.99])),
    )  # fmt: skip
    behavior = softmax(rng.uniform(0.2, 1.0) * rng.normal(size=(n_states, n_actions)))
    evaluation = softmax(np.log(behavior) + rng.uniform(0.2, 1.0) * rng.normal(size=behavior.shape))
    if rng.random() < 0.5:  # a change in a few states
        changed = rng.random(n_states) < 0.3
        evaluation = np.where(changed[:, None], evaluation, behavior)
    return World(mdp, behavior, evaluation)


def bandit(rng: np.random.Generator) -> World:
    """A contextual bandit with many actions: one decision, 8 to 50 actions, 10 to 200 contexts."""
    n_states, n_actions = round(log_uniform(rng, 10, 200)), round(log_uniform(rng, 8, 50))
    taste, appeal = rng.normal(size=(n_states, 3)), rng.normal(size=(n_actions, 3))
    means = taste @ appeal.T / np.sqrt(3) + rng.uniform(0, 0.5) * rng.normal(size=(n_states, n_actions))
    if rng.random() < 0.3:
        means = 1 / (1 + np.exp(-means))
    mdp = TabularMDP.one_step(means, reward_std=rng.uniform(0.2, 1.0), initial=rng.dirichlet(np.ones(n_states)))
    behavior = softmax(rng.uniform(0.5, 2.0) * (means + rng.normal(size=means.shape)))
    return World(mdp, behavior, candidate(rng, mdp, behavior))


def tutoring(rng: np.random.Generator) -> World:
    """A tutor: two skills at a few levels; exercises that are too easy or too hard teach little; a test at the end."""
    levels, horizon = int(rng.integers(3, 6)), int(rng.integers(5, 16))
    first, second = np.divmod(np.arange(levels * levels), levels)
    n_states, n_actions = levels * levels, 4
    table = np.zeros((n_states, n_actions, n_states))
    for s in range(n_states):
        for a in range(n_actions):
            hard = a % 2
            skill = first[s] if a < 2 else second[s]
            fits = np.exp(-(((skill / (levels - 1)) - 0.3 - 0.5 * hard) ** 2) / 0.1)
            learns = 0.05 + rng.uniform(0.2, 0.5) * fits
            forgets = rng.uniform(0.0, 0.08)
            up = np.array([min(first[s] + (a < 2), levels - 1), min(second[s] + (a >= 2), levels - 1)])
            down = np.array([max(first[s] - (a >= 2), 0), max(second[s] - (a < 2), 0)])
            table[s, a, up[0] * levels + up[1]] += learns
            table[s, a, down[0] * levels + down[1]] += forgets
            table[s, a, s] += 1 - learns - forgets
    effort = -rng.uniform(0.0, 0.1, size=n_actions)
    gain = (first + second)[:, None] / (2 * (levels - 1)) * rng.uniform(0.1, 0.5)
    initial = np.zeros(n_states)
    initial[(first < 2) & (second < 2)] = rng.dirichlet(np.ones(4))
    mdp = TabularMDP.from_dense(
        table, reward=gain + effort, reward_std=rng.uniform(0.0, 0.3), initial=initial, horizon=horizon,
        gamma=discount(rng), allow_unreachable=True,
    )  # fmt: skip
    habit = rng.normal(size=n_actions) + 0.5 * rng.normal(size=(n_states, n_actions))
    behavior = softmax(rng.uniform(0.5, 1.5) * habit)
    return World(mdp, behavior, candidate(rng, mdp, behavior))


def inventory(rng: np.random.Generator) -> World:
    """A store: order up to a level, sell what is asked for, pay for storage and for what is missing."""
    room, largest, horizon = int(rng.integers(6, 16)), int(rng.integers(3, 6)), int(rng.integers(6, 21))
    demand = rng.poisson(rng.uniform(1.0, 3.0), size=4000)
    chance = np.bincount(np.minimum(demand, room), minlength=room + 1) / len(demand)
    price, storage, order, missing = rng.uniform(1, 2), rng.uniform(0.02, 0.2), rng.uniform(0.2, 0.8), rng.uniform(0, 1)
    n_states, n_actions = room + 1, largest + 1
    table, reward = np.zeros((n_states, n_actions, n_states)), np.zeros((n_states, n_actions))
    for s in range(n_states):
        for a in range(n_actions):
            stock = min(s + a, room)
            for d, p in enumerate(chance):
                table[s, a, max(stock - d, 0)] += p
                reward[s, a] += p * (price * min(stock, d) - storage * max(stock - d, 0) - missing * max(d - stock, 0))
            reward[s, a] -= order * a
    mdp = TabularMDP.from_dense(
        table, reward=reward, reward_std=rng.uniform(0.0, 0.5), initial=rng.dirichlet(np.ones(n_states)),
        horizon=horizon, gamma=discount(rng),
    )  # fmt: skip

    def base_stock(level: int, noise: float) -> Floats:
        wanted = np.clip(level - np.arange(n_states), 0, largest)
        return (1 - noise) * np.eye(n_actions)[wanted] + noise / n_actions

    levels = rng.integers(2, room, size=2)
    return World(
        mdp, base_stock(int(levels[0]), rng.uniform(0.15, 0.6)), base_stock(int(levels[1]), rng.uniform(0, 0.3))
    )


def tree(rng: np.random.Generator) -> World:
    """A tree of decisions with rewards at its leaves."""
    share = rng.uniform(0.15, 0.85)
    built = tree_domain.tree(
        int(rng.integers(2, 8)), slip=rng.uniform(0, 0.3), reward_std=rng.uniform(0, 1.0), gamma=discount(rng),
        behavior=(share, 1 - share), seed=int(rng.integers(2**31)),
    )  # fmt: skip
    behavior = built.mdp.probs(built.behavior)[0]
    return World(built.mdp, behavior, candidate(rng, built.mdp, behavior))


_SEPSIS: list[World] = []


def sepsis(rng: np.random.Generator) -> World:
    """The paper's sepsis simulator, with one of its 26 policies."""
    if not _SEPSIS:
        built = sepsis_domain.world()
        behavior = built.mdp.probs(built.behavior)[0]
        _SEPSIS.extend(World(built.mdp, behavior, built.mdp.probs(one)[0]) for one in built.policies.values())
    return _SEPSIS[int(rng.integers(len(_SEPSIS)))]


def grid(rng: np.random.Generator) -> World:
    """A windy grid with a goal and a few pits."""
    side, horizon = int(rng.integers(4, 8)), int(rng.integers(12, 31))
    n_states, moves = side * side, ((0, 1), (0, -1), (1, 0), (-1, 0))
    row, column = np.divmod(np.arange(n_states), side)
    slip, wind = rng.uniform(0, 0.3), rng.uniform(0, 0.2)
    table = np.zeros((n_states, 4, n_states))
    for s in range(n_states):
        for a in range(4):
            for b, move in enumerate(moves):
                chance = (1 - slip) * (a == b) + slip / 4
                for blown, p in ((0, 1 - wind), (1, wind)):
                    r = int(np.clip(row[s] + move[0] + blown, 0, side - 1))
                    c = int(np.clip(column[s] + move[1], 0, side - 1))
                    table[s, a, r * side + c] += chance * p
    terminal = np.zeros(n_states, dtype=bool)
    pits = rng.choice(n_states - 1, max(1, side // 2), replace=False)
    terminal[pits], terminal[-1] = True, True
    table[terminal] = 0.0
    reward = np.full((n_states, 4), -0.02)
    reward[pits], reward[-1] = -1.0, 1.0
    initial = np.where(terminal, 0.0, rng.random(n_states))
    mdp = TabularMDP.from_dense(
        table, reward=reward, initial=initial / initial.sum(), terminal=terminal, horizon=horizon,
        gamma=float(rng.choice([0.99, 0.95])), allow_unreachable=True,
    )  # fmt: skip
    best = mdp.probs(mdp.optimal(infinite=True))[0]
    share = rng.uniform(0.3, 0.8)
    behavior = share * best + (1 - share) * softmax(rng.normal(size=best.shape))
    greedy = np.clip(rng.uniform(0.7, 1.1), 0, 1)
    return World(mdp, behavior, greedy * best + (1 - greedy) / 4)


def queue(rng: np.random.Generator) -> World:
    """Admission to a service: waiting costs, service pays, turning away costs a little."""
    room, horizon = int(rng.integers(5, 13)), int(rng.integers(10, 26))
    arrive, slow, fast = rng.uniform(0.3, 0.7), rng.uniform(0.2, 0.4), rng.uniform(0.5, 0.8)
    n_states = room + 1
    table, reward = np.zeros((n_states, 3, n_states)), np.zeros((n_states, 3))
    holding, price, turned, extra = (
        rng.uniform(0.02, 0.1),
        rng.uniform(0.5, 1.5),
        rng.uniform(0, 0.5),
        rng.uniform(0.05, 0.3),
    )
    for s in range(n_states):
        for a in range(3):  # turn away, admit, admit and work fast
            comes = arrive if a else 0.0
            done = (fast if a == 2 else slow) if s else 0.0
            for up, p in ((1, comes), (0, 1 - comes)):
                for down, q in ((1, done), (0, 1 - done)):
                    table[s, a, int(np.clip(s + up - down, 0, room))] += p * q
            reward[s, a] = (
                price * done - holding * s - (turned * arrive if a == 0 else 0.0) - (extra if a == 2 else 0.0)
            )
    mdp = TabularMDP.from_dense(
        table, reward=reward, reward_std=rng.uniform(0, 0.5), initial=rng.dirichlet(np.ones(n_states)), horizon=horizon,
        gamma=discount(rng),
    )  # fmt: skip
    behavior = softmax(rng.uniform(0.3, 1.5) * rng.normal(size=(n_states, 3)))
    return World(mdp, behavior, candidate(rng, mdp, behavior))


FAMILIES: dict[str, Callable[[np.random.Generator], World | FeatureWorld]] = {
    "garnet": garnet,
    "ward": ward,
    "corridor": corridor,
    "deterministic": deterministic,
    "bandit": bandit,
    "tutoring": tutoring,
    "inventory": inventory,
    "tree": tree,
    "sepsis": sepsis,
    "grid": grid,
    "queue": queue,
    "vitals": FEATURE_FAMILIES["vitals"],
    "aliased": aliased,
    # A place in this order is part of the seed: new families go to the end.
    **{name: drawn for name, drawn in FEATURE_FAMILIES.items() if name != "vitals"},
}
