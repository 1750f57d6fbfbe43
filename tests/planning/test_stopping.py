"""Bounds that hold at all looks at once, decisions, and why a plan stops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from semiope.planning.stopping import FINER, MIXED, SCALES, Decision, Spending, bound, decide, why_stop, width

N_PATHS = 4000


@pytest.mark.parametrize("before", [1.0, 0.01])
def test_the_bound_holds_at_all_looks_at_once(before: float) -> None:
    """What is expected of a difference moves by Brownian motion as answers come in; 4000 paths, many looks."""
    rng, alpha = np.random.default_rng(1), 0.1
    remaining = before * np.concatenate([[0.0], np.geomspace(1e-6, 1, 299)])
    moves = rng.normal(size=(N_PATHS, 300)) * np.sqrt(np.diff(remaining, prepend=0.0))
    away = np.abs(np.cumsum(moves, axis=1))  # seen from the end: how far off what was expected still was
    bounds = np.array([bound(left, before, alpha) for left in remaining])
    crossed = float((away > bounds).any(axis=1).mean())
    margin = 3 * math.sqrt(alpha * (1 - alpha) / N_PATHS)
    assert alpha / 20 < crossed < alpha + margin
    # An interval for one look, used at every look, does not hold.
    assert (away > 1.645 * np.sqrt(remaining)).any(axis=1).mean() > 2 * alpha


def test_the_bound_shrinks_as_answers_come_in_and_with_the_error_rate() -> None:
    bounds = [bound(left, 1.0, 0.05) for left in (1.0, 0.5, 0.1, 0.01, 1e-3, 1e-4, 0.0)]
    assert bounds == sorted(bounds, reverse=True)
    # With everything told, next to nothing is left.
    rho, own = MIXED / FINER ** (SCALES - 1), 0.05 / 2**SCALES
    assert bounds[-1] == pytest.approx(math.sqrt(rho * math.log(1 / own**2)))
    assert bounds[-1] < 0.01 * bounds[0]
    # As far as the bound for a single look, and not many times that, while there is something left.
    for left in (0.1, 0.01, 1e-3, 1e-4):
        assert 1.96 < bound(left, 1.0, 0.05) / math.sqrt(left) < 6
    assert bound(0.5, 1.0, 0.01) > bound(0.5, 1.0, 0.05)
    assert bound(0.0, 0.0, 0.05) == 0.0  # nothing was ever unknown


@pytest.mark.parametrize(("mean", "call"), [(1.0, "better"), (-1.0, "worse"), (0.0, "open")])
def test_decisions_follow_their_bounds(mean: float, call: str) -> None:
    differences = mean + np.random.default_rng(1).normal(size=400)
    found = decide("new", None, differences - differences.mean() + mean, 1e-4, 1e-3, 0.05)
    assert found.call == call
    assert found.difference == pytest.approx(mean)
    assert found.high - mean == pytest.approx(mean - found.low)
    assert (found.low > 0, found.high < 0) == (call == "better", call == "worse")


def test_the_width_of_a_decision_has_four_fifths_of_the_error_rate_for_episodes_and_one_for_answers() -> None:
    differences, alpha = np.random.default_rng(3).normal(size=20), 0.1
    found = decide("new", None, differences, 0.02, 0.3, alpha)
    of_episodes = 1.4623 * differences.std(ddof=1) / math.sqrt(20)  # t of 19 degrees, 92%
    scales = [(0.3 / 20 / 4**j, 0.2 * alpha / 2 ** (j + 1)) for j in range(8)]
    of_answers = min(math.sqrt((0.02 + rho) * math.log((0.02 + rho) / (rho * own**2))) for rho, own in scales)
    assert found.high - found.difference == pytest.approx(of_episodes + of_answers, rel=1e-4)


def test_what_is_not_known_of_answers_keeps_decisions_open() -> None:
    differences = 0.3 + np.random.default_rng(1).normal(size=400)
    assert decide("new", None, differences, 0.0, 1e-6, 0.05).call == "better"
    assert decide("new", None, differences, 1.0, 1.0, 0.05).call == "open"


def test_policies_that_are_equal_are_seldom_called_better() -> None:
    """2000 studies of 50 episodes: at most alpha, with a margin of three standard errors, and not never."""
    rng, alpha = np.random.default_rng(2), 0.1
    calls = [decide("new", None, rng.normal(size=50), 0.0, 1e-9, alpha).call for _ in range(2000)]
    share = calls.count("better") / len(calls)
    assert alpha / 4 < share < alpha + 3 * math.sqrt(alpha * (1 - alpha) / len(calls))


def test_decisions_speak() -> None:
    assert (
        str(Decision("new", None, 0.5, 0.1, 0.9, "better")) == "'new': better than today's policy: +0.5 (+0.1 to +0.9)"
    )
    told = str(Decision("new", "old", -0.5, -1.1, 0.1, "open"))
    assert told == "'new': not told apart from 'old': -0.5 (-1.1 to +0.1)"


def test_widths_are_those_of_normal_intervals() -> None:
    assert width(0.5, 0.05) == pytest.approx(2 * 1.959964 * 0.5, rel=1e-6)


OPEN, MADE = Decision("a", None, 0.1, -0.1, 0.3, "open"), Decision("b", None, 0.5, 0.3, 0.7, "better")


def stop(
    decisions: list[Decision] | None = None,
    settles: bool = True,
    spending: Spending = Spending(10, 100, 50, 1),  # noqa: B008 (it is a tuple)
    **changes: Any,
) -> tuple[str, str] | None:
    options = {"width": 0.2, "target": None, "gain": 0.5, "least": 0.01, "alpha": 0.05, **changes}
    return why_stop([OPEN] if decisions is None else decisions, settles, spending, **options)


def test_a_plan_goes_on_without_a_reason_to_stop() -> None:
    assert stop() is None
    assert stop([OPEN, MADE]) is None
    assert stop([MADE], settles=False) is None
    assert stop([]) is None
    assert stop(target=0.1) is None


@pytest.mark.parametrize(
    ("changes", "reason", "words"),
    [
        ({"decisions": [MADE]}, "settled", "the decision is settled at an error rate of 0.05"),
        ({"decisions": [MADE, MADE]}, "settled", "all 2 decisions are settled, each at"),
        ({"target": 0.3}, "width", "0.2 wide, within the 0.3 wanted"),
        ({"spending": Spending(100, 100, 0, 1)}, "budget", "the budget is used: 100 of 100"),
        (
            {"spending": Spending(99, 100, 1, 1.5)},
            "budget",
            "99 of 100 used, and 1 may be spent now; the next question",
        ),
        ({"spending": Spending(9, 100, 91, math.inf)}, "nothing", "every question that matters"),
        ({"gain": 0.004}, "gain", "0.40% smaller, less than 1.00%"),
        ({"gain": 0.0, "least": 0.0}, "gain", "a batch as small as this is not expected"),
    ],
)
def test_a_plan_says_why_it_stops(changes: dict[str, Any], reason: str, words: str) -> None:
    found = stop(**changes)
    assert found is not None
    assert found[0] == reason
    assert words in found[1]


def test_the_first_reason_is_given() -> None:
    found = stop([MADE], spending=Spending(100, 100, 0, math.inf), gain=0.0, target=1.0)
    assert found is not None
    assert found[0] == "settled"
