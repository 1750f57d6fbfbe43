"""How well estimates serve to choose between policies, where the truth is known."""

from __future__ import annotations

import numpy as np

from semiope._arrays import Floats


def rank_correlation(x: Floats, y: Floats) -> float:
    """Spearman's, with the mean of their ranks for ties; NaN where one of them does not vary.

    `scipy.stats` has it too, but takes a second to import.
    """
    return float(np.corrcoef(_ranks(x), _ranks(y))[0, 1]) if np.ptp(x) > 0 and np.ptp(y) > 0 else float("nan")


def _ranks(x: Floats) -> Floats:
    _, places, times = np.unique(x, return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(times) - (times - 1) / 2)[places]
    return ranks
