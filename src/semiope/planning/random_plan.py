"""Plans whose questions are drawn with known probabilities (`design="random"`).

Three things happen at each look. Annotations so far are evaluated as a user would evaluate them: by `so.evaluate`, with
the inclusion probabilities of the draw. Policies are compared by `so.compare`, at an error rate that is divided over
looks. And the next questions are drawn (`random_design.py`).

If K looks are planned, look b may fail with probability alpha K / ((b + K - 1)(b + K)). Over all looks, however many
there are, that adds up to alpha: bounds hold at all of them at once.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from semiope._arrays import Booleans, Floats, Integers
from semiope._memory import refuse_beyond_memory
from semiope.data.annotations import Annotations
from semiope.data.asked import KINDS, NEEDED, TAKEN, Key, keys, strangers
from semiope.data.batches import (
    BATCH_WEIGHT,
    EPISODE_PROB,
    NEEDED_PROB,
    POLICY,
    QUESTION_PROB,
    drawn_at_random,
    of_policy,
)
from semiope.data.episodes import Episodes
from semiope.data.logbook import Logbook
from semiope.errors import OptionError, count, quietly
from semiope.estimate.registry import ESTIMATORS, headline
from semiope.estimate.result import Estimate
from semiope.models.nested import nested_means
from semiope.pipeline.compare import compare
from semiope.pipeline.evaluate import evaluate
from semiope.pipeline.inputs import read_answers
from semiope.pipeline.results import Results
from semiope.planning import stopping
from semiope.planning.blind import BLIND, Asked, Guess, guessed
from semiope.planning.influence import influences
from semiope.planning.questions import costs, dealt, table_of, times_asked
from semiope.planning.random_design import (
    RATHER,
    UNIFORM,
    Choices,
    Decoys,
    Design,
    Drawn,
    Pool,
    balanced,
    design,
    draw,
    sums,
)
from semiope.planning.result import Plan
from semiope.planning.wishes import Wishes
from semiope.policies.cells import cells_of
from semiope.policies.lookup import everything
from semiope.policies.policy import AnyPolicy


@dataclass(frozen=True, eq=False)
class RandomPlanner:
    """Logs, policies, annotations by policy, options of the user, and the sealed tables of earlier batches.

    `evaluation` are further options of `so.evaluate`: the behavior policy and the model.
    """

    episodes: Episodes
    policies: Mapping[str, AnyPolicy]
    annotations: Mapping[str, Annotations | None]
    wishes: Wishes
    earlier: Sequence[pa.Table] = ()
    evaluation: Mapping[str, Any] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """Names of the policies."""
        return list(self.policies)

    @cached_property
    def logbook(self) -> Logbook:
        """The logs, with all actions that exist."""
        return Logbook.of(self.episodes, None, {f"policy {name!r}": one.actions for name, one in self.policies.items()})

    @cached_property
    def probs(self) -> list[Floats]:
        """How likely each policy takes each action in each row; 0 where nothing is decided."""
        n = 8.0 * self.episodes.n_steps * len(self.logbook.actions) * (2 * len(self.policies) + 6)
        refuse_beyond_memory(n, "the questions of a plan", "Plan with fewer episodes.")
        everywhere, found = cells_of(self.episodes, "state"), []
        for name, policy in self.policies.items():
            own = everything(policy.bind(self.logbook, everywhere, f"policy {name!r}"), self.logbook)
            found.append(np.where((self.episodes.action >= 0)[:, None], own, 0.0))
        return found

    @cached_property
    def pool(self) -> Pool:
        """Every question on which an estimate depends."""
        influence = [influences(self.episodes, own, self.wishes.gamma)[0] for own in self.probs]
        sizes = np.stack(influence) if self.by_policy else np.sqrt(np.sum(np.square(influence), axis=0))[None]
        policy, row, action = (column.astype(np.int64) for column in np.nonzero(sizes))
        size = sizes[policy, row, action]
        policy = policy if self.by_policy else np.full(len(row), -1)
        if not len(row):
            raise OptionError(
                "policy: there is nothing to ask. In every step logged, the policies do what was done, or an estimate "
                "has lost sight of the episode before. Evaluate without annotations."
            )
        episode = self.episodes.episode_of(row)
        order = np.lexsort((action, row, policy, episode))
        episode, policy, row, action = (column[order] for column in (episode, policy, row, action))
        unit = np.cumsum(np.append(0, (np.diff(episode) != 0) | (np.diff(policy) != 0)))
        return Pool(unit, episode, row, action, policy, size[order], costs(self.logbook, row, action, self.wishes.cost))

    @property
    def by_policy(self) -> bool:
        """Whether a question is about the returns of one of several policies."""
        return len(self.policies) > 1 and not self.wishes.about_today

    @cached_property
    def digest(self) -> str:
        """The same for the same logs and policies, as far as estimates depend on them."""
        pool, found = self.pool, hashlib.sha256()
        label = self.logbook.actions.numbers[pool.action]
        order = np.lexsort((label, pool.policy, pool.row))
        for part in (pool.row[order], label[order], pool.policy[order], np.round(1e6 * pool.size[order])):
            found.update(np.ascontiguousarray(part, dtype=np.int64).tobytes())
        return found.hexdigest()[:16]

    @cached_property
    def known(self) -> Booleans:
        """Episodes that were drawn in earlier batches."""
        number = {str(label): k for k, label in enumerate(self.episodes.labels.words.to_pylist())}
        drawn = {str(label) for table in self.earlier for label in table.column("episode").to_pylist()}
        found = np.zeros(self.episodes.n_episodes, dtype=np.bool_)
        found[[number[label] for label in drawn if label in number]] = True
        return found

    @cached_property
    def used(self) -> float:
        """What annotations of needed questions have cost, each annotator's counted; decoys cost nothing."""
        total, price = 0.0, self._prices
        for name, given in self.annotations.items():
            if given is None or (not self.by_policy and name != self.names[0]):
                continue
            needed = set().union(*(_needed(of_policy(table, name)) for table in self.earlier))
            annotated = keys(given.to_arrow())
            if given.annotator is not None:  # what one annotator says twice was asked once
                named = list(zip(annotated, given.annotator.to_pylist(), strict=True))
                annotated = [key for key, who in named if who is None]
                annotated += [key for key, who in set(named) if who is not None]
            total += sum(price.get(key, 1.0) for key in annotated if key in needed)
        return total

    @cached_property
    def _prices(self) -> dict[Any, float]:
        """What each question costs, where costs differ."""
        pool = self.pool
        if self.wishes.cost is None:
            return {}
        return dict(zip(keys(table_of(self.logbook, pool.row, pool.action)), pool.cost.tolist(), strict=True))

    @cached_property
    def look(self) -> int:
        """How many batches have annotations of needed questions."""
        present = {name: set(keys(one.to_arrow())) for name, one in self.annotations.items() if one is not None}
        return sum(
            any(own & _needed(of_policy(table, name)) for name, own in present.items()) for table in self.earlier
        )

    @property
    def n_answered(self) -> int:
        """How many needed questions have an annotation."""
        present = {name: set(keys(one.to_arrow())) for name, one in self.annotations.items() if one is not None}
        names = self.names if self.by_policy else self.names[:1]
        needed = ((name, of_policy(table, name)) for name in names for table in self.earlier)
        return sum(len(present.get(name, set()) & _needed(table)) for name, table in needed)

    @cached_property
    def results(self) -> dict[str, Results] | None:
        """Annotations so far, evaluated; None where there are none yet."""
        if not self.earlier or not self.look:
            return None
        with quietly():
            found: dict[str, Results] = evaluate(
                self.episodes, dict(self.policies), annotations=dict(self.annotations), plan=list(self.earlier),
                estimators=headline(ESTIMATORS), gamma=self.wishes.gamma,
                repair="auto" if self.wishes.about_today else None, **self.evaluation,
            )  # fmt: skip
        return found

    def continued(self, annotations: Any, earlier: Sequence[pa.Table]) -> Plan:
        """The next batch, with these annotations so far, after batches with these sealed tables."""
        found = replace(self, annotations=read_answers(annotations, self.policies), earlier=list(earlier))
        # What depends on logs and policies alone.
        for name in ("logbook", "probs", "pool", "digest"):
            if name in vars(self):
                vars(found)[name] = vars(self)[name]
        return plan_at_random(found)


