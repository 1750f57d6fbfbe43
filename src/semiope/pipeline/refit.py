"""Standard errors that contain what was fitted: everything evaluated again without a part of the episodes, or anew."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from semiope._arrays import Floats, Integers
from semiope._options import Progress, check_count
from semiope._random import Seed, generator
from semiope.data.repeat import Resample
from semiope.errors import OptionError, SchemaError, SupportError
from semiope.estimate.result import Groups
from semiope.models.folds import deal
from semiope.pipeline.evaluate import again
from semiope.pipeline.results import Results, Run, one_of
from semiope.uncertainty.bootstrap import counts
from semiope.uncertainty.intervals import Interval, around, check_alpha, student

RESAMPLES = 200
FEWEST = 20
# Of the episodes, each left out in turn: enough for a standard error that is known to some 15%.
GROUPS = 20


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
    """Evaluate again on resamples of the episodes, with the annotations of them (Poisson bootstrap).

    Intervals of estimates contain what was fitted already, by theory or by leaving out groups of episodes; this is
    another way to the same, and costs as many evaluations as there are resamples.
    """
    check_alpha(alpha)
    generator(seed)
    if check_count(resamples, "resamples") < FEWEST:
        raise OptionError(f"resamples: {resamples} are too few for a standard deviation. Use at least {FEWEST}.")
    results = one_of(results, "refitted")
    name, own, _ = results.chosen(estimator)
    run = results.origin
    n = run.episodes.n_episodes
    if n < 2:
        raise SchemaError("refitted: there is only one episode, and resampling needs at least two.")
    found = np.full(resamples, math.nan)
    for i, times in enumerate(counts(run.episodes.labels.numbers, seed=seed, resamples=resamples)):
        if times.any():
            with suppress(SupportError):  # counted below
                found[i] = evaluated_on(results, times.astype(np.int64), [name])[0]
        if progress:
            progress(i + 1, resamples)
    kept = found[np.isfinite(found)]
    if len(kept) < resamples / 2:
        raise SupportError(f"refitted: {name} could be computed in {len(kept)} of {resamples} resamples only.")
    error = float(kept.std(ddof=1))
    return Refitted(found, error, around(own.value, student(n - 1, 1 - alpha / 2) * error))


def groups_left_out(results: Results, names: Sequence[str]) -> dict[str, Groups]:
    """Evaluate again without each of a few groups of episodes: what these estimators give, everything fitted anew."""
    run = results.origin
    n = run.episodes.n_episodes
    group = deal(n, min(GROUPS, n))
    found = np.array([evaluated_on(results, (group != left).astype(np.int64), names) for left in np.unique(group)])
    return {name: Groups(found[:, k], group) for k, name in enumerate(names)}


def evaluated_on(results: Results, times: Integers, names: Sequence[str]) -> list[float]:
    """What estimators give, before they are drawn towards a model, if each episode counts so often."""
    run = results.origin
    by = Resample(run.episodes, times)
    options = {key: _resampled(value, by) for key, value in _by_episode(run).items()}
    found = again(
        results, episodes=by.episodes, annotations=by.annotations(run.annotations), estimators=list(names), **options
    )
    return [found[name].unshrunk for name in names]


def _by_episode(run: Run) -> dict[str, Any]:
    """What of a run may be given episode by episode."""
    return {"policy": run.policy, "behavior": run.options["behavior"], "model": run.options["model"]}


def _resampled(given: Any, by: Resample) -> Any:
    return given.resampled(by) if hasattr(given, "resampled") else given
