"""Answers to questions that nobody was asked: which they are, and putting them among those that were given."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from semiope._arrays import Booleans, Floats, Integers, frozen, id_dtype
from semiope.data.annotations import Annotations
from semiope.data.episodes import Episodes
from semiope.data.labels import ABSENT, Vocabulary
from semiope.models.places import Places
from semiope.models.records import Records


class Questions(NamedTuple):
    """Rows of the episodes and actions, by the model's ids, that could be asked about; sorted by both."""

    row: Integers
    action: Integers

    def places(self, records: Records) -> Places:
        """Where they lie in the model."""
        return Places(records.rows.step[self.row], records.rows.state[self.row], self.action)


def questions(records: Records, pairs: Booleans) -> Questions:
    """Every decision and every action that was not taken there and is flagged for its state in `pairs`."""
    decided = np.flatnonzero(records.rows.action != ABSENT)
    asked = pairs[records.rows.state[decided]]
    asked[np.arange(len(decided)), records.rows.action[decided]] = False
    position, action = np.nonzero(asked)
    return Questions(decided[position], action)


def answered(episodes: Episodes, words: Vocabulary, asked: Questions, value: Floats) -> Annotations:
    """Annotations that give these values to these questions; `words` are the labels of their actions."""
    episode = episodes.episode_of(asked.row)
    told, labels = episodes.labels.used(episode)
    action, actions = words.used(asked.action)
    step = episodes.step[asked.row]
    return Annotations(
        labels=labels,
        actions=actions,
        episode=frozen(told),
        step=frozen(step.astype(id_dtype(int(step.max()) + 1 if len(step) else 1))),
        action=frozen(action),
        value=frozen(value),
    )
