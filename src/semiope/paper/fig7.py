"""Figure 7: how the std of C-IS depends on the weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from semiope._arrays import Floats
from semiope.data.annotations import Annotations
from semiope.diagnostics import theory
from semiope.diagnostics.setting import Setting
from semiope.domains.annotators import Annotator
from semiope.errors import quietly
from semiope.paper import figures, heatmaps
from semiope.paper.heatmaps import AS_RUN, AS_WRITTEN, GRID, REWARD_STD, Map, Place
from semiope.paper.pages import Block, Heading, Made, Points
from semiope.paper.pieces import Piece, Pieces
from semiope.paper.settings import Settings
from semiope.pipeline import evaluate
from semiope.weights.moments import WeightMoments

TITLE = "Figure 7: the std of C-IS by weights"
SHOWS = (
    "Heat maps of the log std of C-IS over the weights kept on what happened, for action 0 and 1: (a) base setting, "
    "(b) annotations not useful, (c) noisier and (d) more precise annotations, (e) weights drawn from uniform "
    "distributions."
)
DRAWS, QUICK_DRAWS = 100_000, 5_000


class Panel(NamedTuple):
    """Policies by their probabilities, std of annotations, and whether weights are drawn for each sample."""

    title: str
    behavior: tuple[float, float]
    evaluation: tuple[float, float]
    annotation_std: float = REWARD_STD
    random: bool = False


PANELS = (
    Panel("(a) base setting", *AS_WRITTEN),
    Panel("(b) annotations not useful", (0.9, 0.1), (0.95, 0.05)),
    Panel("(c) noisier annotations", *AS_WRITTEN, annotation_std=2.0),
    Panel("(d) more precise annotations", *AS_WRITTEN, annotation_std=0.5),
    Panel("(e) random weights", *AS_WRITTEN, random=True),
    Panel("(e) random weights, as run", *AS_RUN, random=True),
)


def pieces(settings: Settings) -> list[Piece]:
    """One a panel."""
    return [Piece(sweep_weights, number, cost=2.5) for number in range(len(PANELS))]


def draws_of(settings: Settings) -> int:
    """How many samples a panel has."""
    return QUICK_DRAWS if settings.quick else DRAWS


def sweep_weights(settings: Settings, number: int) -> dict[str, Floats]:
    """Log std of C-IS from one sample over the grid, and its standard errors; all points see the same samples."""
    samples = Samples(PANELS[number], draws_of(settings), settings.seed)
    pairs = [[log_std_of(samples.estimates(Place(zero, one))) for one in GRID] for zero in GRID]
    log_std, error = np.moveaxis(np.array(pairs), -1, 0)
    return {"log_std": log_std, "error": error}


class Samples:
    """Samples of a panel's bandit, all annotated, and a uniform number for each, from which weights may be drawn."""

    def __init__(self, panel: Panel, n: int, seed: int) -> None:
        self.panel, self.world = panel, heatmaps.world_of(panel.behavior)
        self.episodes = self.world.sample(n, seed=seed)
        expert = Annotator(std=panel.annotation_std)
        self.answers = self.world.annotate(self.episodes, self.world.behavior, annotators=expert, seed=seed)
        self.uniform = np.random.default_rng(seed).uniform(-0.5, 0.5, n)

    def estimates(self, place: Place) -> Floats:
        """C-IS from each sample, with these weights on the actions taken, or weights from these ranges."""
        weights: Any = "column" if self.panel.random else _table(_constant(*place))
        answers = _drawn_weights(self.answers, self.uniform, *place) if self.panel.random else self.answers
        policy = self.world.policy([list(self.panel.evaluation)])
        with quietly():
            found = evaluate(
                self.episodes, policy, annotations=answers, behavior=self.world.behavior, estimators=["c-is"],
                weights=weights,
            )  # fmt: skip
        return found["c-is"].values


def log_std_of(values: Floats) -> tuple[float, float]:
    """Log of the standard deviation, and its standard error by the fourth moment."""
    off = values - values.mean()
    second, fourth = float(np.mean(off**2)), float(np.mean(off**4))
    return heatmaps.log_std(second), float(np.sqrt((fourth / second**2 - 1) / (4 * len(values))))


