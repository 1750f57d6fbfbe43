"""Policies beside each other: paired errors by hand, error rates by simulation, ranks, ties, and what is refused."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import semiope as so
from semiope.domains import sepsis
from semiope.errors import quietly
from semiope.estimate.result import EpisodeValues, Estimate, degrees_of_freedom
from semiope.uncertainty.comparison import Comparison

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def estimate(name: str, values: Any, ratios: Any = None) -> Estimate:
    values = np.asarray(values, dtype=np.float64)
    ones = np.ones(len(values))
    return Estimate(name, "is", EpisodeValues(values, ones if ratios is None else ratios), ratios is not None)


def compared(values: Any, today: Any, **options: Any) -> Comparison:
    """Rows of values are policies p0, p1 ..."""
    return Comparison(
        {f"p{i}": estimate(f"p{i}", row) for i, row in enumerate(values)}, estimate("o", today), **options
    )


def correlated(rng: np.random.Generator, means: Any, n: int) -> tuple[Any, Any]:
    """Skewed values of policies that share most of their luck with each other and with today's."""
    shared = rng.gamma(2.0, size=n) - 2
    own = rng.gamma(2.0, size=(len(means), n)) - 2
    return np.asarray(means)[:, None] + shared + own, shared + 0.5 * rng.normal(size=n)


def test_differences_of_ordinary_estimates_are_paired(rng: np.random.Generator) -> None:
    values, today = correlated(rng, [0.3, 0.0], 50)
    found = compared(values, today, alpha=0.1)
    for name, row in zip(("p0", "p1"), values, strict=True):
        gap = found[name].difference
        off = row - today
        error, degrees = np.std(off, ddof=1) / math.sqrt(50), degrees_of_freedom(off - off.mean())
        p_value, half = stats.t.sf(off.mean() / error, degrees), stats.t.ppf(0.95, degrees) * error
        assert gap.value == pytest.approx(np.mean(off))
        assert gap.std_error == pytest.approx(error)
        assert gap.p_value == pytest.approx(p_value)
        assert gap.interval == pytest.approx((off.mean() - half, off.mean() + half))
        assert found[name].better == (p_value <= 0.1)
    between = found.between("p0", "p1")
    assert between.std_error == pytest.approx(np.std(values[0] - values[1], ddof=1) / math.sqrt(50))
    assert between.value == pytest.approx(np.mean(values[0] - values[1]))
    assert found.between("p1", "p0").p_value == pytest.approx(1 - between.p_value)


def test_differences_of_ratios_are_those_of_the_delta_method(rng: np.random.Generator) -> None:
    n = 80
    ratio = rng.lognormal(0, 0.6, size=n)
    x, today = ratio * rng.normal(2, 1, size=n), rng.normal(1.5, 1, size=n)
    found = Comparison({"p": estimate("p", x, ratio)}, estimate("o", today))["p"]
    value = x.sum() / ratio.sum()
    pulls = [(x[i] - value * ratio[i]) / ratio.mean() - (today[i] - today.mean()) for i in range(n)]
    assert found.difference.value == pytest.approx(value - today.mean())
    assert found.difference.std_error == pytest.approx(math.sqrt(sum(p * p for p in pulls) / (n * (n - 1))))


def test_p_values_are_uniform_under_the_null() -> None:
    """400 datasets of self-normalised estimates whose truth is today's."""
    found = []
    for seed in range(400):
        rng = np.random.default_rng(seed)
        ratio = rng.choice([0.5, 1.5], size=60)
        x, today = ratio * rng.normal(1, 1, size=60), rng.normal(1, 1, size=60)
        one = Comparison({"p": estimate("p", x, ratio)}, estimate("o", today))["p"]
        found.append(one.difference.p_value)
    assert stats.kstest(found, "uniform").pvalue > 1e-3


