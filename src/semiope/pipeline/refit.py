"""Intervals that count everything anew: behaviour policy, weights and repairs in each resample of the episodes."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from semiope._arrays import Floats
from semiope._options import Progress, check_count
from semiope._random import Seed, generator
from semiope.data.repeat import repeated
from semiope.errors import OptionError, SchemaError, SupportError
from semiope.pipeline.evaluate import again
from semiope.pipeline.results import Results, one_of
from semiope.policies.policy import RowPolicy
from semiope.uncertainty.bootstrap import counts
from semiope.uncertainty.intervals import Interval, around, check_alpha, student

RESAMPLES = 200
FEWEST = 20


class Refitted(NamedTuple):
    """The estimate in each resample; their standard deviation; an interval around the estimate itself.

    The interval is Student's, with this standard deviation in place of the standard error that takes counts, weights
    and repairs as given; percentiles would need more resamples.
    """

    values: Floats
    std_error: float
    interval: Interval


def refitted(
    results: Results, estimator: str | None = None, *, alpha: float = 0.05, resamples: int = RESAMPLES, seed: Seed = 0,
    progress: Progress | None = None,
) -> Refitted:  # fmt: skip
    """Evaluate again on resamples of the episodes, with the answers about them.

    Where answers are repaired, or weights estimated, standard errors that take these as given are too small; this one
    is nearer, though it knows nothing of what people share, and copies of an episode may help each other's model. It
    costs as many evaluations as there are resamples.
    """
    check_alpha(alpha)
    generator(seed)
    if check_count(resamples, "resamples") < FEWEST:
        raise OptionError(f"resamples: {resamples} are too few for a standard deviation. Use at least {FEWEST}.")
    results = one_of(results, "refitted")
    name, own, _ = results.chosen(estimator)
    run = results.origin
    if isinstance(run.policy, RowPolicy) or isinstance(run.options["behavior"], RowPolicy):
        raise OptionError("refitted: a policy given row by row cannot be resampled. Give it over states.")
    n = run.episodes.n_episodes
    if n < 2:
        raise SchemaError("refitted: there is only one episode, and resampling needs at least two.")
    found = np.full(resamples, math.nan)
    for i, times in enumerate(counts(run.episodes.labels.numbers, seed=seed, resamples=resamples)):
        if times.any():
            episodes, annotations = repeated(run.episodes, run.annotations, times.astype(np.int64))
            with suppress(SupportError):  # counted below
                found[i] = again(results, episodes=episodes, annotations=annotations, estimators=name)[name].value
        if progress:
            progress(i + 1, resamples)
    kept = found[np.isfinite(found)]
    if len(kept) < resamples / 2:
        raise SupportError(f"refitted: {name} could be computed in {len(kept)} of {resamples} resamples only.")
    error = float(kept.std(ddof=1))
    return Refitted(found, error, around(own.value, student(n - 1, 1 - alpha / 2) * error))
