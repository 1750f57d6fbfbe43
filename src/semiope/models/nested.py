"""Means by group, shrunk: what the values of a group say beyond those of the larger group around it.

Groups are nested, the largest first. At each level the means of what is left of the values are shrunk by the share of
their variance that is not due to few values: the variances within and between groups are those of an analysis of
variance (Searle, 1971), so that nothing is set by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from semiope._arrays import Floats, Integers


class Effects(NamedTuple):
    """Effects of groups, and the variance of what they leave."""

    means: Floats
    left: Floats
    within: float


def shrunk_effects(values: Floats, group: Integers, n_groups: int) -> Effects:
    """Shrunk means of groups (0 where there is no value), and what they leave of the values."""
    n = np.bincount(group, minlength=n_groups).astype(np.float64)
    # In units of the largest, so that squares of extreme values stay in range.
    unit = max(float(np.abs(values).max(initial=0.0)), 1e-150)
    scaled = values / unit
    mean = np.bincount(group, weights=scaled, minlength=n_groups) / np.maximum(n, 1)
    squares, groups = float(np.sum((scaled - mean[group]) ** 2)), int(np.count_nonzero(n))
    free = len(values) - groups
    around = float(np.sum(n * mean**2))
    # Without two values in any group, nothing tells within from between: all is taken to be within.
    within = squares / free if free > 0 else around / max(groups, 1)
    size = float(n.sum()) or 1.0
    between = max((around - groups * within) / size, 0.0)
    share = between / (between + within / np.maximum(n, 1)) if between > 0 else np.zeros(n_groups)
    found = np.where(n > 0, share * mean, 0.0) * unit
    return Effects(found, values - found[group], within * unit**2)


def nested_means(
    values: Floats, levels: Sequence[Integers], targets: Sequence[Integers], sizes: Sequence[int]
) -> Floats:
    """Predict the values of targets: the plain mean of all, plus shrunk effects of groups level by level.

    `levels` are the groups of the values, `targets` those of what is predicted, `sizes` how many groups a level has.
    """
    overall = float(values.mean()) if len(values) else 0.0
    left = values - overall
    found = np.full(len(targets[0]), overall)
    for group, target, size in zip(levels, targets, sizes, strict=True):
        effects = shrunk_effects(left, group, size)
        found += effects.means[target]
        left = effects.left
    return found