def test_what_holds_for_all_at_once_does() -> None:
    """300 datasets of 60 episodes, eight policies: intervals hold together, and hardly any is wrongly called better.

    Counts are binomial: 279 of 300 is 93%, 1.6 standard deviations below 95%. Seven policies are today's equals, so
    that single decisions err together far more often than 5%.
    """
    means = np.zeros(8)
    means[0] = -0.5
    held, held_differences, held_alone, wrong, wrong_alone = 0, 0, 0, 0, 0
    for seed in range(300):
        values, today = correlated(np.random.default_rng(seed), means, 60)
        stands = compared(values, today, seed=seed)
        truth = dict(zip(stands.estimates, means, strict=True))
        held += all(one.simultaneous.low <= truth[name] <= one.simultaneous.high for name, one in stands.items())
        held_differences += all(one.together.low <= truth[name] <= one.together.high for name, one in stands.items())
        held_alone += all(one.interval.low <= truth[name] <= one.interval.high for name, one in stands.items())
        wrong += bool(stands.surely_better)
        wrong_alone += bool(stands.better)
        assert set(stands.surely_better) <= set(stands.better)
        assert all(one.simultaneous.low <= one.interval.low for one in stands.values())
    assert held >= 279
    assert held_differences >= 279
    assert held_alone < held
    assert wrong <= 15 + 3 * math.sqrt(300 * 0.05 * 0.95)
    assert wrong_alone > 1.5 * wrong


def test_decisions_of_the_sepsis_world() -> None:
    """A small edition of benchmarks/decisions.py: policies that are no better are seldom called so."""
    spec = importlib.util.spec_from_file_location("decisions", BENCHMARKS / "decisions.py")
    assert spec is not None
    assert spec.loader is not None
    study = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(study)
    world = sepsis.world()
    today = world.mdp.value(world.behavior)
    better = np.array([world.mdp.value(policy) > today for policy in world.policies.values()])
    made = study.calls(6, 200, std=0.1)
    # Policies of one dataset share its luck: the error of a rate over six datasets is some 4 points.
    assert made.alone[:, ~better].mean() <= 0.05 + 3 * 0.04
    assert made.together[:, ~better].mean() <= 0.05
    assert (made.together <= made.alone).all()
    assert made.alone[:, better].mean() > 0.2
    assert made.plain[:, better].mean() > made.alone[:, better].mean()


def test_ranks_and_the_probability_of_being_best(rng: np.random.Generator) -> None:
    values, today = correlated(rng, [0.0, 3.0, 0.0, -3.0], 200)
    found = compared(values, today)
    assert next(iter(found)) == "p1"
    assert list(found)[-1] == "p3"
    assert [one.rank for one in found.values()] == [1, 2, 3, 4]
    assert sum(one.best for one in found.values()) == pytest.approx(1)
    assert found["p1"].best == 1
    assert found["p1"].ranks == (1, 1)
    assert {found["p0"].rank, found["p2"].rank} == {2, 3}
    assert found["p3"].ranks == (4, 4)
    for one in found.values():
        assert one.ranks.low <= one.rank <= one.ranks.high
    assert [row["policy"] for row in found.rows()] == list(found)
    assert "p1" in repr(found)
    assert len(found) == 4


def test_equals_tie(rng: np.random.Generator) -> None:
    values, today = correlated(rng, [0.0, 0.5], 40)
    found = compared([values[0], values[1], values[1]], today)
    assert [found[name].rank for name in ("p0", "p1", "p2")] == [3, 1, 1]
    assert found["p1"].best == found["p2"].best
    assert found["p1"].ranks == found["p2"].ranks
    assert found.between("p1", "p2") == (0, 0, (0, 0), 1, -math.inf)


def test_today_against_itself_is_no_discovery() -> None:
    """Ratios of 1 but for rounding: the difference and its error are rounding, and their ratio is anything."""
    n = 100
    returns = np.random.default_rng(0).normal(5, 1, size=n)
    found = compared([returns * (1 + 1e-15), returns], returns)
    for one in found.values():
        assert one.difference == (0, 0, (0, 0), 1, -math.inf)
        assert not one.better
        assert not one.surely
        assert one.together == (0, 0)


