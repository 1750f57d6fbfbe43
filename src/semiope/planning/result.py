"""A plan: what experts see, what stays sealed, and what is known when it is made."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semiope._version import __version__
from semiope.data.annotations import Annotations, read_annotations
from semiope.data.asked import KINDS, NEEDED, QUESTION, repeated, strangers, to_questions, unanswered
from semiope.data.batches import POLICY
from semiope.errors import count
from semiope.planning.blind import BLIND, Asked, Guess, n_decoys
from semiope.planning.design import Choice
from semiope.planning.knowledge import Knowledge
from semiope.planning.matters import Matters
from semiope.planning.questions import Hand, table_of
from semiope.planning.stopping import FEW, Decision, Stop
from semiope.planning.wishes import Wishes

if TYPE_CHECKING:
    from semiope.planning.planner import Planner


@dataclass(frozen=True, eq=False)
class Plan:
    """Questions for experts, and a sealed table of why they are asked.

    `stop` says why nothing more is asked, or is None. `error` is the expected error of the policies' values (root mean
    square) now and after this batch, `used` what answered questions count of the `budget`. `guess` is how well a reader
    of the questions could guess the policy, `decisions` are how policies stand beside today's by the answers so far.
    """

    planner: Any = field(repr=False)  # a Planner or a RandomPlanner, by the design
    sealed: pa.Table
    decisions: list[Decision]
    stop: Stop | None
    guess: Guess
    used: float
    budget: float
    error: tuple[float, float]
    notes: list[str]

    @cached_property
    def questions(self) -> dict[str, pa.Table]:
        """What each expert sees: episode, step and action, in an order of their own."""
        experts = self.sealed.column("expert")
        columns = [*QUESTION, *([POLICY] if POLICY in self.sealed.column_names else [])]
        return {
            name: self.sealed.filter(pc.equal(experts, name)).select(columns) for name in self.planner.wishes.experts
        }

    @property
    def asked(self) -> list[pa.Table]:
        """The sealed tables of this batch and of all before it."""
        return [*self.planner.earlier, self.sealed]

    @property
    def n_needed(self) -> int:
        """Number of different questions that the plan needs."""
        rank = self.sealed.column("rank")
        return int(pc.count_distinct(rank, mode="only_valid").as_py())

    def answers(self, annotations: Any) -> Annotations:
        """Those of these answers that are to a question of this plan, in this batch or before, whoever gave them."""
        given = annotations if isinstance(annotations, Annotations) else read_annotations(annotations)
        return given.some(np.flatnonzero(to_questions(given, self.asked)))

    def next(self, annotations: Any) -> Plan:
        """The next batch, now that there are these answers (all so far)."""
        found: Plan = self.planner.continued(annotations, self.asked)
        return found

    def save(self, folder: str | Path) -> Path:
        """Write questions by expert, the sealed table and a summary as the next batch in a folder; return where."""
        from semiope.planning.files import save

        return save(self, folder)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the questions, as plain values."""
        wishes = self.planner.wishes
        names = [one.name for one in fields(wishes) if one.name not in ("budget", "cost", "experts")]
        return {
            "semiope": __version__,
            "policies": self.planner.names,
            "episodes": self.planner.episodes.n_episodes,
            "digest": self.planner.digest,
            "questions": {name: table.num_rows for name, table in self.questions.items()},
            "needed": self.n_needed,
            "used": self.used,
            "budget": self.budget,
            "expected_error": {"now": self.error[0], "after": self.error[1]},
            "guess": self.guess._asdict(),
            "stop": None if self.stop is None else self.stop._asdict(),
            "decisions": [{name: _plain(value) for name, value in one._asdict().items()} for one in self.decisions],
            "settings": {name: _plain(getattr(wishes, name)) for name in names},
            "notes": self.notes,
        }

    def __repr__(self) -> str:
        asked = ", ".join(f"{name} {table.num_rows}" for name, table in self.questions.items())
        lines = [
            f"Plan({count(self.n_needed, 'question')}; {self.used:g} of {self.budget:g} used; with decoys {asked})",
            f"  expected error {self.error[0]:.4g}, after this batch {self.error[1]:.4g}",
        ]
        if self.stop is not None:
            lines.append(f"  stop: {self.stop.sentence}")
        return "\n".join(
            [*lines, *(f"  {one}" for one in self.decisions[:5]), *(f"  note: {one}" for one in self.notes)]
        )


def _plain(value: Any) -> Any:
    """As JSON has it: None for what is not finite."""
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def sealed_table(
    matters: Matters, knowledge: Knowledge, chosen: Choice, asked: Asked, hands: list[Hand], about: str, seed: int
) -> pa.Table:
    """What is not for the experts: who is asked what in which order, what for, and why."""
    order = np.concatenate([hand.questions for hand in hands]).astype(np.int64)
    expert = [hand.expert for hand in hands for _ in hand.questions]
    n = len(chosen.question)
    is_needed = order < n  # the questions chosen come first among those asked
    place = np.where(is_needed, order, 0)
    cell = matters.cell[chosen.question][place] if n else np.zeros(len(order), dtype=np.int64)
    speaks_for = np.bincount(matters.cell[matters.direct], minlength=len(matters.cells.step))[cell]
    logged = knowledge.counts[matters.logbook.episodes.state[asked.row[order]], asked.action[order]].astype(np.int64)
    remaining = chosen.remaining[place] if n else np.zeros(len(order))
    table = table_of(matters.logbook, asked.row[order], asked.action[order])
    what = asked.kind[order].tolist(), speaks_for.tolist(), logged.tolist()
    reasons = [_reason(KINDS[kind], *known) for kind, *known in zip(*what, strict=True)]
    columns: Mapping[str, Any] = {
        "expert": pa.array(expert, pa.string()),
        "kind": pa.array([KINDS[kind] for kind in asked.kind[order].tolist()], pa.string()),
        "rank": pa.array(place + 1, mask=~is_needed),
        "remaining": pa.array(remaining, mask=~is_needed),
        "speaks_for": pa.array(speaks_for, mask=~is_needed),
        "logged": pa.array(logged),
        "reason": pa.array(reasons, pa.string()),
        "about": pa.array([about] * len(order), pa.string()),
        "seed": pa.array(np.full(len(order), seed)),
    }
    for name, column in columns.items():
        table = table.append_column(name, column)
    return table


