"""Tables 2 and 5 from the authors' own data: every number as it is printed."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from semiope.paper import comparison, table2, table5
from semiope.paper.measures import COMPARE, MEASURES, difference, each, gathered, measure, printed_measures, spreads
from semiope.paper.pages import Spread
from semiope.paper.pieces import Piece, Pieces
from semiope.paper.run import with_episodes
from semiope.paper.settings import TENTHS, Settings
from semiope.paper.trials import C_PDIS, Dataset, returns
from tests.conftest import reference


def compute(found: Pieces, settings: Settings, piece: Piece) -> None:
    found.compute(piece, settings)


@pytest.fixture(scope="module")
def authors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the estimators of the paper give on all 50 datasets."""
    settings = with_episodes(Settings(episodes=str(reference("sepsis/episodes.parquet"))))
    found = Pieces(tmp_path_factory.mktemp("pieces"))
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        list(pool.map(partial(compute, found, settings), each(settings, COMPARE), chunksize=5))
    return gathered(settings, found, COMPARE)


@pytest.mark.parametrize("name", ["table2", "table5"])
def test_every_number_prints_as_in_the_paper(name: str, authors: dict[str, Any]) -> None:
    item: Any = {"table2": table2, "table5": table5}[name]
    theirs = printed_measures(name)
    if name == "table2":
        assert theirs["c*-pdis (G=Qb)"]["fpr"].mean == 22.0
        assert table2.MISPRINTS == {("c*-pdis (G=Qb)", "fpr"): 20.0}
        theirs = comparison.corrected(theirs, table2.MISPRINTS)
    wrong = []
    for row in item.ROWS:
        if row.whose == "paper":
            ours = spreads(measure(authors[row.source], authors["mean return"], row.forms))
            for metric, printed in theirs.pop(row.estimator).items():
                digits = MEASURES[metric].digits
                shown = [f"{number:.{digits}f}" for number in ours[metric]]
                if shown != [f"{number:.{digits}f}" for number in printed]:
                    wrong.append((row.estimator, metric, shown, printed))
    assert wrong == []
    assert theirs == {}


def test_naive_rows_as_the_paper_means_them(authors: dict[str, Any]) -> None:
    """Known from a run of the authors' code with the annotations that the text describes."""
    for kind, rmse, spearman, accuracy in (("unweighted", 0.146, 0.814, 48.0), ("weighted", 0.099, 0.893, 60.6)):
        found = spreads(measure(authors[f"naive-{kind} Qe"], authors["mean return"]))
        assert round(found["rmse"][0], 3) == rmse
        assert round(found["spearman"][0], 3) == spearman
        assert round(found["accuracy"][0], 1) == accuracy


def test_trend_lines_over_divergence(authors: dict[str, Any], tmp_path: Path) -> None:
    """On-policy errors and slopes known from the authors' code."""
    from semiope.paper.divergence import divergence

    settings = Settings(episodes="their datasets")
    found = Pieces(tmp_path)
    for piece in each(settings, COMPARE):
        found.keep(piece, {name: values[piece.number] for name, values in authors.items()})
    far = divergence(settings, found)
    assert far.kl.min() == pytest.approx(-np.log(0.9))
    assert far.kl.max() == pytest.approx(0.986, abs=0.005)
    pdis, today, converted = (far.trends[name] for name in ("pdis", "c*-pdis (G=Qb)", "c*-pdis (G=Qb->Qe)"))
    assert (round(pdis.start, 4), round(today.start, 4)) == (0.0645, 0.0131)
    assert [round(one.slope, 3) for one in (pdis, today, converted)] == [0.115, 0.081, 0.027]


@pytest.mark.parametrize("share", [0.1, 1.0])
def test_exchanging_values_is_the_same_as_evaluating(share: float) -> None:
    """The experiments on noise and missing answers gather the evidence once; `so.evaluate` knows nothing of that."""
    data = Dataset.of(Settings(seed=3), 1)
    answers = data.answers(share)
    for std in (0.0, 0.7):
        expected = data.estimate(C_PDIS, data.ask(returns(), std=std, share=share))
        assert answers.estimate(std) == pytest.approx(expected, rel=0, abs=1e-12)


def test_datasets_are_blocks_of_one_stream() -> None:
    first, second = (Dataset.of(Settings(seed=5), number) for number in (0, 1))
    labels = [set(one.episodes.labels.words.to_pylist()) for one in (first, second)]
    assert not labels[0] & labels[1]
    assert first.seed != second.seed
    assert Dataset.of(Settings(seed=5), 0).mean_return == first.mean_return


def test_levels_are_tenths() -> None:
    assert TENTHS == (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


def test_measures_by_hand() -> None:
    """Two datasets in which every estimate is the truth, but for one that is off by 0.52."""
    from semiope.domains import sepsis
    from semiope.paper.trials import truths

    truth = truths()
    today = sepsis.world().mdp.value(sepsis.world().behavior)
    estimates = np.stack([np.stack([truth, truth, np.full(26, 10.0)], axis=1)] * 2)
    worst = int(truth.argmin())
    estimates[1, worst, 0] += 0.52
    found = measure(estimates, np.array([today, today]))
    assert found["rmse"] == pytest.approx([0.0, 0.52 / 52**0.5])
    assert found["accuracy"] == pytest.approx([100.0, 100 * 51 / 52])
    assert found["fpr"] == pytest.approx([0.0, 100 / 22])  # 11 of 26 are worse than the behaviour policy
    assert found["fnr"] == pytest.approx([0.0, 0.0])
    # An estimate that just reaches the mean return counts as better.
    assert measure(estimates, np.full(2, truth.max()))["fnr"][0] == pytest.approx(100 * 14 / 15)
    assert found["spearman"][0] == pytest.approx(1.0)
    assert found["spearman"][1] < 1
    assert spreads(found)["ess"] == (10.0, 0.0)


def test_differences_are_in_standard_errors() -> None:
    same = difference("rmse", Spread(0.1131, 0.0379), Spread(0.113, 0.038), 50)
    assert same.same
    assert same.errors == pytest.approx(0.0001 / (0.0379**2 / 50 + 0.038**2 / 50) ** 0.5)
    fewer = difference("rmse", Spread(0.2, 0.01), Spread(0.1, 0.02), 10)
    assert fewer.errors == pytest.approx(0.1 / ((10 * 0.01**2 + 50 * 0.02**2) / 60 * (1 / 10 + 1 / 50)) ** 0.5)
    assert difference("ess", Spread(80.0, 44.0), Spread(77.0, 44.0), 50, 8.0).errors == pytest.approx(3 / (8 * 0.2))
    assert not difference("rmse", Spread(0.1136, 0.038), Spread(0.113, 0.038), 50).same
    assert difference("fpr", Spread(1.0, 0.0), Spread(1.0, 0.0), 50).errors == 0


def test_the_papers_own_data_hold_an_estimate_far_out(authors: dict[str, Any]) -> None:
    """As the documentation says: dataset 19 makes half of the scatter that is printed for PDIS."""
    from semiope.paper.trials import truths

    off = np.abs(authors["pdis"][:, :, 0] - truths())
    assert np.argwhere(off > 1).tolist() == [[19, 20]]
    assert authors["pdis"][19, 20, 0] == pytest.approx(2.387, abs=5e-4)
    rmse = measure(authors["pdis"], authors["mean return"])["rmse"]
    assert np.delete(rmse, 19).std() == pytest.approx(0.0204, abs=5e-5)