def test_constant_estimates_do_not_widen_those_of_others(rng: np.random.Generator) -> None:
    ratio = rng.choice([0.2, 1.8], size=90)
    values, today = correlated(rng, [0.0], 90)
    alone = Comparison({"p": estimate("p", values[0])}, estimate("o", today))
    constant = estimate("c", 0.1 * ratio, ratio)
    both = Comparison({"p": estimate("p", values[0]), "c": constant}, estimate("o", today))
    assert both["p"].simultaneous == pytest.approx(alone["p"].simultaneous)
    assert both["c"].simultaneous == pytest.approx((0.1, 0.1))


def test_a_generator_serves_all_policies_with_the_same_resamples(rng: np.random.Generator) -> None:
    """Two policies that differ by a constant: paired, one is always first."""
    values, today = correlated(rng, [0.0], 60)
    found = compared([values[0], values[0] + 0.01], today, seed=np.random.default_rng(3))
    assert found["p1"].best == 1


def logs(rng: np.random.Generator, n: int = 80) -> dict[str, Any]:
    return {
        "episode": [f"patient {i}" for i in range(n)], "step": [0] * n, "state": rng.choice(["s", "t"], n).tolist(),
        "action": rng.choice(["a", "b"], n).tolist(), "reward": rng.normal(size=n).tolist(),
    }  # fmt: skip


def policies() -> dict[str, Any]:
    table = {"state": ["s", "s", "t", "t"], "action": ["a", "b", "a", "b"]}
    return {f"p{x}": so.read_policy({**table, "prob": [x / 10, 1 - x / 10] * 2}) for x in (2, 6, 9)}


def test_the_order_of_rows_and_policies_does_not_matter(rng: np.random.Generator) -> None:
    columns, order = logs(rng), rng.permutation(80)
    shuffled = {name: [values[i] for i in order] for name, values in columns.items()}
    first = so.compare(so.evaluate(columns, policies()), estimator="wis", seed=4)
    second = so.compare(so.evaluate(shuffled, dict(reversed(policies().items()))), estimator="wis", seed=4)
    assert list(first) == list(second)
    for name in first:
        one, other = first[name], second[name]
        assert one.together == pytest.approx(other.together, rel=1e-9)
        assert one.difference.p_value == pytest.approx(other.difference.p_value, rel=1e-9)
        assert one.best == pytest.approx(other.best)
        assert one.ranks == other.ranks


def test_compare_takes_one_policy_or_several_and_any_name_of_an_estimator(rng: np.random.Generator) -> None:
    columns = logs(rng)
    several = so.evaluate(columns, policies())
    returns = np.array(columns["reward"])
    found = so.compare(several)
    assert found.estimator == "pdwis"
    assert found.today.value == pytest.approx(returns.mean())
    assert found.today.std_error == pytest.approx(returns.std(ddof=1) / math.sqrt(80))
    assert list(so.compare(several["p2"])) == ["p2"]
    assert so.compare(several, estimator="SNIPS").estimator == "wis"
    episodes = so.read_episodes(columns)
    apart = {name: so.evaluate(episodes, {name: one}) for name, one in policies().items()}
    again = so.compare({name: one[name] for name, one in apart.items()})
    assert again["p2"].difference.interval == pytest.approx(found["p2"].difference.interval)


def test_the_default_estimator_is_one_that_all_have(rng: np.random.Generator) -> None:
    episodes = so.read_episodes(logs(rng))
    one = so.evaluate(episodes, policies()["p2"], estimators=["pdwis", "is"])
    other = so.evaluate(episodes, policies()["p6"], estimators=["is"])
    assert so.compare({"one": one, "other": other}).estimator == "is"


@pytest.mark.parametrize("alpha", [0, 1, -0.1, 1.5, math.nan, "0.05"])
def test_alpha_is_a_probability(alpha: Any) -> None:
    with pytest.raises(so.OptionError, match="alpha"):
        compared([[1.0, 2.0]], [0.0, 1.0], alpha=alpha)


