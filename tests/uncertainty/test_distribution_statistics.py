"""Statistics of a distribution of returns, and their intervals."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import semiope as so
from semiope.data.labels import Vocabulary
from semiope.uncertainty.bootstrap import counts, resampled
from semiope.uncertainty.distribution import Distribution, returns_distribution
from tests.contract.worlds import random_logs
from tests.uncertainty.enumeration import GAMMA, problem_from, problem_of

pytestmark = pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")


def sample(returns: Any, weights: Any = None) -> Distribution:
    """A distribution with one sample an episode."""
    x, n = np.asarray(returns, dtype=float), len(returns)
    w = np.ones(n) if weights is None else np.asarray(weights, dtype=float)
    return Distribution(x, w, np.arange(n), np.zeros(n, dtype=bool), Vocabulary.integers(n))


@given(seed=st.integers(0, 10**6), n=st.integers(1, 60))
def test_placebo_is_the_empirical_distribution(seed: int, n: int) -> None:
    """The behaviour policy itself, no annotations: what numpy says of the logged returns."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(3), size=2)
    columns = {"episode": np.arange(n).repeat(2), "step": np.tile([0, 1], n), "state": rng.integers(2, size=2 * n)}
    paid = rng.integers(-3, 4, size=2 * n).astype(float)
    episodes = so.Episodes.from_arrays(**columns, action=rng.integers(3, size=2 * n), reward=paid)
    policy = so.Policy.from_table(probs)
    found = returns_distribution(problem_of(episodes, policy, behavior=policy), "wis")
    returns = np.sort(paid[::2] + GAMMA * paid[1::2])
    assert found.returns == pytest.approx(returns)
    assert found.weights == pytest.approx(np.ones(n))
    for q in rng.random(20):
        assert found.quantile(q) == pytest.approx(np.quantile(returns, q, method="inverted_cdf"))
        worst = math.floor(q * n)
        by_hand = (returns[:worst].sum() + (q * n - worst) * returns[worst]) / (q * n)
        assert found.cvar(q) == pytest.approx(by_hand)
    at = float(found.returns[n // 2])
    assert found.cdf(at) == pytest.approx((found.returns <= at).mean())
    assert found.probability_below(at) == pytest.approx((found.returns < at).mean())
    assert found.mean == pytest.approx(returns.mean())
    assert found.share_answered == 0
    assert "happened" in found.note


def test_levels_that_sums_of_weights_reach_but_for_rounding() -> None:
    tenths = sample(np.arange(10), np.full(10, 0.1))
    assert [tenths.quantile(i / 10) for i in range(1, 11)] == list(range(10))
    hundredths = sample(np.arange(100))
    assert [hundredths.quantile(i / 100) for i in range(1, 101)] == list(range(100))


weighted = st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(1e-3, 1e3)), min_size=1, max_size=30)


@given(pairs=weighted, shares=st.lists(st.floats(1e-3, 1), min_size=2, max_size=6))
def test_order_of_statistics(pairs: list[tuple[float, float]], shares: list[float]) -> None:
    found = sample(*zip(*pairs, strict=True))
    low, high = found.returns[0], found.returns[-1]
    levels = sorted(shares)
    quantiles, tails = [found.quantile(q) for q in levels], [found.cvar(q) for q in levels]
    assert (np.diff(quantiles) >= 0).all()
    assert (np.diff(tails) >= -1e-9).all()
    for q, quantile, tail in zip(levels, quantiles, tails, strict=True):
        assert low - 1e-9 <= tail <= min(quantile, found.mean) + 1e-8
        assert found.probability_below(quantile) <= q <= found.cdf(quantile) + 1e-11
    assert (found.quantile(0), found.quantile(1), found.cdf(high)) == (low, high, 1.0)
    assert found.probability_below(low) == 0
    assert found.cvar(1) == pytest.approx(found.mean, abs=1e-9)


@given(pairs=weighted, q=st.floats(1e-3, 1), shift=st.floats(-100, 100), scale=st.floats(0.01, 100))
def test_shift_and_scale(pairs: list[tuple[float, float]], q: float, shift: float, scale: float) -> None:
    x, w = map(np.array, zip(*pairs, strict=True))
    one, other = sample(x, w), sample(scale * x + shift, w * 2.0**700)
    before, after = ((found.mean, found.quantile(q), found.cvar(q)) for found in (one, other))
    assert after == pytest.approx([scale * number + shift for number in before], rel=1e-9, abs=1e-7)


