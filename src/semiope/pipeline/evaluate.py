"""`so.evaluate`: from logs, a policy and annotations to estimates."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, overload

from semiope._options import Progress, check_gamma
from semiope._version import __version__
from semiope.data.asked import about_today, read_asked
from semiope.data.episodes import Episodes, read_episodes
from semiope.diagnostics.notes import doubt_on_plan, note_on_plan, notes_on
from semiope.diagnostics.numbers import judge_models, judge_normalizers, judge_numbers
from semiope.diagnostics.support import judge_means, judge_propensities, judge_support
from semiope.errors import StatisticalWarning, quietly
from semiope.estimate.evidence import Evidence, check_means, gather
from semiope.estimate.passes import episode_values
from semiope.estimate.problem import Problem
from semiope.estimate.registry import ESTIMATORS, chosen
from semiope.estimate.result import Estimate
from semiope.estimate.weighing import Weighed
from semiope.pipeline.inputs import as_policy, read_answers, read_outcomes, read_policies
from semiope.pipeline.prepare import Prepared, prepare
from semiope.pipeline.results import Results, Run
from semiope.policies.cells import check_cell
from semiope.repair.steps import AUTO, for_usual_care, read_steps, turned

Names = Sequence[str] | str | None


@overload
def evaluate(
    episodes: Any, policy: Mapping[str, Any], *, annotations: Any = ..., behavior: Any = ..., cell: str = ...,
    estimators: Names = ..., weights: Any = ..., repair: Names = ..., model: Any = ..., features: Names = ...,
    means: str | None = ..., plan: Any = ..., gamma: float = ...,
    progress: Progress | None = ...,
) -> dict[str, Results]: ...  # fmt: skip
@overload
def evaluate(
    episodes: Any, policy: Any, *, annotations: Any = ..., behavior: Any = ..., cell: str = ...,
    estimators: Names = ..., weights: Any = ..., repair: Names = ..., model: Any = ..., features: Names = ...,
    means: str | None = ..., plan: Any = ..., gamma: float = ...,
    progress: Progress | None = ...,
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
    means: str | None = None,
    plan: Any = None,
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
        "equal", "factual", "annotated", "column", an array (n_states, n_actions, n_actions), a table of state, taken,
        action and weight, or a function from logbook to `SplitWeights`; "inverse-variance" or "optimal": by variances
        estimated on other folds of the data; "auto": chosen.
    repair
        Steps that make imperfect annotations usable, in their order: "pool", "convert", "impute", "model"; an option
        goes behind a colon, as in "convert:authors". "auto": chosen by what the answers look like, and what a plan
        asked about.
    model
        Of returns, for the direct and doubly robust estimators: "empirical" (counted from the logs), "linear",
        "forest" or "boosting" (fitted Q evaluation on features), a `FittedQ`, or Q-hat itself: an array (n_states,
        n_actions) or (n_steps, n_states, n_actions), a table of state, action, value (and step), or of episode, step,
        action, value. Given Q-hat for several policies is a dict by name.
    features
        Names of further columns of the episodes, for models by regression.
    means
        How split weights are averaged: "cell", if whether a step was annotated depends on its cell and the action taken
        alone; "prefix", if it may depend on the episode's past (then cells are of step and state). None: "prefix" with
        a plan, else "cell".
    plan
        The plan that chose the questions: a `Plan`, its sealed table, or the folder of its batches.
    gamma
        Discount factor.
    progress
        Called with the number of rows done and the number in all.
    """
    gamma = check_gamma(gamma)
    check_cell(cell)
    averaged = check_means(means, planned=plan is not None)
    asked = None if plan is None else read_asked(plan)
    steps = read_steps(repair)
    chosen(estimators, annotated=False)
    episodes = episodes if isinstance(episodes, Episodes) else read_episodes(episodes)
    several = isinstance(policy, Mapping)
    policies = read_policies(policy)
    answers = read_answers(annotations, policies)
    if steps == AUTO and asked is not None and about_today(asked):
        repair = for_usual_care(list(answers.values()))
        steps = read_steps(repair)
    names = chosen(estimators, annotated=any(answers.values()))
    if behavior is not None and not (isinstance(behavior, str) and behavior == "count"):
        behavior = as_policy(behavior, "behavior")
    outcomes = read_outcomes(model, features, policies)
    prepared = prepare(episodes, policies, answers, steps, weights, outcomes, gamma)
    evidences: dict[tuple[int, str], Evidence] = {}
    done = _Counter(progress, episodes.n_steps * len(policies) * len({ESTIMATORS[name].recipe for name in names}))
    results = {}
    for name, one in policies.items():
        own = prepared[name]
        key = id(own.annotations), own.weights if isinstance(own.weights, str) else ""
        if key not in evidences:
            evidences[key] = gather(
                episodes, own.annotations, policies, behavior=behavior, cell=cell, weights=own.weights, means=averaged
            )
        evidence = evidences[key]
        shared = answers[name] is not None and sum(other is answers[name] for other in answers.values()) > 1
        shared &= not turned(own.steps)
        notes = notes_on(name, evidence.logbook, names, weights=own.weights, asked=estimators, shared=shared)
        notes = [*own.notes, *notes, *note_on_plan(name, answers[name], asked, averaged)]
        problem = Problem.of(name, one, evidence, gamma, outcomes[name])
        settings, weighed = _settings(problem, own), Weighed(problem, own.estimated)
        options = {
            "behavior": behavior, "cell": cell, "estimators": names, "weights": weights, "repair": repair,
            "model": outcomes[name], "means": averaged, "gamma": gamma,
        }  # fmt: skip
        run = Run(episodes, one, answers[name], options, weighed)
        doubts = [*own.doubts, *doubt_on_plan(name, asked, own.steps)]
        results[name] = replace(_evaluate_one(weighed, names, settings, notes, doubts, done), run=run)
    return results if several else results["policy"]


