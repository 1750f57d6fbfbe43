"""Linear regression with normal priors by block, whose variances are those that make the data most likely.

y = X b + noise, with b of a block of columns normal with mean 0 and a variance of its own. The variances are found by
MacKay's fixed point of the marginal likelihood: the sum of squares of a block's weights over their effective number,
which is what the data tell of them; the noise likewise. Only X'X, X'y and y'y are needed. Block 0 has no prior.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from semiope._arrays import Floats, Integers

ROUNDS = 12
# Variances are found when no block explains more or less than before, by this share of y.
SETTLED = 1e-3
# Of variances, relative to the largest: less is nothing.
LEAST = 1e-10
# What block 0 has instead of no prior, in mean squares of y: so large that it does not matter.
FLAT = 1e8


@dataclass(frozen=True, eq=False)
class Posterior:
    """What is known of the weights: their mean and covariance, variances of blocks, and that of the noise."""

    mean: Floats
    covariance: Floats
    blocks: Floats
    noise: float


def fit(
    gram: Floats, cross: Floats, square: float, n: float, blocks: Integers, start: tuple[Floats, float] | None = None,
    rounds: int = ROUNDS,
) -> Posterior:  # fmt: skip
    """Fit to X'X, X'y, y'y of n observations; `start` are variances of blocks and noise to begin with."""
    n_blocks = int(blocks.max()) + 1
    size = square / max(n, 1.0)
    if not size > 0:
        zero = np.zeros(len(cross))
        return Posterior(zero, np.zeros_like(gram), np.zeros(n_blocks), 0.0)
    diagonal = np.bincount(blocks, weights=np.diag(gram), minlength=n_blocks) / max(n, 1.0)
    if start is None:
        # Each block is taken to explain half of y, until it shows how much it does.
        variances, noise = np.where(diagonal > 0, size / 2 / np.maximum(diagonal, 1e-300), 0.0), size / 2
    else:
        variances, noise = start
    variances = variances.copy()
    variances[0] = FLAT * size
    found = _posterior(gram, cross, blocks, variances, noise)
    for _ in range(rounds):
        before, was = variances.copy(), noise
        number = _effective(found, blocks, variances)
        squares = np.bincount(blocks, weights=found.mean**2, minlength=n_blocks)
        told = number > 1e-8
        variances = np.where(told, squares / np.maximum(number, 1e-300), variances)
        variances[0] = FLAT * size
        variances = np.maximum(variances, LEAST * size / np.maximum(diagonal, 1e-300))
        left = square - 2 * float(found.mean @ cross) + float(found.mean @ gram @ found.mean)
        noise = max(left / max(n - float(number.sum()), 1.0), LEAST * size)
        found = _posterior(gram, cross, blocks, variances, noise)
        change = float(np.max(np.abs(variances - before)[1:] * diagonal[1:], initial=0.0))
        if change <= SETTLED * size and abs(noise - was) <= SETTLED * was:
            break
    return found


def solve(gram: Floats, cross: Floats, blocks: Integers, variances: Floats, noise: float) -> Floats:
    """The mean of the weights for known variances."""
    from scipy.linalg import solve as solve_linear

    found: Floats = solve_linear(gram / noise + np.diag(1 / variances[blocks]), cross / noise, assume_a="pos")
    return found


def _posterior(gram: Floats, cross: Floats, blocks: Integers, variances: Floats, noise: float) -> Posterior:
    """What is known of the weights for known variances."""
    from scipy.linalg.lapack import dpotrf, dpotri

    # In units of the prior's standard deviations, so that the matrix is well conditioned.
    std = np.sqrt(variances[blocks])
    scaled = std[:, None] * gram * std / noise
    scaled[np.diag_indices(len(std))] += 1.0
    half, failed = dpotri(dpotrf(scaled, overwrite_a=True)[0], overwrite_c=True)
    assert not failed
    inverse = np.triu(half) + np.triu(half, 1).T
    mean = std * (inverse @ (std * cross)) / noise
    covariance = std[:, None] * inverse * std
    return Posterior(mean, covariance, variances, noise)


def _effective(found: Posterior, blocks: Integers, variances: Floats) -> Floats:
    """Effective number of weights of each block."""
    of = 1 - np.diag(found.covariance) / variances[blocks]
    return np.maximum(np.bincount(blocks, weights=of, minlength=len(variances)), 0.0)
