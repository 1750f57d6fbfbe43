"""All estimators by name. To add one: a short function that prepares its terms, and a line here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from semiope._arrays import Floats
from semiope.errors import OptionError, nearest
from semiope.estimate.counterfactual import (
    closed_factor,
    closed_shares,
    require_full_annotation,
    split_factor,
    split_shares,
)
from semiope.estimate.doubly_robust import nothing, once
from semiope.estimate.importance import ratio
from semiope.estimate.naive import (
    count_samples,
    share_weight,
    unweighted_factor,
    unweighted_shares,
    weighted_factor,
    weighted_shares,
)
from semiope.estimate.passes import Recipe
from semiope.estimate.predicted import (
    complete,
    completed_factor,
    completed_shares,
    divided_factor,
    divided_shares,
    require_annotations,
)
from semiope.estimate.problem import (
    Problem,
    asked_support,
    augmented_support,
    behavior_support,
    divided_support,
)


class Estimator(NamedTuple):
    """A recipe for per-episode values, how they become an estimate, and what the estimate can do.

    Fields
    ------
    recipe, meaning
        How values are made, and what that is in a few words.
    self_normalized
        Divide by the sum of the normalizers instead of by the number of episodes.
    unbiased
        For a known behavior policy, full support, right annotations and known inclusion probabilities.
    naive
        Takes annotations for data, and is biased by design.
    support
        The policy outside whose support it is blind or, if it has a model, rests on that alone: "logged" (behavior),
        "augmented" (split weights), "asked" (questions asked), "divided" (logged or asked). If that policy is counted
        from the same episodes, its counts are part of the estimate's influence.
    model_only
        Rests on a model of returns alone: nothing corrects it.
    shrinks
        The value is drawn towards the model's as far as the correction is noise; the interval stays that of the
        unshrunk values.
    bounded
        Per-episode values stay in a range that can be derived: of "ratios" times returns, or of "averages".
    requires
        Fails where the data lack what the estimator needs.
    plain, normalized
        What it is without annotations, and its self-normalized form.
    rank
        Its place in the order of estimates that speak for a policy, the least first; None: never.
    """

    recipe: Recipe
    meaning: str
    self_normalized: bool = False
    unbiased: bool = False
    naive: bool = False
    support: str | None = None
    model_only: bool = False
    shrinks: bool = False
    bounded: str | None = None
    requires: Callable[[Problem], None] | None = None
    plain: str | None = None
    normalized: str | None = None
    rank: int | None = None

    @property
    def trusts(self) -> bool:
        """Whether annotations stand for what was not logged: where they are wrong, so is the estimate."""
        return self.recipe.shares is not None and not self.naive

    @property
    def completes(self) -> bool:
        """Whether missing annotations are completed by a model that annotations correct."""
        return self.support in ("asked", "divided")

    @property
    def uses_annotations(self) -> bool:
        """Whether annotations enter at all, in weights or in the model."""
        return self.recipe.shares is not None or self.recipe.critic == "annotated"


# The policies outside whose support an estimator is blind, per cell and action.
SUPPORT: dict[str, Callable[[Problem], Floats]] = {
    "logged": behavior_support,
    "augmented": augmented_support,
    "asked": asked_support,
    "divided": divided_support,
}

_IS, _PDIS = Recipe(ratio, whole=True), Recipe(ratio)
_C_IS, _C_PDIS = Recipe(split_factor, split_shares, whole=True), Recipe(split_factor, split_shares)
_UNWEIGHTED = Recipe(unweighted_factor, unweighted_shares, whole=True, finish=count_samples)
_WEIGHTED = Recipe(weighted_factor, weighted_shares, whole=True, finish=share_weight)
_LOGGED: dict[str, Any] = {"support": "logged"}
_AUGMENTED: dict[str, Any] = {"support": "augmented"}

ESTIMATORS: dict[str, Estimator] = {
    "is": Estimator(
        _IS, "returns times the ratio of the whole episode", unbiased=True, bounded="ratios", rank=21, **_LOGGED
    ),
    "wis": Estimator(_IS, "is, divided by the sum of ratios", self_normalized=True, rank=19, **_LOGGED),
    "pdis": Estimator(
        _PDIS, "rewards times the ratio up to their step", unbiased=True, bounded="ratios", rank=20, **_LOGGED
    ),
    "pdwis": Estimator(
        _PDIS, "pdis, divided by the sum of whole ratios", self_normalized=True, rank=17, **_LOGGED
    ),
    "pdwis-step": Estimator(
        Recipe(ratio, per_step="all"), "pdis, each step divided by the mean ratio of all episodes", rank=16, **_LOGGED
    ),
    "pdwis-alive": Estimator(
        Recipe(ratio, per_step="alive"),
        "pdis, each step divided by the mean ratio of episodes not ended (for equal lengths)", rank=18, **_LOGGED,
    ),
    "c-is": Estimator(
        _C_IS, "is with annotations, by split weights", unbiased=True, plain="is", normalized="c-wis",
        bounded="averages", rank=5, **_AUGMENTED,
    ),
    "c-wis": Estimator(
        _C_IS, "c-is, divided by the sum of ratios", self_normalized=True, plain="wis", rank=6, **_AUGMENTED
    ),
    "c-pdis": Estimator(
        _C_PDIS, "pdis with annotations, by split weights", unbiased=True, plain="pdis", normalized="c-pdwis",
        bounded="averages", rank=1, **_AUGMENTED,
    ),
    "c-pdwis": Estimator(
        _C_PDIS, "c-pdis, divided by the sum of ratios", self_normalized=True, plain="pdwis", rank=2, **_AUGMENTED
    ),
    "c*-is": Estimator(
        Recipe(closed_factor, closed_shares, whole=True), "c-is in closed form, all annotated, equal weights",
        unbiased=True, requires=require_full_annotation, bounded="averages", rank=7,
    ),
    "c*-pdis": Estimator(
        Recipe(closed_factor, closed_shares), "c-pdis in closed form, all annotated, equal weights", unbiased=True,
        requires=require_full_annotation, bounded="averages", rank=3,
    ),
    "pp-is": Estimator(
        Recipe(completed_factor, completed_shares, whole=True, critic="annotated", finish=complete),
        "c*-is, annotations completed by a model and the model corrected by them", unbiased=True, support="asked",
        requires=require_annotations, rank=8,
    ),
    "pp-pdis": Estimator(
        Recipe(completed_factor, completed_shares, critic="annotated"),
        "c*-pdis, annotations completed by a model and the model corrected by them", unbiased=True, support="asked",
        requires=require_annotations, rank=4,
    ),
    "pp-dr": Estimator(
        Recipe(divided_factor, divided_shares, critic="annotated"),
        "dr with ratios of at most one, the rest from annotations completed as in pp-pdis", support="divided",
        plain="dr", shrinks=True, rank=0,
    ),
    "dm": Estimator(
        Recipe(nothing, critic="plain", finish=once), "a model of returns alone (biased as the model is)",
        model_only=True, rank=22,
    ),
    "dm+": Estimator(
        Recipe(nothing, critic="annotated", finish=once), "dm, the model corrected by annotations", model_only=True,
        plain="dm", rank=13,
    ),
    "dr": Estimator(
        Recipe(ratio, critic="plain"), "pdis of what a model misses", unbiased=True, rank=15, **_LOGGED
    ),
    "wdr": Estimator(
        Recipe(ratio, per_step="all", critic="plain"), "dr, each step divided by the mean ratio of all episodes",
        rank=14, **_LOGGED,
    ),
    "dm+-is": Estimator(
        Recipe(ratio, critic="annotated"), "dr, annotations in the model only", unbiased=True, plain="dr", rank=12,
        **_LOGGED,
    ),
    "dm+-wis": Estimator(
        Recipe(ratio, per_step="all", critic="annotated"), "wdr, annotations in the model only", plain="wdr", rank=11,
        **_LOGGED,
    ),
    "dm-is+": Estimator(
        Recipe(split_factor, split_shares, critic="plain"), "c-pdis of what a model misses", unbiased=True, plain="dr",
        rank=10, **_AUGMENTED,
    ),
    "dm+-is+": Estimator(
        Recipe(split_factor, split_shares, critic="annotated"),
        "c-pdis of what a model corrected by annotations misses", unbiased=True, plain="dr", rank=9, **_AUGMENTED,
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

# What is estimated if nobody says what: from logs alone, and with annotations as well.
OFFLINE = ("is", "wis", "pdis", "pdwis")
SEMI_OFFLINE = ("c-pdis", "c-pdwis", "pp-dr")


def canonical(name: str) -> str:
    """Return the name under which an estimator is registered, given that name or an alias in any case."""
    plain = str(name).strip().lower()
    plain = ALIASES.get(plain, plain)
    if plain not in ESTIMATORS:
        known = [*ESTIMATORS, *ALIASES]
        raise OptionError(f"estimators: {name!r} is not known.{nearest(plain, known)} Known: {', '.join(ESTIMATORS)}.")
    return plain


def headline(names: Iterable[str]) -> str:
    """The name, among these, of the estimate that speaks for a policy if nobody says which."""
    known = list(names)
    ranked = {name: ESTIMATORS[name].rank for name in known if ESTIMATORS[name].rank is not None}
    return min(ranked, key=lambda name: ranked[name] or 0) if ranked else known[0]


def chosen(names: Iterable[str] | None, *, annotated: bool) -> list[str]:
    """Return the canonical names asked for, each once; by default the offline ones, with annotations also others."""
    if names is None:
        names = (*OFFLINE, *SEMI_OFFLINE) if annotated else OFFLINE
    if isinstance(names, str):
        names = names.split(",")
    found = list(dict.fromkeys(canonical(name) for name in names))
    if not found:
        raise OptionError(f"estimators: none named. Known: {', '.join(ESTIMATORS)}.")
    return found
