"""Intervals over episodes and annotators: answers of one person share what that person gets wrong."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from semiope.errors import OptionError, SchemaError
from semiope.estimate.registry import ESTIMATORS
from semiope.pipeline.refute import LeftOut, annotators_left_out
from semiope.pipeline.results import Results, one_of
from semiope.uncertainty.intervals import Interval, around, check_alpha, student


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
    if answers is None or answers.annotator is None or len(set(answers.annotator.to_pylist())) < 2:
        raise SchemaError("clustered: there are no two annotators. Name them in a column 'annotator'.")
    if ESTIMATORS[name].support != "augmented":
        raise OptionError(f"clustered: {name} does not weigh answers, or needs all of them. Take c-pdis.")
    found = annotators_left_out(results, name)
    variances = np.array([own.std_error, found.std_error]) ** 2
    degrees = np.array([len(own.values) - 1, len(found.values) - 1])
    total = float(variances.sum())
    freedom = total**2 / float(np.sum(variances**2 / degrees)) if total else float(degrees[0])
    error = float(np.sqrt(total))
    return Clustered(error, around(own.value, student(freedom, 1 - alpha / 2) * error), found)
