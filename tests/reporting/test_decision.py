"""The headline says what was decided, and nothing that was not."""

from __future__ import annotations

import numpy as np
import pytest

from semiope.diagnostics.findings import AMBER, GREEN, RED, Finding
from semiope.estimate.result import EpisodeValues, Estimate
from semiope.pipeline.diagnosis import Diagnosis
from semiope.reporting.sections import decision
from semiope.uncertainty.comparison import Comparison


def headline(means: list[float], light: str, focus: str = "p0", alpha: float = 0.05) -> str:
    """Policies with these means over 200 episodes, beside a mean return of 0."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=200)
    noise -= noise.mean()

    def estimate(name: str, values: np.ndarray) -> Estimate:
        return Estimate(name, "c-pdis", EpisodeValues(values, np.ones(200)))

    own = [rng.permutation(noise) for _ in means]
    several = {f"p{i}": estimate(f"p{i}", mean + own[i]) for i, mean in enumerate(means)}
    comparison = Comparison(several, estimate("today", noise), alpha)
    found = Finding("something", light, "", "", "")
    return decision(comparison, comparison[focus], Diagnosis(focus, "c-pdis", [found]))


@pytest.mark.parametrize(
    ("mean", "light", "call", "colour"),
    [
        (1.0, GREEN, "</bdi> is better than today", GREEN),
        (1.0, AMBER, "</bdi> looks better than today", AMBER),
        (1.0, RED, "cannot be decided", RED),
        (0.0, GREEN, "It is not shown that", AMBER),
        (-1.0, GREEN, "</bdi> is worse than today", AMBER),
        (-1.0, RED, "cannot be decided", RED),
    ],
)
def test_calls(mean: float, light: str, call: str, colour: str) -> None:
    page = headline([mean], light)
    assert call in page
    assert f'<div class="decision {colour}">' in page
    assert ("error rate of 5%" in page) == (light != RED)


def test_many_policies_need_more_for_the_same_call() -> None:
    """p of 0.03 alone is better at 5%, but not among twenty."""
    alone, among = headline([0.19], GREEN), headline([0.19] + [0.0] * 19, GREEN)
    assert "is better than today" in alone
    assert "It is not shown" in among
    assert "for all 20 policies together" in among


def test_small_error_rates_are_written_out() -> None:
    assert "error rate of 0.5%" in headline([1.0], GREEN, alpha=0.005)
