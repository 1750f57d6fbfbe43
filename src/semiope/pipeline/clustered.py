"""Intervals over episodes and annotators: answers of one person share what that person gets wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from semiope._arrays import Floats
from semiope.data.annotations import Annotations
from semiope.errors import OptionError, SchemaError, SupportError
from semiope.estimate.registry import ESTIMATORS
from semiope.pipeline.evaluate import again
from semiope.pipeline.results import Results, one_of
from semiope.uncertainty.intervals import Interval, around, check_alpha, student


class LeftOut(NamedTuple):
    """Estimates without each annotator, and the standard error that annotators add (jackknife)."""

    annotators: list[str]
    values: Floats
    std_error: float


class Clustered(NamedTuple):
    """Standard error and interval over episodes and annotators; `left_out` are the estimates without each of these."""

    std_error: float
    interval: Interval
    left_out: LeftOut


def clustered(results: Results, estimator: str | None = None, *, alpha: float = 0.05) -> Clustered:
    """Add to the variance over episodes that over annotators, by leaving out each of them in turn (jackknife).

    Annotators are taken for a sample of those who could have been asked. Degrees of freedom are Satterthwaite's: with
    few annotators, the interval is as wide as that makes it.
    """
    check_alpha(alpha)
    results = one_of(results, "clustered")
    name, own, _ = results.chosen(estimator)
    answers = results.origin.annotations
    if answers is None or answers.annotator is None or len(set(answers.annotator.to_pylist()) - {None}) < 2:
        raise SchemaError("clustered: there are no two annotators. Name them in a column 'annotator'.")
    if len(own.values) < 2:
        raise SchemaError("clustered: there is only one episode, and an interval needs at least two.")
    if not can_do_without(answers, name):
        raise OptionError(
            f"clustered: {name} does not weigh annotations, needs all of them, or has inclusion probabilities that "
            "hold for all annotators together. Take c-pdis."
        )
    found = annotators_left_out(results, name)
    variances = np.array([own.std_error, found.std_error]) ** 2
    degrees = np.array([len(own.values) - 1, len(found.values) - 1])
    total = float(variances.sum())
    freedom = total**2 / float(np.sum(variances**2 / degrees)) if total else float(degrees[0])
    error = float(np.sqrt(total))
    return Clustered(error, around(own.value, student(freedom, 1 - alpha / 2) * error), found)


def can_do_without(annotations: Annotations, estimator: str) -> bool:
    """Whether an estimator can be computed without one of the annotators.

    Closed forms need every annotation; inclusion probabilities that were written down are those of all annotators.
    """
    kind = ESTIMATORS[estimator]
    known = kind.completes and annotations.inclusion_prob is not None
    return kind.trusts and kind.support is not None and not known


def annotators_left_out(results: Results, estimator: str) -> LeftOut:
    """Evaluate again without each of the annotators in turn."""
    annotations = results.origin.annotations
    assert annotations is not None
    names, values = [], []
    for name, others in _without_each(annotations):
        try:
            values.append(again(results, annotations=others, estimators=estimator)[estimator].value)
            names.append(name)
        except SupportError:  # c*-estimators need all answers
            continue
    n = len(values)
    spread = float(np.sqrt((n - 1) / n * np.sum((np.array(values) - np.mean(values)) ** 2))) if n > 1 else np.nan
    return LeftOut(names, np.array(values), spread)


def _without_each(annotations: Annotations) -> Iterator[tuple[str, Annotations]]:
    who = annotations.annotator
    assert who is not None
    for name in dict.fromkeys(name for name in who.to_pylist() if name is not None):
        keep = np.flatnonzero([other != name for other in who.to_pylist()])
        yield str(name), annotations.some(keep)
