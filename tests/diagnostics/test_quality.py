from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semiope.data.annotations import Annotations
from semiope.data.episodes import Episodes
from semiope.diagnostics.quality import ENOUGH, AnnotatorQuality, Quality, annotator_quality
from semiope.domains import sepsis
from semiope.domains.annotators import Annotator
from semiope.domains.bandit import bandit
from semiope.errors import OptionError, SchemaError

# Six targets judged by four judges each: table 2 of Shrout & Fleiss (1979).
SHROUT_FLEISS = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]
BANDIT = bandit([[0.0, 1.0, 2.0], [1.0, 3.0, -1.0], [0.5, 0.2, 0.1]], 0.7)


def one_step(outcomes: Any) -> Episodes:
    """Episodes of one decision, all of action 0 in state 0."""
    n = len(outcomes)
    return Episodes.from_arrays(episode=range(n), step=[0] * n, state=[0] * n, action=[0] * n, reward=outcomes)


def answers(rows: Any, names: Any = None, *, action: int = 0, std: Any = None) -> Annotations:
    """Answers in a table: a row for each episode, a column for each annotator; NaN for none."""
    table = np.array(rows, dtype=np.float64)
    episode, column = np.nonzero(~np.isnan(table))
    return Annotations.from_arrays(
        episode=episode, step=np.zeros(len(episode), dtype=int), action=np.full(len(episode), action),
        value=table[episode, column], annotator=None if names is None else [names[c] for c in column],
        std=None if std is None else np.broadcast_to(std, table.shape)[episode, column],
    )  # fmt: skip


def judged(rows: Any, names: Any = None, outcomes: Any = None, **more: Any) -> Quality:
    return annotator_quality(one_step(np.zeros(len(rows)) if outcomes is None else outcomes),
                             answers(rows, names, **more), 1.0)  # fmt: skip


def spreads(row: AnnotatorQuality) -> dict[str, float]:
    return {spread.source: spread.value for spread in row.noises}


def test_icc_of_shrout_and_fleiss() -> None:
    """They print ICC(1, 1) = .17, mean squares 11.24 and 6.26; psych::ICC prints the interval -0.13 to 0.72."""
    found = judged(SHROUT_FLEISS, "abcd", action=1).agreement
    assert found.icc == pytest.approx(0.1657, abs=5e-5)
    assert (found.between, found.within) == pytest.approx((11.24, 6.26), abs=0.005)
    assert found.interval() == pytest.approx((-0.13, 0.72), abs=0.005)
    assert (found.questions, found.answers, found.episodes) == (6, 24, 6)


def test_icc_by_hand_for_unequal_numbers() -> None:
    """Means 2 and 5 around 3.2: between 10.8, within 4/3, n0 = (5 - 13/5) / 1 = 2.4."""
    found = judged([[1, 2, 3], [4, 6, math.nan]]).agreement
    assert (found.between, found.within) == pytest.approx((10.8, 4 / 3))
    assert found.icc == pytest.approx((10.8 - 4 / 3) / (10.8 + 1.4 * 4 / 3))


def test_noise_is_that_of_grubbs() -> None:
    """Three annotators, the same questions: s_1^2 = (V_12 + V_13 - V_23) / 2 of the variances of differences."""
    rows = np.random.default_rng(3).normal(size=(30, 3)) * [0.1, 0.5, 1.0] + np.arange(30)[:, None] + [0, 2, -1]
    found = judged(rows, "abc", action=1).annotators
    v = [np.var(rows[:, i] - rows[:, (i + 1) % 3], ddof=1) for i in range(3)]
    expected = [(v[i] + v[i - 1] - v[i - 2]) / 2 for i in range(3)]
    assert [row.noise.square.value for row in found] == pytest.approx(expected)
    assert [row.noise.source for row in found] == ["peers"] * 3


