"""Estimates that do not take the annotators' word, and what is made of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import semiope as so
from semiope.errors import quietly
from semiope.estimate.result import NO_CHANCE, EpisodeValues, Estimate, Rival
from semiope.models.bellman import BellmanModel

GAMMA = 0.95


def estimate(*rivals: Rival) -> Estimate:
    """An estimate of 0 with a standard error of 0.1, beside rivals."""
    values = np.tile([-1.0, 1.0], 50) * math.sqrt(0.99)
    return Estimate("p", "pp-dr", EpisodeValues(values, np.ones(100)), find_rivals=lambda: rivals)


def rival(value: float, *, shows: bool, error: float = 0.1) -> Rival:
    return Rival("logs", value, error, math.inf, -value / error, error, shows)


def excess(value: float, error: float = 0.1) -> float:
    return value * (1 - NO_CHANCE * (error / value) ** 2)


def test_a_bias_that_outcomes_show_is_taken_out_and_a_model_is_met_halfway() -> None:
    assert estimate(rival(1.0, shows=True)).value == pytest.approx(excess(1.0))
    assert estimate(rival(1.0, shows=False)).value == pytest.approx(excess(1.0) / 2)
    both = estimate(rival(1.0, shows=True), rival(-1.0, shows=False))
    left = excess(1.0)
    assert both.value == pytest.approx(left + excess(-1.0 - left) / 2)


@pytest.mark.parametrize("shows", [True, False])
def test_what_may_be_chance_changes_nothing(shows: bool) -> None:
    found = estimate(rival(0.19, shows=shows))
    assert (found.bias, found.compromise, found.value) == (0.0, 0.0, found.trusting)


@pytest.mark.parametrize("place", [-3.0, -0.3, 0.1, 0.3, 3.0])
@pytest.mark.parametrize("other", [-2.0, 0.25, 2.0])
def test_the_value_is_in_the_interval_and_so_are_all_who_disagree(place: float, other: float) -> None:
    found = estimate(rival(place, shows=False), rival(other, shows=True))
    low, high = found.interval()
    assert low <= found.value <= high
    for one in found.rivals:
        if one.excess(found.unshrunk) or one.excess(found.unshrunk - found.bias) or one is found.rivals[0]:
            assert low <= one.value <= high


def test_who_disagrees_once_a_bias_was_taken_out_is_covered() -> None:
    """The model agrees with annotators, but not with outcomes: after their bias was taken out, it is left."""
    found = estimate(rival(2.0, shows=True, error=0.05), rival(0.1, shows=False))
    assert not found.rivals[1].excess(found.unshrunk)
    low, high = found.interval()
    assert low <= 0.1 <= high
    assert found.value == pytest.approx((found.unshrunk - found.bias + 0.1) / 2, abs=0.02)


def wards(seed: int, apart: float, n: int = 400) -> tuple[dict[str, Any], so.Policy, float]:
    """Patients of two kinds, in logs that do not tell; kinds are `apart` in what treatments pay. Two states, ten steps.

    The policy treats always, practice at random; the value is that of the policy.
    """
    rng = np.random.default_rng(seed)
    kind = rng.choice([-1.0, 1.0], size=n)
    state, columns = rng.integers(2, size=n), []
    for step in range(10):
        action = rng.integers(2, size=n)
        reward = action * (0.2 + apart * kind) + 0.3 * state + rng.normal(size=n)
        columns.append((np.arange(n), np.full(n, step), state, action, reward))
        state = np.where(rng.random(n) < 0.7, state, 1 - state)
    names = ("episode", "step", "state", "action", "reward")
    logs = {name: np.concatenate(column) for name, column in zip(names, zip(*columns, strict=True), strict=True)}
    value = sum(GAMMA**step * (0.2 + 0.15) for step in range(10))
    return logs, so.Policy.from_table([[0.0, 1.0], [0.0, 1.0]]), value


def counted(logs: dict[str, Any], policy: so.Policy) -> tuple[BellmanModel, Any, float]:
    """The policy in the MDP of these logs, the shares of first states, and its value."""
    with quietly():
        problem = so.evaluate(logs, policy, estimators="dm", gamma=GAMMA).chosen("dm").problem
    found = problem.modelled.of_all_logs
    assert found is not None
    return found.model, found.starts, float(found.values.mean())


@pytest.mark.parametrize("apart", [0.0, 1.0])
def test_the_error_of_a_counted_model_holds_what_episodes_share(apart: float) -> None:
    """Over 200 datasets: a standard deviation is known to 5%, and four of these are allowed for, beside 10% of theory.

    First states are the same in the mean: what they add is small, and comes on top.
    """
    found = [counted(*wards(seed, apart)[:2]) for seed in range(200)]
    errors = np.array([model.std_error_of(starts) for model, starts, _ in found])
    values = np.array([value for _, _, value in found])
    assert math.sqrt(np.mean(errors**2)) == pytest.approx(float(np.std(values)), rel=0.3)


def waiting(seed: int, n: int = 300, reward: float = 1.0) -> dict[str, Any]:
    """Patients wait, are treated, then prepared, and well or not ever after: practice treats late, the policy at once.

    What follows a treatment is worth more the more steps are left.
    """
    rng = np.random.default_rng(seed)
    state, columns = np.zeros(n, int), []
    for step in range(12):
        action = (rng.random(n) < np.array([0.1, 0.2, 0.5, 0.5])[state]).astype(int)
        columns.append((np.arange(n), np.full(n, step), state, action, reward * (state == 2)))
        well = np.where(rng.random(n) < 0.5, 2, 3)
        state = np.where((state == 0) & (action == 1), 1, np.where((state == 1) & (action == 1), well, state))
    names = ("episode", "step", "state", "action", "reward")
    return {name: np.concatenate(column) for name, column in zip(names, zip(*columns, strict=True), strict=True)}


AT_ONCE = so.Policy.from_table([[0.0, 1.0], [0.0, 1.0], [0.5, 0.5], [0.5, 0.5]])


def test_the_error_of_a_counted_model_is_that_at_the_policys_steps() -> None:
    """Over 200 datasets; see above. Residuals at the steps of the logs would give half of it."""
    found = [counted(waiting(seed), AT_ONCE) for seed in range(200)]
    errors = np.array([model.std_error_of(starts) for model, starts, _ in found])
    assert math.sqrt(np.mean(errors**2)) == pytest.approx(float(np.std([one[2] for one in found])), rel=0.25)


def test_the_error_of_a_counted_model_scales_with_rewards() -> None:
    (model, starts, _), (large, _, _) = (counted(waiting(1, reward=unit), AT_ONCE) for unit in (1.0, 1e155))
    assert large.std_error_of(starts) == pytest.approx(1e155 * model.std_error_of(starts), rel=1e-9)


@pytest.mark.parametrize("reward", [0.1, 1 / 3, 0.7])
def test_where_nothing_varies_rounding_shows_nothing(reward: float) -> None:
    rng = np.random.default_rng(0)
    rows = {
        "episode": np.repeat(np.arange(100), 5), "step": np.tile(np.arange(5), 100),
        "state": rng.integers(3, size=500), "action": rng.integers(2, size=500), "reward": np.full(500, reward),
    }  # fmt: skip
    model, _, _ = counted(rows, so.Policy.from_table(np.full((3, 2), 0.5)))
    assert model.dependence == 0.0


def test_one_episode_is_diagnosed() -> None:
    """A model of one's own needs no other episode; nor does what it is compared with."""
    rows = {"episode": [0] * 4, "step": range(4), "state": [0, 1, 0, 1], "action": [0, 1, 1, 0], "reward": [1.0] * 4}
    table = {"state": [0, 0, 1, 1], "action": [0, 1, 0, 1], "value": [1.0, 2.0, 3.0, 4.0]}
    with quietly():
        results = so.evaluate(
            rows, so.Policy.from_table(np.full((2, 2), 0.5)), estimators=["dm", "dr"], model=table, gamma=GAMMA
        )
    assert so.diagnose(results, estimator="dr", refute=False).light == "red"
    assert "what states leave out" not in {one.name for one in so.diagnose(results, estimator="dm", refute=False)}


