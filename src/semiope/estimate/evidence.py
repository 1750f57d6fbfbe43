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
    """

    logbook: Logbook
    cells: Cells
    counts: Floats
    behavior: Behavior
    split_weights: SplitWeights
    means: str = "cell"
    _derived: dict[Callable[[Evidence], Any], Any] = field(default_factory=dict)

    @property
    def by_prefix(self) -> bool:
        """Whether means are weighted by prefixes: not without any weight on annotations, so that C-x then is x."""
        return self.means == "prefix" and bool(self.split_weights.annotated.any())

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
    behavior: AnyPolicy | str | None,
    cell: str,
    weights: Any,
    means: str = "cell",
) -> Evidence:
    """Prepare the evidence: align annotations, count or look up the behaviour policy, split the weights.

    `behavior` is a policy, "count", or None: the column `behavior_prob` if there is one, else counted. Cells are of
    step and state if the behaviour policy is, or if means are weighted by prefixes.
    """
    actors = {f"policy {name!r}": policy for name, policy in policies.items()}
    if behavior is not None and not isinstance(behavior, str):
        actors["behavior"] = behavior
    logbook = Logbook.of(episodes, annotations, {name: policy.actions for name, policy in actors.items()})
    if means == "prefix" or (isinstance(behavior, Policy) and behavior.step is not None):
        cell = "step,state"
    cells = cells_of(episodes, cell)
    counts = count_actions(cells, episodes.action, len(logbook.actions))
    if behavior is not None and not isinstance(behavior, str):
        found = given(behavior, logbook, cells)
    elif behavior is None and episodes.behavior_prob is not None:
        found = logged(logbook, cells, counts)
    else:
        found = counted(logbook, cells, counts)
    return Evidence(logbook, cells, counts, found, weighting(weights)(logbook), means)


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