def test_two_annotators_are_told_apart_by_covariance() -> None:
    rows = np.random.default_rng(3).normal(size=(30, 2)) * [0.3, 0.9] + np.arange(30)[:, None] + [0, 2]
    found = judged(rows, "ab", action=1, std=0.5)
    off = rows[:, 0] - rows[:, 1]
    expected = [np.cov(rows[:, 0], off)[0, 1], np.cov(rows[:, 1], -off)[0, 1]]
    assert [row.noise.square.value for row in found.annotators] == pytest.approx(expected)
    [difference] = found.differences
    assert difference[:2] == ("a", "b")
    assert difference.mean[:3] == pytest.approx((off.mean(), off.std(ddof=1) / np.sqrt(30), 30))
    assert found.annotators[1].apart.value == pytest.approx(-off.mean())
    # z = difference / sqrt(2 0.5^2), less the one offset between the two.
    assert found.honesty_peers.square.value == pytest.approx(np.var(off, ddof=1) / 0.5)


def test_against_outcomes_by_hand() -> None:
    rng = np.random.default_rng(5)
    outcome, value = rng.normal(size=25), rng.normal(size=25)
    [row] = judged(value[:, None], "a", outcome, std=2.0).annotators
    off = value - outcome
    assert row.bias[:] == pytest.approx((off.mean(), off.std(ddof=1) / 5, 25, 25))
    slope, intercept = np.polyfit(value, outcome, 1)
    assert (row.calibration.slope.value, row.calibration.intercept.value) == pytest.approx((slope, intercept))
    assert row.noises[1].source == "outcomes"
    assert row.noises[1].square.value == pytest.approx(np.cov(value, off)[0, 1])
    assert row.ratios[1].square.value == pytest.approx(np.cov(value, off)[0, 1] / 4)


def test_twins_by_hand() -> None:
    """All have the same state and action: the product with each twin, plus the squared error of the bias."""
    rng = np.random.default_rng(5)
    outcome, value = rng.normal(size=25), rng.normal(size=25)
    [row] = judged(value[:, None], "a", outcome).annotators
    off, bias = value - outcome, (value - outcome).mean()
    products = [
        (off[i] - bias) * (value[i] - outcome[k] - bias) for i in range(25) for k in range(25) if i != k
    ]  # fmt: skip
    assert row.noises[0].source == "twins"
    assert row.noises[0].square.value == pytest.approx(np.mean(products) + np.var(off, ddof=1) / 25)


def test_standard_errors_are_clustered_by_episode() -> None:
    """To say everything ten times is to know no more."""
    rng = np.random.default_rng(6)
    value, outcome = rng.normal(size=(40, 1)), rng.normal(size=40)
    once, often = (
        judged(np.repeat(value, times, axis=1), ["a"] * times, outcome, std=1.0).annotators[0] for times in (1, 10)
    )
    assert (often.known, often.bias.n, often.bias.episodes) == (400, 400, 40)
    assert often.bias[:2] == pytest.approx(once.bias[:2])
    assert often.calibration.slope.std_error == pytest.approx(once.calibration.slope.std_error, rel=0.02)


def test_last_step_is_free_of_the_policy_difference() -> None:
    """Answers speak of the optimal policy: all outcomes together take its merit for a bias; the last step does not."""
    world = sepsis.world()
    episodes = world.sample(1500, seed=3)
    told = world.annotate(episodes, "optimal", annotators=Annotator("ann", 0.1, 0.2), of_action_taken=True, seed=3)
    [row] = annotator_quality(episodes, told, world.mdp.gamma).annotators
    assert row.basis == "last step"
    assert row.bias == row.bias_last
    assert abs(row.bias.value - 0.1) < 4 * row.bias.std_error
    assert abs(row.bias_all.value - 0.1) > 4 * row.bias_all.std_error
    assert row.caveat.startswith("Outcomes follow the behaviour policy")
    assert abs(row.noise.value - 0.2) < 4 * row.noise.std_error


