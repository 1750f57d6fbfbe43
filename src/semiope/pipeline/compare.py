"""`so.compare`: results of several policies beside each other and beside what is achieved today."""

from __future__ import annotations

from collections.abc import Mapping

from semiope._random import Seed
from semiope.errors import OptionError
from semiope.estimate.registry import ESTIMATORS, canonical
from semiope.pipeline.results import Results
from semiope.uncertainty.comparison import Comparison


def compare(
    results: Results | Mapping[str, Results], *, estimator: str | None = None, alpha: float = 0.05, seed: Seed = 0
) -> Comparison:
    """Compare policies by one estimator with each other and with today's, the mean return of the logs.

    Parameters
    ----------
    results
        What `so.evaluate` returns, for one policy or for several.
    estimator
        By which to compare. Default: c-pdis if all have it, else the first of a fixed order.
    alpha
        Error rate: of each decision "better than today's", and of the decisions that hold for all policies at once.
    seed
        Of the resamples that ranks and simultaneous intervals come from.
    """
    several = {results.policy: results} if isinstance(results, Results) else dict(results)
    if not several or not all(isinstance(one, Results) for one in several.values()):
        raise OptionError("compare: give what so.evaluate returns, for one policy or for several by name.")
    first = next(iter(several.values()))
    name = first.headline if estimator is None else canonical(estimator)
    if any(one.origin.episodes is not first.origin.episodes for one in several.values()):
        raise OptionError("compare: the results come from different episodes. Evaluate all policies in one call.")
    if ESTIMATORS[name].naive:
        raise OptionError(f"compare: {name} is biased by design, and nothing can be decided by it. Use another.")
    return Comparison({policy: one[name] for policy, one in several.items()}, first.origin.observed, alpha, seed)
