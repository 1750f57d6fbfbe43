"""From logs, policies, answers and wishes to a plan, step by step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from semiope._arrays import Booleans, Floats, Integers
from semiope.data.annotations import Annotations
from semiope.data.episodes import Episodes
from semiope.data.logbook import Logbook
from semiope.errors import OptionError, count
from semiope.models.case import Records
from semiope.pipeline.inputs import read_answers
from semiope.planning import stopping
from semiope.planning.blind import NEEDED, Asked, decoys, guessed
from semiope.planning.design import Choice, Design, choose
from semiope.planning.goals import wanted
from semiope.planning.knowledge import Knowledge, learn, recorded
from semiope.planning.matters import Matters, what_matters
from semiope.planning.questions import Hand, costs, dealt, luck_of, supply_of
from semiope.planning.result import Plan, notes_on, sealed_table
from semiope.planning.wishes import Wishes
from semiope.policies.cells import cells_of
from semiope.policies.policy import AnyPolicy

# Fewer answers say nothing of how far answers are from what was expected.
FEW = 10


@dataclass(frozen=True, eq=False)
class Planner:
    """Logs, policies, answers and wishes, and what follows from them step by step."""

    episodes: Episodes
    policies: Mapping[str, AnyPolicy]
    annotations: Annotations | None
    wishes: Wishes
    earlier: Sequence[pa.Table] = ()

    @property
    def n_questions(self) -> int:
        """How many questions exist: actions not taken that were taken elsewhere in the state, or may be by a policy."""
        plausible = (self.knowledge.counts[self.episodes.state] > 0) | (self.matters.chosen > 0)
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
        found = what_matters(self.logbook, self.policies, self.wishes.gamma)
        if not len(found.row):
            they = "policy does" if len(self.policies) == 1 else "policies do"
            raise OptionError(
                f"policy: there is nothing to ask. In every step logged, the {they} what was done, or an estimate has "
                "lost sight of the episode before. Evaluate without annotations."
            )
        return found

    @cached_property
    def records(self) -> Records | None:
        """The model counted from the logs, if one can be."""
        return recorded(self.matters, self.policies, self.wishes.gamma)

    @cached_property
    def knowledge(self) -> Knowledge:
        """What logs and answers say."""
        return learn(
            self.matters, self.policies, self.annotations, self.records,
            about_today=self.wishes.about == "behavior", gamma=self.wishes.gamma, noise=self.wishes.noise,
        )  # fmt: skip

    @cached_property
    def answered(self) -> Booleans:
        """Which of the questions that matter are answered."""
        aligned, found = self.logbook.annotations, np.zeros(len(self.matters.row), dtype=np.bool_)
        place = self.matters.position(aligned.row, aligned.action)
        found[place[place >= 0]] = True
        return found

    @cached_property
    def cost(self) -> Floats:
        """Of each question that matters."""
        return costs(self.matters, self.wishes.cost)

    @property
    def used(self) -> float:
        """What the answers so far cost, those of several experts to one question each."""
        told = self.annotations
        if told is None:
            return 0.0
        row = self.episodes.rows_of(told.labels, told.episode, told.step, "annotations")
        place = self.matters.position(row, self.logbook.actions.positions_of(told.actions)[told.action])
        return float(self.cost[place[place >= 0]].sum())

    @cached_property
    def values(self) -> Floats:
        """What each episode says of each policy's value and, last, of today's."""
        told = [self.matters.values(k, self.knowledge.answers[k]) for k in range(self.matters.n_policies)]
        return np.stack([*told, self.episodes.returns(self.wishes.gamma)])

    @cached_property
    def each(self) -> Design:
        """The design in which the value of each policy is wanted."""
        known = self.knowledge
        return Design.of(
            self.matters.mass, self.matters.cells, known.counts, known.parts, self.episodes.n_episodes, known.times
        )

    @cached_property
    def sampling(self) -> Floats:
        """The covariance that differences to today's policy have because the episodes are a sample."""
        differences = self.values[:-1] - self.values[-1]
        return np.atleast_2d(np.cov(differences, ddof=1)) / self.episodes.n_episodes

    @cached_property
    def design(self) -> Design:
        """The design in which what the user wants is wanted."""
        remaining = self.sampling + np.diag(self.each.remaining())
        rows = wanted(self.wishes.goal, (self.values[:-1] - self.values[-1]).mean(axis=1), remaining)
        return replace(self.each, mass=rows @ self.each.mass)

    def errors(self, times: Floats) -> Floats:
        """Expected squared errors of the policies' values with so many answers."""
        error = self.values[:-1].var(axis=1, ddof=1) / self.episodes.n_episodes
        found: Floats = error + self.each.remaining(times)
        return found

    def decisions(self) -> list[stopping.Decision]:
        """Each policy against today's; for a ranking, also against the next."""
        before = self.each.remaining(np.zeros_like(self.each.times))
        now, values, names = self.each.remaining(), self.values, self.matters.names
        found = [
            stopping.decide(name, None, values[k] - values[-1], now[k], before[k], self.wishes.alpha)
            for k, name in enumerate(names)
        ]
        if self.wishes.goal != "ranking":
            return found
        order = np.argsort(-values[:-1].mean(axis=1), kind="stable")
        for i, j in zip(order[:-1].tolist(), order[1:].tolist(), strict=True):
            apart = replace(self.each, mass=self.each.mass[[i]] - self.each.mass[[j]])
            r = apart.remaining()[0], apart.remaining(np.zeros_like(apart.times))[0]
            found.append(stopping.decide(names[i], names[j], values[i] - values[j], *r, self.wishes.alpha))
        return found

    @property
    def settles(self) -> bool:
        """Whether decisions can be settled: if that is the goal, and a few answers have put the model to the test."""
        return self.wishes.goal != "value" and int(self.answered.sum()) >= FEW

    def continued(self, annotations: Any, sealed: pa.Table) -> Plan:
        """The next batch, with these answers so far, after one with this sealed table."""
        answers = next(iter(read_answers(annotations, self.policies).values()))
        return self.answered_by(answers, [*self.earlier, sealed]).plan()

    def answered_by(self, annotations: Annotations | None, earlier: Sequence[pa.Table] = ()) -> Planner:
        """The same with these answers, after these batches: what does not depend on answers is kept."""
        found = replace(self, annotations=annotations, earlier=earlier)
        vars(found)["matters"] = replace(self.matters, logbook=found.logbook)
        vars(found)["records"] = self.records
        return found

    def estimates(self) -> Floats:
        """Of each policy's value, as the annotation model completes the answers."""
        found: Floats = self.values[:-1].mean(axis=1)
        return found

    def next_questions(self, number: float) -> Choice:
        """The next questions that this number, or this cost, is enough for."""
        return choose(self.design, supply_of(self.matters, self.answered, self.cost, self.luck), number, *self._room())

    @cached_property
    def luck(self) -> Floats:
        """What decides between questions that are alike, (n_rows, n_actions)."""
        return luck_of(self.logbook, self.wishes.seed)

    def _room(self) -> tuple[Integers, int]:
        """How many questions each episode was asked, and how many it may be asked."""
        room = np.bincount(self._asked_episodes(), minlength=self.episodes.n_episodes)
        return room, len(self.matters.row) if self.wishes.per_episode is None else self.wishes.per_episode

    def plan(self) -> Plan:
        """All of it."""
        if self.episodes.n_episodes < 2:
            raise OptionError("episodes: there is only one, and an error cannot be told from one. Log more.")
        wishes, matters = self.wishes, self.matters
        used = self.used
        budget = self._budget(used)
        now = min(budget - used, math.inf if wishes.batch is None else wishes.batch)
        now = min(now / wishes.copies, wishes.room) if wishes.cost is None else now / wishes.copies
        chosen = self.next_questions(max(now, 0.0) + 1e-9)
        after = self.each.times + np.bincount(matters.cell[chosen.question], minlength=len(self.each.times))
        error = np.sqrt(self.errors(self.each.times).mean()), np.sqrt(self.errors(after).mean())
        decisions = self.decisions()
        gain = 1 - float(error[1] / error[0]) if error[0] > 0 else 0.0
        stop = stopping.why_stop(
            decisions, self.settles, used=used, budget=budget, gain=gain, least=wishes.least_gain,
            alpha=wishes.alpha,
        )  # fmt: skip
        if stop is None and not len(chosen.question):
            stop = stopping.Stop("nothing", "every question that matters and may be asked has been answered.")
        if stop is not None:
            chosen = Choice(chosen.question[:0], chosen.remaining[:0])
        asked = self._asked(chosen)
        hands = dealt(asked, wishes.experts, wishes.overlap, wishes.shared_by, self.luck, wishes.seed)
        return self._result(chosen, asked, hands, decisions, stop, (used, budget), error)

    def _budget(self, used: float) -> float:
        """What may be spent in all: as told, or as it takes to reach the width wanted."""
        wishes = self.wishes
        if wishes.target_width is None:
            assert wishes.budget is not None
            return float(wishes.budget)
        chosen = self.next_questions(math.inf).question
        low, high = 0, len(chosen)
        if self._width(chosen) > wishes.target_width:
            raise OptionError(
                f"target_width: with all {count(len(chosen), 'question')} that can be asked, intervals would still be "
                f"{self._width(chosen):.3g} wide, because the episodes are a sample. Log more, or take a wider target."
            )
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._width(chosen[:middle]) <= wishes.target_width else (middle + 1, high)
        needed = used + wishes.copies * float(self.cost[chosen[:low]].sum())
        return needed if wishes.budget is None else min(needed, float(wishes.budget))

    def _width(self, chosen: Integers) -> float:
        """The widest interval of what is wanted after these questions."""
        times = self.each.times + np.bincount(self.matters.cell[chosen], minlength=len(self.each.times))
        remaining = self.each.remaining(times)
        sampling = self.errors(times) - remaining if self.wishes.goal == "value" else np.diag(self.sampling)
        return stopping.width(float(np.sqrt(np.max(sampling + remaining))), self.wishes.alpha)

    def _asked_episodes(self) -> Integers:
        """The episode of each different question that was answered."""
        aligned = self.logbook.annotations
        return np.searchsorted(self.episodes.offsets, aligned.row, side="right") - 1

    def _asked(self, chosen: Choice) -> Asked:
        """The questions chosen and their decoys."""
        matters, aligned = self.matters, self.logbook.annotations
        row, action = matters.row[chosen.question], matters.action[chosen.question]
        needed = Asked(row, action, np.full(len(row), NEEDED))
        if not self.wishes.decoys or not len(row):
            return needed
        excluded = np.zeros(self.luck.shape, dtype=np.bool_)
        excluded[aligned.row, aligned.action] = True
        if self.annotations is not None and len(aligned.of_action_taken):
            told = self.annotations.some(aligned.of_action_taken)
            known = self.episodes.rows_of(told.labels, told.episode, told.step, "annotations")
            excluded[known, self.episodes.action[known]] = True
        room, most = self._room()
        left = most - room - np.bincount(matters.episode[chosen.question], minlength=len(room))
        added = decoys(matters, chosen.question, self.wishes.decoys, self.knowledge.counts, excluded, self.luck, left)
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
        probs = self._probs(asked)
        guess = guessed(self.matters, asked, probs)
        return Plan(
            planner=self,
            sealed=sealed_table(self.matters, self.knowledge, chosen, asked, hands, self.wishes.seed),
            decisions=decisions,
            stop=stop,
            guess=guess,
            used=spent[0],
            budget=spent[1],
            error=(float(error[0]), float(error[1]) if len(chosen.question) else float(error[0])),
            notes=notes_on(self, asked, guess, stop),
        )

    def _probs(self, asked: Asked) -> dict[str, Floats]:
        """How likely each policy takes the action asked about."""
        everywhere = cells_of(self.episodes, "state")
        return {
            name: policy.bind(self.logbook, everywhere, f"policy {name!r}").at(asked.row)[
                np.arange(len(asked.row)), asked.action
            ]
            for name, policy in self.policies.items()
        }
