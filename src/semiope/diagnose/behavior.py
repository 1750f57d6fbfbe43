"""Whether the behaviour policy that ratios are made of is the one that acted: calibration of its probabilities."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from semiope._arrays import Floats
from semiope.diagnose.findings import GREEN, Finding, Rule
from semiope.estimate.evidence import Evidence
from semiope.policies.cells import count_actions

OFF = Rule(amber=0.05, red=0.1)
BINS = 10


class Calibration(NamedTuple):
    """In bins of stated probability: its mean, how often the action was taken, how many (decision, action) there are.

    `error` is the mean distance of the two, weighted by how many; `unseen` the share of decisions in cells about which
    nothing is stated.
    """

    stated: Floats
    taken: Floats
    number: Floats
    error: float
    unseen: float


def behavior_calibration(evidence: Evidence) -> Calibration:
    """Compare stated probabilities with what was done; counted ones are counted on the other half of the episodes."""
    episodes, cells = evidence.logbook.episodes, evidence.cells
    n_actions = len(evidence.logbook.actions)
    half = np.repeat(np.arange(episodes.n_episodes) % 2, episodes.lengths)
    stated, taken, unseen = [], [], 0.0
    for side in (0, 1):
        own = np.where(half == side, episodes.action, -1)
        here = count_actions(cells, own, n_actions)
        probs = evidence.behavior.probs
        if evidence.behavior.origin == "counted":
            others = evidence.counts - here
            times = others.sum(axis=1, keepdims=True)
            probs = np.divide(others, times, out=np.full_like(others, np.nan), where=times > 0)
        decisions = here.sum(axis=1)
        known = ~np.isnan(probs).any(axis=1)
        unseen += float(decisions[~known].sum())
        stated.append((probs[known], decisions[known]))
        taken.append(here[known])
    probs = np.concatenate([one.ravel() for one, _ in stated])
    decisions = np.concatenate([np.repeat(times, n_actions) for _, times in stated])
    times = np.concatenate([one.ravel() for one in taken])
    place = np.minimum((probs * BINS).astype(int), BINS - 1)
    number = np.bincount(place, weights=decisions, minlength=BINS)
    mean = np.bincount(place, weights=decisions * probs, minlength=BINS) / np.maximum(number, 1)
    rate = np.bincount(place, weights=times, minlength=BINS) / np.maximum(number, 1)
    error = float(np.sum(number * np.abs(mean - rate)) / max(number.sum(), 1))
    return Calibration(mean, rate, number.astype(np.float64), error, unseen / max(float(evidence.counts.sum()), 1))


def judge_behavior(evidence: Evidence) -> Finding:
    """Put a light on the calibration."""
    found = behavior_calibration(evidence)
    figure = found.error + found.unseen
    light = OFF.light(figure)
    origin = "counted on the other half of the episodes" if evidence.behavior.origin == "counted" else "as given"
    alone = f" {found.unseen:.0%} of decisions lie where the other half says nothing." if found.unseen > 0 else ""
    return Finding(
        "calibration of the behaviour policy", light, f"{figure:.1%}", f"{OFF}, mean distance of stated from seen",
        f"Probabilities of the behaviour policy, {origin}, are off what was done by {found.error:.1%} in the mean."
        f"{alone}",
        "" if light == GREEN else
        "Group states, or count by state alone (cell='state')." if evidence.behavior.origin == "counted" else
        "The behaviour policy given is not the one that acted: use behavior='count'.",
    )  # fmt: skip
