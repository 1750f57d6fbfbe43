"""Figure 12: C*-PDIS with missing annotations, left out and imputed, at two levels of noise."""

from __future__ import annotations

from semiope.paper import sweeps
from semiope.paper.measures import COMPARE, VARY_SHARE, each
from semiope.paper.pages import Heading, Made, Points
from semiope.paper.pieces import Piece, Pieces
from semiope.paper.settings import Settings
from semiope.paper.trials import NOISES

TITLE = "Figure 12: missing annotations"
SHOWS = (
    "RMSE, Spearman and accuracy of C*-PDIS over the share annotated, without and with imputation, at noise 0.2 and "
    "1.0."
)


def pieces(settings: Settings) -> list[Piece]:
    """The experiments on missing answers, and PDIS beside them."""
    return each(settings, COMPARE, VARY_SHARE)


def make(settings: Settings, found: Pieces) -> Made:
    """Two columns of three panels."""
    shown = {std: sweeps.over_share(settings, found, std) for std in NOISES}
    figure, rows, blocks = sweeps.columns({f"noise {std:g}": sweep for std, sweep in shown.items()})
    claims = [claim for std, sweep in shown.items() for claim in sweeps.share_claims(sweep, std)]
    notes = (
        "Each answer is there with the probability on the axis, and who answers at one share answers at every larger "
        "one. Without any answer C*-PDIS is PDIS.",
        "A missing answer is imputed as the mean of the dataset's answers about the same state and action, over all "
        "steps; without any such answer it stays missing.",
        sweeps.HEAVY_TAILS,
    )
    return Made(TITLE, rows, [*blocks, Heading("Notes"), Points(notes)], claims, figure, SHOWS)
