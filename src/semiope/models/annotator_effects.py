"""How annotators differ: each one's offset from the others, and noise, from what is left of a model's predictions."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from semiope._arrays import Floats, Integers


class AnnotatorEffects(NamedTuple):
    """`offsets` sum to 0, `between` is their standard deviation; `noise` is that of each one's annotations.

    The last of these is of annotations without a name.
    """

    offsets: Floats
    noise: Floats
    between: float


def annotator_effects(left: Floats, annotator: Integers, scale: Floats, n: int) -> AnnotatorEffects:
    """Offsets and noise of n annotators from residuals; `scale` is the variance of each beside others.

    Offsets are shrunk by the share of the variance of their means that is not noise (method of moments). Each
    annotator's noise leans on that of all as on one annotation more.
    """
    who = annotator % (n + 1)
    times = np.bincount(who, minlength=n + 1).astype(np.float64)
    unit = max(float(np.abs(left).max(initial=0.0)), 1e-150)
    scaled = left / unit
    means = np.bincount(who, weights=scaled, minlength=n + 1) / np.maximum(times, 1)
    squares = np.bincount(who, weights=(scaled - means[who]) ** 2 / scale, minlength=n + 1)
    free = np.maximum(times - 1, 0)
    overall = float(squares.sum()) / max(float(free.sum()), 1.0)
    noise = (squares + overall) / (free + 1)
    there = times[:n] > 0
    offsets, between = np.zeros(n), 0.0
    if np.count_nonzero(there) > 1:
        centered = means[:n][there] - means[:n][there].mean()
        error = noise[:n][there] / times[:n][there]
        between = max(float(np.sum(centered**2)) / (len(centered) - 1) - float(error.mean()), 0.0)
        shrunk = centered * between / (between + error) if between > 0 else np.zeros(len(centered))
        offsets[there] = shrunk - shrunk.mean()
    return AnnotatorEffects(offsets * unit, unit * np.sqrt(noise), unit * math.sqrt(between))