def test_few_answers_about_the_last_step_do_not_decide() -> None:
    n = ENOUGH - 1
    episode, step = np.array([(e, t) for e in range(40) for t in range(2 if e < n else 1)]).T
    zero = np.zeros(len(step), dtype=int)
    episodes = Episodes.from_arrays(episode=episode, step=step, state=zero, action=zero, reward=zero)
    told = Annotations.from_arrays(episode=episode, step=step, action=zero, value=np.arange(len(step)))
    [row] = annotator_quality(episodes, told, 1.0).annotators
    assert (row.basis, row.bias, row.bias_last.n) == ("all steps", row.bias_all, n)
    assert "bias" in row.caveat


def test_outcomes_are_discounted_from_their_own_step() -> None:
    episodes = Episodes.from_arrays(
        episode=[0, 0, 0], step=[0, 1, 2], state=[0, 1, 2], action=[0, 0, -1], reward=[1, 2, 4]
    )
    told = Annotations.from_arrays(episode=[0, 0], step=[0, 1], action=[0, 0], value=[10.0, 20.0])
    [row] = annotator_quality(episodes, told, 0.5).annotators
    assert row.bias_all.value == pytest.approx(((10 - 3) + (20 - 4)) / 2)
    assert row.bias_last.value == pytest.approx(20 - 4)


tables = st.integers(0, 2**32 - 1)


def some_study(seed: int) -> tuple[Episodes, dict[str, Any]]:
    rng = np.random.default_rng(seed)
    episodes, n = BANDIT.sample(12, seed=seed), 60
    columns = {
        "episode": rng.integers(12, size=n),
        "step": np.zeros(n, dtype=int),
        "action": np.array(["a1", "a2", "a3"])[rng.integers(3, size=n)],
        "value": rng.normal(size=n).round(2),
        "annotator": np.array(["ann", "bob", "cy"])[rng.integers(3, size=n)],
        "std": rng.uniform(0.1, 2, size=n).round(2),
    }
    return episodes, columns


@given(tables, st.booleans())
@settings(max_examples=25)
def test_the_order_of_rows_does_not_matter(seed: int, named: bool) -> None:
    episodes, columns = some_study(seed)
    if not named:
        del columns["annotator"]
    order = np.random.default_rng(seed).permutation(60)
    found = annotator_quality(episodes, Annotations.from_arrays(**columns), 0.9)
    shuffled = {name: column[order] for name, column in columns.items()}
    assert repr(annotator_quality(episodes, Annotations.from_arrays(**shuffled), 0.9)) == repr(found)


@given(tables, st.floats(-100, 100))
@settings(max_examples=25)
def test_a_constant_shifts_the_bias_by_itself(seed: int, constant: float) -> None:
    episodes, columns = some_study(seed)
    before = annotator_quality(episodes, Annotations.from_arrays(**columns), 0.9).annotators
    columns["value"] = columns["value"] + np.where(columns["annotator"] == "bob", constant, 0)
    after = annotator_quality(episodes, Annotations.from_arrays(**columns), 0.9).annotators
    for old, new in zip(before, after, strict=True):
        shift = constant if old.name == "bob" else 0.0
        assert new.bias_all.value == pytest.approx(old.bias_all.value + shift, abs=1e-9, nan_ok=True)
        assert new.bias_all.std_error == pytest.approx(old.bias_all.std_error, abs=1e-9, nan_ok=True)
        for x, y in zip(old.noises, new.noises, strict=True):
            assert y.square[:2] == pytest.approx(x.square[:2], rel=1e-6, abs=1e-6, nan_ok=True)
        slopes = old.calibration.slope.value, new.calibration.slope.value
        assert slopes[1] == pytest.approx(slopes[0], rel=1e-6, abs=1e-6, nan_ok=True)


def test_without_names_answers_are_of_different_persons() -> None:
    rng = np.random.default_rng(2)
    rows = np.arange(40)[:, None] + rng.normal(size=(40, 3)) * 0.5
    found = judged(rows, action=1, std=0.5)
    [row] = found.annotators
    assert (row.name, row.answers, row.known, row.caveat) == ("all", 120, 0, "")
    assert spreads(row) == {"persons": pytest.approx(math.sqrt(rows.var(axis=1, ddof=1).mean()))}
    assert found.agreement.questions == 40
    assert found.differences == []
    low, high = row.honesty.interval()
    assert low < 1 < high
    assert math.isnan(row.bias.value)


