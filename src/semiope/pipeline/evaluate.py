"""`so.evaluate`: from logs, a policy and annotations to estimates."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, overload

import pyarrow as pa

from semiope._options import Progress, check_gamma
from semiope._version import __version__
from semiope.data.annotations import Annotations
from semiope.data.asked import about_today, read_asked
from semiope.data.batches import drawn_at_random, effective_inclusion
from semiope.data.episodes import Episodes, read_episodes
from semiope.diagnostics.notes import (
    doubt_on_plan,
    note_on_plan,
    note_on_predictions,
    note_on_propensities,
    note_on_rows,
    notes_on,
)
from semiope.diagnostics.numbers import judge_models, judge_normalizers, judge_numbers
from semiope.diagnostics.support import judge_means, judge_propensities, judge_support
from semiope.errors import StatisticalWarning, quietly
from semiope.estimate.evidence import Evidence, check_means, gather
from semiope.estimate.passes import episode_values
from semiope.estimate.problem import Problem
from semiope.estimate.registry import ESTIMATORS, Estimator, chosen
from semiope.estimate.result import EpisodeValues, Estimate, Groups, ModelValues
from semiope.estimate.weighing import Weighed
from semiope.pipeline.inputs import (
    read_answers,
    read_behavior,
    read_outcomes,
    read_policies,
    refuse_states,
    refuse_strangers,
    with_predictions,
)
from semiope.pipeline.prepare import Prepared, prepare
from semiope.pipeline.results import Results, Run
from semiope.pipeline.rivals import between_annotators, rivals_of
from semiope.policies.cells import check_cell
from semiope.repair.steps import converts, read_steps

Names = Sequence[str] | str | None


@overload
def evaluate(
    episodes: Any, policy: Mapping[str, Any], *, annotations: Any = ..., behavior: Any = ..., cell: str = ...,
    estimators: Names = ..., weights: Any = ..., repair: Names = ..., model: Any = ..., features: Names = ...,
    predictions: Any = ..., means: str | None = ..., plan: Any = ..., gamma: float = ...,
    progress: Progress | None = ...,
) -> dict[str, Results]: ...  # fmt: skip
@overload
def evaluate(
    episodes: Any, policy: Any, *, annotations: Any = ..., behavior: Any = ..., cell: str = ...,
    estimators: Names = ..., weights: Any = ..., repair: Names = ..., model: Any = ..., features: Names = ...,
    predictions: Any = ..., means: str | None = ..., plan: Any = ..., gamma: float = ...,
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
    model: Any = "auto",
    features: Names = None,
    predictions: Any = None,
    means: str | None = None,
    plan: Any = None,
    gamma: float = 1.0,
    progress: Progress | None = None,
) -> Results | dict[str, Results]:
    """Estimate the value of one policy, or of each in a dict, from logged episodes and counterfactual annotations.

    Parameters
    ----------
    episodes, policy, annotations
        As made by `read_episodes`, `read_policy`, `read_annotations`, or anything those can read. A policy is also an
        array (n_rows, n_actions), a function of features, a fitted classifier (see `FeaturePolicy`), or an ONNX file.
        Several policies are a dict by name; annotations may then be one as well, since answers hold for the policy they
        were given for.
    behavior
        The behavior policy: as for `policy`, or "count", or "logistic", "boosting" or a classifier that is not fitted
        yet (see `fit_behavior`). None: the column `behavior_prob` if there is one, else counted where there are states,
        and "logistic" where there are features alone.
    cell
        "state" or "step,state": over which cells the behaviour policy and mean split weights are counted.
    estimators
        Names or aliases. None: is, wis, pdis, pdwis, and with annotations also c-pdis, c-pdwis and pp-dr.
        `results.headline` names the one that speaks for the policy: pp-dr, if it is there.
    weights
        "equal", "factual", "annotated", "column", an array (n_states, n_actions, n_actions), a table of state, taken,
        action and weight, or a function from logbook to `SplitWeights`; "inverse-variance" or "optimal": by variances
        estimated on other folds of the data; "auto": chosen.
    repair
        Steps that make imperfect annotations usable, in their order: "pool", "convert", "impute"; an option goes
        behind a colon, as in "convert:authors". "auto": chosen by who annotated, and what a plan asked about. pp-dr and
        pp-pdis need none of them for annotations that are missing or noisy, or for annotators who differ.
    model
        Of returns, for the direct, doubly robust and prediction-powered estimators. "auto": counted from the logs where
        states recur, else by a regression on features or, without any, means by step and action. "empirical"
        (counted), "linear", "forest" or "boosting" (fitted Q evaluation on features), a `FittedQ`, or Q-hat itself: an
        array (n_states, n_actions) or (n_steps, n_states, n_actions), a table of state, action, value (and step), or of
        episode, step, action, value. Given Q-hat for several policies is a dict by name.
    features
        Names of columns of the episodes that make up the state, if they were read without (see `read_episodes`).
    predictions
        What another model, or a language model, predicts that an annotator would say: a table of episode, step, action,
        value for all or most actions that were not taken; for several policies, one for all or a dict by name. They
        count as far as annotations bear them out, and estimators that correct their model stay unbiased.
    means
        How split weights are averaged: "cell", if whether a step was annotated depends on its cell and the action taken
        alone; "prefix", if it may depend on the episode's past (then cells are of step and state). None: "prefix" with
        a plan, else "cell".
    plan
        The plan that chose the questions: a `Plan`, its sealed table, or the folder of its batches.
    gamma
        Discount factor.
    progress
        Called with the number of rows done and the number in all; before, for each policy that is a function.
    """
    gamma = check_gamma(gamma)
    check_cell(cell)
    asked = None if plan is None else read_asked(plan)
    at_random = asked is not None and drawn_at_random(asked)
    averaged = check_means(means, planned=plan is not None and not at_random)
    steps = read_steps(repair)
    chosen(estimators, annotated=False)
    episodes = episodes if isinstance(episodes, Episodes) else read_episodes(episodes, features=features)
    several = isinstance(policy, Mapping)
    episodes = episodes if features is None else episodes.with_features(features)
    refuse_states(episodes, cell, steps)
    policies = read_policies(policy, episodes, progress)
    answers = read_answers(annotations, policies)
    refuse_strangers(policies, episodes, answers)
    if asked is not None and at_random:
        answers = {name: _as_drawn(one, asked, name) for name, one in answers.items()}
    names = chosen(estimators, annotated=any(answers.values()))
    if estimators is None and episodes.n_episodes < 2:  # a model needs others
        names = [name for name in names if ESTIMATORS[name].recipe.critic is None]
    behavior = read_behavior(behavior, episodes, progress)
    outcomes = with_predictions(read_outcomes(model, features, policies, episodes), predictions, answers)
    about_behavior = asked is not None and about_today(asked)
    prepared = prepare(episodes, policies, answers, steps, weights, outcomes, gamma, about_behavior=about_behavior)
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
        shared &= not converts(own.steps)
        notes = notes_on(name, evidence.logbook, names, weights=own.weights, asked=estimators, shared=shared)
        problem = Problem.of(name, one, evidence, gamma, outcomes[name])
        notes = [
            *own.notes,
            *notes,
            *note_on_rows(answers[name]),
            *note_on_plan(name, answers[name], asked, averaged),
            *note_on_predictions(problem),
        ]
        notes += note_on_propensities(problem, names)
        settings, weighed = _settings(problem, own, names), Weighed(problem, own.estimated)
        options = {
            "behavior": behavior, "cell": cell, "estimators": names, "weights": weights, "repair": own.steps or None,
            "model": outcomes[name], "means": averaged, "gamma": gamma,
        }  # fmt: skip
        run = Run(episodes, one, answers[name], options, weighed)
        doubts = [*own.doubts, *doubt_on_plan(name, asked, own.steps)]
        found = replace(_evaluate_one(weighed, names, settings, notes, doubts, own.between, done), run=run)
        results[name] = _with_refits(found, own)
    return results if several else results["policy"]


def _as_drawn(annotations: Annotations | None, asked: Sequence[pa.Table], policy: str) -> Annotations | None:
    """Annotations with the inclusion probabilities of the draw; as they are if some are to other questions."""
    if annotations is None:
        return None
    probs = effective_inclusion(annotations, asked, policy)
    return annotations if probs is None else replace(annotations, inclusion_prob=probs)


def _with_refits(results: Results, own: Prepared) -> Results:
    """Let standard errors contain what was fitted: models on which estimates rest alone, repairs, estimated weights."""
    names = [
        name for name in results
        if ESTIMATORS[name].model_only
        or (own.fitted and ESTIMATORS[name].uses_annotations)
        or (own.estimated and ESTIMATORS[name].support == "augmented")
    ]  # fmt: skip
    if not names or results.origin.episodes.n_episodes < 3:
        return results

    def left_out() -> dict[str, Groups]:
        from semiope.pipeline.refit import groups_left_out

        return groups_left_out(results, names)

    def of(name: str) -> Groups:
        found: Groups = results.origin.once("groups", left_out)[name]
        return found

    refitted = {name: replace(results.estimates[name], refit=partial(of, name)) for name in names}
    return replace(results, estimates={**results.estimates, **refitted})


def _settings(problem: Problem, own: Prepared, names: Sequence[str]) -> dict[str, Any]:
    """What a policy was evaluated with, for those who read the results."""
    # Which model the data allow is found out only where one is used: that takes memory for every row and action.
    uses_model = any(ESTIMATORS[name].recipe.critic for name in names)
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
        "model": problem.modelled.told if uses_model else problem.modelled.outcomes.told,
    }


def again(results: Results, **changes: Any) -> Results:
    """Evaluate the same policy again with something changed: episodes, policy, annotations, or an option.

    Warnings are kept in the results, and not shown.
    """
    run = results.origin
    given = {"episodes": run.episodes, "policy": run.policy, "annotations": run.annotations, **run.options}
    fitted = run.weighed.problem.evidence.fitted
    if fitted is not None and "episodes" not in changes:  # it depends on nothing else
        given["behavior"] = fitted
    given |= changes
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
    between: float,
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
        seen = weighed.seen_by(estimator)
        own = Estimate(
            problem.name, name, values[estimator.recipe], estimator.self_normalized,
            problem.evidence.logbook.episodes.labels, model=_model_values(seen, estimator, values[estimator.recipe]),
        )  # fmt: skip
        if estimator.trusts and len(problem.annotations.row):
            own = replace(own, parts=between_annotators(seen, own, between))
        if estimator.shrinks:
            own = replace(own, find_rivals=partial(rivals_of, seen, estimator, own))
        estimates[name] = own
    listening = (weighed.seen_by(ESTIMATORS[name]) for name in names if ESTIMATORS[name].support == "augmented")
    masses, messages = judge_support(next(listening, problem), names)
    messages = [*doubts, *messages, *judge_propensities(problem, names), *judge_means(problem, names)]
    messages += judge_models(problem, names)
    messages += judge_numbers(problem.name, estimates)
    counted = problem.evidence.behavior.origin == "counted"
    way_out = "finer states" if counted else problem.evidence.another_behavior
    messages += judge_normalizers(
        problem.name, estimates, masses.get("augmented", 0.0), way_out=way_out,
        by_features="augmented" in masses and problem.evidence.by_features,
    )  # fmt: skip
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


def _model_values(problem: Problem, estimator: Estimator, values: EpisodeValues) -> ModelValues | None:
    """What the model alone says, for estimates that are drawn towards it; nothing without annotations."""
    if not estimator.shrinks or values.value_exponent or not len(problem.annotations.row):
        return None
    return ModelValues(problem.modelled.annotated_critic.start, problem.modelled.std)


class _Counter:
    """Counts rows over all passes for whoever wants to show progress."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def __call__(self, rows: int) -> None:
        self.done += rows
        if self.progress:
            self.progress(self.done, self.total)
