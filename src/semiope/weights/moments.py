"""What is known of split weights before any data: their means, variances and covariances per state and action taken.

`mean[s, a, i]` is W-bar(i|s, a), the mean weight of action i where a was taken; `covariance[s, a, i, j]` the covariance
of the weights of i and j there, None if weights are constant. The theory of appendix C needs no more of them. A leading
axis over steps makes them per step.
"""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np

from semiope._arrays import Floats, as_floats, frozen
from semiope._memory import refuse_beyond_memory
from semiope._options import check_count
from semiope.data.labels import Vocabulary
from semiope.data.naming import refuse_pairs
from semiope.errors import OptionError, SchemaError
from semiope.weights.split import ROUNDING

# Patterns of which annotations are there: two to the power of the number of actions.
MOST_ACTIONS = 12


class WeightMoments(NamedTuple):
    """Means and covariances of the split weights; see the module."""

    mean: Floats
    covariance: Floats | None = None

    @classmethod
    def constant(cls, shares: Any) -> WeightMoments:
        """The same weights, (n_states, n_actions, n_actions), wherever an action was taken in a state."""
        return cls(frozen(as_floats(shares, "weights"))).checked()

    @classmethod
    def factual(cls, n_states: int, n_actions: int) -> WeightMoments:
        """All weight on the action taken: C-x becomes x."""
        n, m = check_count(n_states, "n_states"), check_count(n_actions, "n_actions")
        refuse_beyond_memory(8.0 * m * m, "weights", "Take fewer actions.")
        return cls(np.broadcast_to(np.eye(m), (n, m, m)))

    @classmethod
    def mixture(cls, chances: Any, shares: Any) -> WeightMoments:
        """Weights drawn anew for each sample: `shares[k]`, (n_states, n_actions, n_actions), with `chances[k]`."""
        kinds = as_floats(shares, "weights")
        probs = as_floats(chances, "chances")
        if kinds.ndim != 4 or probs.shape != kinds.shape[:1]:
            raise SchemaError("weights: give one array (n_states, n_actions, n_actions) for each chance.")
        if not (probs >= 0).all() or not abs(probs.sum() - 1) <= ROUNDING:
            raise SchemaError(f"chances: {probs.tolist()} are not probabilities that sum to 1.")
        for one in kinds:
            cls.constant(one)
        return _moments(zip(np.broadcast_to(probs[:, None, None], (len(probs), *kinds.shape[1:3])), kinds, strict=True))

    @classmethod
    def equal(cls, annotated: Any) -> WeightMoments:
        """Equal shares for the action taken and those annotated, as weights='equal' gives them.

        `annotated[s, a, i]` is the probability that i is annotated where a was taken, independently of each other;
        what it says of i = a is not used.
        """
        probs = as_floats(annotated, "annotated")
        if probs.ndim != 3 or probs.shape[1] != probs.shape[2]:
            raise SchemaError(f"annotated: an array of shape {probs.shape}; give (n_states, n_actions, n_actions).")
        check_probabilities(probs)
        n_actions = probs.shape[1]
        own = np.eye(n_actions, dtype=bool)
        sure = np.where(own, 1.0, probs)
        if ((sure == 0) | (sure == 1)).all():
            return cls.constant(sure / sure.sum(axis=2, keepdims=True))
        if n_actions > MOST_ACTIONS:
            raise OptionError(f"annotated: {n_actions} actions are too many to go through; at most {MOST_ACTIONS}.")
        refuse_beyond_memory(16.0 * probs.size * n_actions, "covariances of weights", "Take fewer states.")

        def patterns() -> Any:
            for flags in product((False, True), repeat=n_actions):
                there = np.array(flags) | own
                chance = np.where(flags, sure, 1 - sure)
                chance[:, own] = np.array(
                    flags
                )  # the action taken is there for sure: half of the patterns do not exist
                chance = chance.prod(axis=2)
                if chance.any():
                    yield chance, np.broadcast_to(there / there.sum(axis=1, keepdims=True), probs.shape)

        return _moments(patterns())

    def checked(self, states: Vocabulary | None = None, actions: Vocabulary | None = None) -> WeightMoments:
        """Fail unless the means are shares of one, and the covariances can be some; labels are for the message."""
        mean, covariance = self

        def _refuse(wrong: Any, what: str) -> None:
            refuse_pairs(wrong, what, states, actions, "(State and action taken; the weights there are shares of one.)")

        if mean.ndim not in (3, 4) or mean.shape[-1] != mean.shape[-2]:
            raise SchemaError(
                f"weights: an array of shape {mean.shape}; give (n_states, n_actions, n_actions), or the same per step."
            )
        _refuse(~np.isfinite(mean).all(axis=-1), "weights: not finite numbers in")
        _refuse((mean < -ROUNDING).any(axis=-1), "weights: a negative weight in")
        _refuse(np.abs(mean.sum(axis=-1) - 1) > ROUNDING, "weights: they do not sum to 1 in")
        if covariance is not None:
            if covariance.shape != (*mean.shape, mean.shape[-1]):
                raise SchemaError(
                    f"covariance: an array of shape {covariance.shape}; give {(*mean.shape, mean.shape[-1])}."
                )
            _refuse(~np.isfinite(covariance).all(axis=(-1, -2)), "covariance: not finite numbers in")
            variance = np.diagonal(covariance, axis1=-2, axis2=-1)
            _refuse((variance < -ROUNDING).any(axis=-1), "covariance: a negative variance in")
            uneven = (np.abs(covariance - covariance.swapaxes(-1, -2)) > ROUNDING).any(axis=(-1, -2))
            _refuse(uneven, "covariance: not symmetric in")
            # Weights lie between 0 and 1 and sum to one.
            _refuse(
                (variance > mean * (1 - mean) + ROUNDING).any(axis=-1), "covariance: a variance no share can have in"
            )
            _refuse((np.abs(covariance.sum(axis=-1)) > ROUNDING).any(axis=-1), "covariance: rows do not sum to 0 in")
            _refuse(
                (np.linalg.eigvalsh(covariance) < -ROUNDING).any(axis=-1), "covariance: not positive semidefinite in"
            )
        return self


def check_probabilities(annotated: Floats, states: Vocabulary | None = None, actions: Vocabulary | None = None) -> None:
    """Fail unless these are probabilities that an action is annotated, (n_states, n_actions, n_actions)."""
    wrong = ~((annotated >= 0) & (annotated <= 1)).all(axis=2)
    refuse_pairs(wrong, "annotated: not probabilities in", states, actions)


def _moments(kinds: Any) -> WeightMoments:
    """Mean and covariance over kinds of weights: pairs of a chance per (state, action taken) and the weights."""
    listed = list(kinds)
    mean = sum(chance[..., None] * shares for chance, shares in listed)
    covariance = np.zeros((*mean.shape, mean.shape[-1]))
    for chance, shares in listed:
        off = shares - mean
        covariance += chance[..., None, None] * off[..., :, None] * off[..., None, :]
    return WeightMoments(frozen(mean), frozen(covariance))
