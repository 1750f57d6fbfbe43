"""Datasets of a gauntlet: logs of a drawn world, questions that came about in some way, and annotators of some kind.

A dataset is known by its family and its seed: the seed draws the world, how many episodes were logged, who annotated
and how, which questions were asked, and what share of them. `KINDS` and `DESIGNS` go round with the seed, so that each
family has all of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from worlds import FAMILIES, Vitals, World, draw, log_uniform

import semiope as so
from semiope.models.tabular import TabularMDP

KINDS = (
    "one", "three", "one", "shared bias", "own biases", "unequal noise", "shrunk", "about behavior", "rewards",
    "preferences",
)  # fmt: skip
DESIGNS = ("at random", "by state", "by action", "also taken", "by influence", "at random", "by episode")
# Rollouts from which truth is known where it cannot be computed; its standard error is kept.
ROLLOUTS = 400_000
# Questions of a plan.
PLANNED = 60
# Seeds below 10,000 are for looking at, those from here on are run only to report. Seeds from 10,000 on were reported
# once, before methods were changed.
HELD_OUT = 30_000


class Dataset(NamedTuple):
    """What a user would have, and the truth.

    `policy` is to be evaluated; `exact` are exact annotations of every question, `annotations` those of the annotators;
    `of_behavior` are some of one annotator about the behavior policy itself, `all_of_behavior` are all of them.
    `unit` is the standard deviation of Q over the questions. `hidden`: annotators are wrong in a way that these data
    cannot show.
    """

    family: str
    seed: int
    kind: str
    design: str
    share: float
    noise: float
    episodes: so.Episodes
    policy: Any
    behavior: Any
    annotations: so.Annotations
    exact: so.Annotations
    of_behavior: so.Annotations | None
    all_of_behavior: so.Annotations | None
    options: dict[str, Any]
    truth: float
    truth_error: float
    truth_behavior: float
    unit: float
    unsupported: float
    hidden: bool


class Questions(NamedTuple):
    """Every question that could be asked: its row, episode number, step, state, the action asked about, and Q.

    `taken` flags actions that were taken; `weight` is how much an estimate of the policy's value moves with the answer.
    """

    row: np.ndarray
    episode: np.ndarray
    step: np.ndarray
    state: np.ndarray
    action: np.ndarray
    done: np.ndarray
    returns: np.ndarray
    of_taken: np.ndarray
    of_practice: np.ndarray
    reward: np.ndarray
    weight: np.ndarray

    @property
    def taken(self) -> np.ndarray:
        """Whether the action asked about was taken."""
        return self.action == self.done

    def part(self, which: np.ndarray) -> Questions:
        """Some of them."""
        return Questions(*(column[which] for column in self))


def dataset(family: str, seed: int, *, kind: str | None = None, design: str | None = None) -> Dataset:
    """Draw a dataset; `kind` and `design` instead of those that belong to the seed, if given."""
    place = list(FAMILIES).index(family)
    rng = np.random.default_rng([seed, place])
    kind = KINDS[seed % len(KINDS)] if kind is None else kind
    design = DESIGNS[(seed // len(KINDS) + seed + place) % len(DESIGNS)] if design is None else design
    world = FAMILIES[family](rng)
    n = round(log_uniform(rng, 150, 2000 if family not in ("corridor", "sepsis") else 1000))
    share, noise = log_uniform(rng, 0.01, 1.0), log_uniform(rng, 0.1, 1.5)
    if isinstance(world, Vitals):
        return _of_vitals(family, seed, kind, design, world, n, share, noise, rng)
    mdp = world.mdp
    episodes = logged = mdp.sample(
        world.behavior, n, seed=int(rng.integers(2**62)), propensities=bool(rng.random() < 0.4)
    )
    every = questions(mdp, world, world.evaluation, episodes)
    unit = float(every.returns[~every.taken].std()) or 1.0
    policies = mdp.policy(world.evaluation), mdp.policy(world.behavior)
    if world.observed is not None:
        episodes, every, policies = _as_observed(world, episodes, every)
    if rng.random() < 0.5 or family == "bandit":  # only what the policy may do is asked about
        every = every.part((world.evaluation[every.state, every.action] > 0) | every.taken)
    words = mdp.actions.words.to_pylist()
    options: dict[str, Any] = {"gamma": mdp.gamma}
    if design == "planned":
        options["plan"] = so.plan(episodes, policies[0], PLANNED, gamma=mdp.gamma, seed=seed)
        asked, prob = _planned(options["plan"], every, mdp), None
    else:
        asked, prob = ask(design, every, share, rng)
    annotations = annotate(kind, every.part(asked), noise, unit, words, rng, None if prob is None else prob[asked])
    own = questions(mdp, world, world.behavior, logged)
    own = own.part(world.behavior[own.state, own.action] > 0)
    of_behavior = all_of_behavior = None
    if not own.taken.all():
        asked, _ = ask("at random", own, share, rng)
        of_behavior = annotate("one", own.part(asked), noise, unit, words, rng, None)
        all_of_behavior = annotate("one", own.part(~own.taken), noise, unit, words, rng, None)
    reach = mdp.state_distributions(world.evaluation)[:, ~mdp.terminal]
    lacking = (world.evaluation * (world.behavior == 0)).sum(axis=1)[~mdp.terminal]
    unsupported = float((reach @ lacking).sum() / reach.sum())
    exact = every.part(~every.taken & (world.evaluation[every.state, every.action] > 0))
    return Dataset(
        family, seed, kind, design, share, noise, episodes, *policies, annotations,
        table(exact, exact.returns, words), of_behavior, all_of_behavior, options,
        mdp.value(world.evaluation), 0.0, mdp.value(world.behavior), unit, unsupported,
        _hidden(kind, design, unsupported),
    )  # fmt: skip


def _as_observed(
    world: World, episodes: so.Episodes, every: Questions
) -> tuple[so.Episodes, Questions, tuple[so.Policy, so.Policy]]:
    """Logs, questions and policies in terms of what the logs show of states."""
    shows = world.observed
    assert shows is not None
    state = shows[world.mdp.states.positions_of(episodes.states)[episodes.state]]
    shown = so.Episodes.from_arrow(episodes.to_arrow().set_column(
        episodes.to_arrow().column_names.index("state"), "state", pa.array(state)
    ))  # fmt: skip
    first = np.unique(shows, return_index=True)[1]
    policies = [
        so.Policy.from_table(one[first], actions=world.mdp.actions) for one in (world.evaluation, world.behavior)
    ]
    return shown, every._replace(state=shows[every.state]), (policies[0], policies[1])


def _planned(plan: so.Plan, every: Questions, mdp: TabularMDP) -> np.ndarray:
    """Which questions a plan asks, decoys among them."""
    number = {label: k for k, label in enumerate(mdp.actions.words.to_pylist())}
    tables = [table.select(["episode", "step", "action"]).to_pylist() for table in plan.questions.values()]
    wanted = {(one["episode"], one["step"], number[one["action"]]) for table in tables for one in table}
    places = zip(every.episode.tolist(), every.step.tolist(), every.action.tolist(), strict=True)
    return np.array([place in wanted for place in places])


def _hidden(kind: str, design: str, unsupported: float) -> bool:
    wrong = kind in ("shared bias", "shrunk", "about behavior")
    return wrong and unsupported > 0.01 and design != "also taken"


def questions(mdp: TabularMDP, world: World, policy: np.ndarray, episodes: so.Episodes) -> Questions:
    """Every (decision, action) of these episodes, with Q of a policy."""
    states, actions = mdp.states.positions_of(episodes.states), mdp.actions.positions_of(episodes.actions)
    rows = np.flatnonzero(episodes.action >= 0)
    row, action = (column.ravel() for column in np.meshgrid(rows, np.arange(mdp.n_actions), indexing="ij"))
    step, state = episodes.step[row], states[episodes.state[row]]
    done = actions[episodes.action[row]]
    returns, practice = (mdp.action_values(mdp.policy(one)) for one in (policy, world.behavior))
    episode = np.repeat(np.arange(episodes.n_episodes), episodes.lengths)
    on_path = np.where(episodes.action >= 0, policy[states[episodes.state], actions[episodes.action]], 1.0)
    # The probability that the policy does all that was logged before, from logarithms that start anew in each episode.
    logs = np.append(0.0, np.cumsum(np.log(np.maximum(on_path, 1e-12))))[:-1]
    before = np.exp(logs - np.repeat(logs[episodes.offsets[:-1]], episodes.lengths))
    return Questions(
        row, episode[row], step, state, action, done, returns[step, state, action], returns[step, state, done],
        practice[step, state, action], mdp.reward[state, action], before[row] * policy[state, action],
    )  # fmt: skip


def ask(design: str, every: Questions, share: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray | None]:
    """Which questions were asked, and how likely each was to be, if somebody wrote that down.

    At least some ten are: nobody evaluates a policy from nothing.
    """
    n, base = len(every.row), ~every.taken
    share = min(max(share, 15 / max(np.count_nonzero(base), 1)), 1.0)
    if design == "by state":
        chance = share * np.exp(rng.normal(size=int(every.state.max()) + 1))[every.state]
    elif design == "by action":
        many = int(max(every.action.max(), every.done.max())) + 1
        chance = share * np.exp(rng.normal(size=many)[every.done] + 0.5 * rng.normal(size=many)[every.action])
    elif design == "by influence":
        chance = 0.2 + every.weight / max(float(every.weight[base].mean()), 1e-12)
        chance = chance * share / float(chance[base].mean())
    else:
        chance = np.full(n, share)
    chance = np.clip(chance, 0.0, 1.0)
    for _ in range(100):
        if design == "by episode":
            asked = (rng.random(int(every.episode.max()) + 1) < share)[every.episode]
        else:
            asked = rng.random(n) < chance
        if design != "also taken":
            asked &= base
        if np.count_nonzero(asked & base) >= 5:
            break
        share = min(2 * share, 1.0)
        chance = np.minimum(2 * chance, 1.0)
    return asked, chance if design == "by influence" else None


def annotate(
    kind: str, asked: Questions, noise: float, unit: float, words: list[Any], rng: np.random.Generator,
    prob: np.ndarray | None,
) -> so.Annotations:  # fmt: skip
    """Annotations of these questions by annotators of a kind; noise and biases are in units of the std of Q."""
    n = len(asked.row)
    if kind in ("rewards", "preferences"):
        return _other_kinds(kind, asked, noise, unit, words, rng, prob)
    truth = asked.of_practice if kind == "about behavior" else asked.returns
    if kind == "shrunk":
        truth = truth.mean() + rng.uniform(0.4, 0.8) * (truth - truth.mean())
    if kind in ("one", "shrunk", "about behavior"):
        return table(asked, truth + noise * unit * rng.normal(size=n), words, inclusion_prob=prob)
    if kind == "unequal noise":
        own = noise * unit * np.exp(0.7 * rng.normal(size=n))
        stated = own * rng.choice([0.5, 1.0]) if rng.random() < 0.7 else None
        return table(asked, truth + own * rng.normal(size=n), words, std=stated, inclusion_prob=prob)
    shared = {"shared bias": float(rng.choice([-1, 1]) * rng.uniform(0.2, 0.6))}.get(kind, 0.0)
    biases = np.array([0.05, 0.25, -0.15] if kind == "own biases" else [0.0, 0.0, 0.0]) + shared
    noises = noise * np.array([0.5, 1.0, 1.5])
    # Each question goes to one annotator, a fifth of them to a second one as well.
    first = rng.integers(3, size=n)
    again = np.flatnonzero(rng.random(n) < 0.2)
    which = np.concatenate([np.arange(n), again])
    who = np.concatenate([first, (first[again] + rng.integers(1, 3, size=len(again))) % 3])
    value = truth[which] + unit * (biases[who] + noises[who] * rng.normal(size=len(which)))
    names = [f"annotator-{j + 1}" for j in who]
    likely = None if prob is None else prob[which]
    return table(asked.part(which), value, words, annotator=names, inclusion_prob=likely)


def _other_kinds(
    kind: str, asked: Questions, noise: float, unit: float, words: list[Any], rng: np.random.Generator,
    prob: np.ndarray | None,
) -> so.Annotations:  # fmt: skip
    """Rewards alone, or preferences to the action taken with returns for a tenth of the questions."""
    n = len(asked.row)
    if kind == "rewards":
        value = asked.reward + noise * float(asked.reward.std()) * rng.normal(size=n)
        return table(asked, value, words, kind=["reward"] * n, inclusion_prob=prob)
    asked, prob = asked.part(~asked.taken), None if prob is None else prob[~asked.taken]
    n = len(asked.row)
    scale = rng.uniform(0.1, 0.5) * unit
    surely = 1 / (1 + np.exp(-(asked.returns - asked.of_taken) / scale))
    returns = rng.random(n) < 0.1
    returns[rng.choice(n, min(n, 10), replace=False)] = True
    value = np.where(returns, asked.returns + noise * unit * rng.normal(size=n), rng.random(n) < surely)
    said = np.where(returns, "return", "preference").tolist()
    likely = None if prob is None else np.where(returns, np.clip(prob * returns.mean(), 1e-6, 1), prob)
    return table(asked, value, words, kind=said, inclusion_prob=likely)


def table(asked: Questions, value: np.ndarray, words: list[Any], **columns: Any) -> so.Annotations:
    """Annotations from values for these questions."""
    return so.Annotations.from_arrays(
        episode=asked.episode, step=asked.step, action=pa.array(words).take(pa.array(asked.action)), value=value,
        **{name: column for name, column in columns.items() if column is not None},
    )  # fmt: skip


def _of_vitals(
    family: str, seed: int, kind: str, design: str, world: Vitals, n: int, share: float, noise: float,
    rng: np.random.Generator,
) -> Dataset:  # fmt: skip
    """A dataset whose states are measurements; what annotators know is the mean of some rollouts."""
    kind = {"rewards": "one", "preferences": "three", "about behavior": "one"}.get(kind, kind)
    design = {"by state": "at random"}.get(design, design)
    horizon, size = world.horizon, len(world.weights)
    x, action = np.empty((horizon, n, size)), np.empty((horizon, n), dtype=int)
    reward, now = np.empty((horizon, n)), rng.normal(size=(n, size))
    for t in range(horizon):
        x[t], action[t] = now, draw(world.probs(world.habit, now), rng)
        now, reward[t] = world.step(now, action[t], rng)
    flat = x.transpose(1, 0, 2).reshape(-1, size)
    habit, proposal = world.probs(world.habit, flat), world.probs(world.proposal, flat)
    done = action.T.ravel()
    episode, step = np.repeat(np.arange(n), horizon), np.tile(np.arange(horizon), n)
    row, other = (
        column.ravel() for column in np.meshgrid(np.arange(n * horizon), np.arange(world.n_actions), indexing="ij")
    )
    follow = np.cumprod(proposal[np.arange(len(done)), done].reshape(n, horizon), axis=1)
    before = np.hstack([np.ones((n, 1)), follow[:, :-1]]).ravel()
    every = Questions(
        row, episode[row], step[row], np.zeros(len(row), dtype=int), other, done[row], np.zeros(len(row)),
        np.zeros(len(row)), np.zeros(len(row)), np.zeros(len(row)), before[row] * proposal[row, other],
    )  # fmt: skip
    every = every._replace(returns=_expected(world, flat[every.row], every.action, horizon - every.step, rng))
    unit = float(every.returns[~every.taken].std())
    asked, prob = ask(design, every, share, rng)
    words = list(range(world.n_actions))
    annotations = annotate(kind, every.part(asked), noise, unit, words, rng, None if prob is None else prob[asked])
    columns = {f"x{k}": flat[:, k] for k in range(size)}
    episodes = so.Episodes.from_arrow({
        "episode": episode, "step": step, "state": np.arange(len(episode)), "action": done,
        "reward": reward.T.ravel(), "behavior_prob": habit[np.arange(len(done)), done], **columns,
    })  # fmt: skip
    policies = [
        so.RowPolicy.from_arrays(episode=episode[row], step=step[row], action=other, prob=probs[row, other])
        for probs in (proposal, habit)
    ]
    starts = rng.normal(size=(ROLLOUTS, size))
    values = [world.rollout(starts, logits, horizon, rng) for logits in (world.proposal, world.habit)]
    exact = every.part(~every.taken)
    options = {"gamma": world.gamma, "model": "linear", "features": list(columns)}
    return Dataset(
        family, seed, kind, design, share, noise, episodes, *policies, annotations, table(exact, exact.returns, words),
        None, None, options, float(values[0].mean()), float(values[0].std() / ROLLOUTS**0.5), float(values[1].mean()),
        unit, 0.0, False,
    )  # fmt: skip


def _expected(
    world: Vitals, x: np.ndarray, action: np.ndarray, left: np.ndarray, rng: np.random.Generator, times: int = 40
) -> np.ndarray:
    """What follows an action under the policy to evaluate, as the mean of some rollouts of so many steps."""
    total = np.zeros(len(x))
    for steps in np.unique(left):
        here = np.flatnonzero(left == steps)
        start, first = np.repeat(x[here], times, axis=0), np.repeat(action[here], times)
        following, paid = world.step(start, first, rng)
        paid += world.gamma * world.rollout(following, world.proposal, int(steps) - 1, rng)
        total[here] = paid.reshape(len(here), times).mean(axis=1)
    return total
