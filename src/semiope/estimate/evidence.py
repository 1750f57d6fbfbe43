"""Evidence: logs, annotations, behaviour and split weights, prepared once for all policies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from semiope._arrays import Floats, frozen
from semiope.data.annotations import Annotations
from semiope.data.episodes import Episodes
from semiope.data.logbook import Logbook
from semiope.errors import MissingExtraError, OptionError, SupportError, nearest
from semiope.models.behavior_model import FittedBehavior, fit_behavior
from semiope.policies.behavior import Behavior, counted, given, logged
from semiope.policies.cells import Cells, cells_of, count_actions
from semiope.policies.lookup import ArrayLookup, BoundPolicy, ListedLookup, TableLookup, safe_ratio
from semiope.policies.policy import AnyPolicy, Policy
from semiope.weights.augmented import augmented_policy
from semiope.weights.split import SplitWeights, weighting

Derived = TypeVar("Derived")
MEANS = ("cell", "prefix")


@dataclass(frozen=True, eq=False)
class Evidence:
    """All that does not depend on the policy under evaluation, unless weights are found for it; `counts` is how often
    each action was taken in each cell. `means` of split weights are plain in each "cell", or weighted by "prefix".
    `fitted` is the behavior policy, if it was fitted here.
    """

    logbook: Logbook
    cells: Cells
    counts: Floats
    behavior: Behavior
    split_weights: SplitWeights
    means: str = "cell"
    fitted: FittedBehavior | None = None
    _derived: dict[Callable[[Evidence], Any], Any] = field(default_factory=dict)

    @property
    def by_prefix(self) -> bool:
        """Whether means are weighted by prefixes: not without any weight on annotations, so that C-x then is x."""
        return self.means == "prefix" and bool(self.split_weights.annotated.any())

    @property
    def by_features(self) -> bool:
        """Whether mean split weights depend on features: there are no states, and annotations have weight."""
        no_cells = not self.logbook.episodes.has_states and self.means == "cell"
        return no_cells and bool(self.split_weights.annotated.any()) and self.derived(behavior_by_row) is not None

    @property
    def another_behavior(self) -> str:
        """What to try where the behavior policy looks wrong."""
        return "behavior='count'" if self.logbook.episodes.has_states else "behavior='boosting'"

    def with_values(self, value: Floats) -> Evidence:
        """The same evidence with other values of its aligned annotations; nothing that is derived depends on them."""
        annotations = self.logbook.annotations.with_values(value)
        return replace(self, logbook=replace(self.logbook, annotations=annotations))

    def derived(self, build: Callable[[Evidence], Derived]) -> Derived:
        """Return `build(self)`, computed on first use; `build` must be a function of a module, not one made anew."""
        if build not in self._derived:
            self._derived[build] = build(self)
        found: Derived = self._derived[build]
        return found


def gather(
    episodes: Episodes,
    annotations: Annotations | None,
    policies: Mapping[str, AnyPolicy],
    *,
    behavior: Any,
    cell: str,
    weights: Any,
    means: str = "cell",
) -> Evidence:
    """Prepare the evidence: align annotations, count or look up the behaviour policy, split the weights.

    `behavior` is a policy, "count", a classifier to be fitted, or one fitted to these episodes, or None: the column
    `behavior_prob` if there is one, else counted where there are states, and "logistic" where there are features only.
    Cells are of step and state if the behaviour policy is, or if means are weighted by prefixes.
    """
    actors = {f"policy {name!r}": policy for name, policy in policies.items()}
    if behavior is None and episodes.behavior_prob is None:
        behavior = "count" if episodes.has_states else "logistic"
    fitted = behavior if isinstance(behavior, FittedBehavior) else None
    if fitted is not None:
        behavior = fitted.policy
    elif behavior is not None and not hasattr(behavior, "bind") and behavior != "count":
        fitted = fit_behavior(episodes, behavior)
        behavior = fitted.policy
    if hasattr(behavior, "bind"):
        actors["behavior"] = behavior
    logbook = Logbook.of(episodes, annotations, {name: policy.actions for name, policy in actors.items()})
    if means == "prefix" or (isinstance(behavior, Policy) and behavior.step is not None):
        cell = "step,state"
    cells = cells_of(episodes, cell)
    counts = count_actions(cells, episodes.action, len(logbook.actions))
    if behavior is None:
        found = logged(logbook, cells, counts)
    elif isinstance(behavior, str):
        found = counted(logbook, cells, counts)
    else:
        found = given(behavior, logbook, cells, "given" if fitted is None else "fitted")
    return Evidence(logbook, cells, counts, found, weighting(weights)(logbook), means, fitted)


def check_means(means: str | None, *, planned: bool = False) -> str:
    """Return how split weights are averaged; None: plainly in each cell, unless a plan chose what was asked."""
    if means is None:
        return "prefix" if planned else "cell"
    if means not in MEANS:
        raise OptionError(f"means: {means!r} is not known.{nearest(str(means), MEANS)} Use 'cell' or 'prefix'.")
    return means


def behavior_by_row(evidence: Evidence) -> BoundPolicy | None:
    """pi_b of all actions in every row; None where it is not known, and cannot be fitted.

    Where propensities were logged, the action taken has its own. What it leaves of one is divided among the others as
    a classifier of the action taken divides it ("logistic", cross-fitted).
    """
    lookup, logbook = evidence.behavior.lookup, evidence.logbook
    if isinstance(lookup, TableLookup | ListedLookup | ArrayLookup):
        return lookup
    episodes = logbook.episodes
    try:
        fitted = fit_behavior(episodes).policy.bind(logbook, evidence.cells, "behavior")
    except (MissingExtraError, SupportError):
        return None
    rows = np.flatnonzero(episodes.action >= 0)
    probs, own = np.zeros((episodes.n_steps, len(logbook.actions))), (rows, episodes.action[rows])
    probs[rows] = fitted.at(rows)
    propensity = lookup.taken(slice(0, episodes.n_steps))[rows]
    probs[own] = 0.0
    probs[rows] *= safe_ratio(1 - propensity, probs[rows].sum(axis=1))[:, None]
    probs[own] = propensity
    return ArrayLookup(frozen(probs), logbook)


def behavior_probs(evidence: Evidence) -> Floats:
    """pi_b per cell and action."""
    return evidence.behavior.probs


def augmented_probs(evidence: Evidence) -> Floats:
    """pi_b+ of Definition 1 per cell and action."""
    return augmented_policy(
        evidence.behavior.probs, evidence.counts, evidence.split_weights, evidence.cells, evidence.logbook,
        of_all=evidence.behavior.origin != "logged",
    )  # fmt: skip
