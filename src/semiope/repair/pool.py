"""Several annotators made one: what each is above or below the others taken off, each weighed by noise.

Offsets and noise are those of the annotation model (`models/annotation_model.py`), fitted to all episodes. Offsets sum
to 0: what all annotators share cannot be told from the truth here, and stays.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semiope._arrays import Floats, Integers, frozen
from semiope.data.annotations import Annotations
from semiope.errors import SchemaError
from semiope.models.study import precisions, relative_variance
from semiope.repair.case import Case

# Standard deviations are above 0, if only just.
SMALLEST = 1e-300


class Pooling(NamedTuple):
    """What was found about each annotator: offset, noise (a standard deviation), number of annotations, and shared."""

    names: list[str]
    offset: Floats
    noise: Floats
    annotations: Integers
    shared: Integers


def pool(annotations: Annotations, case: Case, option: str = "") -> tuple[Annotations, str]:
    """Make one annotation of all to a question, and say what was found out about each annotator."""
    if annotations.annotator is None:
        return annotations, "pool: nobody is named in a column 'annotator', and nothing was done."
    if annotations.annotator.null_count:
        raise SchemaError("repair: pool needs to know who gave each annotation; the column 'annotator' has gaps.")
    names = sorted(annotations.annotator.unique().to_pylist())
    known = pa.array(names, type=annotations.annotator.type)
    number = pc.index_in(annotations.annotator, value_set=known).to_numpy(zero_copy_only=False).astype(np.int64)
    question = _questions(annotations)
    corrected = case.corrected(annotations)
    case.between.append(corrected.between / math.sqrt(len(names)))
    scale = relative_variance(annotations.std, len(number))
    weight, n = precisions(corrected.noise[number], scale), int(question.max()) + 1
    total = np.bincount(question, weights=weight, minlength=n)
    value = np.bincount(question, weights=weight * (annotations.value - corrected.offsets[number]), minlength=n) / total
    first = np.full(n, -1)
    first[question[::-1]] = np.arange(len(question))[::-1]
    smallest = float((corrected.noise[number] * np.sqrt(scale * weight)).min())
    std = frozen(np.maximum(smallest / np.sqrt(total), SMALLEST))
    pooled = replace(annotations.some(first), value=frozen(value), std=std, weight=None, annotator=None, extra=None)
    times = np.bincount(question, minlength=n)[question] > 1
    found = Pooling(
        [str(name) for name in names], corrected.offsets, corrected.noise[: len(names)],
        np.bincount(number, minlength=len(names)), np.bincount(number, weights=times, minlength=len(names)).astype(int),
    )  # fmt: skip
    alone = [name for name, shared in zip(found.names, found.shared, strict=True) if not shared]
    if alone and len(found.names) > 1:
        case.doubts.append(
            f"pool: nobody else annotated what {', '.join(alone)} did: offsets come from the model's residuals alone. "
            "Let annotators share some questions."
        )
    return pooled, _told(found)


def _questions(annotations: Annotations) -> Integers:
    """The question of each annotation, numbered."""
    keys = np.stack([annotations.episode.astype(np.int64), annotations.step, annotations.action])
    return np.unique(keys, axis=1, return_inverse=True)[1].ravel()


def _told(found: Pooling) -> str:
    each = ", ".join(
        f"{name} offset {offset:+.2g} noise {noise:.2g} ({n:,} annotations, {shared:,} shared)"
        for name, offset, noise, n, shared in zip(*found, strict=True)
    )
    return f"pool: {each}."
