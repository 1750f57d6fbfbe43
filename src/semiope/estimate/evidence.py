"""Evidence: logs, annotations, behaviour and split weights, prepared once for all policies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from semiope._arrays import Floats
from semiope.data.annotations import Annotations
from semiope.data.episodes import Episodes
from semiope.data.logbook import Logbook
from semiope.errors import OptionError, nearest
from semiope.models.behavior_model import FittedBehavior, fit_behavior
from semiope.policies.behavior import Behavior, counted, given, logged
from semiope.policies.cells import Cells, cells_of, count_actions
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

    `behavior` is a policy, "count", a classifier to be fitted, or None: the column `behavior_prob` if there is one,
    else counted where there are states, and "logistic" where there are features only. Cells are of step and state if
    the behaviour policy is, or if means are weighted by prefixes.
    """
    actors = {f"policy {name!r}": policy for name, policy in policies.items()}
    if behavior is None and episodes.behavior_prob is None:
        behavior = "count" if episodes.has_states else "logistic"
    fitted = None
    if behavior is not None and not hasattr(behavior, "bind") and behavior != "count":
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


def behavior_probs(evidence: Evidence) -> Floats:
    """pi_b per cell and action."""
    return evidence.behavior.probs


def augmented_probs(evidence: Evidence) -> Floats:
    """pi_b+ of Definition 1 per cell and action."""
    return augmented_policy(
        evidence.behavior.probs, evidence.counts, evidence.split_weights, evidence.cells, evidence.logbook,
        of_all=evidence.behavior.origin != "logged",
    )  # fmt: skip
