"""`so.compare`: results of several policies beside each other and beside what is achieved today."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from semiope._random import Seed
from semiope.errors import OptionError
from semiope.estimate.counting import counting_correction
from semiope.estimate.registry import ESTIMATORS, canonical
from semiope.estimate.result import Estimate
from semiope.pipeline.results import HEADLINES, Results, named
from semiope.uncertainty.comparison import Comparison


def _counted(results: Results, name: str) -> Estimate:
    """The estimate, knowing that its ratios were counted from the same episodes that it is compared on."""
    _, estimate, problem = results.chosen(name)
    if any(estimate.per_episode[2:4]):
        return estimate
    return replace(estimate, correction=counting_correction(problem, ESTIMATORS[name].recipe))


def common_estimator(several: Mapping[str, Results], estimator: str | None = None) -> str:
    """The estimator named or, of those that all policies have, the first in the order of headlines."""
    if estimator is not None:
        return canonical(estimator)
    common = (name for name in HEADLINES if all(name in one for one in several.values()))
    return next(common, next(iter(several.values())).headline)


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
    several = named(results, "compare")
    first = next(iter(several.values()))
    if any(one.origin.episodes is not first.origin.episodes for one in several.values()):
        raise OptionError("compare: the results come from different episodes. Evaluate all policies in one call.")
    if len({one.origin.weighed.problem.gamma for one in several.values()}) > 1:
        raise OptionError("compare: the results have different discount factors. Evaluate all policies with one gamma.")
    name = common_estimator(several, estimator)
    if ESTIMATORS[name].naive:
        raise OptionError(f"compare: {name} is biased by design, and nothing can be decided by it. Use another.")
    estimates = {policy: _counted(one, name) for policy, one in several.items()}
    unsupported = {policy: one.unsupported(name) for policy, one in several.items()}
    return Comparison(estimates, first.origin.observed, alpha, seed, unsupported)