def test_what_else_is_refused(rng: np.random.Generator) -> None:
    columns = logs(rng)
    results = so.evaluate(columns, policies(), estimators=["is", "wis", "naive-weighted"])
    one = {name: values[:1] for name, values in columns.items()}
    cases: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
        (so.evaluate(columns, policies()) | {"x": results["p2"]}, {}, so.OptionError, "different episodes"),
        (results, {"estimator": "naive-weighted"}, so.OptionError, "biased by design"),
        (results, {"estimator": "wiss"}, so.OptionError, "Did you mean 'wis'"),
        (results, {"estimator": "pdis"}, so.NotEstimatedError, "no estimate 'pdis'"),
        (so.Results("p", results["p2"].estimates, {}), {}, so.OptionError, "do not know their data"),
        (None, {}, so.OptionError, "give what so.evaluate returns"),
        ([results["p2"]], {}, so.OptionError, "give what so.evaluate returns"),
        ({}, {}, so.OptionError, "give what so.evaluate returns"),
        (results, {"seed": -1}, so.OptionError, "seed"),
    ]
    for given, options, error, message in cases:
        with pytest.raises(error, match=message):
            so.compare(given, **options)
    with quietly():
        alone = so.evaluate(one, policies()["p2"], estimators="is")
    with pytest.raises(so.SchemaError, match="only one episode"):
        so.compare(alone)
    found = so.compare(results)
    assert "nobody" not in found
    with pytest.raises(so.NotEstimatedError, match="Did you mean 'p2'"):
        found["p_2"]
    with pytest.raises(so.NotEstimatedError, match="no policy 'x'"):
        found.between("p2", "x")
    episodes = so.read_episodes(columns)
    apart = {str(gamma): so.evaluate(episodes, policies()["p2"], gamma=gamma) for gamma in (0.9, 1.0)}
    with pytest.raises(so.OptionError, match="different discount factors"):
        so.compare(apart)


def test_estimates_that_are_no_numbers_are_refused() -> None:
    nothing = estimate("p", np.zeros(3), np.zeros(3))
    beyond = Estimate("p", "is", EpisodeValues(np.array([0.5, 1.0, 0.2]), np.ones(3), 2000))
    huge = Estimate("p", "is", EpisodeValues(np.array([0.5, 1.0, 0.2]), np.ones(3), 900))
    for one in (nothing, beyond, huge):
        with pytest.raises(so.SchemaError, match="no number that can be compared"):
            Comparison({"p": one}, estimate("o", [0.0, 1.0, 2.0]))
    with pytest.raises(so.SchemaError, match="different episodes"):
        Comparison({"p": estimate("p", [1.0, 2.0])}, estimate("o", [0.0, 1.0, 2.0]))
    with pytest.raises(so.OptionError, match="no policy to compare"):
        Comparison({}, estimate("o", [0.0, 1.0, 2.0]))


def test_a_reward_of_one_everywhere_leaves_no_doubt() -> None:
    """Two actions, ratios 0.5 and 1.5, self-normalised: 1, and an interval of width 0."""
    n = 40
    columns = {
        "episode": np.arange(n), "step": np.zeros(n, int), "state": np.zeros(n, int), "action": np.arange(n) % 2,
        "reward": np.ones(n),
    }  # fmt: skip
    results = so.evaluate(columns, so.Policy.from_table([[0.25, 0.75]]), estimators=["wis", "pdwis", "pdwis-step"])
    for name, found in results.items():
        assert found.value == pytest.approx(1)
        for method in ("t", "bootstrap"):
            assert found.interval(method=method) == pytest.approx((1, 1))
        one = so.compare(results, estimator=name)["policy"]
        assert one.difference == (0, 0, (0, 0), 1, -math.inf)
        assert one.simultaneous == pytest.approx((1, 1))
