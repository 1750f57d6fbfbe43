"""Figures 7 and 8: surfaces drawn by the estimators beside exact ones, and their minima."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import semiope as so
from semiope.diagnostics import theory
from semiope.paper import fig7, fig8, figures, heatmaps
from semiope.paper.heatmaps import AS_RUN, GRID, Map, Place
from semiope.paper.pieces import Pieces
from semiope.paper.settings import Settings

pytestmark = pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")
QUICK = Settings(quick=True, seed=2)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    found = Pieces(tmp_path_factory.mktemp("pieces"))
    for item in (fig7, fig8):
        for piece in item.pieces(QUICK):
            found.compute(piece, QUICK)
    return {"fig7": fig7.make(QUICK, found), "fig8": fig8.make(QUICK, found)}


@pytest.mark.parametrize("name", ["fig7", "fig8"])
def test_minima_and_surfaces_agree_with_the_exact_ones(name: str, made: dict[str, Any]) -> None:
    assert [claim.text for claim in made[name].claims if not claim.holds] == []


@pytest.mark.parametrize(("name", "maps"), [("fig7", 6), ("fig8", 4)])
def test_one_row_a_point_and_one_star_a_map(name: str, maps: int, made: dict[str, Any]) -> None:
    rows = made[name].rows
    assert len(rows) == maps * 121
    assert sum(row["star"] for row in rows) == sum(row["drawn_star"] for row in rows) == maps


def test_exact_minima_of_figure_7_by_brute_force(made: dict[str, Any]) -> None:
    """The variance of C-IS on a one-state bandit, written down once more and searched."""

    def variance(panel: Any, weights: tuple[float, float]) -> float:
        total, mean = 0.0, float(np.dot(panel.evaluation, (1.0, 2.0)))
        shares = np.array([[weights[0], 1 - weights[0]], [1 - weights[1], weights[1]]])
        augmented = np.array(panel.behavior) @ shares
        if (augmented == 0).any():
            return np.inf
        ratio = np.array(panel.evaluation) / augmented
        for taken, chance in enumerate(panel.behavior):
            std = [1.0 if action == taken else panel.annotation_std for action in (0, 1)]
            inner = ratio * shares[taken]
            total += chance * (float(inner @ [1.0, 2.0]) ** 2 + float(inner**2 @ np.square(std)))
        return total - mean**2

    for panel in fig7.PANELS[:4]:
        found = {place: variance(panel, place) for place in product(GRID, GRID)}
        [star] = [row for row in made["fig7"].rows if row["map"] == panel.title and row["star"]]
        assert found[star["weight_0"], star["weight_1"]] == pytest.approx(min(found.values()), rel=1e-9)
        for row in made["fig7"].rows:
            place = row["weight_0"], row["weight_1"]
            if row["map"] == panel.title:
                assert row["biased"] == (found[place] == np.inf)
                assert row["biased"] or row["exact"] == pytest.approx(0.5 * np.log(found[place]))


def test_random_weights_scatter_as_uniform_ones_do(made: dict[str, Any]) -> None:
    """Figure 7e by its definition: E[v^2] with w = 1/2 + x, x uniform over a range that depends on the action taken."""
    panel = fig7.PANELS[4]
    ratio, means = np.array(panel.evaluation) / 0.5, np.array([1.0, 2.0])
    for ranges in ((0.2, 0.9), (0.9, 0.2)):
        second = 0.0
        for taken, chance in enumerate(panel.behavior):
            signed = ratio * means * np.where(np.arange(2) == taken, 1, -1)
            spread = ranges[taken] ** 2 / 12
            second += chance * (float(ratio @ means / 2) ** 2 + spread * float(signed.sum()) ** 2)
            second += chance * float(ratio**2 @ np.ones(2)) * (0.25 + spread)
        [row] = [
            row for row in made["fig7"].rows
            if row["map"] == panel.title and (row["weight_0"], row["weight_1"]) == ranges
        ]  # fmt: skip
        assert row["exact"] == pytest.approx(0.5 * np.log(second - float(np.dot(panel.evaluation, means)) ** 2))


def test_axes_of_figure_8(made: dict[str, Any]) -> None:
    """With pi_e mostly action 0, taken in a tenth of the samples, its own annotations matter and the others' do not."""
    rows = {
        (row["map"], row["share_0"], row["share_1"]): row["exact"] for row in made["fig8"].rows
    }  # fmt: skip
    # pi_e^2 (p + (1 - p) / q) summed over both actions.
    few_of_0 = 0.8**2 * (0.1 + 0.9 / 0.1) + 0.2**2
    few_of_1 = 0.8**2 + 0.2**2 * (0.9 + 0.1 / 0.1)
    title = fig8.FORMS["imputed"]
    assert rows[title, 0.1, 1.0] == pytest.approx(0.5 * np.log(few_of_0))
    assert rows[title, 1.0, 0.1] == pytest.approx(0.5 * np.log(few_of_1))


