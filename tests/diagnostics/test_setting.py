"""Settings: what is refused, what they keep, and what their moments say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import semiope as so
from semiope.diagnostics import sequential, theory
from semiope.domains import bandit, tree

WORLD = bandit.two_state()
GOOD = np.full((2, 2, 2), 0.5)


def spread(one: Any) -> Any:
    return np.tile(np.array(one), (2, 2, 1, 1))


def negative(table: Any, index: tuple[int, ...], value: float) -> Any:
    array = np.array(table, dtype=float)
    array[index] = value
    return array


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": negative(GOOD, (0, 1, 0), -0.5)}, r"negative weight in 1 pair. First: state 's1' action 'down'"),
        ({"weights": negative(GOOD, (1, 0, 0), 0.6)}, r"do not sum to 1 in 1 pair. First: state 's2' action 'up'"),
        (
            {"weights": negative(GOOD, (1, 0, 0), np.nan)},
            r"not finite numbers in 1 pair. First: state 's2' action 'up'",
        ),
        ({"weights": GOOD[0]}, r"an array of shape \(2, 2\)"),
        ({"weights": np.full((3, 2, 2), 0.5)}, r"an array of shape \(3, 2, 2\); give \(2, 2, 2\)"),
        ({"weights": theory.WeightMoments(GOOD, np.zeros((2, 2, 2)))}, r"covariance: an array of shape"),
        ({"weights": theory.WeightMoments(GOOD, np.full((2, 2, 2, 2), -1.0))}, r"negative variance in 4 pairs"),
        (
            {"weights": theory.WeightMoments(GOOD, spread([[0.1, np.nan], [-0.1, 0.1]]))},
            r"not finite numbers in 4 pairs",
        ),
        ({"weights": theory.WeightMoments(GOOD, spread([[0.1, -0.1], [0.1, 0.1]]))}, r"not symmetric in 4 pairs"),
        (
            {"weights": theory.WeightMoments(GOOD, spread([[9.0, -9.0], [-9.0, 9.0]]))},
            r"a variance no share can have",
        ),
        ({"weights": theory.WeightMoments(GOOD, spread([[0.1, 0.1], [0.1, 0.1]]))}, r"rows do not sum to 0"),
        ({"weights": GOOD.tolist(), "annotation_std": -1.0}, r"annotation_std: negative"),
        (
            {"annotation_std": [[0.1, -0.1], [0.1, 0.1]]},
            r"annotation_std: negative in 1 pair. First: state 's1' action 'down'",
        ),
        ({"annotation_bias": [1.0, 2.0]}, r"annotation_bias: an array of shape \(2,\)"),
        ({"annotation_bias": np.nan}, r"annotation_bias: not a finite number in 4 pairs"),
    ],
)
def test_bad_settings(options: dict[str, Any], message: str) -> None:
    with pytest.raises(so.SchemaError, match=message):
        theory.Setting.of(WORLD.mdp, WORLD.behavior, WORLD.behavior, **options)


def test_bad_moments() -> None:
    with pytest.raises(so.SchemaError, match=r"not probabilities in 1 pair. First: state 0 action 1"):
        theory.WeightMoments.equal(negative(np.zeros((1, 2, 2)), (0, 1, 0), 1.5))
    with pytest.raises(so.SchemaError, match="chances"):
        theory.WeightMoments.mixture([0.5, 0.6], [GOOD, GOOD])
    with pytest.raises(so.OptionError, match="13 actions are too many"):
        theory.WeightMoments.equal(np.full((1, 13, 13), 0.5))
    with pytest.raises(so.SchemaError, match="annotated: not probabilities"):
        theory.naive_is(theory.Setting.of(WORLD.mdp, WORLD.behavior, WORLD.behavior), 2.0)


def test_one_step_terms_are_refused_for_longer_problems() -> None:
    world = tree.tree()
    setting = theory.Setting.of(world.mdp, world.behavior, world.policies["uniform"])
    with pytest.raises(so.OptionError, match="c_pdis"):
        theory.variance_c_is(setting)


def test_covariances_of_three_actions_must_be_possible() -> None:
    """Rows that sum to 0 and fair variances, but no weights have them: an eigenvalue is negative."""
    world = bandit.bandit(np.zeros((1, 3)), 1.0)
    wrong = np.array([[0.0, 0.1, -0.1], [0.1, -0.05 + 0.05, -0.1], [-0.1, -0.1, 0.2]])
    weights = theory.WeightMoments(np.full((1, 3, 3), 1 / 3), np.tile(wrong, (1, 3, 1, 1)))
    with pytest.raises(so.SchemaError, match="not positive semidefinite in 3 pairs"):
        theory.Setting.of(world.mdp, world.behavior, world.behavior, weights=weights)


def test_a_setting_keeps_its_own_weights() -> None:
    mean = GOOD.copy()
    setting = theory.Setting.of(WORLD.mdp, WORLD.behavior, WORLD.policies["0-1"], weights=mean)
    before = theory.variance_c_is(setting)
    mean[:] = np.eye(2)
    assert theory.variance_c_is(setting) == before
    assert "true value" in repr(setting)


def test_c_star_is_refused_where_an_action_is_never_annotated() -> None:
    """s2 is not annotated: fine for policies that take the logged action there, and for no others."""
    weights = theory.WeightMoments.equal(WORLD.askable)
    setting = theory.Setting.of(WORLD.mdp, WORLD.behavior, WORLD.policies["0-1"], weights=weights)
    assert theory.variance_c_star_is(setting).total > 0
    other = theory.Setting.of(WORLD.mdp, WORLD.behavior, [[0.5, 0.5], [0.5, 0.5]], weights=weights)
    for function in (theory.variance_c_star_is, sequential.c_star_pdis):
        with pytest.raises(so.SchemaError, match=r"not in 1 pair. First: state 's2' action 'up'"):
            function(other)


def test_what_remains_of_n_episodes() -> None:
    moments = theory.Moments(value=1.0, mean=1.3, variance=4.0)
    assert moments.std == 2.0
    assert moments.std_error(100) == pytest.approx(0.2)
    assert moments.rmse(100) == pytest.approx((0.3**2 + 0.04) ** 0.5)
    assert moments.episodes_for(0.2) == 100
    for wrong in (0, -3, 1.5):
        with pytest.raises(so.OptionError):
            moments.std_error(wrong)  # type: ignore[arg-type]
    with pytest.raises(so.OptionError):
        moments.episodes_for(0.0)
