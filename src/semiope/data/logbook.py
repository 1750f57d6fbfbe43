"""The logbook: episodes with the annotations that speak of them, in one vocabulary of actions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from semiope._arrays import Floats, Integers, frozen, id_dtype
from semiope._compiled import compiled
from semiope.data.annotations import Annotations
from semiope.data.episodes import Episodes
from semiope.data.labels import ABSENT, Vocabulary
from semiope.errors import SHOWN, SchemaError, count


class AlignedAnnotations(NamedTuple):
    """Counterfactual annotations of given episodes: at most one per (row, action), sorted by both.

    `row` points into the rows of the episodes. Annotations of the action that was taken are not among them:
    `of_action_taken` lists their positions in the table they came from. `n_pooled` were merged into others. `std` is
    how much answers scatter, where they say so.
    """

    row: Integers
    action: Integers
    value: Floats
    weight: Floats | None
    of_action_taken: Integers
    n_pooled: int
    std: Floats | None = None

    @classmethod
    def none(cls) -> AlignedAnnotations:
        """Return no annotations at all."""
        nowhere = np.zeros(0, dtype=np.int32)
        return cls(nowhere, frozen(nowhere.astype(id_dtype(0))), np.zeros(0), None, nowhere, 0)


@dataclass(frozen=True, eq=False)
class Logbook:
    """Action ids, in both the episodes and the annotations, are those of `actions`: the logged ones come first."""

    episodes: Episodes
    annotations: AlignedAnnotations
    actions: Vocabulary

    @classmethod
    def of(cls, episodes: Episodes, annotations: Annotations | None, others: Mapping[str, Vocabulary]) -> Logbook:
        """Attach annotations to episodes; `others` are further actions that exist, by the name of who knows them."""
        actions = episodes.actions
        # Policies of one world share a vocabulary: it is looked at once.
        for name, vocabulary in {id(words): (name, words) for name, words in others.items()}.values():
            if not actions.comparable(vocabulary):
                raise SchemaError(
                    f"{name}: column 'action' holds {vocabulary.kind}, that of the episodes {actions.kind}. "
                    "Use the same labels in both."
                )
            actions = actions.extended(vocabulary)
        aligned = AlignedAnnotations.none() if annotations is None else _align(annotations, episodes, actions)
        return cls(episodes, aligned, actions)


def _align(annotations: Annotations, episodes: Episodes, actions: Vocabulary) -> AlignedAnnotations:
    if annotations.said is not None:
        raise SchemaError("annotations: rewards and preferences are no returns yet; so.evaluate makes them so.")
    row = episodes.rows_of(annotations.labels, annotations.episode, annotations.step, "annotations")
    action = _recoded(annotations.action, actions.ids_of(annotations.actions, "annotations"))
    n_undecided, n_taken, in_order = _survey(row, action, episodes.action)
    if n_undecided:
        refuse_undecided(row, episodes)
    if not n_taken and in_order:
        nowhere = np.zeros(0, dtype=np.int64)
        return AlignedAnnotations(row, action, annotations.value, annotations.weight, nowhere, 0, annotations.std)
    is_taken = action == episodes.action[row]
    taken, kept = np.flatnonzero(is_taken), np.flatnonzero(~is_taken)
    weight = np.zeros(len(row)) if annotations.weight is None else annotations.weight
    std = np.ones(len(row)) if annotations.std is None else annotations.std
    # Ties are sorted as well, so that sums do not depend on the order in which rows came.
    kept = kept[np.lexsort([x[kept] for x in (weight, std, annotations.value, action, row)])]
    row, action = row[kept], action[kept]
    value, weight, std = annotations.value[kept], weight[kept], std[kept]
    first = np.flatnonzero(np.append(True, (row[1:] != row[:-1]) | (action[1:] != action[:-1]))[: len(row)])
    if len(first) < len(row):
        # Relative to the most precise answer of its group, so that squares of extreme stds stay in range.
        least = np.repeat(np.minimum.reduceat(std, first), np.diff(np.append(first, len(row))))
        precision = np.square(least / std)
        total = np.add.reduceat(precision, first)
        value, std = np.add.reduceat(value * precision, first) / total, least[first] / np.sqrt(total)
        weight = np.add.reduceat(weight, first)
    share = None if annotations.weight is None else weight
    scatter = None if annotations.std is None else std
    return AlignedAnnotations(row[first], frozen(action[first]), value, share, taken, len(row) - len(first), scatter)


def refuse_undecided(row: Integers, episodes: Episodes) -> None:
    """Fail if one of these rows, which annotations speak about, has no decision."""
    undecided = row[episodes.action[row] == ABSENT]
    if len(undecided):
        shown = "; ".join(episodes.describe_row(int(i)) for i in undecided[:SHOWN])
        raise SchemaError(
            f"annotations: steps without a decision cannot be annotated ({count(len(undecided), 'row')}). "
            f"First: {shown}. Remove these rows."
        )


def _recoded(ids: Integers, new: Integers) -> Integers:
    """Return `new[ids]`, without a copy where every id stays the same."""
    return frozen(ids if np.array_equal(new, np.arange(len(new))) else new[ids])


@compiled
def _survey(row: Integers, action: Integers, logged: Integers) -> tuple[int, int, bool]:
    """Count entries at rows without a decision and of actions taken; tell whether (row, action) strictly increases."""
    undecided, taken, in_order = 0, 0, True
    for i in range(len(row)):
        undecided += logged[row[i]] == -1
        taken += logged[row[i]] == action[i]
        if i and (row[i] < row[i - 1] or (row[i] == row[i - 1] and action[i] <= action[i - 1])):
            in_order = False
    return undecided, taken, in_order
