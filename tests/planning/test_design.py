"""What remains unknown equals conditioning whole covariance matrices, and choosing is greedy."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from semiope.models.places import Places
from semiope.planning.design import Design, Supply, choose
from semiope.planning.residuals import PART, Components
from tests.planning.cases import Floats, Integers, posterior, random_design, repeated


@pytest.mark.parametrize("answered", [False, True])
@pytest.mark.parametrize("n_wanted", [1, 4])
@pytest.mark.parametrize("seed", range(8))
def test_what_remains_equals_dense_conditioning(seed: int, n_wanted: int, answered: bool) -> None:
    design = random_design(seed, n_wanted=n_wanted, answered=answered)
    expected = posterior(design, repeated(design.times))
    np.testing.assert_allclose(design.covariance(), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(design.remaining(), np.diag(expected), rtol=1e-9, atol=1e-12)


def test_what_remains_with_other_answers_than_those_so_far() -> None:
    design = random_design(3, n_wanted=2, answered=True)
    times = (np.arange(len(design.pair)) % 3).astype(np.float64)
    np.testing.assert_allclose(design.covariance(times), posterior(design, repeated(times)), rtol=1e-9)


def test_one_answer_without_noise_settles_a_cell() -> None:
    design = replace(random_design(5), noise=1e-12, mass=np.array([[1.0] + [0.0] * (len(random_design(5).pair) - 1)]))
    times = np.zeros(len(design.pair))
    times[0] = 1
    assert design.remaining()[0] > 0.1
    assert design.remaining(times)[0] == pytest.approx(0, abs=1e-10)


def test_a_design_reads_variances_of_pairs_by_how_often_they_were_logged() -> None:
    counts = np.array([[4.0, 0.0], [1.0, 2.0]])
    cells = Places(np.array([0, 1, 0, 0]), np.array([0, 0, 0, 1]), np.array([0, 0, 1, 0]))
    parts = Components(logged=8.0, unlogged=3.0, step=0.5, noise=0.1)
    design = Design.of(np.ones((1, 4)), cells, counts, parts, 100, np.zeros(4))
    np.testing.assert_allclose(design.variance[design.pair], [2.0, 2.0, 3.0, 8.0])
    np.testing.assert_array_equal(design.logged[design.pair], [True, True, False, True])
    np.testing.assert_allclose(design.levels, [3.0, PART * 8.0 / 100])
    assert (design.step, design.noise) == (0.5, 0.1)


def test_variances_of_zero_leave_a_design_in_range() -> None:
    cells = Places(np.array([0]), np.array([0]), np.array([0]))
    design = Design.of(np.ones((1, 1)), cells, np.array([[1.0]]), Components(1.0, 1.0, 0.0, 0.0), 10, np.zeros(1))
    assert design.remaining(np.ones(1))[0] == pytest.approx(0, abs=1e-8)
    assert design.remaining()[0] == pytest.approx(1.4)


def test_what_the_model_still_says_of_a_pair_falls_with_answers_about_it() -> None:
    design = replace(random_design(6), noise=0.5, step=0.25)
    assert len(design.variance) > 1
    np.testing.assert_array_equal(design.modelled, 1.0)
    times = np.where(design.pair == design.pair[0], 3.0, 0.0)
    own = design.pair == design.pair[0]
    told = 3.0 / (0.25 * 3.0 + 0.5) * np.count_nonzero(own)
    expected = np.where(own, 1 / (1 + design.variance[design.pair[0]] * told), 1.0)
    np.testing.assert_allclose(replace(design, times=times).modelled, expected)


def supply(design: Design, seed: int, *, costs: bool = False) -> Supply:
    """A few questions for each cell, of a few episodes, those of a cell cheapest first."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 4, size=len(design.pair))
    first = np.concatenate([[0], np.cumsum(sizes)])
    cost = rng.uniform(0.5, 3.0, size=first[-1]) if costs else np.ones(first[-1])
    for start, stop in pairwise(first.tolist()):
        cost[start:stop] = np.sort(cost[start:stop])
    return Supply(first, np.arange(first[-1]), rng.integers(4, size=first[-1]), cost)


def cell_of(asked: Supply) -> Integers:
    return np.searchsorted(asked.first, np.arange(len(asked.question)), side="right") - 1


def replay(design: Design, asked: Supply, budget: float, room: Integers) -> list[int]:
    """Greedy by whole covariance matrices."""
    cells, times, left, found = cell_of(asked), design.times.copy(), room.copy(), list[int]()
    while True:
        now = float(np.trace(posterior(design, repeated(times))))
        spent = float(asked.cost[found].sum())
        best, most = -1, 1e-12
        for cell in range(len(times)):
            open_ = [q for q in np.flatnonzero(cells == cell) if q not in found and left[asked.episode[q]] > 0]
            if not open_ or spent + asked.cost[open_[0]] > budget:
                continue
            then = times.copy()
            then[cell] += 1
            gain = (now - float(np.trace(posterior(design, repeated(then))))) / asked.cost[open_[0]]
            if gain > most * (1 + 1e-9):
                best, most = int(open_[0]), gain
        if best < 0:
            return found
        found.append(best)
        times[cells[best]] += 1
        left[asked.episode[best]] -= 1


@pytest.mark.parametrize("costs", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_choosing_is_greedy_per_cost_within_budget_and_room(seed: int, costs: bool) -> None:
    design = random_design(seed, n_wanted=1 + seed % 3, answered=seed % 2 == 1)
    asked, room = supply(design, seed, costs=costs), np.full(4, 2)
    chosen = choose(design, asked, 5.0, room)
    assert chosen.question.tolist() == replay(design, asked, 5.0, room)
    assert asked.cost[chosen.question].sum() <= 5.0
    assert np.bincount(asked.episode[chosen.question], minlength=4).max() <= 2
    np.testing.assert_array_equal(room, 2)  # what was given stays as it is


@pytest.mark.parametrize("seed", range(6))
def test_what_is_said_to_remain_after_each_question_does(seed: int) -> None:
    design = random_design(seed, n_wanted=2, answered=seed % 2 == 1)
    asked = supply(design, seed)
    chosen = choose(design, asked, np.inf, np.full(4, 100))
    assert len(chosen.question) == len(asked.question)
    times: Floats = design.times.copy()
    for question, remaining in zip(chosen.question, chosen.remaining, strict=True):
        times[cell_of(asked)[question]] += 1
        assert remaining == pytest.approx(float(np.trace(posterior(design, repeated(times)))), rel=1e-8)


def test_nothing_is_chosen_where_nothing_is_gained() -> None:
    design = random_design(1)
    asked = supply(design, 1)
    assert not len(choose(replace(design, mass=np.zeros_like(design.mass)), asked, 10, np.full(4, 9)).question)
    assert not len(choose(design, asked, 0.5, np.full(4, 9)).question)
    assert not len(choose(design, asked, 10, np.zeros(4, dtype=np.int64)).question)
