"""`so.evaluate`: from logs, a policy and annotations to estimates."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np

from semiope._options import Progress, check_gamma
from semiope._version import __version__
from semiope.data.annotations import Annotations
from semiope.data.episodes import Episodes, read_episodes
from semiope.diagnose.notes import notes_on
from semiope.diagnose.numbers import judge_normalizers, judge_numbers
from semiope.diagnose.support import judge_propensities, judge_support
from semiope.errors import NotEstimatedError, OptionError, SchemaError, StatisticalWarning, nearest
from semiope.estimate.evidence import Evidence, gather
from semiope.estimate.outcomes import read_model
from semiope.estimate.passes import episode_values
from semiope.estimate.problem import Problem
from semiope.estimate.registry import ALIASES, ESTIMATORS, chosen
from semiope.estimate.result import Estimate
from semiope.estimate.weighing import Weighed
from semiope.models.study import Outcomes
from semiope.policies.cells import check_cell
from semiope.policies.policy import AnyPolicy, Policy, RowPolicy, read_policy
from semiope.repair.case import Case, Records
from semiope.repair.steps import read_steps, repaired
from semiope.weights.split import ESTIMATED

Names = Sequence[str] | str | None


@dataclass(frozen=True, eq=False)
class Results(Mapping[str, Estimate]):
    """Estimates of one policy by estimator name (or alias), with diagnostics and warnings."""

    policy: str
    estimates: dict[str, Estimate]
    settings: dict[str, Any]
    diagnostics: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def __getitem__(self, name: str) -> Estimate:
        plain = ALIASES.get(name, name)
        if plain not in self.estimates:
            raise NotEstimatedError(
                f"no estimate {name!r} here, only {', '.join(self.estimates)}."
                f"{nearest(str(name), self.estimates)} Ask for others with estimators=[...]."
            )
        return self.estimates[plain]

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
        lines += [f"note: {note}" for note in self.diagnostics.get("notes", [])]
        lines += [f"warning: {warning}" for warning in self.warnings]
        return "\n".join(lines)


@overload
def evaluate(
    episodes: Any, policy: Mapping[str, Any], *, annotations: Any = ..., behavior: Any = ..., cell: str = ...,
    estimators: Names = ..., weights: Any = ..., repair: Names = ..., model: Any = ..., features: Names = ...,
    gamma: float = ..., progress: Progress | None = ...,
) -> dict[str, Results]: ...  # fmt: skip
@overload
def evaluate(
    episodes: Any, policy: Any, *, annotations: Any = ..., behavior: Any = ..., cell: str = ...,
    estimators: Names = ..., weights: Any = ..., repair: Names = ..., model: Any = ..., features: Names = ...,
    gamma: float = ..., progress: Progress | None = ...,
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
    repair: Names = None,
    model: Any = "empirical",
    features: Names = None,
    gamma: float = 1.0,
    progress: Progress | None = None,
) -> Results | dict[str, Results]:
    """Estimate the value of one policy, or of each in a dict, from logged episodes and counterfactual annotations.

    Parameters
    ----------
    episodes, policy, annotations
        As made by `read_episodes`, `read_policy`, `read_annotations`, or anything those can read. Several policies are
        a dict by name; annotations may then be one as well, since answers hold for the policy they were given for.
    behavior
        The behaviour policy. None: the column `behavior_prob` if there is one, else counted; "count": counted.
    cell
        "state" or "step,state": over which cells the behaviour policy and mean split weights are counted.
    estimators
        Names or aliases. None: is, wis, pdis, pdwis, and with annotations also c-pdis and c-pdwis.
    weights
        "equal", "factual", "column", an array (n_states, n_actions, n_actions), or a table of state, taken, action
        and weight.
    repair
        Steps that make imperfect annotations usable, in their order: "pool", "convert", "impute", "model"; an option
        goes behind a colon, as in "convert:authors".
    model
        Of returns, for the direct and doubly robust estimators: "empirical" (counted from the logs), "linear",
        "forest" or "boosting" (fitted Q evaluation on features), a `FittedQ`, or Q-hat itself: an array (n_states,
        n_actions) or (n_steps, n_states, n_actions), a table of state, action, value (and step), or of episode, step,
        action, value. Given Q-hat for several policies is a dict by name.
    features
        Names of further columns of the episodes, for models by regression.
    gamma
        Discount factor.
    progress
        Called with the number of rows done and the number in all.
    """
    gamma = check_gamma(gamma)
    check_cell(cell)
    steps = read_steps(repair)
    chosen(estimators, annotated=False)
    episodes = episodes if isinstance(episodes, Episodes) else read_episodes(episodes)
    several = isinstance(policy, Mapping)
    if several and {"action", "prob"} <= set(policy):
        raise OptionError(
            "policy: a dict holds several policies by name, and this one looks like the columns of one policy. "
            "Make a policy of it with so.read_policy."
        )
    policies = {
        str(name): _as_policy(one, f"policy {name!r}")
        for name, one in (policy if several else {"policy": policy}).items()
    }
    if not policies:
        raise OptionError("policy: no policy given.")
    answers = _answers(annotations, policies)
    names = chosen(estimators, annotated=any(answers.values()))
    if behavior is not None and not (isinstance(behavior, str) and behavior == "count"):
        behavior = _as_policy(behavior, "behavior")
    mended, mending = _repaired(answers, policies, episodes, steps, gamma)
    outcomes = _outcomes(model, features, policies)
    prepared: dict[int, Evidence] = {}
    done = _Counter(progress, episodes.n_steps * len(policies) * len({ESTIMATORS[name].recipe for name in names}))
    results = {}
    for name, one in policies.items():
        own = mended[name]
        if id(own) not in prepared:
            prepared[id(own)] = gather(episodes, own, policies, behavior=behavior, cell=cell, weights=weights)
        evidence = prepared[id(own)]
        shared = own is not None and sum(other is own for other in mended.values()) > 1
        notes = notes_on(name, evidence.logbook, names, weights=weights, asked=estimators, shared=shared)
        notes = [*mending.get(name, []), *notes]
        settings = {
            "semiope": __version__,
            "gamma": gamma,
            "episodes": episodes.n_episodes,
            "steps": episodes.n_steps,
            "cell": evidence.cells.kind,
            "behavior": _origin(behavior, episodes),
            "weights": weights if isinstance(weights, str) else "table",
            "repair": [f"{step}:{option}" if option else step for step, option in steps],
        }
        problem = Problem.of(name, one, evidence, gamma, outcomes[name])
        kind = weights if isinstance(weights, str) and weights in ESTIMATED else None
        results[name] = _evaluate_one(Weighed(problem, kind), names, settings, notes, done)
    return results if several else results["policy"]


def _evaluate_one(
    weighed: Weighed, names: Sequence[str], settings: dict[str, Any], notes: list[str], done: _Counter
) -> Results:
    """Run each recipe once, and make of it every estimate that was asked for."""
    problem = weighed.problem
    for requirement in dict.fromkeys(ESTIMATORS[name].requires for name in names):
        if requirement:
            requirement(problem)
    values = {}
    estimates = {}
    for name in names:
        estimator = ESTIMATORS[name]
        if estimator.recipe not in values:
            values[estimator.recipe] = episode_values(weighed.seen_by(estimator), estimator.recipe, done)
        estimates[name] = Estimate(problem.name, name, values[estimator.recipe], estimator.self_normalized)
    masses, messages = judge_support(problem, names)
    messages += judge_propensities(problem, names)
    messages += judge_numbers(problem.name, estimates)
    messages += judge_normalizers(problem.name, estimates, masses.get("augmented", 0.0))
    for message in messages:
        warnings.warn(StatisticalWarning(message), stacklevel=3)
    annotations = problem.annotations
    diagnostics = {
        "annotations": len(annotations.row),
        "annotations_of_action_taken": len(annotations.of_action_taken),
        "annotations_pooled": annotations.n_pooled,
        "notes": notes,
        "unsupported_mass": masses,
    }
    return Results(problem.name, estimates, settings, diagnostics, messages)


def _answers(annotations: Any, policies: Mapping[str, AnyPolicy]) -> dict[str, Annotations | None]:
    """Return the annotations for each policy: the same for all, or by name."""
    if isinstance(annotations, Mapping) and not {"action", "value"} <= set(annotations):
        for name in annotations:
            if name not in policies:
                raise OptionError(f"annotations: there is no policy called {name!r}.{nearest(str(name), policies)}")
        return {name: _as_annotations(annotations.get(name), f"annotations for {name!r}") for name in policies}
    return dict.fromkeys(policies, _as_annotations(annotations, "annotations"))


def _outcomes(model: Any, features: Names, policies: Mapping[str, AnyPolicy]) -> dict[str, Outcomes]:
    """The model of returns for each policy: the same kind for all, or by name."""
    if not isinstance(model, Mapping) or {"action", "value"} <= set(model):
        return dict.fromkeys(policies, read_model(model, features))
    for name in (*policies, *model):
        if name not in policies or name not in model:
            which = "policy" if name not in policies else "model"
            known = policies if name not in policies else model
            raise OptionError(f"model: there is no {which} called {name!r}.{nearest(str(name), known)}")
    return {name: read_model(model[name], features) for name in policies}


def _repaired(
    answers: dict[str, Annotations | None],
    policies: Mapping[str, AnyPolicy],
    episodes: Episodes,
    steps: list[tuple[str, str]],
    gamma: float,
) -> tuple[dict[str, Annotations | None], dict[str, list[str]]]:
    """The annotations of each policy after all steps, and what was done to them."""
    if not steps:
        return answers, {}
    if not any(answers.values()):
        raise OptionError("repair: there are no annotations to repair.")
    known = [policy.actions for policy in policies.values()]
    known += [one.actions for one in answers.values() if one is not None]
    if not all(episodes.actions.comparable(words) for words in known):
        raise SchemaError("repair: column 'action' holds integers here and strings there. Use the same labels.")
    records = Records(episodes, tuple(label for words in known for label in words.words.to_pylist()), gamma)
    mended, notes = dict(answers), {}
    for name, own in answers.items():
        if own is not None:
            mended[name], notes[name] = repaired(own, Case(records, policies[name], name), steps)
    return mended, notes


def _as_annotations(annotations: Any, name: str) -> Annotations | None:
    if annotations is None or isinstance(annotations, Annotations):
        return annotations
    return Annotations.from_arrow(annotations, name=name)


def _as_policy(policy: Any, name: str) -> AnyPolicy:
    return policy if isinstance(policy, Policy | RowPolicy) else read_policy(policy, name=name)


def _origin(behavior: Any, episodes: Episodes) -> str:
    if isinstance(behavior, Policy | RowPolicy):
        return "given"
    return "column behavior_prob" if behavior is None and episodes.behavior_prob is not None else "counted"


class _Counter:
    """Counts rows over all passes for whoever wants to show progress."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def __call__(self, rows: int) -> None:
        self.done += rows
        if self.progress:
            self.progress(self.done, self.total)
