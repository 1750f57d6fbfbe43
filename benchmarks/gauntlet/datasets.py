"""Datasets of a gauntlet: logs of a drawn world, questions that came about in some way, and annotators of some kind.

A dataset is known by its family and its seed: the seed draws the world, how many episodes were logged, who annotated
and how, which questions were asked, and what share of them. `KINDS` and `DESIGNS` go round with the seed, so that each
family has all of them. Where states are features, a user has a table of them and a function as a policy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from draws import log_uniform
from feature_worlds import FeatureWorld, Log, Probs, action_values, log, mean_rewards
from truth import truth
from worlds import FAMILIES, World

import semiope as so
from semiope.models.tabular import TabularMDP

KINDS = (
    "one", "three", "one", "shared bias", "own biases", "unequal noise", "shrunk", "about behavior", "rewards",
    "preferences",
)  # fmt: skip
# Annotators who are right on average.
UNBIASED = ("one", "three", "unequal noise")
DESIGNS = ("at random", "by state", "by action", "also taken", "by influence", "at random", "by episode")
# Families of which at most 1,000 episodes are logged: theirs are long.
LONG = ("corridor", "sepsis", "cartpole")
# Share of datasets with features in which the probabilities of logged actions are known.
PROPENSITIES = 1 / 3
# Rollouts from which annotators know Q where states are features, over all questions; 40 to 1,000 of each question, so
# that the error of their means is small beside the noise of annotators.
KNOWING = 1_000_000
# Questions of a plan.
PLANNED = 60
# Seeds below 10,000 are for looking at, those from here on are run only to report. Seeds from 10,000 on were reported
# once, before methods were changed.
HELD_OUT = 30_000


class Dataset(NamedTuple):
    """What a user would have, and the truth.

    `policy` is to be evaluated; `annotations` are those of the annotators, `exact()` are exact ones of every question;
    `of_behavior` are some of one annotator about the behavior policy itself, `all_of_behavior` are all of them.
    `unit` is the standard deviation of Q over the questions. `hidden`: annotators are wrong in a way that these data
    cannot show. `has_features`: states are features, which hardly ever recur. `noise` may be one for each annotator.
    `returns_of` knows Q of the policy for any questions: episode numbers, steps, and words for actions.
    """

    family: str
    seed: int
    kind: str
    design: str
    share: float
    noise: float | tuple[float, ...]
    episodes: so.Episodes
    policy: Any
    behavior: Any
    annotations: so.Annotations
    exact: Callable[[], so.Annotations]
    of_behavior: so.Annotations | None
    all_of_behavior: so.Annotations | None
    options: dict[str, Any]
    truth: float
    truth_error: float
    truth_behavior: float
    unit: float
    unsupported: float
    hidden: bool
    returns_of: Callable[[np.ndarray, np.ndarray, list[Any]], np.ndarray]
    has_features: bool = False


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


def dataset(
    family: str, seed: int, *, kind: str | None = None, design: str | None = None, n: int | None = None,
    share: float | None = None, noise: float | tuple[float, ...] | None = None, propensities: bool | None = None,
) -> Dataset:  # fmt: skip
    """Draw a dataset; what is given stands instead of what belongs to the seed.

    `n` is the number of episodes, `share` that of questions asked, `noise` is in standard deviations of Q (a tuple: one
    for each of three annotators), `propensities` says whether the probabilities of logged actions are known.
    """
    place = list(FAMILIES).index(family)
    rng = np.random.default_rng([seed, place])
    kind = KINDS[seed % len(KINDS)] if kind is None else kind
    design = DESIGNS[(seed // len(KINDS) + seed + place) % len(DESIGNS)] if design is None else design
    world = FAMILIES[family](rng)
    drawn = round(log_uniform(rng, 150, 1000 if family in LONG else 2000))
    n = drawn if n is None else n
    usual = log_uniform(rng, 0.01, 1.0), log_uniform(rng, 0.1, 1.5)
    share, noise = usual[0] if share is None else share, usual[1] if noise is None else noise
    if isinstance(world, FeatureWorld):
        known = bool(rng.random() < PROPENSITIES)
        known = known if propensities is None else propensities
        return _of_features(family, seed, kind, design, world, n, share, noise, known, rng)
    mdp = world.mdp
    number, known = int(rng.integers(2**62)), bool(rng.random() < 0.4)
    known = known if propensities is None else propensities
    episodes = logged = mdp.sample(world.behavior, n, seed=number, propensities=known)
    every = questions(mdp, world, world.evaluation, episodes)
    unit = float(every.returns[~every.taken].std()) or 1.0
    returns_of = partial(_returns_of, every, mdp.actions.words.to_pylist())
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
        partial(table, exact, exact.returns, words), of_behavior, all_of_behavior, options,
        mdp.value(world.evaluation), 0.0, mdp.value(world.behavior), unit, unsupported,
        _hidden(kind, design, unsupported), returns_of,
    )  # fmt: skip


def _returns_of(
    every: Questions, words: list[Any], episode: np.ndarray, step: np.ndarray, action: list[Any]
) -> np.ndarray:
    """Q of the policy for these questions."""
    number = {label: k for k, label in enumerate(words)}
    places = zip(every.episode.tolist(), every.step.tolist(), every.action.tolist(), strict=True)
    known = dict(zip(places, every.returns.tolist(), strict=True))
    asked = zip(episode.tolist(), step.tolist(), (number[label] for label in action), strict=True)
    return np.array([known[place] for place in asked])


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
    before = _before(on_path, episodes.offsets[:-1], episodes.lengths)
    return Questions(
        row, episode[row], step, state, action, done, returns[step, state, action], returns[step, state, done],
        practice[step, state, action], mdp.reward[state, action], before[row] * policy[state, action],
    )  # fmt: skip


def _before(on_path: np.ndarray, first: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The probability that the policy does all that was logged before, from logarithms that start anew in each episode.

    `on_path` is its probability of each logged action; `first` is the first row of each episode.
    """
    logs = np.append(0.0, np.cumsum(np.log(np.maximum(on_path, 1e-12))))[:-1]
    return np.exp(logs - np.repeat(logs[first], lengths))