def test_drawn_points_scatter_around_the_exact_ones_by_their_errors() -> None:
    """Over many seeds at one point, so that an error that is too large shows as well as one that is too small."""
    panel, place, z = fig7.PANELS[0], Place(0.3, 0.8), []
    exact = heatmaps.log_std(theory.variance_c_is(fig7.setting_of(panel, place)).total)
    for seed in range(200):
        drawn, error = fig7.log_std_of(fig7.Samples(panel, 2000, seed).estimates(place))
        z.append((drawn - exact) / error)
    assert 0.8 < np.std(z) < 1.25  # four standard errors of it over 200 seeds
    assert abs(np.mean(z)) < 0.4


def test_figures_have_action_0_across() -> None:
    surface = np.arange(121.0).reshape(11, 11)
    shown = Map("x", surface, surface, np.zeros((11, 11), dtype=bool), surface, Place(0.5, 0.5))
    with figures.styled():
        figure, [[axes]] = figures.new(1, 1, height=2)
        heatmaps.draw(figure, axes, shown, ("0", "1"))
    [mesh] = axes.collections
    assert (np.asarray(mesh.get_array()).reshape(11, 11) == surface.T).all()
    stars = [line.get_xydata().tolist() for line in axes.lines if line.get_marker() == "*"]
    assert stars == [[[0.0, 0.0]]]


def test_of_equal_minima_c_star_has_the_star() -> None:
    flat = np.zeros((11, 11))
    shown = Map("x", flat, flat, np.zeros((11, 11), dtype=bool), flat, Place(0.5, 0.5))
    assert shown.star(flat) == Place(0.5, 0.5)


def test_a_biased_point_is_never_the_least() -> None:
    surface = np.arange(121.0).reshape(11, 11)
    biased = np.zeros((11, 11), dtype=bool)
    biased[0, 0] = True
    shown = Map("x", surface, surface, biased, surface, None)
    assert shown.star(surface) == Place(0.0, 0.1)


def data_of(samples: fig8.Samples, share: Place, dataset: int) -> tuple[so.Episodes, so.Annotations]:
    """One dataset of Figure 8 as tables."""
    taken, given = samples.taken[dataset], samples.answered(share)[dataset] > 0
    number = np.arange(len(taken))
    episodes = so.Episodes.from_arrays(
        episode=number, step=0 * number, state=0 * number, action=taken, reward=samples.reward[dataset]
    )
    answers = so.Annotations.from_arrays(
        episode=number[given], step=0 * number[given], action=1 - taken[given], value=samples.answer[dataset][given]
    )
    return episodes, answers


def test_imputed_estimates_are_those_of_the_library() -> None:
    samples, share = fig8.Samples(*AS_RUN, repeats=3, seed=1), Place(0.3, 0.6)
    found = samples.imputed(share)
    for dataset in range(3):
        episodes, answers = data_of(samples, share, dataset)
        policy, behavior = (so.Policy.from_table([list(probs)]) for probs in reversed(AS_RUN))
        results = so.evaluate(
            episodes, policy, annotations=answers, behavior=behavior, repair="impute", estimators=["c-is"]
        )
        assert found[dataset] == pytest.approx(results["c-is"].value, abs=1e-12)


def test_plain_estimates_are_unbiased_and_those_of_the_library_in_the_limit() -> None:
    """With mean weights as expected ones: the same as counted ones where nothing or everything is annotated."""
    samples = fig8.Samples(*AS_RUN, repeats=2, seed=1)
    policy, behavior = (so.Policy.from_table([list(probs)]) for probs in reversed(AS_RUN))
    episodes, answers = data_of(samples, Place(1.0, 1.0), 0)
    told = so.evaluate(episodes, policy, annotations=answers, behavior=behavior, estimators=["c-is"])
    assert samples.plain(Place(1.0, 1.0))[0] == pytest.approx(told["c-is"].value, abs=1e-12)
    alone = so.evaluate(episodes, policy, behavior=behavior, estimators=["is"])
    assert samples.plain(Place(0.0, 0.0))[0] == pytest.approx(alone["is"].value, abs=1e-12)
    many = fig8.Samples(*AS_RUN, repeats=4000, seed=2).plain(Place(0.4, 0.7))
    assert many.mean() == pytest.approx(0.1 * 1 + 0.9 * 2, abs=4 * many.std() / 4000**0.5)
