from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import semiope as so
from semiope.estimate.result import degrees_of_freedom, standard_error
from semiope.uncertainty.intervals import interval


def test_the_t_interval_of_a_mean_is_the_textbooks(rng: np.random.Generator) -> None:
    """With the degrees of freedom that the data leave: n - 1 where no few carry the variance."""
    x = rng.normal(size=50)
    low, high = interval(x, np.ones(50), alpha=0.1)
    half = stats.t.ppf(0.95, degrees_of_freedom(x - x.mean())) * x.std(ddof=1) / math.sqrt(50)
    assert (low, high) == pytest.approx((x.mean() - half, x.mean() + half))
    flat = rng.uniform(size=50)
    expected = stats.ttest_1samp(flat, 0).confidence_interval(0.9)
    assert interval(flat, np.ones(50), alpha=0.1) == pytest.approx((expected.low, expected.high))


def test_degrees_of_freedom_are_those_of_a_chi_squared_variance(rng: np.random.Generator) -> None:
    """Satterthwaite: 2 n / (kurtosis - 1), n - 1 at most, 1 at least, whatever the unit."""
    x = rng.standard_t(4, size=400)
    x = x - x.mean()
    kurtosis = float(np.mean(x**4) / np.mean(x**2) ** 2)
    assert degrees_of_freedom(x) == pytest.approx(min(2 * 400 / (kurtosis - 1), 399))
    assert degrees_of_freedom(1e200 * x) == pytest.approx(degrees_of_freedom(x))
    one = np.zeros(400)
    one[7] = 1.0
    assert degrees_of_freedom(one - one.mean()) == pytest.approx(2.0, abs=0.02)
    assert degrees_of_freedom(np.zeros(5)) == 4
    assert degrees_of_freedom(np.zeros(1)) == 1


def test_the_normal_interval_is_the_textbooks(rng: np.random.Generator) -> None:
    x = rng.normal(size=50)
    low, high = interval(x, np.ones(50), alpha=0.1, method="normal")
    half = stats.norm.ppf(0.95) * x.std(ddof=1) / math.sqrt(50)
    assert (low, high) == pytest.approx((x.mean() - half, x.mean() + half))


def test_resamples_without_any_ratio_are_left_out() -> None:
    ratio = np.array([0.0, 0.0, 2.0])
    assert interval(3 * ratio, ratio, method="bootstrap") == pytest.approx((3.0, 3.0))


def test_the_delta_method_agrees_with_the_bootstrap(rng: np.random.Generator) -> None:
    ratio = rng.lognormal(0, 0.5, size=4000)
    values = ratio * rng.normal(3, 1, size=4000)
    error = standard_error(values, ratio)
    low, high = interval(values, ratio, method="bootstrap", alpha=0.05, seed=1)
    # A bootstrap of 1000 resamples knows a quantile's place to a few per cent.
    assert (high - low) / (2 * 1.96 * error) == pytest.approx(1, abs=0.1)


def test_a_constant_reward_leaves_no_doubt_after_self_normalising(rng: np.random.Generator) -> None:
    ratio = rng.choice([0.2, 1.8], size=100)
    for method in ("t", "normal", "bootstrap"):
        assert interval(ratio, ratio, method=method) == pytest.approx((1.0, 1.0))


def test_coverage_of_the_default_interval(rng: np.random.Generator) -> None:
    """400 data sets of a two-action bandit: the count covered is binomial; 360 has probability below 1e-5 at 95%."""
    covered = 0
    for _ in range(400):
        ratio = rng.choice([0.5, 1.5], size=200)
        values = ratio * rng.normal(1, 1, size=200)
        low, high = interval(values, ratio)
        covered += low <= 1 <= high
    assert 360 < covered < 398


def test_the_same_seed_gives_the_same_interval(rng: np.random.Generator) -> None:
    x, y = rng.normal(size=(2, 30)) + 3
    assert interval(x, y, method="bootstrap", seed=4) == interval(x, y, method="bootstrap", seed=4)
    assert interval(x, y, method="bootstrap", seed=4) != interval(x, y, method="bootstrap", seed=5)


def test_one_episode_has_no_interval() -> None:
    one = np.ones(1)
    assert all(math.isnan(end) for end in interval(one, one))


@pytest.mark.parametrize(
    "options", [{"alpha": 0.0}, {"alpha": 1.0}, {"method": "magic"}, {"method": "bootstrap", "seed": -1}]
)
def test_impossible_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(so.OptionError):
        interval(np.ones(3), np.ones(3), **options)  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore:there are only")
def test_estimates_give_their_interval() -> None:
    columns = {"episode": [0, 1, 2], "step": [0] * 3, "state": [0] * 3, "action": [0] * 3, "reward": [1.0, 2.0, 4.0]}
    found = so.evaluate(columns, so.Policy.from_table([[1.0]]))["is"]
    assert found.interval(alpha=0.05) == pytest.approx(interval(np.array([1.0, 2.0, 4.0]), np.ones(3)))
    assert found.std_error == pytest.approx(np.std([1, 2, 4], ddof=1) / math.sqrt(3))
