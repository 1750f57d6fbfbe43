"""Table 3: two-state bandits."""

from __future__ import annotations

from semiope.paper import bandits
from semiope.paper.pages import Made
from semiope.paper.pieces import Piece, Pieces
from semiope.paper.setup import Setup

TITLE = "Table 3: two-state bandits"
NOTES = (
    "R(s2) is 0, unlike in Table 1.",
    "Each estimate is from one sample. The naive baseline pools logged and annotated samples; in s1 the pooled "
    "behaviour policy is one half each.",
)


def pieces(setup: Setup) -> list[Piece]:
    """One."""
    return bandits.pieces("table3")


def make(setup: Setup, found: Pieces) -> Made:
    """The table."""
    return bandits.make(setup, found, "table3", TITLE, NOTES)
