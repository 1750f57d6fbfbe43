"""Which weights the annotations ask for, and why."""

from __future__ import annotations

from semiope.data.annotations import Annotations
from semiope.models.case import Case
from semiope.policies.policy import Policy
from semiope.repair.auto import look_at

# Fewer episodes tell no variances.
FEW = 100


def choose_weights(annotations: Annotations | None, case: Case) -> tuple[str, str]:
    """The kind of weights that these annotations ask for, and why."""
    n_episodes = case.records.episodes.n_episodes
    if annotations is None:
        return "equal", "weights: equal, because there are no annotations."
    if case.regression is not None:
        return "equal", "weights: equal, because a bias of the answers cannot be looked for without states."
    if not isinstance(case.policy, Policy):
        return "equal", "weights: equal, because variances need a model, and this policy is given row by row."
    if n_episodes < FEW:
        return "equal", f"weights: equal, because {n_episodes:,} episodes are too few to estimate variances."
    look = look_at(annotations, case)
    if look is None:
        return "equal", "weights: equal, because no answer is about an action that was not taken."
    if look.biased:
        return "equal", (
            f"weights: equal, because the answers look biased ({look.level.bias:+.2g}), and optimal weights would "
            "trust them more."
        )
    return "optimal", "weights: optimal, because the answers look unbiased: least variance is what is left to gain."
