"""Figure 5: error over KL divergence, and C*-PDIS under noisy and missing annotations."""

from __future__ import annotations

from semiope.paper import divergence, figures, sweeps
from semiope.paper.measures import COMPARE, VARY_NOISE, VARY_SHARE, each
from semiope.paper.pages import Block, Heading, Made, Points
from semiope.paper.pieces import Piece, Pieces
from semiope.paper.settings import Settings
from semiope.paper.trials import NOISES

TITLE = "Figure 5: distance from behaviour, noisy and missing annotations"
SHOWS = (
    "Left: RMSE of each policy over its KL divergence from the behaviour policy, with trend lines. Centre: RMSE, "
    "Spearman and accuracy of C*-PDIS over annotation noise. Right: the same over the share annotated, without and "
    "with imputation."
)
STD = NOISES[0]


def pieces(settings: Settings) -> list[Piece]:
    """All sepsis experiments of the paper."""
    return each(settings, COMPARE, VARY_NOISE, VARY_SHARE)


def make(settings: Settings, found: Pieces) -> Made:
    """Three columns: one tall panel, and two of three panels each."""
    far = divergence.divergence(settings, found)
    noise, share = sweeps.over_noise(settings, found, "all"), sweeps.over_share(settings, found, STD)
    with figures.styled():
        figure, axes = figures.new(3, 3, height=2.9)
        for one in axes[:, 0]:
            one.remove()
        grid = axes[0, 1].get_gridspec()
        grid.set_width_ratios([1.35, 1, 1])
        left = figure.add_subplot(grid[:, 0])
        divergence.draw(left, far)
        left.legend(loc="upper left", handletextpad=0.2, borderpad=0)
        sweeps.draw(list(axes[:, 1]), noise)
        sweeps.draw(list(axes[:, 2]), share, labels=False)
        handles, names = axes[0, 2].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside upper right", ncols=3, columnspacing=1.2)
    rows = [{"panel": "left", **row} for row in divergence.rows(far)]
    rows += sweeps.rows(noise, panel="centre") + sweeps.rows(share, panel="right")
    blocks: list[Block] = [
        Heading("Left: KL divergence"), divergence.table(far),
        Heading("Centre: noise"), sweeps.table(noise),
        Heading(f"Right: share annotated, noise {STD:g}"), sweeps.table(share),
        Heading("Notes"),
        Points((divergence.NOTE, sweeps.HEAVY_TAILS, "Bands are one standard deviation; see Figures 11 and 12.")),
    ]  # fmt: skip
    claims = [*divergence.claims(far), *sweeps.noise_claims(noise), *sweeps.share_claims(share, STD)]
    return Made(TITLE, rows, blocks, claims, figure, SHOWS)