def _reason(kind: str, speaks_for: int, logged: int) -> str:
    if kind == "calibration":
        return "the action taken: its outcome is known, and tells how good the expert is"
    if kind == "decoy":
        return "not needed: keeps the policy from being read off the questions"
    known = f"logged {logged} times here" if logged > 1 else "logged once here" if logged else "never logged here"
    worth = f"speaks for {count(speaks_for, 'step')}" if speaks_for else "tells what others lead to"
    return f"{worth}; the action was {known}"


def notes_on(planner: Planner, asked: Asked, guess: Guess, stop: Stop | None) -> list[str]:
    """What the user is to know about a plan."""
    wishes, matters, notes = planner.wishes, planner.matters, []
    exist = planner.n_questions
    possible = float(planner.cost.sum()) if wishes.cost is not None else float(len(matters.row))
    if wishes.budget is not None and wishes.budget > possible:
        notes.append(
            f"a budget of {wishes.budget:g} is more than can be asked: of {exist:,} questions that exist, "
            f"{len(matters.row):,} matter to an estimate (at {possible:g} in all)."
        )
    if isinstance(planner.recorded, str):
        notes.append(
            f"no model can be counted from the logs ({planner.recorded}): where nobody was asked, the mean return of "
            "the step is expected, and nothing is called better or worse. design='random' can."
        )
    notes += [f"policy {name!r} is what is done today: nothing needs to be asked for it." for name in planner.same]
    if planner.annotations is not None:
        notes.append(_on_answers(planner))
    if not planner.tested and not planner.n_wild and planner.records is not None:
        notes.append(f"nothing is called better or worse before {FEW} questions that matter are answered.")
    if planner.n_wild:
        notes.append(
            f"{count(planner.n_wild, 'answer')} far beyond every return that was logged: on the same scale? Nothing is "
            "called or settled by them."
        )
    open_ones = unanswered(planner.annotations, planner.earlier)
    if open_ones:
        notes.append(
            f"{count(open_ones, 'question')} of earlier batches without an answer: taken as not asked, and asked again "
            "if still worth it."
        )
    if not np.ptp(planner.values[-1]):
        notes.append(
            "all episodes have the same return: the logs do not say by how much answers may differ, and the errors "
            "expected before there are some mean little."
        )
    return notes if stop is not None else notes + _on_asking(wishes, asked, guess)


def _on_asking(wishes: Wishes, asked: Asked, guess: Guess) -> list[str]:
    """What the questions give away, whom they need, and how many there are."""
    n_needed = int(np.count_nonzero(asked.kind == NEEDED))
    n_found, n_wanted = len(asked.row) - n_needed, n_decoys(wishes.decoys, n_needed)
    if not wishes.decoys:
        notes = [
            "experts are NOT blind: without decoys, every question is about something that a policy would do. "
            f"A reader of the questions alone names the policy's action in {guess.share:.0%} of them."
        ]
    else:
        notes = [
            f"{count(n_needed, 'question')} needed and {count(n_found, 'decoy')}; from the questions alone, a reader "
            f"guesses the action of {guess.policy!r} in {guess.share:.0%} of binary choices (by {guess.by}); one who "
            f"also knows what was done, in {guess.knowing:.0%}."
        ]
        if n_found < n_wanted:
            notes.append(f"only {count(n_found, 'decoy')} of {n_wanted:,} could be found.")
        if guess.share > BLIND:
            notes.append(
                f"experts are hardly blind: that is above {BLIND:.0%}. Ask fewer at a time, or raise `decoys`."
            )
    if wishes.about == "policy":
        notes.append(
            "answers about returns under the policy itself need experts who know it; about usual care, they need not."
        )
    if n_needed == wishes.most_needed:
        notes.append(
            f"at most {wishes.per_expert} for each expert: this batch ends with {n_needed:,} needed questions."
        )
    return notes


def _on_answers(planner: Planner) -> str:
    """Which answers the plans asked for, and which others chose."""
    assert planner.annotations is not None
    n, others = len(planner.annotations), strangers(planner.annotations, planner.earlier)
    chosen = (
        f", {others:,} of them to questions that no plan given here asked: they are used, as chosen by others"
        if others
        else ", all to questions of a plan"
    )
    again = repeated(planner.annotations)
    twice = f"; {again:,} say again what the same expert said: given twice? Each is counted" if again else ""
    return f"{count(n, 'answer')} so far{chosen}{twice}."
