"""Error and distance: the RMSE of each policy over its KL divergence from the behaviour policy (Figures 5 and 10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from semiope._arrays import Floats
from semiope.domains import sepsis
from semiope.paper import figures
from semiope.paper.measures import BOTH, COMPARE, gathered
from semiope.paper.pages import Claim, Table
from semiope.paper.pieces import Pieces
from semiope.paper.settings import Settings
from semiope.paper.trials import truths

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Source, name, the on-policy estimate where its trend starts, slope of the paper's line, marker and colour.
LINES = (
    ("pdis", "PDIS", "on-policy pdis", 0.115, "o", figures.BLACK),
    ("c*-pdis (G=Qb)", r"C*-PDIS, $G=Q^{\pi_b}$", "on-policy c*-pdis", 0.081, "s", figures.ORANGE),
    (
        "c*-pdis (G=Qb->Qe)", r"C*-PDIS, $G=Q^{\pi_b}\mapsto\hat{Q}^{\pi_e}$", "on-policy c*-pdis", 0.027, "^",
        figures.BLUE,
    ),
    ("c*-pdis (G=Qe)", r"C*-PDIS, $G=Q^{\pi_e}$", "on-policy c*-pdis", None, "D", figures.GREEN),
)  # fmt: skip


# PDIS has heavy tails: what lies beyond is shown by an arrow and its number.
HIGHEST = 0.3


class Trend(NamedTuple):
    """RMSE per policy, where the trend starts (the RMSE of the behaviour policy's own value), and its slope."""

    rmse: Floats
    start: float
    slope: float


class Divergence(NamedTuple):
    """KL divergence of each policy, and a trend for each estimator by its source."""

    kl: Floats
    trends: dict[str, Trend]


def divergence(settings: Settings, found: Pieces) -> Divergence:
    """KL(pi_e || pi_b) over the states visited, final ones included; RMSE over ordinary and weighted estimates."""
    world = sepsis.world()
    data = gathered(settings, found, COMPARE)
    visits = data["visits"].sum(axis=0).astype(float)
    kl = np.array(
        [_kl(policy.probs, world.behavior.probs) @ visits / visits.sum() for policy in world.policies.values()]
    )
    trends = {}
    for source, _, start, *_ in LINES:
        rmse = _rmse(data[source], truths())
        [origin] = _rmse(data[start], np.array([world.mdp.value(world.behavior)]))
        trends[source] = Trend(rmse, float(origin), float(kl @ (rmse - origin) / (kl @ kl)))
    return Divergence(kl, trends)


def draw(axes: Axes, found: Divergence) -> None:
    """A point a policy, and lines through the on-policy RMSE."""
    reach = np.array([0.0, 1.05 * found.kl.max()])
    for source, name, _, _, marker, colour in LINES:
        trend = found.trends[source]
        within = trend.rmse <= HIGHEST
        axes.plot(found.kl[within], trend.rmse[within], marker, color=colour, mec="white", mew=0.3, label=name)
        for kl, rmse in zip(found.kl[~within], trend.rmse[~within], strict=True):
            axes.annotate(
                f"{rmse:.2f}", (kl, HIGHEST), (kl, 0.92 * HIGHEST), color=colour, fontsize=6, ha="center", va="top",
                arrowprops={"arrowstyle": "->", "color": colour, "lw": 0.7, "shrinkA": 0, "shrinkB": 0},
            )  # fmt: skip
        axes.plot(reach, trend.start + trend.slope * reach, color=colour, lw=0.8)
    axes.set(
        xlim=(0, reach[1]),
        ylim=(0, HIGHEST),
        ylabel="RMSE",
        xticks=np.arange(0, reach[1], 0.25),
        xlabel=r"$\mathrm{KL}(\pi_e\,\|\,\pi_b)$",
    )


def table(found: Divergence) -> Table:
    """Starts and slopes, ours and the paper's."""
    rows = [
        (f"`{source}`", f"{trend.start:.4f}", f"{trend.slope:.3f}", "" if theirs is None else f"{theirs:.3f}")
        for source, _, _, theirs, *_ in LINES
        for trend in [found.trends[source]]
    ]
    return Table(("estimator", "on-policy RMSE", "slope", "slope of the paper's line"), rows)


def rows(found: Divergence) -> list[dict[str, Any]]:
    """A row a policy."""
    return [
        {
            "policy": name,
            "kl": float(kl),
            **{f"rmse {source}": float(one.rmse[i]) for source, one in found.trends.items()},
        }
        for i, (name, kl) in enumerate(zip(sepsis.world().policies, found.kl, strict=True))
    ]


def claims(found: Divergence) -> list[Claim]:
    """What the text says of the figure."""
    slopes = [found.trends[source].slope for source, *_ in LINES]
    return [
        Claim("error grows with the distance from behaviour, for PDIS and for C*-PDIS with Qb", min(slopes[:2]) > 0),
        Claim("it grows less with C*-PDIS than with PDIS, and less still once answers are corrected",
              slopes[0] > slopes[1] > slopes[2] > slopes[3]),
    ]  # fmt: skip


NOTE = (
    "The label of the paper's axis has the policies the other way round, which would be infinite for deterministic "
    "ones; what was computed is KL(pi_e || pi_b), averaged over the states visited, final ones included. Trend lines "
    "start at the RMSE that the same estimator has for the behaviour policy itself."
)


def _kl(evaluation: Floats, behavior: Floats) -> Floats:
    ratio = np.divide(evaluation, behavior, out=np.ones_like(evaluation), where=evaluation > 0)
    found: Floats = (evaluation * np.log(ratio)).sum(axis=1)
    return found


def _rmse(estimates: Floats, truth: Floats) -> Floats:
    """Over datasets and both forms, for each policy."""
    found: Floats = np.sqrt(np.mean((estimates[..., BOTH] - truth[:, None]) ** 2, axis=(0, 2)))
    return found
