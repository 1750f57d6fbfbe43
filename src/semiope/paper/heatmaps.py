"""Heat maps of the log std of C-IS on a one-state bandit (Figures 7 and 8): drawn, and exact by theory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from semiope._arrays import Booleans, Floats
from semiope.diagnostics.setting import Setting
from semiope.domains import bandit
from semiope.domains.world import World
from semiope.paper import figures
from semiope.paper.pages import Claim, Table
from semiope.paper.settings import TENTHS, WITHIN
from semiope.weights.moments import WeightMoments

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GRID = TENTHS
REWARD_MEANS, REWARD_STD = (1.0, 2.0), 1.0
# What the captions of Figures 7e and 8 say, and what the paper's code ran.
AS_WRITTEN, AS_RUN = ((0.1, 0.9), (0.8, 0.2)), ((0.8, 0.2), (0.1, 0.9))


class Place(NamedTuple):
    """A point of the grid: what is varied for action 0 and for action 1."""

    zero: float
    one: float


PLACES = [Place(x, y) for x in GRID for y in GRID]


class Map(NamedTuple):
    """Log std over the grid, [for action 0, for action 1]: drawn and exact; where the estimator is biased.

    `error` are the standard errors of the drawn log std. `equal` and `standard` are where C*-IS and IS lie, if they do.
    """

    title: str
    drawn: Floats
    exact: Floats
    biased: Booleans
    error: Floats
    equal: Place | None
    standard: Place | None = None

    def star(self, surface: Floats) -> Place:
        """Where a surface is least among points at which the estimator is unbiased; of equals, C*-IS or the last."""
        open_ = np.where(self.biased, np.inf, surface)
        ties = [Place(GRID[i], GRID[j]) for i, j in np.argwhere(open_ <= open_.min() + 1e-9)]
        return self.equal if self.equal in ties else ties[-1]

    def at(self, surface: Floats, place: Place) -> float:
        """The height at a point."""
        return float(surface[GRID.index(place.zero), GRID.index(place.one)])


@cache
def world_of(behavior: tuple[float, ...]) -> World:
    """The bandit of these maps."""
    return bandit.one_state(REWARD_MEANS, behavior, reward_std=REWARD_STD)


def setting_of(
    behavior: Sequence[float], evaluation: Sequence[float], weights: WeightMoments, annotation_std: float
) -> Setting:
    """The same as theory sees it."""
    world = world_of(tuple(behavior))
    return Setting.of(world.mdp, world.behavior, [list(evaluation)], weights=weights, annotation_std=annotation_std)


def draw(figure: Figure, axes: Axes, shown: Map, labels: tuple[str, str]) -> None:
    """Colours, and the paper's marks: star, crosses, red circle, yellow dot."""
    edges = np.append(np.array(GRID) - 0.05, 1.05)
    heights = np.ma.masked_array(shown.drawn, shown.biased)
    axes.set_facecolor("#e4e4e4")
    image = axes.pcolormesh(edges, edges, heights.T, cmap="viridis", lw=0)
    bar = figure.colorbar(image, ax=axes, fraction=0.05, pad=0.03)
    bar.outline.set_linewidth(0.4)
    bar.ax.tick_params(labelsize=6, length=2)
    bar.set_label("log std", fontsize=6, labelpad=2)
    crosses = np.argwhere(shown.biased) / 10
    if len(crosses):
        axes.plot(*crosses.T, "x", color=figures.GREY, ms=5, mew=1.3, label="biased")
    if shown.equal is not None:
        axes.plot(*shown.equal, "o", mfc="none", mec="#ff2a2a", ms=7.5, mew=1.3, label="C*-IS (equal weights)")
    if shown.standard is not None:
        axes.plot(*shown.standard, "o", color="#ffe800", mec="black", mew=0.5, ms=4, label="IS")
    axes.plot(*shown.star(shown.exact), "*", color="white", mec="black", mew=0.5, ms=7, label="least variance, exact")
    drawn = shown.star(shown.drawn)
    if drawn != shown.star(shown.exact):
        axes.plot(*drawn, "*", mfc="none", mec=figures.PINK, mew=1.0, ms=7.5, label="least variance, drawn")
    axes.set(
        title=shown.title, aspect="equal", xlim=edges[[0, -1]], ylim=edges[[0, -1]], xticks=(0, 0.5, 1),
        yticks=(0, 0.5, 1), xlabel=labels[0], ylabel=labels[1],
    )  # fmt: skip


def legend(figure: Figure, axes: Sequence[Axes], columns: int) -> None:
    """One legend for all maps."""
    found: dict[str, Any] = {}
    for one in axes:
        handles, names = one.get_legend_handles_labels()
        found |= dict(zip(names, handles, strict=True))
    figure.legend(found.values(), found.keys(), loc="outside upper center", ncols=columns, handletextpad=0.3)


def claims(shown: Sequence[Map]) -> list[Claim]:
    """Stars and surfaces agree with theory."""
    off = max(float((np.abs(one.drawn - one.exact) / one.error)[~one.biased].max()) for one in shown)
    behind = [
        (one.at(one.exact, drawn) - one.at(one.exact, one.star(one.exact))) / one.at(one.error, drawn)
        for one in shown
        for drawn in [one.star(one.drawn)]
    ]
    same = sum(one.star(one.drawn) == one.star(one.exact) for one in shown)
    return [
        Claim(
            f"stars: {same} of {len(shown)} drawn minima are the exact ones, and the exact log std at the others is "
            f"at most {max(behind):.2f} Monte-Carlo standard errors above the least",
            max(behind) <= WITHIN,
        ),
        Claim(f"drawn surfaces follow the exact ones (largest deviation {off:.1f} standard errors)", off <= OUTLIER),
    ]


# Of some hundred points that are drawn together.
OUTLIER = 5.0


def table(shown: Sequence[Map]) -> Table:
    """Minima, C*-IS and IS of each map."""
    body = []
    for one in shown:
        stars = [one.star(surface) for surface in (one.drawn, one.exact)]
        others = [f"{one.at(one.exact, place):.3f}" if place else "" for place in (one.equal, one.standard)]
        body.append((one.title, *map(_place, stars), f"{one.at(one.exact, stars[1]):.3f}", *others))
    headings = ("map", "least, drawn", "least, exact", "log std there", "log std of C*-IS", "log std of IS")
    return Table(headings, body)


def rows(shown: Sequence[Map], names: tuple[str, str]) -> list[dict[str, Any]]:
    """A row a point."""
    return [
        {
            "map": one.title, names[0]: x, names[1]: y, "log_std": float(one.drawn[i, j]),
            "exact": float(one.exact[i, j]), "biased": bool(one.biased[i, j]),
            "star": one.star(one.exact) == (x, y), "drawn_star": one.star(one.drawn) == (x, y),
        }
        for one in shown
        for i, x in enumerate(GRID)
        for j, y in enumerate(GRID)
    ]  # fmt: skip


def surface(height: Callable[[Place], float]) -> Floats:
    """A function of the grid's points, as an array."""
    return np.array([height(place) for place in PLACES]).reshape(len(GRID), -1)


def log_std(variance: float) -> float:
    """Natural log of a standard deviation."""
    return 0.5 * float(np.log(variance))


def _place(place: Place) -> str:
    return f"({place.zero:g}, {place.one:g})"
