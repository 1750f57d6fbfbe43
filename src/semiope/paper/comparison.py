"""Tables 2 and 5 have the same columns: estimators by their measures, ours beside the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from semiope._arrays import Floats
from semiope.paper.measures import (
    BOTH,
    COMPARE,
    DIGITS,
    EXTEND,
    HEADINGS,
    difference,
    each,
    gathered,
    measure,
    printed_measures,
    summary,
)
from semiope.paper.pages import MEASURED, Block, Claim, Heading, Made, Points, Table
from semiope.paper.pieces import Piece, Pieces
from semiope.paper.setup import Setup

WITHIN = 4.0
MISPRINT = ("c*-pdis (G=Qb)", "fpr", 20.0)


class Row(NamedTuple):
    """A row by its name in the paper, the estimates it is made of, and who has it: the paper, or we."""

    estimator: str
    source: str
    forms: Sequence[int] = BOTH
    whose: str = "paper"


def pieces(setup: Setup) -> list[Piece]:
    """What both tables need."""
    return each(setup, COMPARE, EXTEND)


def make(name: str, title: str, rows: Sequence[Row], notes: Sequence[str], setup: Setup, found: Pieces) -> Made:
    """The table, the paper's, and how far they are apart."""
    data = gathered(setup, found, COMPARE) | gathered(setup, found, EXTEND)
    bars: Floats = data["mean return"]
    ours = {row.estimator: summary(measure(data[row.source], bars, row.forms)) for row in rows}
    theirs = printed_measures(name)
    listed: list[dict[str, Any]] = [
        {"estimator": row.estimator, **ours[row.estimator], "of": row.whose} for row in rows
    ]
    apart, worst, same = _compare(theirs, ours, setup)
    total = len(theirs) * len(MEASURED)
    corrected = {row: {metric: list(pair) for metric, pair in theirs[row].items()} for row in theirs}
    if MISPRINT[0] in corrected:
        corrected[MISPRINT[0]][MISPRINT[1]][0] = MISPRINT[2]
    _, worst_corrected, same_corrected = _compare(corrected, ours, setup)
    where = "the misprint read as 20.0, " if same_corrected != same or worst_corrected != worst else ""
    told = f"{where}every entry lies within {WITHIN:g} standard errors of the paper's (largest: {worst_corrected:.2f})"
    blocks: list[Block] = [
        f"Mean ± standard deviation over {setup.datasets} datasets of 1000 episodes. {same_corrected} of {total} "
        f"entries print the same as in the paper{' (the misprint read as 20.0)' if where else ''}.",
        Heading("Ours"),
        _table(ours, [row.estimator for row in rows if row.whose == "paper"]),
        Heading("Beyond the paper"),
        _table(ours, [row.estimator for row in rows if row.whose != "paper"]),
        Heading("As the paper prints it"),
        _table(theirs, list(theirs)),
        Heading("Differences, in standard errors"),
        Table(
            ("estimator", *HEADINGS.values()),
            [(_name(row), *(f"{apart[row][metric].errors:+.2f}" for metric in MEASURED)) for row in theirs],
        ),
        "Standard errors are of the difference of two means over datasets, with the scatter of both sides pooled: "
        "for 50 datasets, std / √50 on either side. The same data on both sides give 0 but for rounding.",
        Heading("Notes"),
        Points(notes),
    ]
    claims = [Claim(told, worst_corrected <= WITHIN)]
    return Made(title, listed, blocks, claims)


def _compare(theirs: Any, ours: Any, setup: Setup) -> tuple[dict[str, dict[str, Any]], float, int]:
    """Every difference, the largest, and how many entries print the same."""
    apart = {
        row: {metric: difference(metric, ours[row][metric], pair, setup.datasets) for metric, pair in measures.items()}
        for row, measures in theirs.items()
    }
    everything = [one for measures in apart.values() for one in measures.values()]
    return apart, float(np.max(np.abs([one.errors for one in everything]))), sum(one.same for one in everything)


def _table(measures: Any, rows: Sequence[str]) -> Table:
    return Table(
        ("estimator", *HEADINGS.values()),
        [
            (
                _name(row),
                *("{:.{d}f} ± {:.{d}f}".format(*measures[row][metric], d=DIGITS[metric]) for metric in MEASURED),
            )
            for row in rows
        ],
    )


def _name(estimator: str) -> str:
    return f"`{estimator}`"
