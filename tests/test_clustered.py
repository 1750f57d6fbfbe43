"""Intervals over episodes and annotators."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import stdtrit

import semiope as so
from semiope.domains import bandit
from semiope.errors import quietly

WORLD = bandit.two_state((1.0, 2.0), (0.5, 0.5))
NAME, POLICY = next(iter(WORLD.policies.items()))


def study(number: int, biases: list[float], n: int = 1500) -> so.Results:
    episodes = WORLD.sample(n, seed=3, first=n * number)
    share = 1 / len(biases)
    experts = [so.Annotator(f"a{j}", bias=bias, std=0.3, ratio=share) for j, bias in enumerate(biases)]
    answers = WORLD.annotate(episodes, NAME, annotators=experts, seed=number)
    with quietly():
        return so.evaluate(episodes, POLICY, annotations=answers, estimators="c-pdis,pdis")


def test_it_covers_where_plain_intervals_do_not() -> None:
    """Annotators drawn with biases of their own: 60 studies."""
    rng, truth = np.random.default_rng(1), WORLD.mdp.value(POLICY)
    plain = both = 0
    for number in range(60):
        results = study(number, [float(bias) for bias in rng.normal(0, 0.6, 5)])
        low, high = results["c-pdis"].interval()
        plain += low <= truth <= high
        low, high = so.clustered(results).interval
        both += low <= truth <= high
    assert plain < 48
    assert both >= 60 * 0.95 - 3 * math.sqrt(60 * 0.95 * 0.05)


def test_by_hand() -> None:
    results = study(0, [0.0, 0.5, -0.5])
    found = so.clustered(results, "c-pdis")
    values = []
    answers = results.origin.annotations
    assert answers is not None
    assert answers.annotator is not None
    who = np.array(answers.annotator.to_pylist())
    for name in ("a0", "a1", "a2"):
        others = answers.some(np.flatnonzero(who != name))
        values.append(so.evaluate(results.origin.episodes, POLICY, annotations=others)["c-pdis"].value)
    spread = math.sqrt(2 / 3 * float(np.sum((np.array(values) - np.mean(values)) ** 2)))
    assert found.left_out.values == pytest.approx(values)
    assert found.std_error == pytest.approx(math.hypot(results["c-pdis"].std_error, spread))
    variances = np.array([results["c-pdis"].std_error, spread]) ** 2
    freedom = variances.sum() ** 2 / (variances[0] ** 2 / 1499 + variances[1] ** 2 / 2)
    half = stdtrit(freedom, 0.975) * found.std_error
    assert found.interval == pytest.approx((results["c-pdis"].value - half, results["c-pdis"].value + half))


def test_what_is_refused() -> None:
    results = study(0, [0.0, 0.5], n=50)
    with pytest.raises(so.OptionError, match="pdis does not weigh annotations"):
        so.clustered(results, "pdis")
    with pytest.raises(so.OptionError, match="alpha: 1"):
        so.clustered(results, alpha=1)
    with pytest.raises(so.SchemaError, match="there are no two annotators"):
        so.clustered(study(0, [0.0], n=50))
