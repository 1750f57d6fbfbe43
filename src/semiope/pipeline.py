"""`so.evaluate`: from logs, a policy and annotations to estimates."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np

from semiope._version import __version__
from semiope.data.annotations import Annotations, read_annotations
from semiope.data.episodes import Episodes, read_episodes
from semiope.diagnose.support import unsupported_mass
from semiope.errors import OptionError, StatisticalWarning, count
from semiope.estimate.evidence import AnyPolicy, Evidence, Problem, gather
from semiope.estimate.passes import episode_values
from semiope.estimate.registry import ESTIMATORS, SUPPORT, canonical, chosen
from semiope.estimate.result import Estimate
from semiope.policies.policy import Policy, RowPolicy, read_policy

Names = Sequence[str] | str | None
Progress = Callable[[int, int], None]

# Below this share of decisions, a lack of support is noted in the diagnostics but not warned about.
NEGLIGIBLE_MASS = 1e-9


@dataclass(frozen=True, eq=False)
class Results(Mapping[str, Estimate]):
    """Estimates of one policy by estimator name (or alias), with diagnostics and warnings."""

    policy: str
    estimates: dict[str, Estimate]
    settings: dict[str, Any]
    diagnostics: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def __getitem__(self, name: str) -> Estimate:
        return self.estimates[canonical(name)]

    def __iter__(self) -> Iterator[str]:
        return iter(self.estimates)

    def __len__(self) -> int:
        return len(self.estimates)

    def rows(self, alpha: float = 0.05, ci: str = "t", seed: int | np.random.Generator = 0) -> list[dict[str, Any]]:
        """Return one row an estimator, as in the command line's JSON."""
        rows = []
        for name, estimate in self.estimates.items():
            low, high = estimate.interval(alpha, ci, seed=seed)
            numbers = {"value": estimate.value, "std_error": estimate.std_error, "ci_low": low, "ci_high": high}
            rows.append({"policy": self.policy, "estimator": name, **numbers, "ess": estimate.ess})
        return rows

    def __repr__(self) -> str:
        lines = [f"{'estimator':<22}{'value':>12}{'std error':>12}{'ess':>12}"]
        for name, estimate in self.estimates.items():
            lines.append(f"{name:<22}{estimate.value:>12.6g}{estimate.std_error:>12.4g}{estimate.ess:>12.1f}")
        return "\n".join(lines)


@overload
def evaluate(
    episodes: Any, policy: Mapping[str, AnyPolicy], *, annotations: Any = ..., behavior: Any = ..., cell: str = ...,
    estimators: Names = ..., weights: Any = ..., gamma: float = ..., progress: Progress | None = ...,
) -> dict[str, Results]: ...  # fmt: skip
@overload
def evaluate(
    episodes: Any, policy: Any, *, annotations: Any = ..., behavior: Any = ..., cell: str = ...,
    estimators: Names = ..., weights: Any = ..., gamma: float = ..., progress: Progress | None = ...,
) -> Results: ...  # fmt: skip


def evaluate(
    episodes: Any,
    policy: Any,
    *,
    annotations: Any = None,
    behavior: Any = None,
    cell: str = "state",
    estimators: Names = None,
    weights: Any = "equal",
    gamma: float = 1.0,
    progress: Progress | None = None,
) -> Results | dict[str, Results]:
    """Estimate the value of one policy, or of each in a dict, from logged episodes and counterfactual annotations.

    Parameters
    ----------
    episodes, policy, annotations
        As made by `read_episodes`, `read_policy`, `read_annotations`, or anything those can read.
    behavior
        The behaviour policy. None: the column `behavior_prob` if there is one, else counted; "count": counted.
    cell
        "state" or "step,state": over which cells the behaviour policy and mean split weights are counted.
    estimators
        Names or aliases. None: is, wis, pdis, pdwis, and with annotations also c-pdis and c-pdwis.
    weights
        "equal", "factual", "column", an array (n_states, n_actions, n_actions), or a table of state, taken, action
        and weight.
    gamma
        Discount factor.
    progress
        Called with the number of rows done and the number in all.
    """
    if isinstance(gamma, bool) or not 0 <= gamma <= 1:
        raise OptionError(f"gamma: {gamma} is not between 0 and 1.")
    episodes = episodes if isinstance(episodes, Episodes) else read_episodes(episodes)
    if annotations is not None and not isinstance(annotations, Annotations):
        annotations = read_annotations(annotations)
    several = isinstance(policy, Mapping) and not {"action", "prob"} <= set(policy)  # else the columns of one policy
    policies = {
        str(name): _as_policy(one, f"policy {name!r}")
        for name, one in (policy if several else {"policy": policy}).items()
    }
    if not policies:
        raise OptionError("policy: no policy given.")
    names = chosen(estimators, annotated=annotations is not None)
    if behavior is not None and not (isinstance(behavior, str) and behavior == "count"):
        behavior = _as_policy(behavior, "behavior")
    evidence = gather(episodes, annotations, list(policies.values()), behavior=behavior, cell=cell, weights=weights)
    settings = {"semiope": __version__, "gamma": gamma, "episodes": episodes.n_episodes, "steps": episodes.n_steps}
    settings |= {"cell": "state" if evidence.cells.step is None else "step,state"}
    settings |= {"behavior": _origin(behavior, episodes), "weights": weights if isinstance(weights, str) else "table"}
    recipes = {ESTIMATORS[name].recipe for name in names}
    told = _Told(progress, episodes.n_steps * len(policies) * len(recipes))
    results = {}
    for name, one in policies.items():
        results[name] = _evaluate_one(Problem.of(name, one, evidence, gamma), names, settings, told)
    return results if several else results["policy"]


