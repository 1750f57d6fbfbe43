"""Notes: what was done with the input that a user may not expect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from semiope.data.annotations import Annotations
from semiope.data.asked import about_today, given_twice, strangers
from semiope.data.logbook import Logbook
from semiope.errors import count
from semiope.estimate.problem import Problem
from semiope.estimate.registry import ALIASES, ESTIMATORS
from semiope.models.predictions import WithPredictions
from semiope.repair.steps import converts


def notes_on(
    policy: str,
    logbook: Logbook,
    names: Sequence[str],
    *,
    weights: Any,
    asked: Sequence[str] | str | None,
    shared: bool,
) -> list[str]:
    """Return a sentence for each thing worth knowing about how annotations and options were used.

    `names` are the estimators as they are registered, `asked` as the user called them; `shared` annotations serve
    several policies.
    """
    notes, annotations = [], logbook.annotations
    if logbook.episodes.actions.kind == "integers" and -1 in logbook.episodes.actions.words.to_pylist():
        notes.append("-1 was taken for an action like any other; leave actions empty where there was no decision.")
    if shared:
        notes.append(
            "the same annotations were used for several policies. They hold for the policy that the annotators had in "
            "mind; give each policy its own by name where they differ."
        )
    if len(annotations.of_action_taken):
        n = count(len(annotations.of_action_taken), "annotation")
        notes.append(f"{n} of the action that was taken: kept apart, since the logs already say what happened.")
    if annotations.n_pooled:
        n = count(annotations.n_pooled, "repeated annotation")
        notes.append(f"{n} pooled with others of the same step and action.")
    listening = [name for name in names if ESTIMATORS[name].plain]
    if listening and not len(annotations.row):
        plain = ", ".join(f"{name} is {ESTIMATORS[name].plain}" for name in listening)
        notes.append(f"policy {policy!r}: there are no counterfactual annotations, and without them {plain}.")
    if annotations.weight is not None and not (isinstance(weights, str) and weights == "column"):
        notes.append("the annotations have a column 'weight', which is used only with weights='column'.")
    words = asked.split(",") if isinstance(asked, str) else asked or ()
    aliases = [word.strip().lower() for word in words if word.strip().lower() in ALIASES]
    if aliases:
        notes.append("; ".join(f"{alias} is called {ALIASES[alias]} here" for alias in aliases) + ".")
    return notes


def doubt_on_plan(policy: str, asked: Sequence[pa.Table] | None, repair: Sequence[str]) -> list[str]:
    """Whether answers about today's policy are taken for answers about another."""
    if asked is None or not about_today(asked) or converts(repair):
        return []
    return [
        f"policy {policy!r}: the plan asked about the behavior policy, and nothing converts the annotations to this "
        "one: use repair='convert'."
    ]


def note_on_rows(annotations: Annotations | None) -> list[str]:
    """How many rows of the annotations had no value, or said once more what was said."""
    notes = []
    if annotations is not None and annotations.unanswered:
        n = count(annotations.unanswered, "row")
        notes.append(f"{n} of the annotations without a value (empty, or 'cannot say'): taken as not answered.")
    twice = 0 if annotations is None else given_twice(annotations)
    if twice:
        n = count(twice, "annotation")
        notes.append(
            f"{n} there once more, with the same annotator, question and value, and none with another value: was a "
            "file given twice? Annotators then look more certain than they are."
        )
    return notes


def note_on_plan(
    policy: str, annotations: Annotations | None, asked: Sequence[pa.Table] | None, means: str
) -> list[str]:
    """Whether the answers are to what a plan asked."""
    if asked is None or annotations is None:
        return []
    others = strangers(annotations, asked)
    chosen = f"; {others:,} are to questions that it did not ask, chosen by others" if others else ""
    return [f"policy {policy!r}: a plan chose what to ask{chosen}: split weights are averaged by {means}."]


def note_on_predictions(problem: Problem) -> list[str]:
    """How many questions that the policy needs have no prediction from outside."""
    modelled = problem.modelled
    if not isinstance(modelled.outcomes, WithPredictions):
        return []
    missing = modelled.outcomes.missing(modelled.study)
    if not missing:
        return []
    return [
        f"policy {problem.name!r}: predictions are missing for {count(missing, 'question')} that it needs; the model "
        "of logs and annotations stands in."
    ]


def note_on_propensities(problem: Problem, names: Sequence[str]) -> list[str]:
    """What stands for the probabilities of actions not taken, where only those of actions taken were logged."""
    concerned = [name for name in names if ESTIMATORS[name].support == "augmented"]
    if not concerned or problem.evidence.behavior.origin != "logged" or not problem.evidence.by_features:
        return []
    return [
        f"policy {problem.name!r}: behavior_prob holds probabilities of actions taken. For {', '.join(concerned)}, a "
        "logistic regression on the features divides the rest among the other actions. Give the whole behavior policy "
        "row by row if it is known."
    ]
