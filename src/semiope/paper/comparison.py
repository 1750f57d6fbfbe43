"""Tables 2 and 5 have the same columns: estimators by their measures, ours beside the paper's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from semiope.paper.measures import (
    BOTH,
    COMPARE,
    EXTEND,
    MEASURES,
    Difference,
    Measured,
    difference,
    each,
    gathered,
    measure,
    printed_measures,
    spreads,
)  # fmt: skip
from semiope.paper.pages import Block, Claim, Heading, Made, Points, Table
from semiope.paper.pieces import Piece, Pieces
from semiope.paper.settings import WITHIN, Settings

# Measures of estimators that are misprinted, and what they should be.
Misprints = Mapping[tuple[str, str], float]


class Row(NamedTuple):
    """A row by its name in the paper, the estimates it is made of, who has it (the paper, or we), and what to know."""

    estimator: str
    source: str
    forms: Sequence[int] = BOTH
    whose: str = "paper"
    note: str = ""


def pieces(settings: Settings) -> list[Piece]:
    """What both tables need."""
    return each(settings, COMPARE, EXTEND)


def make(
    name: str, title: str, rows: Sequence[Row], notes: Sequence[str], misprints: Misprints, settings: Settings,
    found: Pieces,
) -> Made:  # fmt: skip
    """The table, the paper's, and how far they are apart; misprints are read as what they should be."""
    data = gathered(settings, found, COMPARE) | gathered(settings, found, EXTEND)
    measures = {row.estimator: measure(data[row.source], data["mean return"], row.forms) for row in rows}
    ours = {row: spreads(one) for row, one in measures.items()}
    # Its printed std is over policies and datasets; that of a mean over policies is known from ours alone.
    scatter = {row: {"ess": float(one["ess"].mean(axis=1).std())} for row, one in measures.items()}
    theirs = printed_measures(name)
    apart = _apart(corrected(theirs, misprints), ours, scatter, settings)
    everything = [one for measures in apart.values() for one in measures.values()]
    worst, same = max(abs(one.errors) for one in everything), sum(one.same for one in everything)
    but = f" ({len(misprints)} misprint put right)" if misprints else ""
    blocks: list[Block] = [
        f"Mean ± standard deviation over {settings.datasets} datasets. {same} of {len(everything)} entries print the "
        f"same as in the paper{but}.",
        Heading("Ours"),
        _table(ours, [row.estimator for row in rows if row.whose == "paper"]),
        Heading("Beyond the paper"),
        _table(ours, [row.estimator for row in rows if row.whose != "paper"]),
        Heading("As the paper prints it"),
        _table(theirs, list(theirs)),
        Heading("Differences, in standard errors"),
        Table(
            _headings(),
            [
                (_name(row), *(f"{measures[metric].errors:+.2f}" for metric in MEASURES))
                for row, measures in apart.items()
            ],
        ),
        "Standard errors are of the difference of two means over datasets, with the scatter of both sides pooled: "
        "for 50 datasets, std / √50 on either side. That of ESS is from our datasets' mean ESS, since the std shown "
        "is over policies, too. The same data on both sides give 0 but for rounding.",
        Heading("Notes"),
        Points(notes),
    ]
    claim = (
        f"every entry lies within {WITHIN:g} standard errors of the paper's{but}; the largest difference is {worst:.2f}"
    )
    listed = [
        {
            "estimator": row.estimator, **ours[row.estimator], "row_of": row.whose, "note": row.note,
            "paper": theirs.get(row.estimator, {}),
        }
        for row in rows
    ]  # fmt: skip
    return Made(title, listed, blocks, [Claim(claim, worst <= WITHIN)])


def corrected(printed: dict[str, Measured], misprints: Misprints) -> dict[str, Measured]:
    """A table with its misprints put right."""
    return {
        row: {
            metric: spread._replace(mean=misprints.get((row, metric), spread.mean))
            for metric, spread in measures.items()
        }
        for row, measures in printed.items()
    }


def _apart(
    theirs: dict[str, Measured], ours: dict[str, Measured], scatter: dict[str, dict[str, float]], settings: Settings
) -> dict[str, dict[str, Difference]]:
    return {
        row: {
            metric: difference(metric, ours[row][metric], one, settings.datasets, scatter[row].get(metric))
            for metric, one in measures.items()
        }
        for row, measures in theirs.items()
    }


def _table(measures: dict[str, Measured], rows: Sequence[str]) -> Table:
    def cell(row: str, metric: str) -> str:
        mean, std = measures[row][metric]
        digits = MEASURES[metric].digits
        return f"{mean:.{digits}f} ± {std:.{digits}f}"

    return Table(_headings(), [(_name(row), *(cell(row, metric) for metric in MEASURES)) for row in rows])


def _headings() -> tuple[str, ...]:
    return ("estimator", *(one.heading for one in MEASURES.values()))


def _name(estimator: str) -> str:
    return f"`{estimator}`"
