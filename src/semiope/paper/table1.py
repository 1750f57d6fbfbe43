"""Table 1: bandits, the main settings."""

from __future__ import annotations

from functools import partial

from semiope.paper import bandits

TITLE = "Table 1: bandits, the main settings"
NOTES = (
    "R(s2) is 1 here; in Table 3 it is 0.",
    bandits.POOLED,
)

pieces = partial(bandits.pieces, "table1")
make = partial(bandits.make, "table1", TITLE, NOTES)
