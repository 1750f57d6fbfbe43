"""`so.compare`: results of several policies beside each other and beside what is achieved today."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from semiope._random import Seed
from semiope.errors import OptionError
from semiope.estimate.counting import counting_correction
from semiope.estimate.registry import ESTIMATORS, canonical, headline
from semiope.estimate.result import Estimate
from semiope.pipeline.refit import groups_left_out
from semiope.pipeline.results import Results, named
from semiope.uncertainty.comparison import Comparison


def _counted(results: Results, name: str) -> Estimate:
    """The estimate, knowing that its ratios were counted from the same episodes that it is compared on.

    Where it is not known how counts enter, everything is counted anew without each of a few groups of episodes.
    """
    _, estimate, problem = results.chosen(name)
    kind = ESTIMATORS[name]
    if any(estimate.per_episode[2:4]) or estimate.refit is not None:
        return estimate
    found = counting_correction(problem, kind)
    if found is not None or problem.evidence.behavior.origin != "counted" or kind.support in (None, "asked"):
        return replace(estimate, correction=found, mean_one=kind.normalized is not None)
    return replace(estimate, refit=lambda: groups_left_out(results, [name])[name])


def common_estimator(several: Mapping[str, Results], estimator: str | None = None) -> str:
    """The estimator named or, of those that all policies have, the first in the order of headlines."""
    if estimator is not None:
        return canonical(estimator)
    first = next(iter(several.values()))
    common = [name for name in first if all(name in one for one in several.values())]
    return headline(common or first)


def compare(
    results: Results | Mapping[str, Results], *, estimator: str | None = None, alpha: float = 0.05, seed: Seed = 0
) -> Comparison:
    """Compare policies by one estimator with each other and with today's, the mean return of the logs.

    Parameters
    ----------
    results
        What `so.evaluate` returns, for one policy or for several.
    estimator
        By which to compare. Default: the headline that all have, pp-dr first.
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
    unchecked = frozenset(
        policy for policy, one in several.items()
        if ESTIMATORS[name].shrinks and len(one.chosen(name).problem.annotations.row) and not one[name].rivals
    )  # fmt: skip
    return Comparison(estimates, first.origin.observed, alpha, seed, unsupported, unchecked)
