"""How good estimates of the 26 policies are, dataset by dataset, and rows of the paper beside ours."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from semiope._arrays import Floats
from semiope.domains import sepsis
from semiope.paper import trials
from semiope.paper.pages import Spread
from semiope.paper.pieces import Piece, Pieces
from semiope.paper.settings import DATASETS, Settings
from semiope.uncertainty.scores import rank_correlation


class Measure(NamedTuple):
    """How the paper calls a measure, and with how many digits it prints it."""

    heading: str
    digits: int


MEASURES = {
    "rmse": Measure("RMSE", 3),
    "ess": Measure("ESS", 1),
    "spearman": Measure("Spearman", 3),
    "accuracy": Measure("% accuracy", 1),
    "fpr": Measure("% FPR", 1),
    "fnr": Measure("% FNR", 1),
}
Measured = dict[str, Spread]
ORDINARY, WEIGHTED, ESS = range(3)
BOTH = (ORDINARY, WEIGHTED)
# Rough costs in seconds, for the progress bar.
COMPARE = Piece(trials.compare, cost=0.7)
EXTEND = Piece(trials.extend, cost=4.0)
VARY_NOISE = Piece(trials.vary_noise, cost=0.5)
VARY_SHARE = Piece(trials.vary_share, cost=1.6)


def each(settings: Settings, *pieces: Piece) -> list[Piece]:
    """These pieces for every dataset."""
    return [piece._replace(number=number) for piece in pieces for number in range(settings.datasets)]


def gathered(settings: Settings, found: Pieces, piece: Piece) -> dict[str, Any]:
    """The arrays of a piece with a first axis over datasets."""
    parts = [found[piece._replace(number=number)] for number in range(settings.datasets)]
    return {name: np.array([part[name] for part in parts]) for name in parts[0]}


def measure(estimates: Floats, mean_returns: Floats, forms: Sequence[int] = BOTH) -> dict[str, Floats]:
    """Each measure per dataset, of estimates (datasets, policies, 3) and the datasets' mean returns.

    The paper's main table takes the ordinary and the weighted estimates of all policies together. A policy is called
    better if its estimate reaches the dataset's own mean return; it is, if its value reaches the behaviour policy's.
    """
    world = sepsis.world()
    truth = np.tile(trials.truths(), len(forms))
    better = truth >= world.mdp.value(world.behavior)
    guesses = np.concatenate([estimates[..., form] for form in forms], axis=-1)
    called = guesses >= mean_returns[:, None]
    return {
        "rmse": np.sqrt(np.mean((guesses - truth) ** 2, axis=-1)),
        "ess": estimates[..., ESS],
        "spearman": np.array([rank_correlation(one, truth) for one in guesses]),
        "accuracy": 100 * np.mean(called == better, axis=-1),
        "fpr": 100 * np.mean(called[:, ~better], axis=-1),
        "fnr": 100 * np.mean(~called[:, better], axis=-1),
    }


def spreads(measures: dict[str, Floats]) -> Measured:
    """Mean and std over datasets; of the effective sample size over datasets and policies, as in the paper."""
    return {name: Spread(float(values.mean()), float(values.std())) for name, values in measures.items()}


class Difference(NamedTuple):
    """Ours minus the paper's, in standard errors of that difference, and whether both print the same."""

    errors: float
    same: bool


def difference(metric: str, ours: Spread, printed: Spread, datasets: int, scatter: float | None = None) -> Difference:
    """Compare two means over datasets, whose scatter is taken to be the same on both sides: pooled, unless it is given.

    For as many datasets as the paper has, the error is that of std / sqrt(50) on either side.
    """
    variance = (
        scatter**2
        if scatter is not None
        else (datasets * ours.std**2 + DATASETS * printed.std**2) / (datasets + DATASETS)
    )
    error = float(np.sqrt(variance * (1 / datasets + 1 / DATASETS)))
    digits = MEASURES[metric].digits
    same = all(f"{a:.{digits}f}" == f"{b:.{digits}f}" for a, b in zip(ours, printed, strict=True))
    off = ours.mean - printed.mean
    return Difference(0.0 if not off else off / error if error else float("inf") * off, same)


@cache
def printed(name: str) -> tuple[dict[str, str], ...]:
    """A table of the paper as it is printed."""
    with files("semiope.paper").joinpath("printed", f"{name}.csv").open() as file:
        return tuple(csv.DictReader(file))


def printed_measures(name: str) -> dict[str, Measured]:
    """A table of measures as printed, by estimator."""
    return {
        row["estimator"]: {metric: Spread(float(row[metric]), float(row[f"{metric}_std"])) for metric in MEASURES}
        for row in printed(name)
    }
