"""What is wanted, as coefficients of policies' values: against explicit sums over pairs."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import norm

from semiope.errors import OptionError
from semiope.planning.goals import SETTLED, check_goal, wanted
from tests.planning.cases import Floats


def worth(difference: float, std: float) -> float:
    """The derivative of the expected loss with the variance, by differences."""

    def loss(variance: float) -> float:
        s = variance**0.5
        return float(s * norm.pdf(difference / s) - abs(difference) * norm.cdf(-abs(difference) / s))

    step = 1e-5 * std**2
    return (loss(std**2 + step) - loss(std**2 - step)) / (2 * step)


def case(seed: int, n: int = 4) -> tuple[Floats, Floats]:
    """Values of policies, and a covariance."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n, n))
    return rng.normal(size=n), root @ root.T + 0.5 * np.eye(n)


def test_values_are_wanted_each_on_its_own() -> None:
    np.testing.assert_array_equal(wanted("value", *case(1)), np.eye(4))


def test_differences_count_by_how_much_the_expected_loss_falls() -> None:
    values, covariance = case(1)
    rows = wanted("difference", values, covariance)
    expected = np.array([worth(d, s) for d, s in zip(values, np.sqrt(np.diag(covariance)), strict=True)])
    np.testing.assert_allclose(rows, np.diag(np.sqrt(expected / expected.max())), rtol=1e-4, atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_a_ranking_is_the_sum_over_all_pairs(seed: int) -> None:
    values, covariance = case(seed)
    rows = wanted("ranking", values, covariance)
    padded, wide = np.append(values, 0.0), np.pad(covariance, (0, 1))  # today's policy is the last
    pairs = [*combinations(range(5), 2)]
    spread = [wide[i, i] + wide[j, j] - 2 * wide[i, j] for i, j in pairs]
    weights = np.array([worth(padded[i] - padded[j], s**0.5) for (i, j), s in zip(pairs, spread, strict=True)])
    remaining = case(seed + 10)[1]  # whatever is not known of the values in the end
    left = np.pad(remaining, (0, 1))
    explicit = sum(
        weight * (left[i, i] + left[j, j] - 2 * left[i, j]) for weight, (i, j) in zip(weights, pairs, strict=True)
    )
    assert np.trace(rows @ remaining @ rows.T) == pytest.approx(explicit / weights.max(), rel=1e-3)


def test_settled_differences_count_little_but_something() -> None:
    covariance = np.eye(2)
    near, far = np.diag(wanted("difference", np.array([0.1, 3.0]), covariance)) ** 2
    assert far < 0.02 * near
    further = np.diag(wanted("difference", np.array([0.1, 1000.0]), covariance)) ** 2
    assert further[1] == pytest.approx(norm.pdf(SETTLED) / norm.pdf(0.1))


@pytest.mark.parametrize("goal", ["difference", "ranking"])
def test_what_is_known_exactly_is_not_worth_a_question(goal: str) -> None:
    """A policy that does what was logged, and one that is there twice, do not take the place of what is open."""
    covariance = np.array([[0.0, 0.0, 0.0], [0.0, 1.0, 1.0], [0.0, 1.0, 1.0]])
    rows = wanted(goal, np.array([0.0, 0.2, 0.2]), covariance)
    assert np.isfinite(rows).all()
    assert np.trace(rows @ covariance @ rows.T) == pytest.approx(2.0 if goal == "difference" else 4.0, rel=1e-6)


def test_nothing_is_wanted_where_all_is_known() -> None:
    for goal in ("difference", "ranking"):
        assert not np.any(wanted(goal, np.array([0.3, 0.1]), np.zeros((2, 2))))


def test_unknown_goals_are_refused() -> None:
    with pytest.raises(OptionError, match=r"goal: 'rankings' is not known. Did you mean 'ranking'\?"):
        check_goal("rankings")
