"""Which weights the annotations ask for, and why."""

from __future__ import annotations

from semiope.data.annotations import Annotations

# Fewer episodes tell no variances.
MIN_EPISODES = 100


def choose_weights(annotations: Annotations | None, n_episodes: int) -> tuple[str, str]:
    """The kind of split weights that these annotations ask for, and why."""
    if annotations is None:
        return "equal", "weights: equal, because there are no annotations."
    if n_episodes < MIN_EPISODES:
        return "equal", f"weights: equal, because {n_episodes:,} episodes are too few to estimate variances."
    return "optimal", "weights: optimal, because any weights are unbiased, and these have the least variance."