def plan_at_random(planner: RandomPlanner) -> Plan:
    """Evaluate what is there, decide whether to stop, and draw the next batch."""
    wishes, episodes = planner.wishes, planner.episodes
    _refuse(planner)
    decisions = decide(planner)
    spread = Spread.of(planner)
    budget = _budget(planner, spread)
    left = budget - planner.used
    now = max(min(left, math.inf if wishes.batch is None else wishes.batch), 0.0)
    if wishes.most_needed is not None:
        now = min(now, wishes.most_needed * float(planner.pool.cost.min()))
    units = len(np.unique(planner.pool.policy))
    most = int(planner.pool.size.size if wishes.per_episode is None else max(wishes.per_episode // units, 1))
    spend = _whole(now / wishes.copies, planner.pool)
    probs, spend = _affordable(sized(planner), planner.known, spend, max(left / wishes.copies, spend), most)
    any_left = bool((~planner.known[planner.pool.episode]).any())
    cheapest = units * float(planner.pool.cost.min()) if any_left else math.inf
    error = spread.now, spread.after(probs, spend)
    stop = stopping.why_stop(
        decisions, wishes.goal != "value", stopping.Spending(planner.used, budget, now, wishes.copies * cheapest),
        width=stopping.width(spread.now, wishes.alpha), target=wishes.target_width,
        gain=1 - error[1] / error[0] if error[0] > 0 else 0.0, least=wishes.least_gain, alpha=wishes.alpha,
    )  # fmt: skip
    rng = np.random.default_rng([wishes.seed, len(planner.earlier), 7])
    if stop is not None:
        probs = probs._replace(episode_prob=np.zeros(episodes.n_episodes))
        error = (error[0], error[0])
    drawn = draw(planner.pool, probs, _decoys(planner, probs), rng)
    asked = Asked(drawn.row, drawn.action, drawn.kind)
    said = np.stack([own[drawn.row, drawn.action] for own in planner.probs])
    guess = guessed(planner.logbook, planner.names, asked, said)
    sealed = _sealed(planner, drawn, _weight(wishes, len(planner.earlier), spend), rng)
    return Plan(
        planner=planner, sealed=sealed, decisions=decisions, stop=stop, guess=guess,
        used=planner.used, budget=budget, error=error, notes=_notes(planner, drawn, guess, stop),
    )  # fmt: skip


def sized(planner: RandomPlanner) -> Pool:
    """The pool, its sizes times how far predictions are expected to miss annotations, beside the mean of all.

    What they missed so far tells: the mean by action, and by state or step within it, shrunk as far as they are few.
    Before there are annotations, all are taken to be missed alike.
    """
    pool, episodes, results = planner.pool, planner.episodes, planner.results
    if results is None:
        return pool
    problems = [one.origin.weighed.problem for one in results.values()]
    given = [one.annotations for one in problems]
    missed = np.abs(np.concatenate([one.modelled.annotated_critic.annotated for one in problems]))
    row, action = (np.concatenate(column) for column in zip(*((one.row, one.action) for one in given), strict=True))
    within, n_actions = episodes.state if episodes.has_states else episodes.step, planner.probs[0].shape[1]

    def groups(row: Integers, action: Integers) -> list[Integers]:
        return [action.astype(np.int64), within[row].astype(np.int64) * n_actions + action]

    expected = nested_means(
        missed, groups(row, action), groups(pool.row, pool.action), [n_actions, n_actions * (int(within.max()) + 1)]
    )
    if not missed.any():
        return pool
    return pool._replace(size=pool.size * ((1 - UNIFORM) * expected / float(missed.mean()) + UNIFORM))


def decide(planner: RandomPlanner) -> list[stopping.Decision]:
    """Each policy against the behavior policy and, for a ranking, against the next, with bounds that hold at all looks.

    Bounds take the annotators' word as long as logs do not disagree with it at 5%; else they cover what logs say, too.
    Nothing is called before some needed questions are annotated.
    """
    results = planner.results
    if results is None:
        return [stopping.Decision(name, None, math.nan, -math.inf, math.inf, stopping.OPEN) for name in planner.names]
    compared = compare(results, alpha=level(planner.wishes, planner.look))
    enough = planner.n_answered >= stopping.FEW
    compared = replace(compared, estimates={name: _trusting(one) for name, one in compared.estimates.items()})
    found = []
    for name in planner.names:
        one = compared[name].difference
        supported = enough and compared.supported(name)
        found.append(_decision(name, None, one.value, *one.interval, supported=supported))
    if planner.wishes.goal == "ranking":
        order = list(compared)
        for name, other in pairwise(order):
            one = compared.between(name, other)
            supported = enough and compared.supported(name) and compared.supported(other)
            found.append(_decision(name, other, one.value, *one.interval, supported=supported))
    return found


def disagrees(estimate: Estimate) -> bool:
    """Whether an estimate that does not take the annotators' word differs by more than chance."""
    return bool(estimate.bias or estimate.compromise)


def _trusting(estimate: Estimate) -> Estimate:
    """The estimate without those that do not take the annotators' word, unless they disagree."""
    return estimate if disagrees(estimate) else replace(estimate, find_rivals=None)


def _decision(
    name: str, other: str | None, value: float, low: float, high: float, *, supported: bool
) -> stopping.Decision:
    call = stopping.BETTER if low > 0 else stopping.WORSE if high < 0 else stopping.OPEN
    return stopping.Decision(name, other, value, low, high, call if supported else stopping.OPEN)


def level(wishes: Wishes, look: int) -> float:
    """The part of the error rate that a look has, counted from 1."""
    planned = 1
    if wishes.budget is not None and wishes.batch is not None:
        planned = max(math.ceil(wishes.budget / wishes.batch), 1)
    return wishes.alpha * planned / ((look + planned - 1) * (look + planned))


@dataclass(frozen=True)
class Spread:
    """The squared error of a policy's value, the mean over policies: because episodes are a sample, and by annotations.

    Before there are annotations, predictions are taken to miss them by as much as returns vary, all the same way.
    `spent` is what batches so far were to cost, 0 before the first.
    """

    sampling: float
    annotated: float
    spent: float
    unit: float

    @classmethod
    def of(cls, planner: RandomPlanner) -> Spread:
        """From annotations so far or, without any, from the logs."""
        n, results, gamma = planner.episodes.n_episodes, planner.results, planner.wishes.gamma
        units = len(np.unique(planner.pool.policy))
        unit = float(planner.episodes.returns_to_go(gamma)[planner.episodes.action >= 0].var()) / n**2 / units
        if results is None:
            sampling = float(planner.episodes.returns(gamma).var()) / n
            return cls(sampling, unit * float(planner.pool.size.sum()) ** 2, 0.0, unit)
        spent = sum(table.column(BATCH_WEIGHT)[0].as_py() for table in planner.earlier if table.num_rows)
        whole = float(np.mean([one[one.headline].std_error ** 2 for one in results.values()]))
        annotated = float(np.mean([_by_annotations(planner, k, one) for k, one in enumerate(results.values())]))
        return cls(max(whole - annotated, 0.0), annotated, spent, unit)

    @property
    def now(self) -> float:
        """The expected error, root mean square."""
        return math.sqrt(self.sampling + self.annotated)

    def after(self, probs: Design, spend: float) -> float:
        """The same after a batch with these probabilities, which costs so much."""
        if not probs.episode_prob.any():
            return self.now
        if not self.spent:
            return math.sqrt(self.sampling + min(self.unit * probs.variance, self.annotated))
        return math.sqrt(self.sampling + self.annotated * self.spent / (self.spent + spend))


def _by_annotations(planner: RandomPlanner, policy: int, results: Results) -> float:
    """The variance of a policy's value that annotations add: the sum of (m_i / p_i (g_i - g-hat_i) / n)^2."""
    problem = results.origin.weighed.problem
    given = problem.annotations
    size = influences(planner.episodes, planner.probs[policy], planner.wishes.gamma)[0][given.row, given.action]
    left = problem.modelled.annotated_critic.annotated
    return float(np.sum(np.square(size / problem.inclusion.prob * left))) / planner.episodes.n_episodes**2


def _budget(planner: RandomPlanner, spread: Spread) -> float:
    """What may be spent in all: as stated, or as much as intervals of the width wanted are expected to take."""
    wishes, pool = planner.wishes, planner.pool
    if wishes.target_width is None:
        assert wishes.budget is not None
        return float(wishes.budget)
    if stopping.width(spread.now, wishes.alpha) <= wishes.target_width:
        return planner.used
    price = float((pool.cost * pool.size).sum() / pool.size.sum()) * wishes.copies
    least, most = 1, len(pool.row)

    def wide(n: int) -> float:
        probs = design(pool, planner.known, n * price, n * price, len(pool.row))
        return stopping.width(spread.after(probs, n * price), wishes.alpha)

    if wide(most) > wishes.target_width:
        raise OptionError(
            f"target_width: with all {count(most, 'question')} that can be asked, intervals would still be "
            f"{wide(most):.3g} wide, because the episodes are a sample. Log more, or take a wider target."
        )
    while least < most:
        middle = (least + most) // 2
        least, most = (least, middle) if wide(middle) <= wishes.target_width else (middle + 1, most)
    needed = planner.used + price * least
    return needed if wishes.budget is None else min(needed, float(wishes.budget))


def _weight(wishes: Wishes, number: int, spend: float) -> float:
    """The weight of a batch, counted from 0: the size that was planned, whatever earlier ones came to.

    Batches beyond what was planned make up for annotations that are missing. They are small, and weigh what they cost.
    """
    if wishes.batch is None:
        return spend
    left = wishes.batch if wishes.budget is None else min(wishes.budget - number * wishes.batch, wishes.batch)
    return left / wishes.copies if left > 0 else spend


def _whole(spend: float, pool: Pool) -> float:
    """What a batch is to cost: a whole number of questions or, where costs differ, less by the dearest of them."""
    if np.ptp(pool.cost) > 0:
        return max(spend - float(pool.cost.max()), min(spend, float(pool.cost.min())))
    units, price = len(np.unique(pool.policy)), float(pool.cost[0])
    return math.floor(spend / (units * price) + 1e-9) * units * price


def _affordable(pool: Pool, known: Booleans, spend: float, left: float, most: int) -> tuple[Design, float]:
    """Probabilities for a batch that costs so much at most, and what it is to cost.

    Where several questions are put about an episode, whole episodes are paid for, and draws of episodes that cost more
    or less may cost as much more than expected as the dearest.
    """
    probs = design(pool, known, spend, left, most)
    cost = sums(pool.episode, probs.question_prob * pool.cost, len(known))[probs.episode_prob > 0]
    if not len(cost) or bool(np.all(probs.episode_prob[probs.episode_prob > 0] >= 1)):
        return probs, spend
    dearest = float(cost.max())
    even = float(np.ptp(cost)) <= 1e-9 * dearest
    paid = math.floor(spend / dearest + 1e-9) * dearest if even else spend - dearest
    if math.isclose(paid, spend) or np.ptp(pool.cost) > 0:  # with unequal costs, `_whole` has seen to it
        return probs, spend
    if paid < dearest:  # not even one episode: fewer questions about each
        return (probs, spend) if most <= 1 else _affordable(pool, known, spend, 0.0, 1)
    return design(pool, known, paid, left, most), paid


def _decoys(planner: RandomPlanner, probs: Design) -> Decoys:
    """What decoys are drawn from: by preference, what the policies would rather not do.

    About as many are about an action, and at a step, as there are needed questions about it.
    """
    episodes, mean = planner.episodes, np.mean(planner.probs, axis=0)
    decided = episodes.action >= 0
    row = np.flatnonzero(decided)
    of_taken = 1 - mean[row, episodes.action[row]] + RATHER
    against = np.where(decided[:, None], 1 - mean + RATHER, 0.0)
    if episodes.has_states:  # an annotator would wonder about actions that nobody takes in such a state
        logged = np.zeros((len(episodes.states), mean.shape[1]), dtype=np.bool_)
        logged[episodes.state[row], episodes.action[row]] = True
        against *= logged[episodes.state] | (mean > 0)
    against[row, episodes.action[row]] = 0.0
    other_row, other_action = np.nonzero(against)
    most = math.inf if planner.wishes.per_episode is None else float(planner.wishes.per_episode)
    pool = planner.pool
    expected = probs.episode_prob[pool.episode] * probs.question_prob
    weight = sums(pool.episode, expected, episodes.n_episodes)
    horizon, n_actions = int(episodes.lengths.max()), mean.shape[1]
    by_action = sums(pool.action, expected, n_actions)
    by_step = sums(episodes.step[pool.row], expected, horizon)
    choices = (
        _choices(episodes, other_row, other_action, against[other_row, other_action]),
        _choices(episodes, row, episodes.action[row].astype(np.int64), of_taken),
    )
    other, taken = (
        balanced(one, weight, [(episodes.step[one.row], by_step), (one.action, by_action)]) for one in choices
    )
    return Decoys(planner.wishes.decoys, other, taken, most)


def _choices(episodes: Episodes, row: Integers, action: Integers, weight: Floats) -> Choices:
    episode = episodes.episode_of(row)
    total = sums(episode, weight, episodes.n_episodes)
    return Choices(episode, row, action, weight / total[episode])


def _sealed(planner: RandomPlanner, drawn: Drawn, weight: float, rng: np.random.Generator) -> pa.Table:
    """What is not for annotators: who is asked what in which order, what for, and with which probability."""
    wishes, logbook = planner.wishes, planner.logbook
    chance = rng.random(len(drawn.row))
    times = np.ones(len(drawn.row), dtype=np.int64)
    for kind in np.unique(drawn.kind == NEEDED):
        own = np.flatnonzero((drawn.kind == NEEDED) == kind)
        times[own] = times_asked(chance[own], wishes.overlap, wishes.takers, wishes.seed)
    asked = Asked(drawn.row, drawn.action, drawn.kind)
    hands = dealt(planner.episodes, asked, times, wishes.experts, chance, wishes.seed + len(planner.earlier))
    order = np.concatenate([hand.questions for hand in hands]).astype(np.int64)
    table = table_of(logbook, drawn.row[order], drawn.action[order])
    if planner.by_policy:
        table = table.append_column(POLICY, pa.array([planner.names[k] for k in drawn.policy[order]], pa.string()))
    is_needed = drawn.kind[order] == NEEDED
    included = drawn.episode_prob * drawn.question_prob
    columns: Mapping[str, Any] = {
        "expert": pa.array([hand.expert for hand in hands for _ in hand.questions], pa.string()),
        "kind": pa.array([KINDS[kind] for kind in drawn.kind[order].tolist()], pa.string()),
        "rank": pa.array(order + 1, mask=~is_needed),
        "inclusion_prob": pa.array(included[order], mask=drawn.kind[order] == TAKEN),
        EPISODE_PROB: pa.array(drawn.episode_prob[order]),
        QUESTION_PROB: pa.array(drawn.question_prob[order], mask=drawn.kind[order] == TAKEN),
        NEEDED_PROB: pa.array(drawn.needed_prob[order], mask=drawn.kind[order] == TAKEN),
        BATCH_WEIGHT: pa.array(np.full(len(order), weight)),
        "about": pa.array([wishes.about] * len(order), pa.string()),
        "seed": pa.array(np.full(len(order), wishes.seed)),
    }
    for name, column in columns.items():
        table = table.append_column(name, column)
    return table


def _refuse(planner: RandomPlanner) -> None:
    """Fail where no batch can be drawn."""
    if planner.episodes.n_episodes < 2:
        raise OptionError("episodes: there is only one, and an error cannot be estimated from one. Log more.")
    if planner.earlier and not drawn_at_random(planner.earlier):
        raise OptionError(
            "earlier: a batch holds no probabilities, so that its questions were not drawn at random. Go on with "
            "design='best', or begin a new study."
        )
    if planner.earlier and planner.look < len(planner.earlier):
        raise OptionError(
            f"annotations: none is to a needed question of batch {planner.look + 1}. Collect some of them first: then "
            "those still missing count as missing at random."
        )
    if not planner.earlier and any(planner.annotations.values()):
        raise OptionError(
            "annotations: they are to questions that no plan given here asked, and nobody knows how likely these were. "
            "Give the earlier batches (earlier=), or design='best'."
        )


def _needed(table: pa.Table) -> set[Key]:
    """The needed questions of a sealed table."""
    return {
        key for key, kind in zip(keys(table), table.column("kind").to_pylist(), strict=True) if kind == KINDS[NEEDED]
    }


def _notes(planner: RandomPlanner, drawn: Drawn, guess: Guess, stop: stopping.Stop | None) -> list[str]:
    """What the user is to know about a plan."""
    wishes, notes = planner.wishes, []
    given = next((one for one in planner.annotations.values() if one is not None), None)
    if given is not None and planner.earlier:
        others = sum(
            strangers(one, [of_policy(table, name) for table in planner.earlier])
            for name, one in planner.annotations.items()
            if one is not None and (planner.by_policy or name == planner.names[0])
        )
        if others:
            notes.append(
                f"{count(others, 'annotation')} to questions that no batch asked: probabilities of questions are "
                "estimated then, and bounds are no longer certain."
            )
        missing = _missing(planner)
        if missing:
            notes.append(
                f"{count(missing, 'question')} of earlier batches without an annotation: taken as missing at random."
            )
    for name, one in (planner.results or {}).items():
        estimate = one[one.headline]
        if disagrees(estimate):
            notes.append(f"policy {name!r}: logs disagree with annotations; bounds cover what both say.")
        elif not estimate.rivals:
            notes.append(f"policy {name!r}: nothing in the data checks the annotators' word, which bounds take.")
    if stop is not None:
        return notes
    n_needed = int(np.count_nonzero(drawn.kind == NEEDED))
    if not wishes.decoys:
        notes.append("annotators are NOT blind: without decoys, questions are about what a policy would do.")
    else:
        notes.append(
            f"{count(n_needed, 'question')} needed and {count(len(drawn.row) - n_needed, 'decoy')}; from the questions "
            f"alone, a reader guesses the action of {guess.policy!r} in {guess.share:.0%} of binary choices."
        )
        if guess.share > BLIND:
            notes.append(f"annotators are hardly blind: that is above {BLIND:.0%}. Raise `decoys`.")
    if wishes.about == "policy":
        notes.append("annotations of returns under the policy need annotators who know it.")
    return notes


def _missing(planner: RandomPlanner) -> int:
    """How many questions of earlier batches nobody answered."""
    total = 0
    for name, one in planner.annotations.items():
        if not planner.by_policy and name != planner.names[0]:
            continue
        given = set() if one is None else set(keys(one.to_arrow()))
        total += len({key for table in planner.earlier for key in keys(of_policy(table, name))} - given)
    return total
