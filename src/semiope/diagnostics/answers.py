"""Answers as judges need them: who said what about which question, and what the log says of it."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from semiope._arrays import Booleans, Floats, Integers
from semiope.data.annotations import RETURN, Annotations
from semiope.data.episodes import Episodes
from semiope.data.labels import ABSENT, encode
from semiope.data.logbook import Logbook, refuse_undecided

NOBODY, SOMEBODY = "all", "unnamed"


class Answers(NamedTuple):
    """Answers that are returns, sorted by question, annotator, value and std: the order in which they came is lost.

    A question is an (episode, step, action). `who` is a position in `names`; `person` tells apart who may have given
    answers: each answer without a name is taken to be of somebody else. `outcome` is the discounted return from the
    step on where the action was taken, else NaN; `cell` is the same for the same step, state and action taken. `last`
    marks the last step at which anything was decided.
    """

    names: list[str]
    who: Integers
    person: Integers
    episode: Integers
    question: Integers
    value: Floats
    std: Floats | None
    outcome: Floats
    cell: Integers
    last: Booleans

    @property
    def named(self) -> Booleans:
        """Which answers say whose they are."""
        return self.person < len(self.names)

    def part(self, which: Booleans) -> Answers:
        """Some of the answers."""
        columns = (None if column is None else column[which] for column in self[1:])
        return Answers(self.names, *columns)  # type: ignore[arg-type]


def gather(episodes: Episodes, annotations: Annotations, gamma: float) -> Answers:
    """Hold annotations that are returns beside the episodes they speak of."""
    actions = Logbook.of(episodes, None, {"annotations": annotations.actions}).actions
    row = episodes.rows_of(annotations.labels, annotations.episode, annotations.step, "annotations").astype(np.int64)
    refuse_undecided(row, episodes)
    action = actions.positions_of(annotations.actions)[annotations.action]
    who, names = _who(annotations)
    std = np.zeros(len(row)) if annotations.std is None else annotations.std
    kept = np.arange(len(row)) if annotations.said is None else np.flatnonzero(annotations.said.kind == RETURN)
    kept = kept[np.lexsort([column[kept] for column in (std, annotations.value, who, action, row)])]
    row, action, who = row[kept], action[kept], who[kept]
    question = np.unique(row * len(actions) + action, return_inverse=True)[1]
    outcome = episodes.returns_to_go(gamma)[row]
    taken = episodes.action[row] == action
    decided = np.where(episodes.action == ABSENT, -1, episodes.step)
    nameless = who == ABSENT
    if nameless.any() or not names:
        names = [*names, SOMEBODY if names else NOBODY]
    person = np.where(nameless, len(names) + np.arange(len(who)), who)
    return Answers(
        names,
        np.where(nameless, len(names) - 1, who),
        person,
        episodes.episode_of(row),
        question,
        annotations.value[kept],
        None if annotations.std is None else std[kept],
        np.where(taken, outcome, math.nan),
        (episodes.step[row] * len(episodes.states) + episodes.state[row]) * len(actions) + episodes.action[row],
        decided[row] == decided.max(),
    )


def _who(annotations: Annotations) -> tuple[Integers, list[str]]:
    """Who gave each answer, -1 where nobody says, and the names in order."""
    if annotations.annotator is None or annotations.annotator.null_count == len(annotations):
        return np.full(len(annotations), ABSENT), []
    who, names = encode(annotations.annotator)
    return who.astype(np.int64), [str(name) for name in names.words.to_pylist()]
