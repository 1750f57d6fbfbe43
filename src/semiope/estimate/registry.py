"""All estimators by name. To add one: a short function that prepares its terms, and a line here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from semiope._arrays import Floats
from semiope.errors import OptionError, nearest
from semiope.estimate.counterfactual import closed_form, counterfactual, require_full_annotation
from semiope.estimate.doubly_robust import annotated, nothing, plain
from semiope.estimate.importance import importance
from semiope.estimate.naive import naive_unweighted, naive_weighted
from semiope.estimate.passes import Recipe
from semiope.estimate.problem import Problem, augmented_support, behavior_support


class Estimator(NamedTuple):
    """A recipe for per-episode values, and how they become an estimate.

    `self_normalized` divides by the sum of the normalisers instead of by the number of episodes; `unbiased` holds for a
    known behaviour policy, full support and right annotations; `naive` ones take annotations for data; `support` names
    the policy outside whose support it is blind or, if it has a model, rests on that alone; `requires` fails where the
    data lack what the estimator needs. `plain` names what it is without annotations, `normalized` its self-normalised
    form.
    """

    recipe: Recipe
    meaning: str
    self_normalized: bool = False
    unbiased: bool = False
    naive: bool = False
    support: str | None = None
    requires: Callable[[Problem], None] | None = None
    plain: str | None = None
    normalized: str | None = None


# The policies outside whose support an estimator is blind, per cell and action.
SUPPORT: dict[str, Callable[[Problem], Floats]] = {"logged": behavior_support, "augmented": augmented_support}

_IS, _PDIS = Recipe(importance, whole=True), Recipe(importance)
_C_IS, _C_PDIS = Recipe(counterfactual, whole=True), Recipe(counterfactual)
_UNWEIGHTED, _WEIGHTED = Recipe(naive_unweighted, whole=True), Recipe(naive_weighted, whole=True)

ESTIMATORS: dict[str, Estimator] = {
    "is": Estimator(_IS, "returns times the ratio of the whole episode", unbiased=True, support="logged"),
    "wis": Estimator(_IS, "is, divided by the sum of ratios", self_normalized=True, support="logged"),
    "pdis": Estimator(_PDIS, "rewards times the ratio up to their step", unbiased=True, support="logged"),
    "pdwis": Estimator(_PDIS, "pdis, divided by the sum of whole ratios", self_normalized=True, support="logged"),
    "pdwis-step": Estimator(
        Recipe(importance, per_step="all"), "pdis, each step divided by the mean ratio of all episodes",
        support="logged",
    ),
    "pdwis-alive": Estimator(
        Recipe(importance, per_step="alive"),
        "pdis, each step divided by the mean ratio of episodes not ended (for equal lengths)",
        support="logged",
    ),
    "c-is": Estimator(
        _C_IS, "is with annotations, by split weights", unbiased=True, support="augmented", plain="is",
        normalized="c-wis",
    ),
    "c-wis": Estimator(
        _C_IS, "c-is, divided by the sum of ratios", self_normalized=True, support="augmented", plain="wis"
    ),
    "c-pdis": Estimator(
        _C_PDIS, "pdis with annotations, by split weights", unbiased=True, support="augmented", plain="pdis",
        normalized="c-pdwis",
    ),
    "c-pdwis": Estimator(
        _C_PDIS, "c-pdis, divided by the sum of ratios", self_normalized=True, support="augmented", plain="pdwis"
    ),
    "c*-is": Estimator(
        Recipe(closed_form, whole=True), "c-is in closed form, all annotated, equal weights", unbiased=True,
        requires=require_full_annotation,
    ),
    "c*-pdis": Estimator(
        Recipe(closed_form), "c-pdis in closed form, all annotated, equal weights", unbiased=True,
        requires=require_full_annotation,
    ),
    "dm": Estimator(Recipe(nothing, critic=plain), "a model of returns alone (biased as the model is)"),
    "dm+": Estimator(Recipe(nothing, critic=annotated), "dm, the model corrected by annotations", plain="dm"),
    "dr": Estimator(Recipe(importance, critic=plain), "pdis of what a model misses", unbiased=True, support="logged"),
    "wdr": Estimator(
        Recipe(importance, per_step="all", critic=plain), "dr, each step divided by the mean ratio of all episodes",
        support="logged",
    ),
    "dm+-is": Estimator(
        Recipe(importance, critic=annotated), "dr, annotations in the model only", unbiased=True, support="logged",
        plain="dr",
    ),
    "dm+-wis": Estimator(
        Recipe(importance, per_step="all", critic=annotated), "wdr, annotations in the model only", support="logged",
        plain="wdr",
    ),
    "dm-is+": Estimator(
        Recipe(counterfactual, critic=plain), "c-pdis of what a model misses", unbiased=True, support="augmented",
        plain="dr",
    ),
    "dm+-is+": Estimator(
        Recipe(counterfactual, critic=annotated), "c-pdis of what a model corrected by annotations misses",
        unbiased=True, support="augmented", plain="dr",
    ),
    "naive-unweighted": Estimator(_UNWEIGHTED, "annotations added as episodes (biased)", naive=True),
    "naive-weighted": Estimator(_WEIGHTED, "annotations added as episodes, sharing one weight (biased)", naive=True),
    "naive-unweighted-wis": Estimator(
        _UNWEIGHTED, "naive-unweighted, divided by the sum of ratios (biased)", self_normalized=True, naive=True
    ),
    "naive-weighted-wis": Estimator(
        _WEIGHTED, "naive-weighted, divided by the sum of ratios (biased)", self_normalized=True, naive=True
    ),
}  # fmt: skip

ALIASES = {
    "tis": "is",
    "ips": "is",
    "ipw": "is",
    "sntis": "wis",
    "snips": "wis",
    "snipw": "wis",
    "snpdis": "pdwis-step",
    "cwpdis": "pdwis-step",
    "dm-is": "dr",
    "sndr": "wdr",
}

OFFLINE = ("is", "wis", "pdis", "pdwis")
SEMI_OFFLINE = ("c-pdis", "c-pdwis")


def canonical(name: str) -> str:
    """Return the name under which an estimator is registered, given that name or an alias in any case."""
    plain = str(name).strip().lower()
    plain = ALIASES.get(plain, plain)
    if plain not in ESTIMATORS:
        known = [*ESTIMATORS, *ALIASES]
        raise OptionError(f"estimators: {name!r} is not known.{nearest(plain, known)} Known: {', '.join(ESTIMATORS)}.")
    return plain


def chosen(names: Iterable[str] | None, *, annotated: bool) -> list[str]:
    """Return the canonical names asked for, each once; by default the offline ones, with annotations also c-pd(w)is."""
    if names is None:
        names = (*OFFLINE, *SEMI_OFFLINE) if annotated else OFFLINE
    if isinstance(names, str):
        names = names.split(",")
    found = list(dict.fromkeys(canonical(name) for name in names))
    if not found:
        raise OptionError(f"estimators: none named. Known: {', '.join(ESTIMATORS)}.")
    return found
