"""Whether intervals about annotators hold the truth, over many small studies."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from semiope.data.annotations import Annotations
from semiope.diagnostics.quality import annotator_quality
from semiope.domains.annotators import Annotator
from tests.diagnostics.test_quality import BANDIT, one_step

EXPERTS = {"ann": (0.3, 0.5), "bob": (-0.2, 0.2), "cy": (0.0, 1.0)}
STATED = 0.5
RUNS = 200


@pytest.fixture(scope="module")
def coverage() -> dict[str, list[bool]]:
    """Whether 95% intervals hold the truth, over many small studies of a bandit by three experts."""
    hits: dict[str, list[bool]] = defaultdict(list)
    means = BANDIT.mdp.reward.ravel()
    mixed = math.sqrt(np.mean([std**2 for _, std in EXPERTS.values()])) / STATED
    for seed in range(RUNS):
        episodes = BANDIT.sample(60, seed=seed)
        experts = [Annotator(name, *who, ratio=0.7, stated_std=STATED) for name, who in EXPERTS.items()]
        told = BANDIT.annotate(episodes, "behavior", annotators=experts, of_action_taken=True, seed=seed)
        found = annotator_quality(episodes, told, 1.0)

        def note(what: str, figure: Any, truth: float) -> None:
            low, high = figure.interval()
            hits[what].append(low <= truth <= high)

        for row in found.annotators:
            bias, std = EXPERTS[row.name]
            slope = means.var() / (means.var() + std**2)
            note(f"{row.name} bias", row.bias, bias)
            note(f"{row.name} slope", row.calibration.slope, slope)
            note(f"{row.name} intercept", row.calibration.intercept, means.mean() - slope * (means.mean() + bias))
            for noise, ratio in zip(row.noises, row.ratios, strict=True):
                note(f"{row.name} {noise.source}", noise, std)
                note(f"{row.name} ratio {noise.source}", ratio, std / STATED)
        for first, second, mean in found.differences:
            note(f"{first}-{second}", mean, EXPERTS[first][0] - EXPERTS[second][0])
        note("honesty by peers", found.honesty_peers, mixed)
        note("honesty by outcomes", found.honesty_outcomes, mixed)
    return hits


def test_intervals_hold_the_truth(coverage: dict[str, list[bool]]) -> None:
    """Of 200 intervals that hold it with a chance of 94% fewer than 176 do with a chance below 1 in 1000."""
    assert len(coverage) == 3 * (3 + 2 * 4) + 3 + 2
    shares = {what: np.mean(hits) for what, hits in coverage.items()}
    assert {what: share for what, share in shares.items() if share < 0.88} == {}


@pytest.mark.parametrize(
    ("n_episodes", "per_episode", "alike"), [(15, 1, 0.0), (20, 4, 0.8)], ids=["one question", "questions alike"]
)
def test_the_interval_of_icc_holds_it(n_episodes: int, per_episode: int, alike: float) -> None:
    """With four questions an episode that resemble each other, F alone would hold it in 84 of 100 cases."""
    rng, icc, hits = np.random.default_rng(1), 0.6, []
    logs = one_step(np.zeros(n_episodes))
    for _ in range(RUNS):
        common = rng.normal(size=(n_episodes, 1)) * math.sqrt(alike)
        q = math.sqrt(icc) * (common + math.sqrt(1 - alike) * rng.normal(size=(n_episodes, per_episode)))
        asked = np.repeat(np.arange(q.size), rng.integers(2, 6, size=q.size))
        value = q.ravel()[asked] + math.sqrt(1 - icc) * rng.normal(size=len(asked))
        told = Annotations.from_arrays(
            episode=asked // per_episode, step=0 * asked, action=1 + asked % per_episode, value=value
        )
        low, high = annotator_quality(logs, told, 1.0).agreement.interval()
        hits.append(low <= icc <= high)
    assert np.mean(hits) >= 0.89