def test_states_that_leave_something_out_are_seen() -> None:
    """Wrong alarms at 5%: more than 9 of 60 have a probability below 0.001."""
    z = {apart: [counted(*wards(seed, apart)[:2])[0].dependence for seed in range(60)] for apart in (0.0, 0.5)}
    assert np.count_nonzero(np.square(z[0.0]) > NO_CHANCE) <= 9
    assert min(z[0.5]) > 3


def test_the_finding_on_states() -> None:
    for apart, light in ((0.0, "green"), (1.0, "amber")):
        logs, policy, _ = wards(0, apart)
        asked = np.flatnonzero((logs["action"] == 0) & (np.arange(len(logs["step"])) % 5 == 0))
        left = GAMMA ** np.arange(10)
        value = np.array([0.35 * left[: 10 - step].sum() for step in logs["step"][asked]])
        annotations = so.Annotations.from_arrays(
            episode=logs["episode"][asked], step=logs["step"][asked], action=np.ones(len(asked), int), value=value
        )
        with quietly():
            results = so.evaluate(logs, policy, annotations=annotations, estimators=["pp-dr", "dm"], gamma=GAMMA)
        assert so.diagnose(results, refute=False)["what states leave out"].light == light
        by_model = so.diagnose(results, estimator="dm", refute=False)["what states leave out"]
        assert by_model.light == ("green" if light == "green" else "red")


@pytest.mark.parametrize("annotators", [1, 4])
def test_annotations_that_nobody_gave_are_red_unless_nothing_was_missing(annotators: int) -> None:
    """However many annotators answered each question, and whatever was asked about actions taken."""
    logs, policy, _ = wards(2, 0.0)
    rows = np.flatnonzero(logs["action"] == 0)
    for some, light in ((rows[::4], "red"), (rows, "green")):
        asked = np.concatenate([np.tile(some, annotators), np.flatnonzero(logs["action"] == 1)])
        annotations = so.Annotations.from_arrays(
            episode=logs["episode"][asked], step=logs["step"][asked], action=np.ones(len(asked), int),
            value=np.full(len(asked), 1.0), annotator=[f"annotator {i // len(some)}" for i in range(len(asked))],
        )  # fmt: skip
        with quietly():
            filled = so.evaluate(logs, policy, annotations=annotations, repair="impute", gamma=GAMMA)
            plain = so.evaluate(logs, policy, annotations=annotations, gamma=GAMMA)
        for name in ("c-pdis", "pp-dr"):
            found = so.diagnose(filled, estimator=name, refute=False)["annotations filled in"]
            assert found.light == light
        assert "annotations filled in" not in {one.name for one in so.diagnose(plain, refute=False)}
