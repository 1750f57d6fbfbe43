"""Table 3: two-state bandits."""

from __future__ import annotations

from functools import partial

from semiope.paper import bandits

TITLE = "Table 3: two-state bandits"
NOTES = (
    "R(s2) is 0, unlike in Table 1.",
    bandits.POOLED,
)

pieces = partial(bandits.pieces, "table3")
make = partial(bandits.make, "table3", TITLE, NOTES)