def test_ratios_beyond_the_range_of_numbers() -> None:
    """2000 steps of ratio 2 in one episode, of 2 but for one of 1 in the other: weights of 2^2000 and 2^1999."""
    action = np.zeros(4000, dtype=int)
    action[-1] = 1
    n = np.arange(4000)
    reward = np.where(n % 2000 == 1999, 1.0 + n // 2000, 0.0)
    episodes = so.Episodes.from_arrays(
        episode=n // 2000, step=n % 2000, state=0 * n, action=action, reward=reward,
        behavior_prob=np.where(action == 0, 0.4, 0.2),
    )  # fmt: skip
    policy = so.Policy.from_table(np.array([[0.8, 0.2]]))
    found = returns_distribution(problem_of(episodes, policy, gamma=1.0), "wis")
    assert found.weights / found.weights.sum() == pytest.approx([2 / 3, 1 / 3])
    assert found.mean == pytest.approx(4 / 3)
    assert math.log2(found.weights[0]) + found.weight_exponent == pytest.approx(2000)


# Intervals


def test_counts_are_the_weights_of_the_bootstrap(rng: np.random.Generator) -> None:
    keys, x, y = rng.permutation(30) + 10**12, *rng.normal(size=(2, 30))
    matrix = np.array(list(counts(keys, seed=4, resamples=7)))
    assert matrix @ x == pytest.approx(resampled(x, y, keys, seed=4, resamples=7).x, abs=1e-12)
    part = rng.permutation(30)[:11]
    assert np.array_equal(np.array(list(counts(keys[part], seed=4, resamples=7))), matrix[:, part])


def test_the_mean_has_the_interval_of_its_estimate() -> None:
    logs = random_logs(11, fully_annotated=False)
    for name in ("wis", "c-wis"):
        estimate = logs.evaluate([name])[name]
        found = returns_distribution(problem_from(logs), name).interval(lambda d: d.mean, 0.1, seed=5)
        assert found == pytest.approx(estimate.interval(0.1, "bootstrap", seed=5), rel=1e-9)


def test_intervals_do_not_depend_on_order_or_division(rng: np.random.Generator) -> None:
    """Rows shuffled, and the samples of parts of the episodes, put together in another order."""
    logs = random_logs(5, fully_annotated=False)
    tables = []
    for table in (logs.episodes, logs.annotations):
        order = rng.permutation(len(table["step"]))
        tables.append({name: column[order] for name, column in table.items()})
    shuffled = replace(logs, episodes=tables[0], annotations=tables[1])
    whole = returns_distribution(problem_from(logs))
    place = rng.permutation(len(whole.labels))
    labels = Vocabulary(whole.labels.words.take(np.argsort(place)))
    parts = [np.flatnonzero(np.isin(whole.episode, some)) for some in np.array_split(rng.permutation(len(place)), 2)]
    samples = np.concatenate(parts)
    columns = (whole.returns[samples], whole.weights[samples], place[whole.episode[samples]], whole.answered[samples])
    for statistic in (lambda d: d.cvar(0.2), lambda d: d.quantile(0.4), lambda d: d.probability_below(0.0)):
        ends = whole.interval(statistic, seed=3)
        assert ends == returns_distribution(problem_from(shuffled)).interval(statistic, seed=3)
        assert ends == pytest.approx(Distribution(*columns, labels).interval(statistic, seed=3), rel=1e-10, abs=1e-12)
    assert whole.interval(lambda d: d.mean, seed=3) != whole.interval(lambda d: d.mean, seed=4)


def test_coverage_of_the_worst_fifth() -> None:
    """60 datasets of 150 weighted normal returns: the count is binomial; 48 is 5.3 standard deviations below 57."""
    true = -math.exp(-0.5 * 0.8416212**2) / math.sqrt(2 * math.pi) / 0.2
    covered = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        found = sample(rng.normal(size=150), rng.choice([0.5, 1.5], size=150))
        low, high = found.interval(lambda d: d.cvar(0.2), seed=seed)
        covered += low <= true <= high
    assert covered >= 48


def test_one_episode_leaves_the_interval_open() -> None:
    assert all(map(math.isnan, sample([1.0]).interval(lambda d: d.mean)))


# Refusals


def test_what_is_no_distribution() -> None:
    for returns, weights, error, match in (
        ([1.0, 2.0], [0.0, 0.0], so.SupportError, "no sample has a weight"),
        ([], [], so.SupportError, "no sample has a weight"),
        ([1.0, 2.0], [1.0, -0.1], so.SchemaError, "negative"),
        ([1.0, 2.0], [1.0, math.nan], so.SchemaError, "not finite"),
        ([1.0, math.inf], [1.0, 1.0], so.SchemaError, "not finite"),
        ([1.0, 2.0], [1.0], so.SchemaError, "equal length"),
    ):
        with pytest.raises(error, match=match):
            sample(returns, weights)


def test_bad_arguments() -> None:
    found = sample([1.0, 2.0])
    for bad in (-0.1, 1.1, math.nan, "a", True):
        with pytest.raises(so.OptionError, match="is not between 0 and 1"):
            found.quantile(bad)  # type: ignore[arg-type]
        with pytest.raises(so.OptionError, match="is not between 0 and 1"):
            found.cvar(bad)  # type: ignore[arg-type]
    with pytest.raises(so.OptionError, match="share: 0"):
        found.cvar(0)
    with pytest.raises(so.OptionError, match="NaN"):
        found.cdf(math.nan)
    with pytest.raises(so.OptionError, match="alpha"):
        found.interval(lambda d: d.mean, 2.0)
    with pytest.raises(so.OptionError, match="seed"):
        found.interval(lambda d: d.mean, seed=-1)


def test_a_quantile_of_means_may_err_either_way() -> None:
    """Returns of -10 with probability 0.1, else 0, told as -1: too high at 0.05, too low at 0.2."""
    told, true = sample([-1.0]), sample([-10.0, 0.0], [0.1, 0.9])
    assert told.quantile(0.05) > true.quantile(0.05)
    assert told.quantile(0.2) < true.quantile(0.2)
