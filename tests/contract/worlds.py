"""Small worlds: random logs of any shape for the promises, and enumerable MDPs in which expectations are exact sums."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import semiope as so

Floats = NDArray[np.float64]
N_STATES, N_ACTIONS = 3, 3


@dataclass(frozen=True)
class Logs:
    """Columns of the two tables, and the two policies as arrays."""

    episodes: dict[str, NDArray[Any]]
    annotations: dict[str, NDArray[Any]]
    behavior: Floats
    evaluation: Floats

    def evaluate(self, names: list[str], **options: Any) -> so.Results:
        options = {"behavior": so.Policy.from_table(self.behavior), "gamma": 0.9, **options}
        annotations = so.Annotations.from_arrays(**self.annotations) if len(self.annotations["step"]) else None
        episodes = so.Episodes.from_arrays(**self.episodes)
        evaluation = so.Policy.from_table(self.evaluation)
        options = {"annotations": annotations, "estimators": names, **options}
        found: so.Results = so.evaluate(episodes, evaluation, **options)
        return found

    def of(self, episode: int) -> Logs:
        """One episode alone."""
        tables = [
            {name: column[table["episode"] == episode] for name, column in table.items()}
            for table in (self.episodes, self.annotations)
        ]
        return replace(self, episodes=tables[0], annotations=tables[1])

    def beside(self, other: Logs) -> Logs:
        """Two single episodes together, numbered 0 and 1."""
        tables = []
        for one, two in ((self.episodes, other.episodes), (self.annotations, other.annotations)):
            together = {name: np.concatenate([one[name], two[name]]) for name in one}
            tables.append({**together, "episode": np.repeat([0, 1], [len(one["step"]), len(two["step"])])})
        return replace(self, episodes=tables[0], annotations=tables[1])

    def without_annotations(self) -> Logs:
        return replace(self, annotations={name: column[:0] for name, column in self.annotations.items()})


def random_logs(seed: int, *, fully_annotated: bool, every_pair: bool = False) -> Logs:
    """Ragged episodes with rows without a decision; with `every_pair`, each action is logged in each state."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 6, size=rng.integers(2, 9))
    behavior, evaluation = rng.dirichlet(np.ones(N_ACTIONS), size=(2, N_STATES))
    # Some policies never take some action.
    evaluation = np.where(rng.random(evaluation.shape) < 0.2, 0.0, evaluation) + 1e-3 * np.eye(N_STATES, N_ACTIONS)
    evaluation /= evaluation.sum(axis=1, keepdims=True)
    episode, step = np.repeat(np.arange(len(lengths)), lengths), np.concatenate([np.arange(n) for n in lengths])
    n = len(episode)
    state, action = rng.integers(N_STATES, size=n), rng.integers(N_ACTIONS, size=n)
    last = step == lengths[episode] - 1
    action = np.where(last & (rng.random(n) < 0.3), -1, action)
    if every_pair:
        pairs = np.array(list(itertools.product(range(N_STATES), range(N_ACTIONS))))
        episode = np.concatenate([episode, np.arange(len(pairs)) + len(lengths)])
        step = np.concatenate([step, np.zeros(len(pairs), dtype=int)])
        state, action = np.concatenate([state, pairs[:, 0]]), np.concatenate([action, pairs[:, 1]])
    episodes = {"episode": episode, "step": step, "state": state, "action": action}
    episodes["reward"] = rng.normal(size=len(episode))
    row, other = np.nonzero((action[:, None] >= 0) & (action[:, None] != np.arange(N_ACTIONS)))
    if not fully_annotated:
        asked = rng.random(len(row)) < 0.5
        row, other = row[asked], other[asked]
    annotations = {"episode": episode[row], "step": step[row], "action": other, "value": rng.normal(size=len(row))}
    annotations["weight"] = rng.random(len(row)) / N_ACTIONS
    return Logs(episodes, annotations, behavior, evaluation)


@dataclass(frozen=True)
class Enumeration:
    """Every trajectory of an MDP under the behaviour policy with every pattern of annotations, and its probability."""

    logs: Logs
    probability: Floats
    value: float


def enumerate_mdp(
    seed: int, *, horizon: int, n_states: int, n_actions: int, gamma: float, annotated: str, unsupported: bool
) -> Enumeration:
    """Enumerate a random MDP.

    `annotated`: "none", "all", "each or not": every counterfactual is annotated or not with probability 1/2 each, or
    "by pair": always or never, by state, action taken and action.
    Annotations scatter: they are the exact return plus or minus a noise, alternating over the copies of a trajectory.
    `unsupported`: the behaviour policy never takes the last action.
    """
    rng = np.random.default_rng(seed)
    start = rng.dirichlet(np.ones(n_states))
    following = rng.dirichlet(np.ones(n_states), size=(n_states, n_actions))
    reward = rng.normal(size=(n_states, n_actions))
    behavior, evaluation = rng.dirichlet(np.ones(n_actions), size=(2, n_states))
    if unsupported:
        behavior[:, -1] = 0.0
        behavior /= behavior.sum(axis=1, keepdims=True)
    returns = np.zeros((horizon, n_states, n_actions))
    worth = np.zeros(n_states)
    for t in range(horizon - 1, -1, -1):
        returns[t] = reward + gamma * following @ worth
        worth = (evaluation * returns[t]).sum(axis=1)
    rows: dict[str, list[Any]] = {name: [] for name in ("episode", "step", "state", "action", "reward")}
    answers: dict[str, list[Any]] = {name: [] for name in ("episode", "step", "action", "value")}
    probability: list[float] = []
    n_others = horizon * (n_actions - 1)
    always = rng.random((n_states, n_actions, n_actions)) < (0.6 if annotated == "by pair" else 1.0)
    always[:, 0, -1] = True  # the last action, which may be unsupported, is annotated now and then
    patterns = {"none": [(0,) * n_others], "each or not": [*itertools.product((0, 1), repeat=n_others)]}
    flagged = patterns.get(annotated, [(1,) * n_others])
    usable = range(n_actions - 1 if unsupported else n_actions)
    for states in itertools.product(range(n_states), repeat=horizon):
        for actions in itertools.product(usable, repeat=horizon):
            chance = start[states[0]]
            for t in range(horizon):
                chance *= behavior[states[t], actions[t]]
                chance *= following[states[t], actions[t], states[t + 1]] if t + 1 < horizon else 1.0
            for pattern, sign in itertools.product(flagged, (-1, 1)):
                number = len(probability)
                probability.append(chance / len(flagged) / 2)
                flags = iter(pattern)
                for t in range(horizon):
                    row = (number, t, states[t], actions[t], reward[states[t], actions[t]])
                    for column, entry in zip(rows.values(), row, strict=True):
                        column.append(entry)
                    for other in range(n_actions):
                        if other != actions[t] and next(flags) and always[states[t], actions[t], other]:
                            answer = (number, t, other, returns[t, states[t], other] + sign * 0.3)
                            for column, entry in zip(answers.values(), answer, strict=True):
                                column.append(entry)
    logs = Logs(
        {name: np.array(column) for name, column in rows.items()},
        {name: np.array(column) for name, column in answers.items()},
        behavior,
        evaluation,
    )
    return Enumeration(logs, np.array(probability), float(start @ worth))
