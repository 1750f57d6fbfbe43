"""Scores of estimates against the truth, by hand and against scipy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import semiope as so
from semiope.uncertainty.scores import rank_correlation

GUESS = {"a": 1.0, "b": 3.0, "c": 2.0, "d": 0.0}
TRUTH = {"d": 1.0, "c": 4.0, "b": 2.0, "a": 0.0}


def test_scores_by_hand() -> None:
    found = so.scores(GUESS, TRUTH, threshold=2.0, true_threshold=1.5, top=(1, 2, 9))
    assert found["rmse"] == pytest.approx(math.sqrt((1 + 1 + 4 + 1) / 4))
    # Ranks of a, b, c, d: 2, 4, 3, 1 and 1, 3, 4, 2; the squared differences sum to 4.
    assert found["spearman"] == pytest.approx(1 - 6 * 4 / (4 * 15))
    assert found["regret@1"] == 2.0
    assert found["regret@2"] == 0.0
    assert found["regret@9"] == 0.0
    # Called better: b, c. Better: b, c.
    assert (found["accuracy"], found["fpr"], found["fnr"]) == (1, 0, 0)


def test_wrong_calls_by_hand() -> None:
    found = so.scores(GUESS, TRUTH, threshold=0.5, true_threshold=3.0)
    # Called better: a, b, c; better: c.
    assert found["accuracy"] == 0.5
    assert found["fpr"] == pytest.approx(2 / 3)
    assert found["fnr"] == 0
    missed = so.scores(GUESS, TRUTH, threshold=2.5, true_threshold=2.0)
    # Called better: b; better: b, c.
    assert missed["fnr"] == 0.5
    assert missed["fpr"] == 0
    assert missed["accuracy"] == 0.75


def test_rates_of_nobody_are_not_known() -> None:
    found = so.scores(GUESS, TRUTH, threshold=0.0, true_threshold=0.0)
    assert math.isnan(found["fpr"])
    assert found["fnr"] == 0
    assert math.isnan(so.scores(GUESS, TRUTH, threshold=0.0, true_threshold=9.0)["fnr"])
    assert "accuracy" not in so.scores(GUESS, TRUTH)


@pytest.mark.parametrize("seed", range(5))
def test_rank_correlation_with_ties_is_scipys(seed: int) -> None:
    x, y = np.random.default_rng(seed).integers(0, 4, size=(2, 15)).astype(np.float64)
    assert rank_correlation(x, y) == pytest.approx(stats.spearmanr(x, y).statistic)


def test_no_correlation_without_variation() -> None:
    assert math.isnan(rank_correlation(np.ones(4), np.arange(4.0)))


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        (({"a": 1.0}, {"b": 1.0}), {}, "same policies; not so: 'a', 'b'"),
        (({}, {}), {}, "no estimates"),
        (({1: 1.0}, {"1": 1.0}), {}, "same policies"),
        ((GUESS, TRUTH), {"top": (0,)}, "the best 0 are none"),
        ((GUESS, TRUTH), {"top": (1.5,)}, "the best 1.5 are none"),
        ((GUESS, TRUTH), {"threshold": 1.0}, "give both"),
    ],
)
def test_what_is_refused(given: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises((so.SchemaError, so.OptionError), match=message):
        so.scores(*given, **options)