def _evaluate_one(problem: Problem, names: Sequence[str], settings: dict[str, Any], told: _Told) -> Results:
    """Run each recipe once, and make of it every estimate that was asked for."""
    for requirement in dict.fromkeys(ESTIMATORS[name].requires for name in names):
        if requirement:
            requirement(problem)
    values = {}
    estimates = {}
    for name in names:
        estimator = ESTIMATORS[name]
        if estimator.recipe not in values:
            values[estimator.recipe] = episode_values(problem, estimator.recipe, told)
        estimates[name] = Estimate(problem.name, name, values[estimator.recipe], estimator.self_normalized)
    results = Results(problem.name, estimates, settings, _notes(problem.evidence))
    _judge_support(problem, results)
    _judge_numbers(results)
    for message in results.warnings:
        warnings.warn(StatisticalWarning(message), stacklevel=4)
    return results


def _judge_support(problem: Problem, results: Results) -> None:
    """Say how much of the policy lies where the data are silent."""
    for kind, table in SUPPORT.items():
        names = [name for name in results if ESTIMATORS[name].support == kind]
        if not names:
            continue
        mass, states = unsupported_mass(problem, problem.evidence.derived(table))
        results.diagnostics["unsupported_mass"][kind] = mass
        if mass > NEGLIGIBLE_MASS:
            worst = ", ".join(f"{state!r} ({share:.0%})" for state, share in states)
            results.warnings.append(
                f"policy {problem.name!r}: {mass:.1%} of its decisions at the logged steps are actions without support "
                f"for {', '.join(names)}: these estimates leave out what those actions bring. "
                f"Worst states: {worst}. Annotating those actions there would mend it."
            )


def _judge_numbers(results: Results) -> None:
    """Say where no number, or no standard error, can be given."""
    if results.settings["episodes"] == 1:
        results.warnings.append("there is only one episode: no standard error, no interval.")
    for name, estimate in results.items():
        if math.isnan(estimate.value):
            results.warnings.append(
                f"policy {results.policy!r}: {name} is undefined, since no episode has a ratio above 0: "
                "none does what the policy would do. Annotate more steps, or use an ordinary estimator."
            )
        elif math.isinf(estimate.value):
            results.warnings.append(
                f"policy {results.policy!r}: {name} exceeds the range of numbers: the ratios multiply to more than "
                "1e308. Use a self-normalised or counterfactual estimator."
            )


def _notes(evidence: Evidence) -> dict[str, Any]:
    annotations = evidence.annotations
    notes = []
    if len(annotations.taken):
        notes.append(
            f"{count(len(annotations.taken), 'annotation')} of the action that was taken: kept apart, since the logs "
            "already say what happened."
        )
    if annotations.n_pooled:
        notes.append(
            f"{count(annotations.n_pooled, 'repeated annotation')} pooled with others of the same step and action."
        )
    return {
        "annotations": len(annotations.row),
        "annotations_of_action_taken": len(annotations.taken),
        "annotations_pooled": annotations.n_pooled,
        "notes": notes,
        "unsupported_mass": {},
    }


def _as_policy(policy: Any, name: str) -> AnyPolicy:
    return policy if isinstance(policy, Policy | RowPolicy) else read_policy(policy, name=name)


def _origin(behavior: Any, episodes: Episodes) -> str:
    if isinstance(behavior, Policy | RowPolicy):
        return "given"
    return "column behavior_prob" if behavior is None and episodes.behavior_prob is not None else "counted"


class _Told:
    """Counts rows over all passes for whoever wants to show progress."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def __call__(self, rows: int) -> None:
        self.done += rows
        if self.progress:
            self.progress(self.done, self.total)
