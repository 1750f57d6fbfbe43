"""Figure 10: error over KL divergence, large."""

from __future__ import annotations

from semiope.paper import divergence, figures, sweeps
from semiope.paper.measures import COMPARE, each
from semiope.paper.pages import Block, Made, Points
from semiope.paper.pieces import Piece, Pieces
from semiope.paper.settings import Settings

TITLE = "Figure 10: error and distance from the behaviour policy"
SHOWS = "RMSE of each of the 26 policies over its KL divergence from the behaviour policy, with linear trend lines."


def pieces(settings: Settings) -> list[Piece]:
    """The estimates of Table 2."""
    return each(settings, COMPARE)


def make(settings: Settings, found: Pieces) -> Made:
    """One panel."""
    far = divergence.divergence(settings, found)
    with figures.styled():
        figure, [[axes]] = figures.new(1, 1, height=3.2, width=4.2)
        divergence.draw(axes, far)
        axes.legend(loc="upper left")
    blocks: list[Block] = [divergence.table(far), Points([divergence.NOTE, sweeps.HEAVY_TAILS])]
    return Made(TITLE, divergence.rows(far), blocks, divergence.claims(far), figure, SHOWS)
