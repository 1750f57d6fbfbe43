"""Figure 11: C*-PDIS with noisy annotations, of all counterfactuals and of a tenth."""

from __future__ import annotations

import numpy as np

from semiope.paper import sweeps
from semiope.paper.measures import COMPARE, VARY_NOISE, each
from semiope.paper.pages import Claim, Heading, Made, Points
from semiope.paper.pieces import Piece, Pieces
from semiope.paper.settings import Settings

TITLE = "Figure 11: noisy annotations"
SHOWS = (
    "RMSE, Spearman and accuracy of C*-PDIS over annotation noise: all counterfactuals annotated, and a tenth of them."
)


def pieces(settings: Settings) -> list[Piece]:
    """The noise experiments, and PDIS beside them."""
    return each(settings, COMPARE, VARY_NOISE)


def make(settings: Settings, found: Pieces) -> Made:
    """Two columns of three panels."""
    parts = {"all annotated": "all", "10% annotated": "tenth"}
    shown = {title: sweeps.over_noise(settings, found, which) for title, which in parts.items()}
    figure, rows, blocks = sweeps.columns(shown)
    whole, tenth = shown.values()
    worse = tenth.curves[0].mean("rmse") - whole.curves[0].mean("rmse")
    beyond = (tenth.curves[0].measures["rmse"] - tenth.baseline.measures["rmse"])[-1]
    gap, error = float(beyond.mean()), float(beyond.std() / len(beyond) ** 0.5)
    claims = [
        *sweeps.noise_claims(whole),
        Claim("with a tenth annotated the error is larger at every level", bool(np.all(worse > 0))),
        Claim(
            f"with a tenth annotated, noise of 1.0 leaves nothing of the gain over PDIS (RMSE {gap:+.3f} ± "
            f"{error:.3f})",
            gap > -2 * error,
        ),
    ]
    notes = (
        "One draw of noise an answer, the same for all policies, is scaled by the standard deviation. Nothing is "
        "imputed.",
        sweeps.HEAVY_TAILS,
    )
    return Made(TITLE, rows, [*blocks, Heading("Notes"), Points(notes)], claims, figure, SHOWS)
