"""How figures look: for a column of a journal, the same bytes on every run, colours that the colour-blind can tell."""

from __future__ import annotations

import io
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from semiope._extras import need

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito (2008).
BLACK, ORANGE, SKY, GREEN, BLUE, RED = "#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00"
GREY, PINK = "#767676", "#ff85d0"
WIDTH = 5.5  # inches, the width of the paper's text
STYLE: dict[str, Any] = {
    "font.family": "STIXGeneral",
    "mathtext.fontset": "stix",
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "lines.linewidth": 1.1,
    "lines.markersize": 3,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": False,
    "savefig.facecolor": "white",
    "svg.hashsalt": "semiope",
    "svg.fonttype": "path",
}


def need_matplotlib() -> None:
    """Fail with the way out where figures cannot be drawn."""
    need("matplotlib", "paper", "drawing figures")


def new(rows: int, columns: int, *, height: float, width: float = WIDTH) -> tuple[Figure, Any]:
    """A figure and its axes, (rows, columns); to be called within `styled`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def styled() -> AbstractContextManager[None]:
    """The context in which figures are drawn on and written: matplotlib's own defaults are left alone."""
    from matplotlib import rc_context

    found: AbstractContextManager[None] = rc_context(STYLE)
    return found


def written(figure: Figure, suffix: str) -> bytes:
    """The bytes of a file, without the date or the versions of programs."""
    target = io.BytesIO()
    metadata: dict[str, Any] = {"Software": None} if suffix == "png" else {"Date": None, "Creator": None}
    with styled():
        figure.savefig(target, format=suffix, dpi=300, metadata=metadata)
        figure.set_layout_engine("none")  # found once, for all formats
    return target.getvalue()
