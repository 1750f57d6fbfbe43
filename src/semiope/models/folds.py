"""Cross-fitting: episodes dealt into folds, so that what is fitted never saw the episode it is used for."""

from __future__ import annotations

import numpy as np

from semiope._arrays import Integers
from semiope._options import check_count
from semiope._random import generator
from semiope.errors import SupportError

FOLDS = 5


def refuse_alone(n_episodes: int) -> None:
    """Fail where there is no other episode that a model could be fitted to."""
    if n_episodes < 2:
        raise SupportError(
            "cross-fitting needs at least two episodes: a model must not see the episode it is used for. "
            "Give a model of your own, or use estimators without one."
        )


def deal(n_episodes: int, n_folds: int = FOLDS) -> Integers:
    """The fold of each episode: as many folds as asked for, or as there are episodes; the same for the same number."""
    asked = check_count(n_folds, "folds", least=2)
    order = generator(0).permutation(n_episodes)
    folds = np.empty(n_episodes, dtype=np.int64)
    folds[order] = np.arange(n_episodes) % min(asked, n_episodes)
    return folds