def ask(
    design: str, every: Questions, share: float, rng: np.random.Generator, x: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Which questions were asked, and how likely each was to be, if somebody wrote that down.

    At least some ten are: nobody evaluates a policy from nothing. `x` are features of rows, if states are features.
    """
    n, base = len(every.row), ~every.taken
    share = min(max(share, 15 / max(np.count_nonzero(base), 1)), 1.0)
    if design == "by state" and x is not None:
        scores = (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-9) @ rng.normal(size=x.shape[1])
        chance = share * np.exp(scores / max(float(scores.std()), 1e-9))[every.row]
    elif design == "by state":
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
    kind: str, asked: Questions, noise: float | tuple[float, ...], unit: float, words: list[Any],
    rng: np.random.Generator, prob: np.ndarray | None,
) -> so.Annotations:  # fmt: skip
    """Annotations of these questions by annotators of a kind; noise and biases are in units of the std of Q."""
    n = len(asked.row)
    noises = np.array(noise) if isinstance(noise, tuple) else noise * np.array([0.5, 1.0, 1.5])
    noise = float(np.mean(noise)) if isinstance(noise, tuple) else noise
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


def _of_features(
    family: str, seed: int, kind: str, design: str, world: FeatureWorld, n: int, share: float,
    noise: float | tuple[float, ...], propensities: bool, rng: np.random.Generator,
) -> Dataset:  # fmt: skip
    """A dataset whose states are features; what annotators know is the mean of some rollouts."""
    logged, place = log(world, world.behavior_probs, n, rng), list(FAMILIES).index(family)
    known = truth(world, family, seed, place)
    if kind == "rewards" and not np.ptp(logged.reward):  # nobody is asked for what is the same always
        kind = "one"
    proposal = world.evaluation_probs(logged.x)
    every = _questions_of_rows(logged, proposal)
    needed = proposal[every.row, every.action] > 0
    if rng.random() < 0.5 or world.n_actions > 10:  # only what the policy may do is asked about
        every, needed = every.part(needed | every.taken), needed[needed | every.taken]
    asked, prob = ask(design, every, share, rng, logged.x)
    words = list(world.actions)
    annotations = annotate(
        kind, _as_known(world, logged, every.part(asked), kind, rng), noise, known.unit, words, rng,
        None if prob is None else prob[asked],
    )  # fmt: skip
    frame = pd.DataFrame({
        "episode": logged.episode, "step": logged.step, "action": pd.Series(words)[logged.action].to_numpy(),
        "reward": logged.reward, **dict(zip(world.features, logged.x.T, strict=True)),
    })  # fmt: skip
    if propensities:
        frame["behavior_prob"] = world.behavior_probs(logged.x)[np.arange(len(frame)), logged.action]
    policies = [so.FeaturePolicy(one, actions=words) for one in (world.evaluation_probs, world.behavior_probs)]
    exact = partial(_exact, world, logged, every.part(needed & ~every.taken), words, (seed, place, 2))
    returns_of = partial(_returns_by_rollouts, world, logged, words, (seed, place, 3))
    return Dataset(
        family, seed, kind, design, share, noise, so.read_episodes(frame, features=list(world.features)), *policies,
        annotations, exact, None, None, {"gamma": world.gamma}, known.value, known.value_error, known.of_behavior,
        known.unit, known.unsupported, _hidden(kind, design, known.unsupported), returns_of,
        has_features=True,
    )  # fmt: skip


def _returns_by_rollouts(
    world: FeatureWorld, logged: Log, words: list[Any], seed: tuple[int, ...], episode: np.ndarray, step: np.ndarray,
    action: list[Any],
) -> np.ndarray:  # fmt: skip
    """Q of the policy for these questions, from 1,000 rollouts each."""
    row = np.searchsorted(logged.episode, episode) + step
    number = {label: k for k, label in enumerate(words)}
    taken = np.array([number[label] for label in action], dtype=int)
    rng = np.random.default_rng(seed)
    return action_values(world, world.evaluation_probs, logged.x[row], logged.step[row], taken, rng, 1000)[0]


def _questions_of_rows(logged: Log, proposal: np.ndarray) -> Questions:
    """Every (decision, action) of logs with features; what annotators know is not filled in."""
    rows, n_actions = len(logged.x), proposal.shape[1]
    row, action = (column.ravel() for column in np.meshgrid(np.arange(rows), np.arange(n_actions), indexing="ij"))
    first = np.flatnonzero(logged.step == 0)
    on_path = proposal[np.arange(rows), logged.action]
    before = _before(on_path, first, np.diff(np.append(first, rows)))
    unknown = np.full(len(row), np.nan)
    return Questions(
        row, logged.episode[row], logged.step[row], row, action, logged.action[row], unknown, unknown, unknown, unknown,
        before[row] * proposal[row, action],
    )  # fmt: skip


def _as_known(world: FeatureWorld, logged: Log, asked: Questions, kind: str, rng: np.random.Generator) -> Questions:
    """These questions with what annotators of a kind know: rollouts are made for that alone."""
    x, step = logged.x[asked.row], asked.step
    times = int(np.clip(KNOWING // max(len(x), 1), 40, 1000))

    def values(probs: Probs, action: np.ndarray) -> np.ndarray:
        return action_values(world, probs, x, step, action, rng, times)[0]

    if kind == "rewards":
        return asked._replace(reward=mean_rewards(world, x, step, asked.action, rng, times))
    if kind == "about behavior":
        return asked._replace(of_practice=values(world.behavior_probs, asked.action))
    asked = asked._replace(returns=values(world.evaluation_probs, asked.action))
    if kind == "preferences":
        return asked._replace(of_taken=values(world.evaluation_probs, asked.done))
    return asked


def _exact(
    world: FeatureWorld, logged: Log, needed: Questions, words: list[Any], seed: tuple[int, ...]
) -> so.Annotations:
    """Annotations without noise or bias of all that the policy may do, but for that of rollouts."""
    known = _as_known(world, logged, needed, "one", np.random.default_rng(seed))
    return table(known, known.returns, words)
