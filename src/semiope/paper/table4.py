"""Table 4: one-state bandits."""

from __future__ import annotations

from semiope.paper import bandits
from semiope.paper.pages import Made
from semiope.paper.pieces import Piece, Pieces
from semiope.paper.setup import Setup

TITLE = "Table 4: one-state bandits"
NOTES = (
    "With one state the naive baseline is C*-IS, and the paper leaves it out (its caption still names it).",
    "The paper used the same draws for all cells: its biases of 0.02 to 0.04 throughout are one deviation, not many.",
)


def pieces(setup: Setup) -> list[Piece]:
    """One."""
    return bandits.pieces("table4")


def make(setup: Setup, found: Pieces) -> Made:
    """The table."""
    return bandits.make(setup, found, "table4", TITLE, NOTES)
