"""Beyond the paper: how many questions experts must be asked, chosen at random and planned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from semiope._arrays import Floats
from semiope.domains import bandit, sepsis, tree
from semiope.domains.world import World
from semiope.paper import asking, figures
from semiope.paper.measures import each, gathered
from semiope.paper.pages import Block, Claim, Heading, Made, Points, Spread, Table
from semiope.paper.pieces import Piece, Pieces
from semiope.paper.settings import Settings
from semiope.planning.planner import Planner
from semiope.policies.policy import Policy
from semiope.uncertainty.scores import rank_correlation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Which questions to ask (beyond the paper)"
SHOWS = (
    "RMSE and rank correlation of 26 sepsis policies over the number of questions, chosen at random, among those that "
    "matter, where most hangs on the answer, and planned; for three levels of noise."
)
ALONE = Piece(asking.ask_alone, cost=40.0)
SOFTENED = Piece(asking.ask_softened, cost=20.0)
FOR_TODAY = Piece(asking.ask_for_today, cost=20.0)
TOGETHER = Piece(asking.ask_together, cost=10.0)


class Part(NamedTuple):
    """A part of the study: what is run, the policies that it is about, and how a figure calls it."""

    piece: Piece
    policies: Callable[[], dict[str, Policy]]
    short: str


PARTS = {
    "each policy on its own": Part(ALONE, lambda: sepsis.world().policies, "each alone"),
    "softened policies, each on its own": Part(SOFTENED, lambda: asking.every_third(asking.softened()), "softened"),
    "each on its own, answers about usual care": Part(
        FOR_TODAY, lambda: asking.every_third(sepsis.world().policies), "usual care"
    ),
    "all 26 at once, answers about usual care": Part(TOGETHER, lambda: sepsis.world().policies, "all at once"),
}
COLOURS = {
    "random": (figures.GREY, ":", "at random"), "mattering": (figures.ORANGE, "-.", "at random, of those that matter"),
    "deviations": (figures.SKY, "--", "where most hangs on the answer"), "planned": (figures.BLUE, "-", "planned"),
}  # fmt: skip
REACHED = 0.02
MOST_QUESTIONS = 12


def pieces(settings: Settings) -> list[Piece]:
    """All datasets, and small worlds where the best plan can be found by trying all."""
    return [*each(settings, *(part.piece for part in PARTS.values())), Piece(small)]


class Curves(NamedTuple):
    """RMSE and rank correlation over policies, (datasets, budgets) by way; of all answers, (datasets,)."""

    rmse: dict[str, Floats]
    spearman: dict[str, Floats]


def make(settings: Settings, found: Pieces) -> Made:
    """A page with a figure."""
    shown = {name: _curves(settings, found, part) for name, part in PARTS.items()}
    best = found[Piece(small)]
    blocks: list[Block] = []
    for part, by_noise in shown.items():
        for noise, curves in by_noise.items():
            blocks += [Heading(f"{part.capitalize()}, noise {noise:g}"), _table(curves)]
    blocks += [Heading("Against the best of all plans"), _small_table(best), Heading("Notes"), Points(_NOTES)]
    return Made(TITLE, _rows(shown), blocks, [*_claims(shown), _small_claim(best)], _figure(shown), SHOWS)


_NOTES = (
    "All ways have the same estimator: the plan's own model completes what was not asked, and all annotations enter "
    "C*-PDIS. Planned questions are planned again after each budget shown, with the answers so far.",
    "Experts tell returns of the policy itself or, where that is said, of usual care; then the answers are completed "
    "as such by that model, and converted to each policy.",
    "Softened policies do otherwise than their deterministic ones with a probability of 0.1. These, and policies on "
    "their own with answers about usual care, are every third of the 26.",
    "Small worlds: the standard deviation that remains in what is wanted, for the questions planned and for the best "
    "of all sets of as many questions.",
)


def _curves(settings: Settings, found: Pieces, part: Part) -> dict[float, Curves]:
    data, mdp = gathered(settings, found, part.piece), sepsis.world().mdp
    truth = np.array([mdp.value(policy) for policy in part.policies().values()])

    def rmse(estimates: Floats) -> Floats:
        errors: Floats = np.sqrt(np.mean((estimates - truth) ** 2, axis=-1))
        return errors

    def spearman(estimates: Floats) -> Floats:
        flat = estimates.reshape(-1, len(truth))
        return np.array([rank_correlation(one, truth) for one in flat]).reshape(estimates.shape[:-1])

    names = (*asking.WAYS, "all")
    return {
        noise: Curves(*({name: of(data[f"{noise} {name}"]) for name in names} for of in (rmse, spearman)))
        for noise in asking.NOISES
    }


def _table(curves: Curves) -> Table:
    headings = ["questions", *(f"RMSE, {COLOURS[way][2]}" for way in asking.WAYS), "Spearman, planned"]
    body = [
        [f"{budget:,}", *(f"{curves.rmse[way][:, i].mean():.4f}" for way in asking.WAYS),
         f"{curves.spearman['planned'][:, i].mean():.3f}"]
        for i, budget in enumerate(asking.BUDGETS)
    ]  # fmt: skip
    everything = f"{curves.rmse['all'].mean():.4f}"
    return Table(headings, [*body, ["all", *[everything] * len(asking.WAYS), f"{curves.spearman['all'].mean():.3f}"]])


def _rows(shown: dict[str, dict[float, Curves]]) -> list[dict[str, Any]]:
    found = []
    for part, by_noise in shown.items():
        for noise, curves in by_noise.items():
            for way in asking.WAYS:
                for i, budget in enumerate(asking.BUDGETS):
                    rmse, spearman = curves.rmse[way][:, i], curves.spearman[way][:, i]
                    found.append({
                        "policies": part, "noise": noise, "way": way, "questions": budget,
                        "rmse": Spread(float(rmse.mean()), float(rmse.std())),
                        "spearman": Spread(float(spearman.mean()), float(spearman.std())),
                    })  # fmt: skip
    return found


def reached(rmse: Floats) -> float:
    """How many questions it takes to reach REACHED: mean RMSE by budget, straight between them in logarithms."""
    mean = rmse.mean(axis=0)
    below = np.flatnonzero(mean <= REACHED)
    if not len(below):
        return float("inf")
    i = int(below[0])
    if i == 0:
        return float(asking.BUDGETS[0])
    low, high = np.log(asking.BUDGETS[i - 1]), np.log(asking.BUDGETS[i])
    return float(np.exp(low + (high - low) * (mean[i - 1] - REACHED) / (mean[i - 1] - mean[i])))


def _claims(shown: dict[str, dict[float, Curves]]) -> list[Claim]:
    alone, *_, together = shown.values()
    at = {budget: i for i, budget in enumerate(asking.BUDGETS)}
    found = []
    exact, noisy = alone[0.0], alone[0.2]
    ratio = exact.rmse["planned"][:, at[400]].mean() / exact.rmse["all"].mean()
    found.append(Claim(f"exact answers, 400 questions: RMSE at most 1.05 of that of all ({ratio:.3f})", ratio <= 1.05))
    for curves, noise, budget, bar in (
        (exact, 0, 100, 0.021), (noisy, 0.2, 100, 0.022), (noisy, 0.2, 400, 0.017),
    ):  # fmt: skip
        rmse = curves.rmse["planned"][:, at[budget]].mean()
        found.append(Claim(f"noise {noise:g}, {budget} questions: RMSE at most {bar} ({rmse:.4f})", rmse <= bar))
    for curves, noise in ((exact, 0), (noisy, 0.2)):
        planned, random = reached(curves.rmse["planned"]), reached(curves.rmse["random"])
        found.append(Claim(
            f"noise {noise:g}: to reach an RMSE of {REACHED}, random questions are at least 8 times as many "
            f"({random:.0f} against {planned:.0f}, {random / planned:.1f} times)",
            random >= 8 * planned,
        ))  # fmt: skip
    curves = together[0.0]
    ratio = curves.rmse["planned"][:, at[1000]].mean() / curves.rmse["all"].mean()
    lost = curves.spearman["all"].mean() - curves.spearman["planned"][:, at[1000]].mean()
    found.append(Claim(f"all at once, 1000 questions: RMSE at most 1.15 of that of all ({ratio:.3f})", ratio <= 1.15))
    found.append(
        Claim(f"all at once, 1000 questions: Spearman at most 0.01 below that of all ({lost:+.4f})", lost <= 0.01)
    )
    return found


def _figure(shown: dict[str, dict[float, Curves]]) -> Figure:
    panels = [
        (part, metric)
        for part in shown
        for metric in ("rmse", "spearman")
        if metric == "rmse" or part.startswith("all")
    ]
    with figures.styled():
        figure, axes = figures.new(len(panels), len(asking.NOISES), height=7.4)
        for row, (part, metric) in enumerate(panels):
            for column, (noise, curves) in enumerate(shown[part].items()):
                one, numbers = axes[row, column], getattr(curves, metric)
                for way, (colour, dashes, name) in COLOURS.items():
                    one.plot(asking.BUDGETS, numbers[way].mean(axis=0), color=colour, ls=dashes, marker=".", label=name)
                one.axhline(numbers["all"].mean(), color=figures.BLACK, lw=0.6, label="all answered")
                one.set(xscale="log", ylim=(0.01, 0.045) if metric == "rmse" else (0.9, 1.005))
                one.tick_params(labelbottom=row == len(panels) - 1, labelleft=not column)
                if not column:
                    one.set_ylabel(f"{'RMSE' if metric == 'rmse' else 'Spearman'}\n{PARTS[part].short}")
                if not row:
                    one.set_title(f"noise {noise:g}")
        for one in axes[-1]:
            one.set_xlabel("questions")
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


def small(settings: Settings, number: int) -> dict[str, Any]:
    """For every number of questions: the standard deviation that remains if planned, and the least there is."""
    worlds = {"bandit": bandit.two_state((1.0, 2.0), (0.5, 0.5)), "tree": tree.tree()}
    return {name: _compared(world, settings.seed) for name, world in worlds.items()}


def _compared(world: World, seed: int) -> Floats:
    """(n_questions, 2), for the largest dataset in which no more than MOST_QUESTIONS matter."""
    policy = {"policy": list(world.policies.values())[-1]}
    planner = None
    for n in range(4, 200):
        one = Planner(world.sample(n, seed=seed), policy, None, asking.wishes("policy"))
        if len(one.matters.row) > MOST_QUESTIONS:
            break
        planner = one
    assert planner is not None
    matters, design = planner.matters, planner.each
    planned = planner.next_questions(np.inf).question
    found = []
    for n in range(1, len(matters.row) + 1):
        sets = [planned[:n].tolist(), *map(list, combinations(range(len(matters.row)), n))]
        remaining = [
            float(design.remaining(np.bincount(matters.cell[one], minlength=len(design.times)).astype(float))[0])
            for one in sets
        ]
        found.append((remaining[0] ** 0.5, min(remaining) ** 0.5))
    return np.array(found)


def _small_table(best: Mapping[str, Any]) -> Table:
    body = [
        (name, str(n + 1), f"{planned:.4f}", f"{least:.4f}")
        for name, numbers in best.items()
        for n, (planned, least) in enumerate(numbers)
    ]
    return Table(("world", "questions", "planned", "best"), body)


def _small_claim(best: Mapping[str, Any]) -> Claim:
    worst = max(float((numbers[:, 0] / np.maximum(numbers[:, 1], 1e-300)).max()) for numbers in best.values())
    return Claim(
        f"on a bandit and a tree, plans are within 10% of the best for every budget ({worst:.3f})", worst <= 1.1
    )
