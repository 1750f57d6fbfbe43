"""What an estimate knows nothing of cannot make a policy better, or bound it."""

from __future__ import annotations

import numpy as np
import pytest

import semiope as so
from semiope.errors import quietly

N = 2000


@pytest.fixture(scope="module")
def results() -> dict[str, so.Results]:
    """All that was done cost 0.5; nobody knows what action 2 brings."""
    episodes = so.Episodes.from_arrays(
        episode=np.arange(N), step=np.zeros(N, int), state=np.zeros(N, int), action=np.tile([0, 1], N // 2),
        reward=np.full(N, -0.5) + np.tile([0.0, 0.0, 0.01, -0.01], N // 4),
    )  # fmt: skip
    tables = {"unknown": [[0.0, 0.0, 1.0]], "half": [[0.25, 0.25, 0.5]], "known": [[0.4, 0.6, 0.0]]}
    policies = {name: so.Policy.from_table(np.array(table)) for name, table in tables.items()}
    with quietly():
        return so.evaluate(episodes, policies, estimators="pdis")


def test_nothing_unknown_is_called_better(results: dict[str, so.Results]) -> None:
    comparison = so.compare(results)
    assert comparison["unknown"].difference.p_value < 1e-10
    assert comparison.better == []
    assert comparison.surely_better == []
    assert not comparison.supported("half")
    assert "unknown: 100% unsupported" in repr(comparison)


def test_nor_bounded(results: dict[str, so.Results]) -> None:
    for name in ("unknown", "half"):
        with pytest.raises(so.SupportError, match="has no bound"):
            results[name].lower_bound(returns=(-1, 0))
    assert -1 < results["known"].lower_bound("pdis", rewards=(-1, 0)) < -0.5


def test_a_report_looks_at_what_is_known(results: dict[str, so.Results]) -> None:
    page = so.report(results).html
    assert "“known”" in page
    assert "unknown: 50% unsupported" in page


def test_estimates_that_are_no_numbers_are_left_out_of_a_report(results: dict[str, so.Results]) -> None:
    with quietly():
        again = so.evaluate(
            results["known"].origin.episodes,
            {name: one.origin.policy for name, one in results.items()},
            estimators="pdwis",
        )
    page = so.report(again).html
    assert "Left out, because their estimates are no numbers that can be compared: unknown." in page
    with pytest.raises(so.OptionError, match="no number that can be compared"):
        so.report(again, focus="unknown")


def test_names_of_ones_own(results: dict[str, so.Results]) -> None:
    renamed = {1: results["known"], "two": results["half"]}
    assert "“1”" in so.report(renamed).html
    assert repr(so.report(results["known"])).startswith("Report(not saved, ")


@pytest.mark.parametrize("scale", [1e150, 1e-150, 1e-300])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_bca_at_any_scale(scale: float) -> None:
    rng = np.random.default_rng(0)
    values = rng.exponential(size=60)
    rows = {"episode": range(60), "step": [0] * 60, "state": [0] * 60, "action": [0] * 60}
    policy = so.Policy.from_table(np.array([[1.0]]))
    plain = so.evaluate({**rows, "reward": values}, policy, estimators="is")["is"].interval(method="bca")
    scaled = so.evaluate({**rows, "reward": values * scale}, policy, estimators="is")["is"].interval(method="bca")
    assert np.array(scaled) / scale == pytest.approx(np.array(plain), rel=1e-9)


def test_values_beyond_numbers_have_no_bound() -> None:
    n, steps = 4, 400
    episodes = so.Episodes.from_arrays(
        episode=np.repeat(np.arange(n), steps), step=np.tile(np.arange(steps), n), state=np.zeros(n * steps, int),
        action=np.zeros(n * steps, int), reward=np.tile(np.append(np.zeros(steps - 1), 1.0), n),
    )  # fmt: skip
    behavior = so.Policy.from_table(np.array([[1.0, 0.0]]))
    with quietly():
        found = so.evaluate(episodes, so.Policy.from_table(np.array([[0.1, 0.0]]) / 0.1), behavior=behavior)
        small = so.evaluate(episodes, so.Policy.from_table(np.array([[0.1, 0.9]])), behavior=behavior, estimators="is")
    assert found["is"].value == 1
    with pytest.raises((so.SchemaError, so.SupportError)):
        small.lower_bound("is", returns=(0, 1))
