"""What the state was, which models were fitted, and how well they predict: a section of the report."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from semiope._arrays import Floats
from semiope.data.episodes import Episodes
from semiope.data.features import Features
from semiope.data.labels import ABSENT
from semiope.errors import count
from semiope.estimate.evidence import Evidence
from semiope.estimate.problem import Problem
from semiope.estimate.registry import ESTIMATORS
from semiope.models.behavior_model import FittedBehavior
from semiope.models.study import CrossFitted
from semiope.pipeline.results import Results

# Names and words listed of each kind.
LISTED = 12
CLASSIFIERS = {"logistic": "a logistic regression", "boosting": "gradient boosting"}


def state_and_models(results: Results) -> str:
    """The state in words, and the behavior policy and models with what tells how good they are."""
    problem = results.origin.weighed.problem
    lines = [("State", state(problem.evidence.logbook.episodes)), ("Behavior policy", behavior(problem.evidence))]
    users = [name for name in results if ESTIMATORS[name].recipe.critic is not None]
    if users:
        lines += of_returns(results, users)
    if any(ESTIMATORS[name].completes for name in results) and len(problem.annotations.row):
        lines.append(("Inclusion probabilities", _inclusion(problem)))
    listed = "".join(f"<dt>{escape(head)}</dt><dd>{escape(words)}</dd>" for head, words in lines)
    return f"<dl>{listed}</dl>"


def state(episodes: Episodes) -> str:
    """What the state was: features by name, categories and gaps, or how many states there are."""
    features = episodes.features
    told = [f"{count(len(episodes.states), 'state')} that recur."] if episodes.has_states else []
    if features is None:
        return told[0]
    decided = int(np.count_nonzero(episodes.action != ABSENT))
    plain = [name for name in features.columns if name not in features.categories]
    kinds = [f"{count(len(plain), 'number')} ({_names(plain)})"] if plain else []
    kinds += [_category(features, name) for name in features.categories]
    told.append(f"{count(len(features.columns), 'feature')} of each decision: {', '.join(kinds)}.")
    gaps = {name: _gaps(features, name) for name in features.columns}
    filled = [f"{name} at {n:,} of {decided:,} decisions ({n / decided:.0%})" for name, n in gaps.items() if n]
    if filled:
        told.append(
            f"Gaps were filled: {_names(filled, '; ')}. Numbers have the median and a feature that flags the gap, "
            "categories a word of their own."
        )
    else:
        told.append("Nothing was missing.")
    return " ".join(told)


def behavior(evidence: Evidence) -> str:
    """Where the behavior policy comes from, and if it was fitted, how well it predicts."""
    if evidence.fitted is not None:
        return _fitted(evidence.fitted)
    return {
        "counted": f"Counted: the shares of actions in each cell ({evidence.cells.kind}).",
        "logged": "As logged in the column behavior_prob, for the actions taken.",
    }.get(evidence.behavior.origin, "As given.")


def _fitted(found: FittedBehavior) -> str:
    loss, shares = found.log_loss, found.log_loss_of_shares
    better = 1 - loss / shares if shares > 0 else 0.0
    beside = f"{better:.1%} less" if better > 0 else "no less"
    low, high = float(found.exponents.min()), float(found.exponents.max())
    exponents = f"{low:.2f}" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f} to {high:.2f}"
    return (
        f"Fitted to the features{' and the step' if found.episodes.step.any() else ''} by "
        f"{CLASSIFIERS.get(found.name, found.name)}; {found.folds} folds of episodes, each predicted by a model that "
        f"did not see it. Log loss {loss:.3f}, {beside} than the {shares:.3f} of the overall shares of actions. "
        f"Calibrated by exponents of {exponents} (1: nothing to calibrate; less: it was too sure of itself)."
    )


def of_returns(results: Results, users: Sequence[str]) -> list[tuple[str, str]]:
    """The models of returns that estimators use, and how much of the annotations each explains, out of fold."""
    problem = results.origin.weighed.problem
    modelled = problem.modelled
    used = f"used by {', '.join(users)}"
    if not len(problem.annotations.row):
        return [("Outcome model", f"{_sentence(modelled.told)}; {used}. There are no annotations to hold it against.")]
    before, after = (
        _explained(problem, returns) for returns in (modelled.returns, modelled.annotated_returns)
    )  # fmt: skip
    n = count(len(problem.annotations.row), "annotated question")
    held = "as they are" if modelled.study.fold is None else "each by a model that did not see its episode"
    found = [
        (
            "Outcome model",
            f"{_sentence(modelled.told)}; {used}. Fitted to the logs alone, it explains {before} of the variance of "
            f"{n}, {held}.",
        )
    ]
    listens = [name for name in users if ESTIMATORS[name].recipe.critic == "annotated"]
    if listens:
        found.append(
            (
                "Annotation model",
                f"The outcome model and what annotations say beyond it; used by {', '.join(listens)}. It explains "
                f"{after}.{_noise(results)} The annotations correct it in turn.",
            )
        )
    return found


def r_squared(problem: Problem, predicted: Floats) -> float:
    """Share of the variance of annotations that predictions of them explain; NaN if annotations do not vary.

    Annotations are without what annotators differ by. Predictions are those of the fold that did not see the episode.
    """
    said = problem.modelled.annotated_values
    left, total = said - predicted, said - said.mean()
    return 1 - float(left @ left) / float(total @ total) if len(said) > 1 and total.any() else float("nan")


def _explained(problem: Problem, returns: CrossFitted) -> str:
    found = r_squared(problem, returns.of(problem.annotations.row, problem.annotations.action))
    if np.isnan(found):
        return "nothing that could be measured"
    return f"{found:.0%}" if found > 0 else "nothing (it is further off than their mean)"


def _noise(results: Results) -> str:
    """How far each annotator is off the annotation model; nothing where it does not tell annotators apart."""
    problem, annotations = results.origin.weighed.problem, results.origin.annotations
    noise = np.mean([one.noise for one in problem.modelled.corrected], axis=0)
    if annotations is None or annotations.annotator is None or np.all(noise == 1):
        return ""
    words = sorted({word for word in annotations.annotator.to_pylist() if word is not None})
    if not len(words) == problem.annotations.n_annotators > 1:
        return ""
    listed = [f"{word} {noise[k]:.2g}" for k, word in enumerate(words)]
    return f" Annotators are off it by standard deviations of {_names(listed)}: noise, and what it misses."


def _inclusion(problem: Problem) -> str:
    found = problem.inclusion
    asked = f"{found.asked:,} of {found.questions:,} questions that the policy needs were asked."
    if not found.estimated:
        return f"{asked} How likely each was: {found.words}."
    how = "A logistic regression on" if found.regression is not None else "Shares of questions asked, by"
    return f"{asked} {how} {found.words}." if found.strata or found.regression else f"{asked} All were equally likely."


def _category(features: Features, name: str) -> str:
    words = [word.removeprefix(f"{name}=") for word in features.names if word.startswith(f"{name}=")]
    return f"the category {name} ({_names(words)})"


def _gaps(features: Features, name: str) -> int:
    flag = f"{name} missing"
    return int(features.matrix[:, features.names.index(flag)].sum()) if flag in features.names else 0


def _names(names: Sequence[str], between: str = ", ") -> str:
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return between.join(names[:LISTED]) + more


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]
