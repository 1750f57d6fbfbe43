"""Resamples of the data: episodes counted several times or not at all, with all that is told episode by episode."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from semiope._arrays import Integers, frozen, runs
from semiope.data.annotations import Annotations
from semiope.data.episodes import Episodes
from semiope.data.labels import Vocabulary
from semiope.data.tables import take_rows


class Kept(NamedTuple):
    """Rows of a table by episode that a resample keeps, and their episodes, numbered anew."""

    row: Integers
    episode: Integers


class Resample:
    """Each episode as often as `times` says; episodes are numbered anew."""

    def __init__(self, source: Episodes, times: Integers) -> None:
        self.source = source
        self.chosen = np.repeat(np.arange(source.n_episodes), times)
        self.labels = Vocabulary.integers(len(self.chosen))

    @cached_property
    def source_rows(self) -> Integers:
        """The row of the source that each row comes from."""
        return runs(self.source.offsets[:-1][self.chosen], self.source.lengths[self.chosen])

    @cached_property
    def episodes(self) -> Episodes:
        """The episodes."""
        source, rows = self.source, self.source_rows
        lengths = source.lengths[self.chosen]
        return replace(
            source,
            labels=self.labels,
            offsets=frozen(np.append(0, np.cumsum(lengths))),
            state=frozen(source.state[rows]),
            action=frozen(source.action[rows]),
            reward=frozen(source.reward[rows]),
            behavior_prob=None if source.behavior_prob is None else frozen(source.behavior_prob[rows]),
            extra=None if source.extra is None else take_rows(source.extra, rows),
            features=None if source.features is None else source.features.rows(rows),
            order=None,
            is_resample=True,
        )

    def annotations(self, given: Annotations | None) -> Annotations | None:
        """Annotations of the episodes."""
        if given is None:
            return None
        kept = self.rows(given.labels, given.episode)
        return replace(given.some(kept.row), labels=self.labels, episode=frozen(kept.episode))

    def rows(self, labels: Vocabulary, episode: Integers) -> Kept:
        """The rows of any table that tells of episodes, by the ids that its column `episode` has among its labels."""
        about = self.source.labels.positions_of(labels)[episode]
        order = np.argsort(about, kind="stable")
        starts = np.searchsorted(about[order], np.arange(self.source.n_episodes + 1))
        times = np.diff(starts)[self.chosen]
        row = order[runs(starts[:-1][self.chosen], times)]
        return Kept(row, np.repeat(np.arange(len(self.chosen)), times))
