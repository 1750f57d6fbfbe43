"""What `so.evaluate` may be given, read into what it works on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from semiope._files import exists
from semiope._options import Progress
from semiope.data.annotations import Annotations
from semiope.data.batches import POLICY
from semiope.data.episodes import Episodes
from semiope.errors import SHOWN, OptionError, nearest
from semiope.models.behavior_model import CLASSIFIERS, FittedBehavior, is_unfitted, read_classifier
from semiope.models.given import GivenReturns
from semiope.models.outcomes import REGRESSORS, read_model
from semiope.models.predictions import WithPredictions
from semiope.models.study import Outcomes
from semiope.policies.array import ArrayPolicy, FeaturePolicy, is_classifier
from semiope.policies.behavior import refuse_counting
from semiope.policies.cells import check_cell
from semiope.policies.onnx import is_model_file, read_onnx
from semiope.policies.policy import AnyPolicy, Policy, RowPolicy, read_policy


def read_policies(policy: Any, episodes: Episodes, progress: Progress | None = None) -> dict[str, AnyPolicy]:
    """Policies by name; one alone is called 'policy'. Functions of features are asked in the rows of these episodes."""
    several = isinstance(policy, Mapping)
    if several and {"action", "prob"} <= set(policy):
        raise OptionError(
            "policy: a dict holds several policies by name, and this one looks like the columns of one policy. "
            "Make a policy of it with so.read_policy."
        )
    given = policy if several else {"policy": policy}
    odd = next((str(name) for name in given if not str(name).isprintable()), None)
    if odd is not None:
        raise OptionError(f"policy: the name {odd!r} holds characters that cannot be shown. Give it another one.")
    policies = {str(name): as_policy(one, f"policy {name!r}", episodes, progress) for name, one in given.items()}
    if not policies:
        raise OptionError("policy: no policy given.")
    if len(policies) < len(given):
        raise OptionError("policy: two policies have the same name as text. Give each a name of its own.")
    return policies


def refuse_strangers(
    policies: Mapping[str, AnyPolicy], episodes: Episodes, answers: Mapping[str, Annotations | None]
) -> None:
    """Fail where a policy knows no action of logs or annotations, but knows such as look like theirs."""
    for name, policy in policies.items():
        given = answers[name]
        known = [episodes.actions, *([] if given is None else [given.actions])]
        words = [str(word) for vocabulary in known for word in vocabulary.words.to_pylist()]
        own = [str(word) for word in policy.actions.words.to_pylist()]
        guess = next((f"{word!r}.{found}" for word in own if (found := nearest(word, words))), None)
        if guess is not None and not set(own) & set(words):
            raise OptionError(
                f"policy {name!r}: no action of it occurs in logs or annotations. First: {guess} Known: "
                f"{', '.join(map(repr, words[:SHOWN]))}."
            )


def read_answers(annotations: Any, policies: Mapping[str, AnyPolicy]) -> dict[str, Annotations | None]:
    """Return the annotations for each policy: the same for all, or by name."""
    if isinstance(annotations, Mapping) and not {"action", "value"} <= set(annotations):
        for name in annotations:
            if name not in policies:
                raise OptionError(f"annotations: there is no policy called {name!r}.{nearest(str(name), policies)}")
        return {name: _as_annotations(annotations.get(name), f"annotations for {name!r}") for name in policies}
    given = _as_annotations(annotations, "annotations")
    return _by_policy(given, policies) or dict.fromkeys(policies, given)


def _by_policy(annotations: Annotations | None, policies: Mapping[str, AnyPolicy]) -> dict[str, Annotations | None]:
    """Annotations by the policy that a column `policy` names; nothing where there is one policy, or no such column."""
    if annotations is None or annotations.extra is None or len(policies) < 2:
        return {}
    if POLICY not in annotations.extra.column_names:
        return {}
    about = [str(name) for name in annotations.extra.column(POLICY).to_pylist()]
    unknown = sorted(set(about) - set(policies))
    if unknown:
        raise OptionError(
            f"annotations: column 'policy' names {unknown[0]!r}, and there is no such policy."
            f"{nearest(unknown[0], policies)} Known: {', '.join(policies)}."
        )
    places = {name: np.flatnonzero([one == name for one in about]) for name in policies}
    return {name: annotations.some(own) if len(own) else None for name, own in places.items()}


def read_outcomes(
    model: Any, features: Sequence[str] | str | None, policies: Mapping[str, AnyPolicy], episodes: Episodes
) -> dict[str, Outcomes]:
    """The model of returns for each policy: the same kind for all, or by name.

    A regression by name takes the features of the episodes, which make up the state whatever the model.
    """
    if features is None and episodes.features is not None:
        features = episodes.features.columns

    def read(one: Any) -> Outcomes:
        return read_model(one, features if isinstance(one, str) and one in REGRESSORS else None)

    if not isinstance(model, Mapping) or "action" in model:
        return dict.fromkeys(policies, read(model))
    for name in (*policies, *model):
        if name not in policies or name not in model:
            which = "policy" if name not in policies else "model"
            known = policies if name not in policies else model
            raise OptionError(f"model: there is no {which} called {name!r}.{nearest(str(name), known)}")
    return {name: read(model[name]) for name in policies}


def with_predictions(
    outcomes: Mapping[str, Outcomes], predictions: Any, answers: Mapping[str, Annotations | None]
) -> dict[str, Outcomes]:
    """The models, listening to predictions from outside: the same for all policies, or by name."""
    if predictions is None:
        return dict(outcomes)
    if not any(answers.values()):
        raise OptionError(
            "predictions: without annotations, nothing tells how good they are. Give annotations as well."
        )
    by_name = isinstance(predictions, Mapping) and not {"action", "value"} <= set(predictions)
    found = dict(outcomes)
    given = predictions if by_name else dict.fromkeys(outcomes, predictions)
    read: dict[int, GivenReturns] = {}
    for name, one in given.items():
        if name not in outcomes:
            raise OptionError(f"predictions: there is no policy called {name!r}.{nearest(str(name), outcomes)}")
        if id(one) not in read:
            read[id(one)] = GivenReturns.from_arrow(one, name="predictions", by_row=True)
        found[name] = WithPredictions(outcomes[name], read[id(one)])
    return found


def _as_annotations(annotations: Any, name: str) -> Annotations | None:
    if annotations is None or isinstance(annotations, Annotations):
        return annotations
    return Annotations.from_arrow(annotations, name=name)


def as_policy(policy: Any, name: str, episodes: Episodes, progress: Progress | None = None) -> AnyPolicy:
    """A policy of any form: as it is, an array by row, a function of features, a classifier, or read from a file."""
    if isinstance(policy, Policy | RowPolicy | ArrayPolicy):
        return policy
    if isinstance(policy, FittedBehavior):
        return policy.policy
    if isinstance(policy, FeaturePolicy):
        return policy.at(episodes, name=name, progress=progress)
    if isinstance(policy, np.ndarray | list | tuple):
        return ArrayPolicy.from_array(policy, episodes, name=name)
    if is_classifier(policy) or (callable(policy) and not hasattr(policy, "__arrow_c_stream__")):
        return FeaturePolicy(policy).at(episodes, name=name, progress=progress)
    if hasattr(policy, "predict") and not hasattr(policy, "__arrow_c_stream__"):
        raise OptionError(f"{name}: a {type(policy).__name__} gives no probabilities (predict_proba). Use another one.")
    if isinstance(policy, str | PathLike) and is_model_file(policy):
        return read_onnx(policy, episodes, name).at(episodes, name=name, progress=progress)
    return read_policy(policy, name=name)


def read_behavior(behavior: Any, episodes: Episodes, progress: Progress | None = None) -> AnyPolicy | Any:
    """The behavior policy: a policy, None, "count", or a classifier: to be fitted, or fitted to these episodes."""
    if isinstance(behavior, FittedBehavior) and behavior.episodes is episodes:
        return behavior
    if isinstance(behavior, str) and behavior == "count":
        refuse_counting(episodes)
    if behavior is None or (isinstance(behavior, str) and behavior in ("count", *CLASSIFIERS)):
        return behavior
    if is_unfitted(behavior) or isinstance(behavior, type):
        return read_classifier(behavior)
    looks_like_a_file = isinstance(behavior, str) and ("." in behavior or "/" in behavior)
    if isinstance(behavior, str) and not looks_like_a_file and not exists(Path(behavior)):
        return read_classifier(behavior)
    return as_policy(behavior, "behavior", episodes, progress)


def refuse_states(episodes: Episodes, cell: str, steps: Sequence[tuple[str, str]]) -> None:
    """Fail where something needs states, and the episodes have features alone."""
    if episodes.has_states:
        return
    if check_cell(cell) != "state":
        raise OptionError(
            f"cell: {cell!r} groups rows by step and state, and the episodes have features and no states. Leave it out."
        )
    counts = [step for step, option in steps if step == "impute" or (step, option) == ("convert", "authors")]
    if counts:
        raise OptionError(
            f"repair: {counts[0]} counts over states, and the episodes have features and no states. Leave it out: "
            "pp-dr completes annotations by itself, and 'convert' without an option works with features."
        )
