"""From logs, policies, answers and wishes to a plan, step by step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from semiope._arrays import Booleans, Floats, Integers
from semiope.data.annotations import Annotations
from semiope.data.asked import NEEDED, decoys_only, keys
from semiope.data.episodes import Episodes
from semiope.data.logbook import Logbook
from semiope.errors import OptionError, count
from semiope.planning import stopping
from semiope.planning.blind import Asked, decoys, guessed
from semiope.planning.case import Case, Records
from semiope.planning.design import Choice, Design, Supply, choose
from semiope.planning.goals import wanted
from semiope.planning.knowledge import Knowledge, is_todays, learn, read, recorded
from semiope.planning.matters import Matters, what_matters
from semiope.planning.questions import Hand, costs, dealt, luck_of, supply_of, table_of, times_asked
from semiope.planning.result import Plan, notes_on, sealed_table
from semiope.planning.wishes import Wishes
from semiope.policies.cells import cells_of
from semiope.policies.lookup import BoundPolicy
from semiope.policies.policy import AnyPolicy


@dataclass(frozen=True, eq=False)
class Planner:
    """Logs, policies, answers and wishes, and what follows from them step by step."""

    episodes: Episodes
    policies: Mapping[str, AnyPolicy]
    annotations: Annotations | None
    wishes: Wishes
    earlier: Sequence[pa.Table] = ()

    @property
    def names(self) -> list[str]:
        """Names of the policies."""
        return list(self.policies)

    @property
    def digest(self) -> str:
        """The same for the same logs and policies, as far as estimates depend on them."""
        return self.matters.digest

    @property
    def n_questions(self) -> int:
        """How many questions exist: actions not taken that were taken elsewhere in the state, or matter to a policy."""
        plausible = (self.knowledge.counts[self.episodes.state] > 0) | (self.matters.chosen > 0)
        plausible[self.matters.row, self.matters.action] = True
        decided = np.flatnonzero(self.episodes.action >= 0)
        plausible[decided, self.episodes.action[decided]] = False
        return int(np.count_nonzero(plausible[decided]))

    @cached_property
    def logbook(self) -> Logbook:
        """Logs and answers, aligned."""
        known = {f"policy {name!r}": policy.actions for name, policy in self.policies.items()}
        return Logbook.of(self.episodes, self.annotations, known)

    @cached_property
    def matters(self) -> Matters:
        """The questions that matter."""
        found = what_matters(
            self.logbook, self.policies, self.wishes.gamma, self.records, about_today=self.wishes.about_today
        )
        if not len(found.row):
            they = "policy does" if len(self.policies) == 1 else "policies do"
            raise OptionError(
                f"policy: there is nothing to ask. In every step logged, the {they} what was done, or an estimate has "
                "lost sight of the episode before. Evaluate without annotations."
            )
        return found

    @cached_property
    def recorded(self) -> Records | str:
        """The model counted from the logs, or why there is none."""
        found = recorded(self.logbook, self.policies, self.wishes.gamma, self.wishes.noise)
        if isinstance(found, str) and self.wishes.about_today:
            raise OptionError(
                "about: answers about usual care are turned to a policy by a model counted from the logs, and there is "
                f"none ({found}). Plan one policy, about='policy'."
            )
        return found

    @property
    def records(self) -> Records | None:
        """The model counted from the logs, if one can be."""
        return None if isinstance(self.recorded, str) else self.recorded

    @cached_property
    def same(self) -> list[str]:
        """Names of policies that are today's: as probabilities were logged or, if they were not, as counted."""
        return [name for name, one in zip(self.policies, self._bound, strict=True) if is_todays(one, self.logbook)]

    @cached_property
    def knowledge(self) -> Knowledge:
        """What logs and answers say."""
        return learn(self.matters, self.cases, self.annotations, self.wishes.gamma, self.wishes.noise)

    @cached_property
    def cases(self) -> list[Case]:
        """Each policy before the model counted from the logs; none if there is no such model."""
        about_today = self.wishes.about_today
        return (
            [Case(self.records, one, name, about_today) for name, one in self.policies.items()] if self.records else []
        )

    @cached_property
    def told(self) -> tuple[Integers, Integers]:
        """Row and action of every answer, those about actions taken among them."""
        given = self.annotations
        if given is None:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        row = self.episodes.rows_of(given.labels, given.episode, given.step, "annotations")
        return row.astype(np.int64), self.logbook.actions.positions_of(given.actions)[given.action]

    @cached_property
    def times(self) -> Integers:
        """How often each of the questions that matter was answered."""
        place = self.matters.position(*self.told)
        return np.bincount(place[place >= 0], minlength=len(self.matters.row))

    @cached_property
    def cost(self) -> Floats:
        """Of each question that matters."""
        return costs(self.logbook, self.matters.row, self.matters.action, self.wishes.cost)

    @cached_property
    def used(self) -> float:
        """What the answers so far cost, those of several experts to one question each; decoys cost nothing."""
        answered, free = np.flatnonzero(self.times), decoys_only(self.earlier)
        asked = keys(table_of(self.logbook, self.matters.row[answered], self.matters.action[answered]))
        paid = answered[[key not in free for key in asked]]
        return float(self.cost[paid] @ self.times[paid])

    @cached_property
    def values(self) -> Floats:
        """What each episode says of each policy's value and, last, of today's."""
        told = [self.matters.values(k, self.knowledge.answers[k]) for k in range(self.matters.n_policies)]
        return np.stack([*told, self.episodes.returns(self.wishes.gamma)])

    @cached_property
    def each(self) -> Design:
        """The design in which the value of each policy is wanted."""
        return self.each_with(self.knowledge.times)

    def each_with(self, times: Floats) -> Design:
        """The same with so many answers in each cell: what was told no longer rests on the model."""
        known, matters = self.knowledge, self.matters
        found = Design.of(matters.mass, matters.cells, known.counts, known.parts, self.episodes.n_episodes, times)
        if not self.cases or self.wishes.about_today or not times.any():
            return found
        return replace(found, mass=matters.mass_left(self.cases, found.modelled))

    def remaining(self, times: Floats) -> Floats:
        """The variance of each policy's value that remains with so many answers in each cell."""
        return np.diag(self.covariance(times)).copy()

    def covariance(self, times: Floats) -> Floats:
        """The covariance of the policies' values that remains with so many answers in each cell.

        Also that of what the model has wrong because it was counted. Where answers are about the policy, all that lead
        to thinly logged paths have it in common, so that answers take it off as they do the level of pairs logged; what
        turns answers about today's policy stays as it is.
        """
        design = self.each_with(times)
        left = 1.0 if self.wishes.about_today else (1 - design.learnt) ** 2
        return design.covariance() + left * self._counted

    @cached_property
    def _counted(self) -> Floats:
        """The covariance that the model's counts add to what the design knows of."""
        if self.knowledge.returns is None:
            return np.zeros_like(self.sampling)
        found = self.matters.counting_errors(self.cases, self.knowledge.returns)
        if self.wishes.about_today:
            return found
        return np.maximum(found - np.diag(replace(self.each, mass=self.matters.mass).before_logged), 0.0)

    @cached_property
    def sampling(self) -> Floats:
        """The covariance that differences to today's policy have because the episodes are a sample."""
        differences = self.values[:-1] - self.values[-1]
        return np.atleast_2d(np.cov(differences, ddof=1)) / self.episodes.n_episodes

    @cached_property
    def design(self) -> Design:
        """The design in which what the user wants is wanted."""
        covariance = self.sampling + self.covariance(self.each.times)
        rows = wanted(self.wishes.goal, (self.values[:-1] - self.values[-1]).mean(axis=1), covariance)
        return replace(self.each, mass=rows @ self.each.mass)

    def errors(self, times: Floats) -> Floats:
        """Expected squared errors of the policies' values with so many answers."""
        error = self.values[:-1].var(axis=1, ddof=1) / self.episodes.n_episodes
        found: Floats = error + self.remaining(times)
        return found

    def decisions(self) -> list[stopping.Decision]:
        """Each policy against today's; for a ranking, also against the next."""
        values, names = self.values, self.matters.names
        now, before = self.covariance(self.each.times), self.covariance(np.zeros_like(self.each.times))
        found = [
            stopping.decide(name, None, values[k] - values[-1], now[k, k], before[k, k], self.wishes.alpha)
            for k, name in enumerate(names)
        ]
        best_first = np.argsort(-values[:-1].mean(axis=1), kind="stable").tolist()
        for i, j in pairwise(best_first if self.wishes.goal == "ranking" else []):
            r, r_first = (max(float(one[i, i] + one[j, j] - 2 * one[i, j]), 0.0) for one in (now, before))
            found.append(stopping.decide(names[i], names[j], values[i] - values[j], r, r_first, self.wishes.alpha))
        return found if self.tested else [one._replace(call=stopping.OPEN) for one in found]

    @property
    def tested(self) -> bool:
        """Whether answers to a few questions have put the model to the test: before, nothing is called.

        Without a model counted from states, nothing is called at all: bounds would rest on means of steps.
        """
        return self.records is not None and int(np.count_nonzero(self.times)) >= stopping.FEW and not self.n_wild

    @cached_property
    def n_wild(self) -> int:
        """How many answers lie farther beyond all returns that were logged than these lie apart."""
        returns, value = self.episodes.returns_to_go(self.wishes.gamma), self.logbook.annotations.value
        low, high = float(returns.min()), float(returns.max())
        return int(np.count_nonzero((value < 2 * low - high) | (value > 2 * high - low)))

    def continued(self, annotations: Any, earlier: Sequence[pa.Table]) -> Plan:
        """The next batch, with these answers so far, after batches with these sealed tables."""
        return self.answered_by(read(annotations, self.policies), earlier).plan()

    def answered_by(self, annotations: Annotations | None, earlier: Sequence[pa.Table] = ()) -> Planner:
        """The same with these answers, after these batches: what does not depend on answers is kept."""
        found = replace(self, annotations=annotations, earlier=earlier)
        vars(found)["matters"] = replace(self.matters, logbook=found.logbook)
        vars(found)["recorded"] = self.recorded
        return found

    def estimates(self) -> Floats:
        """Of each policy's value, as the annotation model completes the answers."""
        found: Floats = self.values[:-1].mean(axis=1)
        return found

    @cached_property
    def luck(self) -> Floats:
        """What decides between questions that are alike, (n_rows, n_actions)."""
        return luck_of(self.logbook, self.wishes.seed)

    @cached_property
    def supply(self) -> Supply:
        """Questions that can still be asked."""
        return supply_of(self.matters, (self.times > 0) | self.too_late[self.matters.row], self.cost, self.luck)

    @cached_property
    def too_late(self) -> Booleans:
        """Rows whose questions can no longer be asked: an earlier batch showed later steps of the episode."""
        number = {str(label): k for k, label in enumerate(self.episodes.labels.words.to_pylist())}
        last = np.full(self.episodes.n_episodes, -1)
        for table in self.earlier:
            for episode, step, _ in keys(table):
                if episode in number:
                    last[number[episode]] = max(last[number[episode]], step)
        found: Booleans = self.episodes.step < np.repeat(last, self.episodes.lengths)
        return found

    @cached_property
    def room(self) -> Integers:
        """How many more questions each episode may be asked."""
        if self.wishes.per_episode is None:
            return np.full(self.episodes.n_episodes, self.luck.size)  # more than there are questions
        row, action = self.told
        n_actions = len(self.logbook.actions)
        different = np.unique(row * n_actions + action) // n_actions
        episode = self.episodes.episode_of(different)
        return self.wishes.per_episode - np.bincount(episode, minlength=self.episodes.n_episodes)

    def next_questions(self, number: float) -> Choice:
        """The next questions that this number, or this cost, is enough for."""
        return choose(self.design, self.supply, number, self.room)

    def plan(self) -> Plan:
        """All of it."""
        if self.episodes.n_episodes < 2:
            raise OptionError("episodes: there is only one, and an error cannot be told from one. Log more.")
        wishes, used = self.wishes, self.used
        if len(self.same) == len(self.policies):
            raise OptionError(
                f"policy: {', '.join(map(repr, self.same))} is what is done today, and what that is worth was logged: "
                "there is nothing to ask. Name a policy that does otherwise somewhere."
            )
        budget = self._budget()
        now = max(min(budget - used, math.inf if wishes.batch is None else wishes.batch), 0.0)
        chosen = self._affordable(self.next_questions(now / wishes.copies + 1e-9), now)
        error = self._error(chosen.question[:0]), self._error(chosen.question)
        if not math.isfinite(error[0]):
            raise OptionError("episodes: rewards, or answers to questions, are too large to tell an error from them.")
        decisions = self.decisions()
        cheapest = self.supply.cost[self.room[self.supply.episode] > 0].min(initial=math.inf)
        stop = stopping.why_stop(
            decisions, wishes.goal != "value", stopping.Spending(used, budget, now, wishes.copies * float(cheapest)),
            width=self._width(chosen.question[:0]), target=wishes.target_width,
            gain=1 - error[1] / error[0] if error[0] > 0 else 0.0, least=wishes.least_gain, alpha=wishes.alpha,
        )  # fmt: skip
        if stop is not None:
            chosen, error = Choice(chosen.question[:0], chosen.remaining[:0]), (error[0], error[0])
        asked = self._asked(chosen)
        needed = np.arange(len(asked.row)) < len(chosen.question)
        times = np.concatenate([self._times_asked(asked.row[own], asked.action[own]) for own in (needed, ~needed)])
        hands = dealt(self.episodes, asked, times, wishes.experts, self.luck[asked.row, asked.action], wishes.seed)
        return self._result(chosen, asked, hands, decisions, stop, (used, budget), error)

    def _times_asked(self, row: Integers, action: Integers) -> Integers:
        wishes = self.wishes
        return times_asked(self.luck[row, action], wishes.overlap, wishes.takers, wishes.seed)

    def _affordable(self, chosen: Choice, now: float) -> Choice:
        """As many of the questions chosen as experts have time for, and as this pays for: an answer of each expert."""
        matters, question = self.matters, chosen.question[: self.wishes.most_needed]
        while len(question):
            times = self._times_asked(matters.row[question], matters.action[question])
            if self.cost[question] @ times <= now * (1 + 1e-9):
                break
            question = question[:-1]
        return Choice(question, chosen.remaining[: len(question)])

    def _error(self, chosen: Integers) -> float:
        """The expected error of the policies' values after these questions, root mean square."""
        return float(np.sqrt(self.errors(self._times_after(chosen)).mean()))

    def _times_after(self, chosen: Integers) -> Floats:
        """How often each cell is answered after these questions."""
        return self.each.times + np.bincount(self.matters.cell[chosen], minlength=len(self.each.times))

    def _budget(self) -> float:
        """What may be spent in all: as told, or as it takes to reach the width wanted."""
        wishes = self.wishes
        if wishes.target_width is None:
            assert wishes.budget is not None
            return float(wishes.budget)
        chosen = self.supply.question
        if self._width(chosen[:0]) <= wishes.target_width:
            return self.used
        if self._width(chosen) <= wishes.target_width:
            chosen = self.next_questions(math.inf).question
        if self._width(chosen) > wishes.target_width:
            turned = ", by which answers are also turned to the policies" if wishes.about_today else ""
            raise OptionError(
                f"target_width: with all {count(len(chosen), 'question')} that can be asked, intervals would still be "
                f"{self._width(chosen):.3g} wide, because the episodes are a sample{turned}. Log more, or take a wider "
                "target."
            )
        low, high = 0, len(chosen)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._width(chosen[:middle]) <= wishes.target_width else (middle + 1, high)
        needed = self.used + wishes.copies * float(self.cost[chosen[:low]].sum())
        return needed if wishes.budget is None else min(needed, float(wishes.budget))

    def _width(self, chosen: Integers) -> float:
        """The widest interval of what is wanted after these questions."""
        times = self._times_after(chosen)
        of_values = self.wishes.goal == "value"
        squares = self.errors(times) if of_values else np.diag(self.sampling) + self.remaining(times)
        return stopping.width(float(np.sqrt(np.max(squares))), self.wishes.alpha)

    def _asked(self, chosen: Choice) -> Asked:
        """The questions chosen and their decoys."""
        matters = self.matters
        row, action = matters.row[chosen.question], matters.action[chosen.question]
        needed = Asked(row, action, np.full(len(row), NEEDED))
        if not self.wishes.decoys or not len(row):
            return needed
        excluded = np.zeros(self.luck.shape, dtype=np.bool_)
        excluded[self.told] = True
        excluded[self.too_late] = True
        left = self.room - np.bincount(matters.episode[chosen.question], minlength=len(self.room))
        added = decoys(
            matters, chosen.question, self.wishes.decoys, self.knowledge.counts, self._probs, excluded, self.luck, left,
            self.wishes.seed,
        )  # fmt: skip
        return Asked(*(np.concatenate(both) for both in zip(needed, added, strict=True)))

    def _result(
        self,
        chosen: Choice,
        asked: Asked,
        hands: list[Hand],
        decisions: list[stopping.Decision],
        stop: stopping.Stop | None,
        spent: tuple[float, float],
        error: tuple[float, float],
    ) -> Plan:
        guess = guessed(self.logbook, self.names, asked, self._probs(asked.row, asked.action))
        return Plan(
            planner=self,
            sealed=sealed_table(
                self.matters, self.knowledge, chosen, asked, hands, self.wishes.about, self.wishes.seed
            ),
            decisions=decisions,
            stop=stop,
            guess=guess,
            used=spent[0],
            budget=spent[1],
            error=error,
            notes=notes_on(self, asked, guess, stop),
        )

    def _probs(self, row: Integers, action: Integers) -> Floats:
        """How likely each policy takes these actions in these rows, (n_policies, n)."""
        return np.stack([one.at(row)[np.arange(len(row)), action] for one in self._bound])

    @cached_property
    def _bound(self) -> list[BoundPolicy]:
        everywhere = cells_of(self.episodes, "state")
        return [policy.bind(self.logbook, everywhere, f"policy {name!r}") for name, policy in self.policies.items()]