def _settings(problem: Problem, own: Prepared) -> dict[str, Any]:
    """What a policy was evaluated with, for those who read the results."""
    evidence = problem.evidence
    episodes = evidence.logbook.episodes
    return {
        "semiope": __version__,
        "gamma": problem.gamma,
        "episodes": episodes.n_episodes,
        "steps": episodes.n_steps,
        "cell": evidence.cells.kind,
        "means": evidence.means,
        "behavior": "column behavior_prob" if evidence.behavior.origin == "logged" else evidence.behavior.origin,
        "weights": own.weights if isinstance(own.weights, str) else "table",
        "repair": own.steps,
        "model": problem.modelled.outcomes.told,
    }


def again(results: Results, **changes: Any) -> Results:
    """Evaluate the same policy again with something changed: episodes, policy, annotations, or an option.

    Warnings are kept in the results, and not shown.
    """
    run = results.origin
    given = {"episodes": run.episodes, "policy": run.policy, "annotations": run.annotations, **run.options, **changes}
    episodes, policy = given.pop("episodes"), given.pop("policy")
    with quietly():
        found: dict[str, Results] = evaluate(episodes, {results.policy: policy}, **given)
    return found[results.policy]


def _evaluate_one(
    weighed: Weighed,
    names: Sequence[str],
    settings: dict[str, Any],
    notes: list[str],
    doubts: list[str],
    done: _Counter,
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
        estimates[name] = Estimate(
            problem.name,
            name,
            values[estimator.recipe],
            estimator.self_normalized,
            problem.evidence.logbook.episodes.labels,
        )
    listening = (weighed.seen_by(ESTIMATORS[name]) for name in names if ESTIMATORS[name].support == "augmented")
    masses, messages = judge_support(next(listening, problem), names)
    messages = [*doubts, *messages, *judge_propensities(problem, names), *judge_means(problem, names)]
    messages += judge_models(problem, names)
    messages += judge_numbers(problem.name, estimates)
    counted = problem.evidence.behavior.origin == "counted"
    messages += judge_normalizers(problem.name, estimates, masses.get("augmented", 0.0), counted=counted)
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


class _Counter:
    """Counts rows over all passes for whoever wants to show progress."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def __call__(self, rows: int) -> None:
        self.done += rows
        if self.progress:
            self.progress(self.done, self.total)
