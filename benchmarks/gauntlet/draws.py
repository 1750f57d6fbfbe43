"""Random draws that worlds share: policies from logits, actions from probabilities, sizes and discounts."""

from __future__ import annotations

import numpy as np

Floats = np.ndarray


def softmax(logits: Floats) -> Floats:
    """Probabilities from logits along the last axis."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def sigmoid(logits: Floats) -> Floats:
    """Probabilities from logits, one each."""
    return 0.5 + 0.5 * np.tanh(0.5 * logits)


def draw(probs: Floats, rng: np.random.Generator) -> np.ndarray:
    """One action for each row of probabilities."""
    return (rng.random((len(probs), 1)) > np.cumsum(probs, axis=1)[:, :-1]).sum(axis=1)


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    """A number between low and high, its logarithm uniform."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def discount(rng: np.random.Generator) -> float:
    """A discount factor as people choose them."""
    return float(rng.choice([1.0, 1.0, 0.99, 0.95, 0.9]))
