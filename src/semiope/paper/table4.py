"""Table 4: one-state bandits."""

from __future__ import annotations

from functools import partial

from semiope.paper import bandits

TITLE = "Table 4: one-state bandits"
NOTES = (
    "With one state the naive baseline is C*-IS, and the paper leaves it out (its caption still names it).",
    "The paper used the same draws for all cells: biases of C*-IS of 0.01 to 0.04 throughout are one deviation, not "
    "many.",
)

pieces = partial(bandits.pieces, "table4")
make = partial(bandits.make, "table4", TITLE, NOTES)
