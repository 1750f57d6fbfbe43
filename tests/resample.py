"""Resamples as pairs of episodes and annotations, for tests."""

from __future__ import annotations

from typing import Any

import numpy as np

import semiope as so
from semiope.data.repeat import Resample


def repeated(episodes: so.Episodes, annotations: so.Annotations | None, times: Any) -> tuple[so.Episodes, Any]:
    """Each episode, with its annotations, as often as `times` says."""
    by = Resample(episodes, np.asarray(times))
    return by.episodes, by.annotations(annotations)
