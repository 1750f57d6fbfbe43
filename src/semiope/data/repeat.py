"""Episodes counted several times or not at all, with the answers about them: what a resample of the data is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from semiope._arrays import Integers, frozen
from semiope.data.annotations import Annotations
from semiope.data.episodes import Episodes
from semiope.data.labels import Vocabulary
from semiope.data.tables import take_rows


def repeated(
    episodes: Episodes, annotations: Annotations | None, times: Integers
) -> tuple[Episodes, Annotations | None]:
    """Take each episode, and all answers about it, as often as `times` says; episodes are numbered anew."""
    chosen = np.repeat(np.arange(episodes.n_episodes), times)
    lengths = episodes.lengths[chosen]
    rows = _runs(episodes.offsets[:-1][chosen], lengths)
    labels = Vocabulary.integers(len(chosen))
    copies = replace(
        episodes,
        labels=labels,
        offsets=frozen(np.append(0, np.cumsum(lengths))),
        state=frozen(episodes.state[rows]),
        action=frozen(episodes.action[rows]),
        reward=frozen(episodes.reward[rows]),
        behavior_prob=None if episodes.behavior_prob is None else frozen(episodes.behavior_prob[rows]),
        extra=None if episodes.extra is None else take_rows(episodes.extra, rows),
    )
    if annotations is None:
        return copies, None
    about = episodes.labels.positions_of(annotations.labels)[annotations.episode]
    order = np.argsort(about, kind="stable")
    starts = np.searchsorted(about[order], np.arange(episodes.n_episodes + 1))
    answers = np.diff(starts)[chosen]
    kept = order[_runs(starts[:-1][chosen], answers)]
    given = replace(annotations.some(kept), labels=labels, episode=frozen(np.repeat(np.arange(len(chosen)), answers)))
    return copies, given


def _runs(starts: Integers, lengths: Integers) -> Integers:
    """The numbers start, start + 1 ... of each run, one run after the other."""
    before = np.append(0, np.cumsum(lengths)[:-1]) if len(lengths) else lengths
    found: Integers = np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))
    return found
