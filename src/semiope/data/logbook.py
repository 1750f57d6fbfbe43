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


class Responses(NamedTuple):
    """Annotations one by one: `place` is the question that each answers, or its row in the episodes.

    `annotator` numbers those who gave them (-1: not named; None: nobody is), `std` is the noise they state.
    """

    place: Integers
    value: Floats
    annotator: Integers | None = None
    std: Floats | None = None


class AlignedAnnotations(NamedTuple):
    """Counterfactual annotations of given episodes: at most one per (row, action), sorted by both.

    `row` points into the rows of the episodes. Annotations of the action that was taken are not among them:
    `of_action_taken` lists their positions in the table they came from. `n_pooled` were merged into others. `std` is
    how much answers scatter, `inclusion_prob` how likely the question was to be asked, where they say so. `several` are
    the annotations before they were pooled (None: one a question, nobody named), `taken` those of actions taken;
    `n_annotators` is how many are named.
    """

    row: Integers
    action: Integers
    value: Floats
    weight: Floats | None
    of_action_taken: Integers
    n_pooled: int
    std: Floats | None = None
    inclusion_prob: Floats | None = None
    several: Responses | None = None
    taken: Responses | None = None
    n_annotators: int = 0

    @property
    def responses(self) -> Responses:
        """All annotations of these questions, before they were pooled."""
        if self.several is not None:
            return self.several
        return Responses(np.arange(len(self.row)), self.value, None, self.std)

    def with_values(self, value: Floats) -> AlignedAnnotations:
        """The same questions with other values, one each."""
        return self._replace(value=value, several=None)

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
    who = _numbered(annotations)
    n_named = 0 if who is None else int(who.max()) + 1
    if not n_taken and in_order:
        nowhere = np.zeros(0, dtype=np.int64)
        several = None if who is None else Responses(np.arange(len(row)), annotations.value, who, annotations.std)
        return AlignedAnnotations(
            row, action, annotations.value, annotations.weight, nowhere, 0, annotations.std, annotations.inclusion_prob,
            several, None, n_named,
        )  # fmt: skip
    is_taken = action == episodes.action[row]
    taken, kept = np.flatnonzero(is_taken), np.flatnonzero(~is_taken)
    of_taken = Responses(row[taken], annotations.value[taken], None if who is None else who[taken])
    weight = np.zeros(len(row)) if annotations.weight is None else annotations.weight
    std = np.ones(len(row)) if annotations.std is None else annotations.std
    # Ties are sorted as well, so that sums do not depend on the order in which rows came.
    order = (weight, std, annotations.value, *(() if who is None else (who,)), action, row)
    kept = kept[np.lexsort([x[kept] for x in order])]
    row, action = row[kept], action[kept]
    value, weight, std = annotations.value[kept], weight[kept], std[kept]
    first = np.flatnonzero(np.append(True, (row[1:] != row[:-1]) | (action[1:] != action[:-1]))[: len(row)])
    several = None
    if who is not None or len(first) < len(row):
        times = np.diff(np.append(first, len(row)))
        stated = None if annotations.std is None else std
        several = Responses(np.repeat(np.arange(len(first)), times), value, None if who is None else who[kept], stated)
    if len(first) < len(row):
        # Relative to the most precise answer of its group, so that squares of extreme stds stay in range.
        least = np.repeat(np.minimum.reduceat(std, first), np.diff(np.append(first, len(row))))
        precision = np.square(least / std)
        total = np.add.reduceat(precision, first)
        value, std = np.add.reduceat(value * precision, first) / total, least[first] / np.sqrt(total)
        weight = np.add.reduceat(weight, first)
    share = None if annotations.weight is None else weight
    scatter = None if annotations.std is None else std
    included = None if annotations.inclusion_prob is None else annotations.inclusion_prob[kept][first]
    merged = len(row) - len(first)
    return AlignedAnnotations(
        row[first], frozen(action[first]), value, share, taken, merged, scatter, included, several, of_taken, n_named
    )


def _numbered(annotations: Annotations) -> Integers | None:
    """Who gave each annotation, numbered in the order of their names; -1 where nobody is named."""
    if annotations.annotator is None or annotations.annotator.null_count == len(annotations):
        return None
    encoded = annotations.annotator.dictionary_encode()
    names = encoded.dictionary.to_pylist()
    rank = np.empty(len(names) + 1, dtype=np.int64)
    rank[sorted(range(len(names)), key=lambda place: names[place])] = np.arange(len(names))
    rank[-1] = -1
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    found: Integers = rank[codes]
    return found


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
