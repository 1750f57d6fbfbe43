"""Figure 12: C*-PDIS with missing annotations, left out and imputed, at two levels of noise."""

from __future__ import annotations

from semiope.paper import figures, sweeps
from semiope.paper.measures import COMPARE, VARY_SHARE, each
from semiope.paper.pages import Heading, Made, Points
from semiope.paper.pieces import Piece, Pieces
from semiope.paper.setup import Setup
from semiope.paper.trials import NOISES

TITLE = "Figure 12: missing annotations"
SHOWS = (
    "RMSE, Spearman and accuracy of C*-PDIS over the share annotated, without and with imputation, at noise 0.2 and "
    "1.0."
)


def pieces(setup: Setup) -> list[Piece]:
    """The experiments on missing answers, and PDIS beside them."""
    return each(setup, COMPARE, VARY_SHARE)


def make(setup: Setup, found: Pieces) -> Made:
    """Two columns of three panels."""
    shown = {std: sweeps.over_share(setup, found, std) for std in NOISES}
    with figures.styled():
        figure, axes = figures.new(3, 2, height=3.6, width=4.6)
        for column, (std, sweep) in enumerate(shown.items()):
            sweeps.draw(list(axes[:, column]), sweep, labels=not column)
            axes[0, column].set_title(f"noise {std:g}")
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    claims = [claim for std, sweep in shown.items() for claim in sweeps.share_claims(sweep, std)]
    rows = [row for std, sweep in shown.items() for row in sweeps.rows(sweep, panel=f"noise {std:g}")]
    blocks = [block for std, sweep in shown.items() for block in (Heading(f"Noise {std:g}"), sweeps.table(sweep))]
    notes = (
        "Each answer is there with the probability on the axis, and who answers at one share answers at every larger "
        "one. Without any answer C*-PDIS is PDIS.",
        "A missing answer is imputed as the mean of the dataset's answers about the same state and action, over all "
        "steps; without any such answer it stays missing.",
        sweeps.HEAVY_TAILS,
    )
    return Made(TITLE, rows, [*blocks, Heading("Notes"), Points(notes)], claims, figure, SHOWS)
