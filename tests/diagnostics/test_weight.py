"""Weights: over the steps by a plain loop, the heaviest by hand, and tails against draws whose shape is known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import semiope as so
from semiope.diagnostics.steps import judge_steps
from semiope.diagnostics.weight import tail_index, top_share, weights_by_step
from tests.contract.worlds import random_logs
from tests.diagnostics.cases import drawn, evaluated, everywhere, problem_of


def ess_by_hand(episodes: list[list[tuple[float, float]]]) -> list[float]:
    """Of (f, k) per step; an episode that has ended keeps its weight."""
    found = []
    for t in range(max(map(len, episodes))):
        weights = []
        for steps in episodes:
            product, told = 1.0, 0.0
            for f, k in steps[: t + 1]:
                told += product * k
                product *= f
            weights.append(told + product)
        squares = sum(w * w for w in weights)
        found.append(sum(weights) ** 2 / squares if squares else 0.0)
    return found


@pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")
@pytest.mark.parametrize("estimator", ["pdis", "c-pdis"])
@pytest.mark.parametrize("seed", range(4))
def test_ess_over_steps_by_a_plain_loop(estimator: str, seed: int) -> None:
    logs = random_logs(seed, fully_annotated=False, every_pair=True)
    results = logs.evaluate([estimator])
    problem, recipe = problem_of(results), so.ESTIMATORS[estimator].recipe
    [slab] = problem.slabs()
    terms = recipe.terms(slab)
    k = np.zeros(len(terms.f)) if terms.k is None else terms.k
    lengths = problem.evidence.logbook.episodes.lengths
    rows = iter(zip(terms.f.tolist(), k.tolist(), strict=True))
    episodes = [[next(rows) for _ in range(length)] for length in lengths]
    if estimator == "pdis":
        taken = [(s, a) for s, a in zip(logs.episodes["state"], logs.episodes["action"], strict=True)]
        ratios = [logs.evaluation[s, a] / logs.behavior[s, a] if a >= 0 else 1.0 for s, a in taken]
        assert terms.f == pytest.approx(ratios)
    found = weights_by_step(problem, recipe)
    assert found.ess == pytest.approx(ess_by_hand(episodes))
    assert found.ess[-1] == pytest.approx(results[estimator].ess)
    assert found.alive == pytest.approx([np.mean(lengths > t) for t in range(lengths.max())])


def test_what_was_huge_and_is_gone_leaves_nothing_behind() -> None:
    """Weights of 1e12 at the first step that the second makes 0; the rest count as if they had not been."""
    n = 100
    prob = np.ones(2 * n)
    prob[:2], action = 1e-12, np.zeros(2 * n, int)
    action[1] = 1
    logs = so.Episodes.from_arrays(
        episode=np.repeat(np.arange(n), 2), step=np.tile([0, 1], n), state=np.zeros(2 * n, int), action=action,
        reward=np.ones(2 * n), behavior_prob=prob,
    )  # fmt: skip
    problem = problem_of(evaluated(logs, everywhere(1.0, 0.0)))
    found = weights_by_step(problem, so.ESTIMATORS["pdis"].recipe)
    assert found.ess == pytest.approx([1, n - 1])


def test_what_the_finding_on_steps_says() -> None:
    """Each step keeps half of the episodes, with ratio 2."""
    action = np.array([[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1], [1, 0, 0], [1, 0, 1], [1, 1, 0], [1, 1, 1]] * 10)
    n = len(action)
    logs = so.Episodes.from_arrays(
        episode=np.repeat(np.arange(n), 3), step=np.tile(np.arange(3), n), state=np.zeros(3 * n, int),
        action=action.ravel(), reward=np.ones(3 * n),
    )  # fmt: skip
    problem = problem_of(evaluated(logs, everywhere(1.0, 0.0)))
    assert weights_by_step(problem, so.ESTIMATORS["pdis"].recipe).ess == pytest.approx([n / 2, n / 4, n / 8])
    found = judge_steps(problem, so.ESTIMATORS["pdis"].recipe)
    assert found.light == "red"
    assert found.sentence == "From step 1 on fewer than half of the episodes count; at step 2 it is 12% of them."


def test_top_share_by_hand() -> None:
    assert tuple(top_share(np.array([3.0, 1.0, 4.0, 2.0]))) == pytest.approx((1, 0.4, 0.25))
    weights = np.random.default_rng(0).random(250)
    found = top_share(weights)
    assert found.episodes == 3
    assert found.share == pytest.approx(sum(sorted(weights.tolist())[-3:]) / sum(weights.tolist()))
    assert top_share(weights, 0.5).episodes == 125
    assert math.isnan(top_share(np.zeros(5)).share)


@pytest.mark.parametrize("k", [0.2, 0.8])
def test_tail_index_of_known_shapes(k: float) -> None:
    """Means over 60 samples of 4,000: 189 values in each tail, k drawn towards 0.5 as if by ten more.

    The error of one estimate is about (1 + k) / sqrt(189); a tail beyond a high cut is not quite its limit.
    """
    draws = [stats.genpareto.rvs(k, size=4000, random_state=seed) for seed in range(60)]
    found = np.mean([tail_index(one) for one in draws])
    expected = (189 * k + 5) / 199
    assert found == pytest.approx(expected, abs=4 * (1 + k) / math.sqrt(189 * 60) + 0.02)
    fits = []
    for one in draws[:10]:
        ordered = np.sort(one)
        fits.append(stats.genpareto.fit(ordered[-189:] - ordered[-190], floc=0)[0])
    ours = np.mean([(199 * tail_index(one) - 5) / 189 for one in draws[:10]])
    assert ours == pytest.approx(np.mean(fits), abs=0.05)


def test_tail_index_does_not_depend_on_the_scale() -> None:
    draws = stats.genpareto.rvs(0.8, size=1000, random_state=0)
    for scale in (1e-200, 1e200):
        assert tail_index(scale * draws) == pytest.approx(tail_index(draws), rel=1e-9)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        (np.ones(100), -math.inf),
        (np.zeros(100), -math.inf),
        (np.ones(10), math.nan),
        (np.r_[np.zeros(997), np.ones(3)], math.nan),
    ],
)
def test_tails_that_are_none(weights: Any, expected: float) -> None:
    assert tail_index(weights) == pytest.approx(expected, nan_ok=True)


def test_tails_of_all_sizes_at_once() -> None:
    assert tail_index(10.0 ** np.linspace(-300, 300, 500)) > 0.7
    assert tail_index(np.r_[np.zeros(400), 10.0 ** np.linspace(-320, 1, 30)]) > 0.7


def test_long_episodes_with_huge_ratios() -> None:
    logs = drawn(20, 300, (0.5, 0.5))
    problem = problem_of(evaluated(logs, everywhere(0.99, 0.01), behavior=everywhere(0.01, 0.99)))
    found = weights_by_step(problem, so.ESTIMATORS["pdis"].recipe)
    assert np.isfinite(found.ess).all()
    assert (found.ess <= 20 + 1e-9).all()