def test_some_without_names() -> None:
    told = Annotations.from_arrays(
        episode=[0, 0, 0], step=[0] * 3, action=[1] * 3, value=[1.0, 2.0, 3.0], annotator=["ann", None, None]
    )
    found = annotator_quality(one_step([0.0]), told, 1.0)
    assert [(row.name, row.answers) for row in found.annotators] == [("ann", 1), ("unnamed", 2)]
    assert (found.agreement.questions, found.agreement.answers) == (1, 3)


def test_repeats_are_the_last_resort() -> None:
    [row] = judged([[1.0, 3.0], [2.0, 2.0]], ["a", "a"], action=1).annotators
    assert spreads(row) == {"repeats": 1.0}
    assert row.noise.source == "repeats"
    assert math.isnan(judged([[1.0, 3.0], [2.0, 2.0]], ["a", "a"], action=1).agreement.icc)


def test_one_answer_tells_next_to_nothing() -> None:
    found = judged([[1.0]], "a", [3.0], std=1.0)
    [row] = found.annotators
    assert row.bias[0] == -2.0
    assert math.isnan(row.bias.std_error)
    assert all(map(math.isnan, row.bias.interval()))
    numbers = [row.calibration.slope.value, row.noise.value, row.honesty.value, found.agreement.icc]
    numbers += [found.honesty_peers.value, found.honesty_outcomes.value, *found.agreement.interval()]
    assert all(map(math.isnan, numbers))
    assert (row.noise.n, found.agreement.questions, found.agreement.answers, found.differences) == (0, 0, 0, [])


def test_no_overlap() -> None:
    found = judged([[1.0, math.nan], [math.nan, 2.0]], "ab", action=1)
    assert found.agreement.questions == 0
    assert [spreads(row) for row in found.annotators] == [{}, {}]
    assert [row.apart.n for row in found.annotators] == [0, 0]


def test_values_that_are_all_the_same() -> None:
    found = judged(np.full((30, 3), 0.1), "abc", np.full(30, 0.1), std=1.0)
    assert math.isnan(found.agreement.icc)
    for row in found.annotators:
        assert row.bias[:2] == pytest.approx((0.0, 0.0))
        assert row.noise.value == pytest.approx(0.0, abs=1e-12)
        assert math.isnan(row.calibration.slope.value)


def test_full_agreement() -> None:
    found = judged([[1, 1], [2, 2], [5, 5]], "ab", action=1).agreement
    assert (found.icc, *found.interval()) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_extreme_values_are_no_crash(scale: float) -> None:
    rows = np.random.default_rng(0).normal(size=(30, 3)) * scale
    assert judged(rows, "abc", rows[:, 0], std=1.0).annotators[0].answers == 30


def test_rewards_and_preferences_are_left_out() -> None:
    told = Annotations.from_arrays(
        episode=[0, 0, 1], step=[0] * 3, action=[1] * 3, value=[1.0, 1.0, 2.0], kind=["reward", "preference", "return"]
    )
    found = annotator_quality(one_step([0.0, 0.0]), told, 1.0)
    assert (found.left_out, found.annotators[0].answers) == (2, 1)
    told = Annotations.from_arrays(episode=[0], step=[0], action=[1], value=[1.0], kind=["reward"])
    assert annotator_quality(one_step([0.0]), told, 1.0).annotators[0].answers == 0


def test_what_is_not_valid_is_refused() -> None:
    with pytest.raises(OptionError, match="gamma"):
        annotator_quality(one_step([0.0]), answers([[1.0]]), 2.0)
    told = Annotations.from_arrays(episode=[0], step=[0], action=["up"], value=[1.0])
    with pytest.raises(SchemaError, match="Use the same labels"):
        annotator_quality(one_step([0.0]), told, 1.0)
