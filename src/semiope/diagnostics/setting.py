"""What theory speaks about: a model, two policies, split weights, annotations; and what it says: moments."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from semiope._arrays import Floats, as_floats, frozen
from semiope._options import check_count
from semiope.data.naming import refuse_pairs
from semiope.errors import OptionError, SchemaError
from semiope.models.tabular import PolicyLike, TabularMDP
from semiope.weights.moments import WeightMoments


@dataclass(frozen=True, eq=False)
class Setting:
    """What an estimator will meet; build it with `Setting.of`.

    A first axis over steps has length `horizon`, or 1 where nothing changes over time. `behavior`, `evaluation` and
    `augmented` are (steps, n_states, n_actions); `weights.mean` has one more axis, `weights.covariance` two.
    `annotation_mean` and `annotation_variance` are (horizon, n_states, n_actions). `value` is the true one.
    """

    mdp: TabularMDP
    value: float
    behavior: Floats
    evaluation: Floats
    augmented: Floats
    weights: WeightMoments
    returns: Floats
    annotation_mean: Floats
    annotation_variance: Floats

    @classmethod
    def of(
        cls,
        mdp: TabularMDP,
        behavior: PolicyLike,
        evaluation: PolicyLike,
        *,
        weights: WeightMoments | Any = None,
        annotation_bias: Any = 0.0,
        annotation_std: Any = 0.0,
    ) -> Setting:
        """Put a problem together and check it.

        `weights`: moments of the split weights, or an array (n_states, n_actions, n_actions) of constant ones; None
        splits equally over all actions. `annotation_bias` is relative to the evaluation policy's exact returns.
        `annotation_bias` and `annotation_std` are numbers or arrays (n_states, n_actions), per step if with a leading
        axis.
        """
        behavior_probs, evaluation_probs = mdp.probs(behavior, "behavior"), mdp.probs(evaluation, "evaluation")
        returns, value = mdp.solved(evaluation_probs)
        moments = _weights(mdp, weights)
        augmented = np.einsum("...a,...ai->...i", behavior_probs, moments.mean)
        bias, std = mdp.per_step(annotation_bias, "annotation_bias"), mdp.per_step(annotation_std, "annotation_std")
        for name, table in (("annotation_bias", bias), ("annotation_std", std)):
            refuse_pairs(~np.isfinite(table), f"{name}: not a finite number in", mdp.states, mdp.actions)
        refuse_pairs(std < 0, "annotation_std: negative in", mdp.states, mdp.actions)
        return cls(
            mdp=mdp,
            value=value,
            behavior=frozen(behavior_probs),
            evaluation=frozen(evaluation_probs),
            augmented=frozen(augmented),
            weights=moments,
            returns=frozen(returns),
            annotation_mean=frozen(returns + bias),
            annotation_variance=frozen(std**2),
        )

    def check_covered(self) -> None:
        """Fail where an action that the evaluation policy may take is never listened to, as C*-x needs it to be."""
        others = ~np.eye(self.mdp.n_actions, dtype=bool)
        missing = (self.weights.mean == 0) & others & (self.evaluation[..., None, :] > 0)
        missing &= (self.behavior[..., None] > 0) & (self.mdp.reachable & ~self.mdp.terminal)[:, None, None]
        what = "C* needs every action that the policy may take to be annotated where it is not taken, but it is not in"
        refuse_pairs(missing.any(axis=-1), what, self.mdp.states, self.mdp.actions, "(State and action taken.)")

    def __repr__(self) -> str:
        return f"Setting({self.mdp!r}, true value {self.value:g})"


class Draw(NamedTuple):
    """Mean and variance of a single draw, beside the true value."""

    value: float
    mean: float
    variance: float

    @property
    def bias(self) -> float:
        """Mean minus true value."""
        return self.mean - self.value

    @property
    def std(self) -> float:
        """Standard deviation of the draw."""
        return math.sqrt(self.variance)


class Moments(Draw):
    """Mean and variance of an estimate from one episode, beside the true value; and what becomes of them with more."""

    def std_error(self, n_episodes: int) -> float:
        """Standard deviation of the mean over n episodes."""
        return math.sqrt(self.variance / check_count(n_episodes, "n_episodes"))

    def rmse(self, n_episodes: int = 1) -> float:
        """Root mean squared error of the mean over n episodes."""
        return math.sqrt(self.bias**2 + self.variance / check_count(n_episodes, "n_episodes"))

    def episodes_for(self, std_error: float) -> int:
        """How many episodes bring the standard deviation of their mean down to this."""
        if not std_error > 0:
            raise OptionError(f"std_error: {std_error!r} is not above 0.")
        return max(1, math.ceil(self.variance / std_error**2))


def _weights(mdp: TabularMDP, weights: WeightMoments | Any) -> WeightMoments:
    """Checked moments with an axis over steps, in arrays of our own."""
    shape = (mdp.n_states, mdp.n_actions, mdp.n_actions)
    if weights is None:
        return WeightMoments(np.broadcast_to(1 / mdp.n_actions, (1, *shape)))
    given = weights if isinstance(weights, WeightMoments) else WeightMoments(weights)
    mean = frozen(as_floats(given.mean, "weights"))
    covariance = None if given.covariance is None else frozen(as_floats(given.covariance, "covariance"))
    WeightMoments(mean, covariance).checked(mdp.states, mdp.actions)
    if mean.shape not in (shape, (mdp.horizon, *shape)):
        raise SchemaError(f"weights: an array of shape {mean.shape}; give {shape} or {(mdp.horizon, *shape)}.")
    if mean.ndim == 3:
        mean, covariance = mean[None], None if covariance is None else covariance[None]
    return WeightMoments(mean, covariance)
