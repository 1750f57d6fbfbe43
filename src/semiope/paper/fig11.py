"""Figure 11: C*-PDIS with noisy annotations, of all counterfactuals and of a tenth."""

from __future__ import annotations

import numpy as np

from semiope.paper import figures, sweeps
from semiope.paper.measures import COMPARE, VARY_NOISE, each
from semiope.paper.pages import Claim, Heading, Made, Points
from semiope.paper.pieces import Piece, Pieces
from semiope.paper.setup import Setup

TITLE = "Figure 11: noisy annotations"
SHOWS = (
    "RMSE, Spearman and accuracy of C*-PDIS over annotation noise: all counterfactuals annotated, and a tenth of them."
)


def pieces(setup: Setup) -> list[Piece]:
    """The noise experiments, and PDIS beside them."""
    return each(setup, COMPARE, VARY_NOISE)


def make(setup: Setup, found: Pieces) -> Made:
    """Two columns of three panels."""
    parts = {"all annotated": "all", "10% annotated": "tenth"}
    shown = {title: sweeps.over_noise(setup, found, which) for title, which in parts.items()}
    with figures.styled():
        figure, axes = figures.new(3, 2, height=3.6, width=4.6)
        for column, (title, sweep) in enumerate(shown.items()):
            sweeps.draw(list(axes[:, column]), sweep, labels=not column)
            axes[0, column].set_title(title)
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
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
    rows = [row for title, sweep in shown.items() for row in sweeps.rows(sweep, panel=title)]
    blocks = [block for title, sweep in shown.items() for block in (Heading(title.capitalize()), sweeps.table(sweep))]
    notes = (
        "One draw of noise an answer, the same for all policies, is scaled by the standard deviation. Nothing is "
        "imputed.",
        sweeps.HEAVY_TAILS,
    )
    return Made(TITLE, rows, [*blocks, Heading("Notes"), Points(notes)], claims, figure, SHOWS)
