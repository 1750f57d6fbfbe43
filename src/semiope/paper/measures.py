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
from semiope.paper.pages import MEASURED
from semiope.paper.pieces import Piece, Pieces
from semiope.paper.setup import DATASETS, Setup
from semiope.paper.trials import truths

# Digits printed in the paper.
DIGITS = {"rmse": 3, "ess": 1, "spearman": 3, "accuracy": 1, "fpr": 1, "fnr": 1}
HEADINGS = {
    "rmse": "RMSE",
    "ess": "ESS",
    "spearman": "Spearman",
    "accuracy": "% accuracy",
    "fpr": "% FPR",
    "fnr": "% FNR",
}
ORDINARY, WEIGHTED, ESS = range(3)
BOTH = (ORDINARY, WEIGHTED)
# Rough costs in seconds, for the progress bar.
COMPARE = Piece("trials", "compare", cost=0.7)
EXTEND = Piece("trials", "extend", cost=4.0)
VARY_NOISE = Piece("trials", "vary_noise", cost=0.5)
VARY_SHARE = Piece("trials", "vary_share", cost=1.6)


def each(setup: Setup, *pieces: Piece) -> list[Piece]:
    """These pieces for every dataset."""
    return [piece._replace(number=number) for piece in pieces for number in range(setup.datasets)]


def gathered(setup: Setup, found: Pieces, piece: Piece) -> dict[str, Any]:
    """The arrays of a piece with a first axis over datasets."""
    parts = [found[piece._replace(number=number)] for number in range(setup.datasets)]
    return {name: np.array([part[name] for part in parts]) for name in parts[0]}


def measure(estimates: Floats, bars: Floats, forms: Sequence[int] = BOTH) -> dict[str, Floats]:
    """Each measure per dataset, of estimates (datasets, policies, 3) and the datasets' mean returns.

    The paper's main table takes the ordinary and the weighted estimates of all policies together. A policy is called
    better if its estimate reaches the dataset's own mean return; it is, if its value reaches the behaviour policy's.
    """
    from scipy.stats import spearmanr

    world = sepsis.world()
    truth = np.tile(truths(), len(forms))
    better = truth >= world.mdp.value(world.behavior)
    guesses = np.concatenate([estimates[..., form] for form in forms], axis=-1)
    called = guesses >= bars[:, None]
    return {
        "rmse": np.sqrt(np.mean((guesses - truth) ** 2, axis=-1)),
        "ess": estimates[..., ESS],
        "spearman": np.array([spearmanr(one, truth).statistic for one in guesses]),
        "accuracy": 100 * np.mean(called == better, axis=-1),
        "fpr": 100 * np.mean(called[:, ~better], axis=-1),
        "fnr": 100 * np.mean(~called[:, better], axis=-1),
    }


def summary(measures: dict[str, Floats]) -> dict[str, list[float]]:
    """[mean, std] over datasets; of the effective sample size over datasets and policies, as in the paper."""
    return {name: [float(values.mean()), float(values.std())] for name, values in measures.items()}


class Difference(NamedTuple):
    """Ours minus the paper's, in standard errors of that difference, and whether both print the same."""

    errors: float
    same: bool


def difference(metric: str, ours: Sequence[float], printed: Sequence[float], datasets: int) -> Difference:
    """Compare two means over datasets, whose scatter is taken to be the same on both sides.

    For as many datasets as the paper has, the error is that of std / sqrt(50) on either side.
    """
    scatter = (datasets * ours[1] ** 2 + DATASETS * printed[1] ** 2) / (datasets + DATASETS)
    error = float(np.sqrt(scatter * (1 / datasets + 1 / DATASETS)))
    same = all(f"{a:.{DIGITS[metric]}f}" == f"{b:.{DIGITS[metric]}f}" for a, b in zip(ours, printed, strict=True))
    off = ours[0] - printed[0]
    return Difference(0.0 if not off else off / error if error else float("inf") * off, same)


@cache
def printed(name: str) -> list[dict[str, str]]:
    """A table of the paper as it is printed."""
    with files("semiope.paper").joinpath("printed", f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


def printed_measures(name: str) -> dict[str, dict[str, list[float]]]:
    """A table of measures as printed: [mean, std] by estimator and measure."""
    return {
        row["estimator"]: {metric: [float(row[metric]), float(row[f"{metric}_std"])] for metric in MEASURED}
        for row in printed(name)
    }
