"""Section 3.1 and appendix B: why annotations must not simply be added, in two examples of two samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from semiope.errors import quietly
from semiope.paper import figures
from semiope.paper.pages import Claim, Made, Points, Table
from semiope.paper.pieces import Piece, Pieces
from semiope.paper.settings import Settings
from semiope.pipeline import evaluate
from semiope.policies.policy import read_policy

TITLE = "Section 3.1 and appendix B: the intuition"
SHOWS = (
    "Estimates of the policy of section 3.1 over the weight left on what happened: C-IS gives the true value 0.5 at "
    "every weight, the naive estimate is 2/3, the logs alone give 0."
)
WEIGHTS = tuple(round(0.05 * i, 2) for i in range(1, 20))
UP, DOWN = "up", "down"


def pieces(settings: Settings) -> list[Piece]:
    """None: there is nothing to draw."""
    return []


def make(settings: Settings, found: Pieces) -> Made:
    """Both examples, for many weights."""
    naive, logs = section_3_1("naive-unweighted"), section_3_1("is")
    split = np.array([section_3_1("c-is", weight) for weight in WEIGHTS])
    single = np.array([appendix_b1(weight) for weight in WEIGHTS])
    with figures.styled():
        figure, [[axes]] = figures.new(1, 1, height=2.3, width=3.6)
        axes.plot(WEIGHTS, split, "o-", color=figures.BLUE, label="C-IS", zorder=3)
        axes.axhline(naive, color=figures.RED, ls="--", label="naive: annotation added as a sample")
        axes.axhline(logs, color=figures.GREY, ls=":", label="IS on the logs alone")
        axes.axhline(0.5, color=figures.GREEN, lw=3, alpha=0.35, label="true value")
        axes.set(xlim=(0, 1), ylim=(-0.05, 0.8), xlabel=r"weight $\alpha$ on what happened", ylabel="estimate")
        figure.legend(loc="outside upper center", ncols=2)
    off = {"section 3.1": float(np.abs(split - 0.5).max()), "appendix B.1": float(np.abs(single - 1.0).max())}
    rows: list[dict[str, Any]] = [
        {"example": "section 3.1", "estimator": "is", "ours": logs, "true": 0.5},
        {"example": "section 3.1", "estimator": "naive", "ours": naive, "paper": 2 / 3, "true": 0.5},
    ]
    for name, values, true in (("section 3.1", split, 0.5), ("appendix B.1", single, 1.0)):
        rows += [
            {"example": name, "estimator": "c-is", "alpha": weight, "ours": float(value), "paper": true, "true": true}
            for weight, value in zip(WEIGHTS, values, strict=True)
        ]
    table = Table(
        ("example", "estimator", "ours", "paper", "truth"),
        [
            ("section 3.1", "`is`, logs alone", f"{logs:.4f}", "undefined", "0.5"),
            ("section 3.1", "naive", f"{naive:.4f}", "2/3", "0.5"),
            ("section 3.1", f"`c-is`, {len(WEIGHTS)} weights", f"{split.min():.4f} to {split.max():.4f}", "0.5", "0.5"),
            ("appendix B.1", f"`c-is`, {len(WEIGHTS)} weights", f"{single.min():.4f} to {single.max():.4f}", "1", "1"),
        ],
        words=2,
    )
    claims = [
        Claim("the naive estimate is 2/3", abs(naive - 2 / 3) < 1e-12),
        Claim("C-IS gives 0.5 for every weight", off["section 3.1"] < 1e-12),
        Claim("with weights that differ between samples it gives 1 (appendix B.1)", off["appendix B.1"] < 1e-12),
    ]
    note = (
        "The paper calls IS on the logs alone undefined, because it divides by zero once the annotation is among the "
        "samples. The logs themselves hold no such sample: `is` gives 0, with a warning that it is blind to the "
        "action never taken."
    )
    return Made(TITLE, rows, [table, Points([note])], claims, figure, SHOWS)


def section_3_1(estimator: str, weight: float = 0.5) -> float:
    """Two states, of which s1 pays 1; up was taken in both, down in s1 is annotated and what pi_e does."""
    episodes = {"episode": [1, 2], "step": [0, 0], "state": ["s1", "s2"], "action": [UP, UP], "reward": [1.0, 0.0]}
    annotations = {"episode": [1], "step": [0], "action": [DOWN], "value": [1.0], "weight": [1 - weight]}
    policy = read_policy({"state": ["s1", "s2"], "action": [DOWN, UP], "prob": [1.0, 1.0]})
    return _estimate(episodes, policy, annotations, estimator)


def appendix_b1(weight: float) -> float:
    """One state; of two samples only one is annotated, and its weight is split."""
    episodes = {"episode": [1, 2], "step": [0, 0], "state": ["s", "s"], "action": [UP, UP], "reward": [1.0, 1.0]}
    annotations = {"episode": [1], "step": [0], "action": [DOWN], "value": [1.0], "weight": [1 - weight]}
    policy = read_policy({"state": ["s"], "action": [DOWN], "prob": [1.0]})
    return _estimate(episodes, policy, annotations, "c-is")


def _estimate(episodes: Any, policy: Any, annotations: Any, estimator: str) -> float:
    with quietly():
        found = evaluate(episodes, policy, annotations=annotations, estimators=[estimator], weights="column")
    return float(found[estimator].value)
