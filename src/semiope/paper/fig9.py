"""Figure 9: the true values of the 26 evaluation policies."""

from __future__ import annotations

import numpy as np

from semiope.domains import sepsis
from semiope.paper import figures
from semiope.paper.pages import Claim, Made, Points, Table
from semiope.paper.pieces import Piece, Pieces
from semiope.paper.settings import Settings
from semiope.paper.trials import truths

TITLE = "Figure 9: true values of the evaluation policies"
SHOWS = (
    "True value of each of the 26 policies beside those of the optimal and the behaviour policy; on the right with the "
    "standard deviation of the values over initial states."
)
MEAN_STD, REACHING = 0.312, 15


def pieces(settings: Settings) -> list[Piece]:
    """None: values are exact."""
    return []


def make(settings: Settings, found: Pieces) -> Made:
    """Two panels, the right one with error bars."""
    world = sepsis.world()
    values = truths()
    spread = np.array([world.mdp.initial_std(policy) for policy in world.policies.values()])
    today = world.mdp.value(world.behavior)
    groups = [0, *(i for i, _ in enumerate(sepsis.FLIPS, 1) for _ in sepsis.FLIP_SEEDS)]
    aside = [0.0, *(0.13 * (k - 2) for _ in sepsis.FLIPS for k in range(len(sepsis.FLIP_SEEDS)))]
    at = np.array(groups) + np.array(aside)
    with figures.styled():
        figure, [[left, right]] = figures.new(1, 2, height=2.2)
        for axes, bars in ((left, None), (right, spread)):
            axes.errorbar(
                at, values, yerr=bars, fmt="o", color=figures.BLUE, ecolor=figures.SKY, elinewidth=0.9, ms=2.8
            )
            axes.axhline(values[0], color=figures.GREEN, ls="--", lw=0.9, label=r"optimal policy, $v(\pi^*)$")
            axes.axhline(today, color=figures.RED, ls="-.", lw=0.9, label=r"behaviour policy, $v(\pi_b)$")
            axes.set_xticks(range(len(sepsis.FLIPS) + 1), ["0", *map(str, sepsis.FLIPS)])
            axes.set_xlabel("states in which the optimal action is flipped")
        left.set_ylabel(r"true value $v(\pi_e)$")
        figure.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=2)
    reaching, mean = int((values >= today).sum()), float(spread.mean())
    rows = [
        {"policy": name, "value": float(value), "initial_std": float(std), "better": bool(value >= today)}
        for name, value, std in zip(world.policies, values, spread, strict=True)
    ]
    rows.append({"policy": "behavior", "value": today, "initial_std": world.mdp.initial_std(world.behavior)})
    table = Table(
        ("policy", "value", "std over initial states"),
        [(f"`{row['policy']}`", f"{row['value']:.4f}", f"{row['initial_std']:.4f}") for row in rows],
    )
    claims = [
        Claim(f"the mean std of initial values is {mean:.3f}, as printed", f"{mean:.3f}" == f"{MEAN_STD:.3f}"),
        Claim(
            f"{reaching} of 26 policies are at least as good as the behaviour policy: about half", reaching == REACHING
        ),
    ]
    note = "Values are exact, at a horizon of 20; none of this is simulated."
    return Made(TITLE, rows, [table, Points([note])], claims, figure, SHOWS)
