"""Table 1: bandits, the main settings."""

from __future__ import annotations

from semiope.paper import bandits
from semiope.paper.pages import Made
from semiope.paper.pieces import Piece, Pieces
from semiope.paper.setup import Setup

TITLE = "Table 1: bandits, the main settings"
NOTES = (
    "R(s2) is 1 here; in the tables of the appendix it is 0.",
    "Each estimate is from one sample. The naive baseline pools logged and annotated samples; in s1 the pooled "
    "behaviour policy is one half each.",
)


def pieces(setup: Setup) -> list[Piece]:
    """One."""
    return bandits.pieces("table1")


def make(setup: Setup, found: Pieces) -> Made:
    """The table."""
    return bandits.make(setup, found, "table1", TITLE, NOTES)