def _constant(zero: float, one: float) -> Floats:
    """W(a'|s, a) with these weights on the action taken."""
    return np.array([[[zero, 1 - zero], [1 - one, one]]])


def _table(shares: Floats) -> dict[str, Any]:
    """The same as a table by labels."""
    names = ("up", "down")
    listed = [(taken, action, shares[0, i, j]) for i, taken in enumerate(names) for j, action in enumerate(names)]
    taken, action, weight = zip(*listed, strict=True)
    return {"state": ["s1"] * 4, "taken": taken, "action": action, "weight": weight}


def _drawn_weights(answers: Annotations, uniform: Floats, zero: float, one: float) -> Annotations:
    """The same answers with weights around one half, whose range depends on the action taken: the other one."""
    reach = np.array([one if label == "up" else zero for label in answers.actions.words.to_pylist()])[answers.action]
    return replace(answers, weight=0.5 + reach * uniform)


def make(settings: Settings, found: Pieces) -> Made:
    """Six maps: the paper's five, and (e) as its code ran it."""
    drawn = [found[piece] for piece in pieces(settings)]
    shown = [_map(panel, surface) for panel, surface in zip(PANELS, drawn, strict=True)]
    labels = ("weight on action 0, taken", "weight on action 1, taken")
    ranges = ("range of weights, action 0", "range of weights, action 1")
    with figures.styled():
        figure, axes = figures.new(2, 3, height=4.0)
        for one, panel, surface in zip(axes.flat, PANELS, shown, strict=True):
            heatmaps.draw(figure, one, surface, ranges if panel.random else labels)
        heatmaps.legend(figure, list(axes.flat), 5)
    notes = (
        "Axes: weight on the action taken, if it is 0 and if it is 1; in (e) the range of the uniform distribution "
        "around 0.5 that it is drawn from. C*-IS is the red circle, IS the yellow dot.",
        "Crosses mark weights under which an action is never listened to. Such estimates are biased, and their "
        "variance, though small, does not count for the star.",
        "In (a) and (b) all weights that sum to one over the two axes give the same, least variance: they do not "
        "depend on the action taken, so that the estimate is alpha r_0 + (1 - alpha) r_1 for all of them. C*-IS is "
        "one, and has the star.",
        "The caption of (e) gives pi_b = [0.1, 0.9] and pi_e = [0.8, 0.2]; the paper's code ran it with [0.8, 0.2] and "
        "[0.1, 0.9]. Both are here.",
        f"Each point is the std of {draws_of(settings):,} estimates from one sample (the paper "
        "has 1000), the same samples at all points of a map; the white star is the exact minimum.",
    )
    blocks: list[Block] = [heatmaps.table(shown), Heading("Notes"), Points(notes)]
    rows = heatmaps.rows(shown, ("weight_0", "weight_1"))
    return Made(TITLE, rows, blocks, heatmaps.claims(shown), figure, SHOWS)


def setting_of(panel: Panel, place: Place) -> Setting:
    """A point of a panel as theory sees it."""
    moments = _uniform(*place) if panel.random else WeightMoments.constant(_constant(*place))
    return heatmaps.setting_of(panel.behavior, panel.evaluation, moments, panel.annotation_std)


def _map(panel: Panel, drawn: dict[str, Floats]) -> Map:
    seen = {place: setting_of(panel, place) for place in heatmaps.PLACES}
    exact = heatmaps.surface(lambda place: heatmaps.log_std(theory.variance_c_is(seen[place]).total))
    biased = np.abs(heatmaps.surface(lambda place: theory.bias_c_is(seen[place]).total)) > 1e-9
    corner, middle = Place(1.0, 1.0), Place(0.5, 0.5)
    return Map(
        panel.title, drawn["log_std"], exact, biased, drawn["error"], Place(0.0, 0.0) if panel.random else middle,
        None if panel.random else corner,
    )  # fmt: skip


def _uniform(zero: float, one: float) -> WeightMoments:
    """Weights around one half, uniform over a range of this width."""
    variance = np.array([zero, one])[None, :, None, None] ** 2 / 12
    return WeightMoments(np.full((1, 2, 2), 0.5), variance * np.array([[1.0, -1.0], [-1.0, 1.0]]))
