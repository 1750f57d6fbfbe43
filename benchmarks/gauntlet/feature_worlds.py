"""Families of worlds whose states are features: no state recurs, and policies are functions of the features.

A family is a function from a random generator to a `FeatureWorld`: sizes, dynamics, rewards, horizon, the behavior
policy and the policy to evaluate are all drawn anew. Nothing here knows an estimator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from draws import Floats, discount, draw, log_uniform, sigmoid, softmax

# A policy: from features (n, n_features) to probabilities (n, n_actions).
Probs = Callable[[Floats], Floats]
# What an action brings at features x (n, n_features) in step t (n,): next features, rewards, and whether it ends there.
Step = Callable[[Floats, np.ndarray, np.ndarray, np.random.Generator], tuple[Floats, Floats, np.ndarray]]
# Rows that are simulated at once: few enough for the processor's cache.
CHUNK = 20_000


@dataclass(frozen=True)
class FeatureWorld:
    """A world whose states are features, which hold all that matters together with the step.

    `features` names the columns of x and `actions` the columns of probabilities. An episode ends after `horizon` steps,
    or before where `step` says so. `mean_reward`, (n, n_features) to (n, n_actions), is there where it is known.
    """

    features: tuple[str, ...]
    actions: tuple[Any, ...]
    horizon: int
    gamma: float
    start: Callable[[int, np.random.Generator], Floats]
    step: Step
    behavior_probs: Probs
    evaluation_probs: Probs
    mean_reward: Callable[[Floats], Floats] | None = None

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return len(self.actions)


class Log(NamedTuple):
    """Decisions of logged episodes in order: episode number, step, features, action number, reward."""

    episode: np.ndarray
    step: np.ndarray
    x: Floats
    action: np.ndarray
    reward: Floats


def log(world: FeatureWorld, probs: Probs, n: int, rng: np.random.Generator) -> Log:
    """Episodes of a policy from the start."""
    x, episode = world.start(n, rng), np.arange(n)
    steps = []
    for t in range(world.horizon):
        step, action = np.full(len(x), t), draw(probs(x), rng)
        following, reward, done = world.step(x, step, action, rng)
        steps.append(Log(episode, step, x, action, reward))
        x, episode = following[~done], episode[~done]
        if not len(x):
            break
    found = Log(*(np.concatenate(column) for column in zip(*steps, strict=True)))
    order = np.lexsort((found.step, found.episode))
    return Log(*(column[order] for column in found))


def rollout(
    world: FeatureWorld, probs: Probs, x: Floats, t: np.ndarray, rng: np.random.Generator,
    first: np.ndarray | None = None,
) -> Floats:  # fmt: skip
    """Discounted returns of a policy from these features and steps on, after these first actions if given."""
    total, left, weight = np.zeros(len(x)), np.arange(len(x)), 1.0
    while len(left):
        action = draw(probs(x), rng) if first is None else first
        x, reward, done = world.step(x, t, action, rng)
        total[left] += weight * reward
        t, weight, first = t + 1, weight * world.gamma, None
        on = ~done & (t < world.horizon)
        if not on.all():
            x, t, left = x[on], t[on], left[on]
    return total


def action_values(
    world: FeatureWorld, probs: Probs, x: Floats, t: np.ndarray, action: np.ndarray, rng: np.random.Generator,
    times: int = 40,
) -> tuple[Floats, Floats]:  # fmt: skip
    """Q of a policy as the mean of some rollouts each, and the variance of that mean; exact where it is known."""
    if world.horizon == 1 and world.mean_reward is not None:
        return _in_chunks(
            lambda rows: world.mean_reward(x[rows])[np.arange(len(rows)), action[rows]], len(x)
        ), np.zeros(len(x))
    mean, variance = np.empty(len(x)), np.empty(len(x))
    for rows in _chunks(len(x), CHUNK // times):
        many = np.repeat(rows, times)
        returns = rollout(world, probs, x[many], t[many], rng, action[many]).reshape(len(rows), times)
        mean[rows], variance[rows] = returns.mean(axis=1), returns.var(axis=1, ddof=1) / times
    return mean, variance


def mean_rewards(
    world: FeatureWorld, x: Floats, t: np.ndarray, action: np.ndarray, rng: np.random.Generator, times: int = 40
) -> Floats:
    """Mean immediate rewards, exact where they are known, or the means of some draws."""
    if world.mean_reward is not None:
        return _in_chunks(lambda rows: world.mean_reward(x[rows])[np.arange(len(rows)), action[rows]], len(x))

    def drawn(rows: np.ndarray) -> Floats:
        many = np.repeat(rows, times)
        return world.step(x[many], t[many], action[many], rng)[1].reshape(len(rows), times).mean(axis=1)

    return _in_chunks(drawn, len(x), CHUNK // times)


def _chunks(n: int, size: int = CHUNK) -> list[np.ndarray]:
    return [np.arange(first, min(first + size, n)) for first in range(0, n, size)]


def _in_chunks(compute: Callable[[np.ndarray], Floats], n: int, size: int = CHUNK) -> Floats:
    return np.concatenate([np.empty(0), *(compute(rows) for rows in _chunks(n, size))])


def vitals(rng: np.random.Generator) -> FeatureWorld:
    """Patients with four to eight vitals.

    Vitals x follow x' = x pull + effect[a] + noise; a reward of `tanh(x') @ weights` less the cost of a is paid at each
    step. Both policies are a softmax of logits linear in x.
    """
    n, n_actions, horizon = int(rng.integers(4, 9)), int(rng.integers(2, 5)), int(rng.integers(4, 11))
    pull = rng.uniform(0.5, 0.9) * np.eye(n) + 0.1 * rng.normal(size=(n, n)) / np.sqrt(n)
    weights = rng.normal(size=n) / np.sqrt(n)
    effect = 0.4 * rng.normal(size=(n_actions, n))
    effect[0] = 0.0
    habit, proposal = (rng.uniform(0.2, 0.8) * rng.normal(size=(n + 1, n_actions)) for _ in range(2))
    cost = np.append(0.0, rng.uniform(0.0, 0.1, size=n_actions - 1))

    def start(n_rows: int, rng: np.random.Generator) -> Floats:
        return rng.normal(size=(n_rows, n))

    def step(
        x: Floats, t: np.ndarray, action: np.ndarray, rng: np.random.Generator
    ) -> tuple[Floats, Floats, np.ndarray]:
        following = x @ pull + effect[action] + 0.3 * rng.normal(size=x.shape)
        return following, np.tanh(following) @ weights - cost[action], np.zeros(len(x), dtype=bool)

    return FeatureWorld(
        tuple(f"vital_{k + 1}" for k in range(n)), tuple(range(n_actions)), horizon, discount(rng), start, step,
        lambda x: softmax(x @ habit[:-1] + habit[-1]), lambda x: softmax(x @ proposal[:-1] + proposal[-1]),
    )  # fmt: skip


def glucose(rng: np.random.Generator) -> FeatureWorld:
    """People with diabetes who choose a dose of insulin each hour.

    Carbohydrates and insulin act over hours. Insulin lowers glucose in proportion to it, the kidneys clear it above 180
    mg/dl, the liver counteracts below 80. Rewards are Kovatchev's risk of blood glucose, with a minus; severe
    hypoglycemia costs extra and ends the episode. Both policies are rules of thumb: cover the meal, correct what is
    above a target, give nothing when low; the second also counts the insulin on board.
    """
    n_actions, horizon = int(rng.integers(3, 6)), int(rng.integers(8, 21))
    doses = np.append(0.0, np.cumsum(rng.choice([1.0, 1.0, 2.0, 2.0], size=n_actions - 1)))
    fall, rise = rng.uniform(0.15, 0.35), rng.uniform(2.5, 4.5)  # of insulin, relative a unit; of carbohydrates, a gram
    insulin_left, carbs_left = rng.uniform(0.55, 0.75), rng.uniform(0.3, 0.6)
    basal, pull, noise = rng.uniform(110, 150), rng.uniform(0.05, 0.15), rng.uniform(0.05, 0.12)
    meals, grams = np.array([7.0, 12.5, 19.0]) + rng.normal(size=3), rng.uniform(20, 50)
    severe, ordeal = rng.uniform(45, 55), rng.uniform(3.0, 10.0)

    def meal_at(hour: Floats, rng: np.random.Generator) -> Floats:
        likely = np.exp(-0.5 * (hour[:, None] - meals) ** 2).max(axis=1)
        return np.where(rng.random(len(hour)) < 0.05 + 0.75 * likely, rng.gamma(4.0, grams / 4.0, size=len(hour)), 0.0)

    def start(n: int, rng: np.random.Generator) -> Floats:
        hour = rng.integers(24, size=n).astype(float)
        level = np.clip(np.exp(rng.normal(np.log(basal), 0.3, size=n)), 70, 350)
        return np.column_stack([level, np.zeros(n), rng.exponential(1.0, size=n), rng.exponential(8.0, size=n),
                                meal_at(hour, rng), hour])  # fmt: skip

    def step(
        x: Floats, t: np.ndarray, action: np.ndarray, rng: np.random.Generator
    ) -> tuple[Floats, Floats, np.ndarray]:
        level, _, insulin, carbs, meal, hour = x.T
        insulin, carbs = insulin + doses[action], carbs + meal
        change = rise * (1 - carbs_left) * carbs - pull * (level - basal) - 0.1 * np.maximum(level - 180, 0)
        change += 0.4 * np.maximum(80 - level, 0)
        following = level * np.exp(-fall * (1 - insulin_left) * insulin + noise * rng.normal(size=len(x))) + change
        following = np.clip(following, 20, 600)
        done = following < severe
        risk = 10 * (1.509 * (np.log(following) ** 1.084 - 5.381)) ** 2
        hour = (hour + 1) % 24
        after = np.column_stack([following, following - level, insulin_left * insulin, carbs_left * carbs,
                                 meal_at(hour, rng), hour])  # fmt: skip
        return after, -risk / 100 - ordeal * done, done

    def rule(on_board: float, rng: np.random.Generator) -> Probs:
        ratio, factor = rise / (fall * basal) * np.exp(rng.normal(0.0, 0.3, size=2))
        target, low, width = rng.uniform(110, 170), rng.uniform(75, 100), rng.uniform(0.4, 1.2)
        slip = float(rng.choice([0.0, 0.02, 0.05, 0.1]))

        def probs(x: Floats) -> Floats:
            level, _, insulin, carbs, meal, _ = x.T
            wanted = ratio * meal + factor / rise * np.maximum(level - target, 0)
            wanted -= on_board * np.maximum(insulin - ratio * carbs, 0)
            wanted = np.where(level < low, 0.0, np.clip(wanted, 0, doses[-1]))
            return (1 - slip) * softmax(-0.5 * ((doses - wanted[:, None]) / width) ** 2) + slip / n_actions

        return probs

    return FeatureWorld(
        ("glucose", "change", "insulin_on_board", "carbs_on_board", "meal", "hour"),
        tuple(f"{dose:.0f} units" for dose in doses), horizon, discount(rng), start, step,
        rule(0.0, rng), rule(rng.uniform(0.5, 1.0), rng),
    )  # fmt: skip


def recommender(rng: np.random.Generator) -> FeatureWorld:
    """Users who are shown one of 50 items, once.

    The mean reward is a smooth function of user and item: how well they match, how known the item is, and a taste of
    the user that saturates. The behavior policy is sure of itself: many items are hardly ever shown. The policy to
    evaluate is a softmax over all items, or shows some of those it ranks first.
    """
    size, n_items, hidden = int(rng.integers(4, 11)), 50, int(rng.integers(3, 7))
    taste, embedding = rng.normal(size=(size, hidden)) / np.sqrt(size), rng.normal(size=(n_items, hidden))
    fame, clicks, noise = rng.normal(size=n_items), rng.random() < 0.5, rng.uniform(0.3, 1.0)
    steep, bend = rng.uniform(0.5, 1.5), rng.uniform(0.0, 1.0)

    def appeal(x: Floats) -> Floats:
        wish = np.tanh(steep * (x @ taste))
        score = wish @ embedding.T + 0.5 * fame - bend * (wish**2) @ np.abs(embedding).T
        return sigmoid(score - 1.5) if clicks else 2 * np.tanh(0.5 * score)

    def start(n: int, rng: np.random.Generator) -> Floats:
        return rng.normal(size=(n, size))

    def step(
        x: Floats, t: np.ndarray, action: np.ndarray, rng: np.random.Generator
    ) -> tuple[Floats, Floats, np.ndarray]:
        mean = appeal(x)[np.arange(len(x)), action]
        reward = (rng.random(len(x)) < mean).astype(float) if clicks else mean + noise * rng.normal(size=len(x))
        return x, reward, np.ones(len(x), dtype=bool)

    def ranking(rng: np.random.Generator) -> Probs:
        """Scores of a simple recommender: matches that were learned with errors, and how known items are."""
        learned = taste + rng.uniform(0.2, 0.8) * rng.normal(size=taste.shape) / np.sqrt(size)
        known = 0.5 * fame + 0.5 * rng.normal(size=n_items)
        return lambda x: (x @ learned) @ embedding.T + known

    old, new = ranking(rng), ranking(rng)
    sure, surer = rng.uniform(1.0, 2.0), rng.uniform(1.0, 4.0)
    shown = int(rng.integers(1, 11)) if rng.random() < 0.5 else n_items

    def evaluation(x: Floats) -> Floats:
        score = new(x)
        last = np.sort(score, axis=1)[:, [n_items - shown]]
        return softmax(np.where(score >= last, surer * score, -np.inf))

    return FeatureWorld(
        tuple(f"user_{k + 1}" for k in range(size)), tuple(f"item-{k:02d}" for k in range(n_items)), 1, 1.0, start,
        step, lambda x: softmax(sure * old(x)), evaluation, appeal,
    )  # fmt: skip


def cartpole(rng: np.random.Generator) -> FeatureWorld:
    """A pole on a cart, as in Gymnasium's CartPole; masses, length and force are drawn around its own.

    A reward of 1 is paid for each step until the pole leans more than 12 degrees or the cart leaves the track. The logs
    are of a linear controller that now and then does anything; the policy to evaluate is another controller, softened.
    """
    gravity, track, lean, tau = 9.8, 2.4, 12 * 2 * np.pi / 360, 0.02
    cart, pole, half, force = np.array([1.0, 0.1, 0.5, 10.0]) * np.exp(rng.uniform(-0.3, 0.3, size=4))
    total, horizon, gamma = cart + pole, int(rng.integers(40, 101)), float(rng.choice([1.0, 0.99, 0.97]))

    def start(n: int, rng: np.random.Generator) -> Floats:
        return rng.uniform(-0.05, 0.05, size=(n, 4))

    def step(
        x: Floats, t: np.ndarray, action: np.ndarray, rng: np.random.Generator
    ) -> tuple[Floats, Floats, np.ndarray]:
        _, speed, angle, turning = x.T
        cosine, sine = np.cos(angle), np.sin(angle)
        push = (np.where(action == 1, force, -force) + pole * half * turning**2 * sine) / total
        turn = (gravity * sine - cosine * push) / (half * (4 / 3 - pole * cosine**2 / total))
        pull = push - pole * half * turn * cosine / total
        after = x + tau * np.column_stack([speed, pull, turning, turn])
        return after, np.ones(len(x)), (np.abs(after[:, 0]) > track) | (np.abs(after[:, 2]) > lean)

    def gains(rng: np.random.Generator) -> Floats:
        return rng.uniform([-0.5, 0.0, 2.0, 0.0], [1.0, 1.0, 15.0, 3.0])

    old, new, steady, soft = gains(rng), gains(rng), rng.uniform(0.2, 0.8), log_uniform(rng, 0.1, 2.0)

    def behavior(x: Floats) -> Floats:
        right = steady * (x @ old > 0) + (1 - steady) / 2
        return np.column_stack([1 - right, right])

    def evaluation(x: Floats) -> Floats:
        right = sigmoid(soft * (x @ new))
        return np.column_stack([1 - right, right])

    return FeatureWorld(
        ("position", "velocity", "angle", "angular_velocity"), ("left", "right"), horizon, gamma, start, step, behavior,
        evaluation,
    )  # fmt: skip


def ventilation(rng: np.random.Generator) -> FeatureWorld:
    """Patients on a ventilator, whose pressure is set every few hours; a reward at the end alone.

    Pressure opens the lung and raises the oxygen saturation, and injures it where pressure is high for how stiff it is.
    Low saturation and injury may end in death, which brings nothing. Weaning brings 1; so does being alive at the
    horizon, less where the lung is injured. The behavior policy aims at a range of saturations; the policy to evaluate
    at another one, and it heeds the injury.
    """
    horizon = int(rng.integers(8, 25))
    moves = np.array([-3.0, 0.0, 3.0] if rng.random() < 0.5 else [-4.0, -2.0, 0.0, 2.0, 4.0])
    names = ("lower", "keep", "raise") if len(moves) == 3 else ("lower 4", "lower 2", "keep", "raise 2", "raise 4")
    opens, recovers, wears = rng.uniform(1.5, 3.0), rng.uniform(0.88, 0.97), rng.uniform(0.02, 0.08)
    safe, heals, deadly, noise = rng.uniform(12, 18), rng.uniform(0.85, 0.95), rng.uniform(3.0, 4.5), 0.08
    weaned = rng.uniform(0.2, 0.35)

    def saturation(severity: Floats, injury: Floats, pressure: Floats, rng: np.random.Generator) -> Floats:
        closed = 2 * (severity + 0.5 * injury) - opens * np.tanh(pressure / 12)
        return np.clip(100 - 25 * sigmoid(closed) + rng.normal(size=len(severity)), 50, 100)

    def start(n: int, rng: np.random.Generator) -> Floats:
        severity, pressure = rng.uniform(0.6, 1.6, size=n), rng.uniform(6, 16, size=n)
        stiff, injury = np.clip(rng.normal(1.0, 0.2, size=n), 0.5, 2), 0.1 * rng.random(n)
        return np.column_stack([saturation(severity, injury, pressure, rng), pressure, stiff, injury, severity])

    def step(
        x: Floats, t: np.ndarray, action: np.ndarray, rng: np.random.Generator
    ) -> tuple[Floats, Floats, np.ndarray]:
        _, pressure, stiff, injury, severity = x.T
        pressure = np.clip(pressure + moves[action], 4, 26)
        injury = np.clip(heals * injury + wears * np.maximum(pressure * stiff - safe, 0), 0, 2)
        severity = np.clip(recovers * severity + 0.1 * injury + noise * rng.normal(size=len(x)), 0, 2.5)
        stiff = np.clip(0.8 * stiff + 0.1 + 0.1 * severity + 0.05 * rng.normal(size=len(x)), 0.5, 2)
        spo2 = saturation(severity, injury, pressure, rng)
        dies = rng.random(len(x)) < sigmoid(-deadly - 2 + 0.35 * np.maximum(88 - spo2, 0) + 2 * injury)
        well = ~dies & (severity < weaned) & (pressure < 12)
        last = ~dies & ~well & (t == horizon - 1)
        reward = well + last * np.clip(1 - injury, 0, 1)
        return np.column_stack([spo2, pressure, stiff, injury, severity]), reward, dies | well

    def protocol(heeds: float, rng: np.random.Generator) -> Probs:
        low, firm, slip = rng.uniform(86, 92), rng.uniform(0.3, 1.0), float(rng.choice([0.0, 0.05, 0.15]))
        high = low + rng.uniform(3, 6)

        def probs(x: Floats) -> Floats:
            spo2, pressure, stiff, injury, _ = x.T
            wanted = np.maximum(low - spo2, 0) - np.maximum(spo2 - high, 0)
            wanted -= heeds * (np.maximum(pressure * stiff - 15, 0) + 5 * injury)
            likely = softmax(-0.5 * (firm * (moves - np.clip(wanted, moves[0], moves[-1])[:, None])) ** 2)
            return (1 - slip) * likely + slip / len(moves)

        return probs

    return FeatureWorld(
        ("spo2", "pressure", "stiffness", "injury", "severity"), names, horizon, 1.0, start, step, protocol(0.0, rng),
        protocol(rng.uniform(0.0, 1.0), rng),
    )  # fmt: skip


FEATURE_FAMILIES: dict[str, Callable[[np.random.Generator], FeatureWorld]] = {
    "vitals": vitals,
    "glucose": glucose,
    "recommender": recommender,
    "cartpole": cartpole,
    "ventilation": ventilation,
}
