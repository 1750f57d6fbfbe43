"""Whether the behaviour policy that ratios are made of is the one that acted: calibration of its probabilities."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from semiope._arrays import Floats, Integers
from semiope.diagnostics.findings import GREEN, SETTLED, Finding, Rule
from semiope.estimate.evidence import Evidence
from semiope.policies.cells import count_actions
from semiope.policies.lookup import safe_ratio

OFF = Rule(amber=0.05, red=0.1)
BINS = 10
# A distance within so many standard errors is chance.
CHANCE = 2.0


class Calibration(NamedTuple):
    """By action and bin of stated probability, (n_actions, BINS): its mean, how often the action was taken, and at how
    many decisions.

    `error` is the mean distance of the two, weighted by how many, `beyond` what chance leaves of it; `unseen` the share
    of decisions in cells about which nothing is stated.
    """

    stated: Floats
    taken: Floats
    number: Floats
    error: float
    beyond: float
    unseen: float


def behavior_calibration(evidence: Evidence) -> Calibration:
    """Compare stated probabilities with what was done.

    Counted ones are counted on the other half of the episodes. So are logged ones taken from there, since they are
    known of actions taken alone: beside these very actions, they would always seem too small.
    """
    episodes, n_actions = evidence.logbook.episodes, len(evidence.logbook.actions)
    # Drawn, since every second episode may be of one kind.
    half = np.repeat(np.random.default_rng(0).permutation(episodes.n_episodes) % 2, episodes.lengths)
    sums, unseen = np.zeros((3, n_actions * BINS)), 0.0
    for side in (0, 1):
        here = count_actions(evidence.cells, np.where(half == side, episodes.action, -1), n_actions)
        probs = _stated(evidence, np.where(half == side, -1, episodes.action))
        if evidence.behavior.origin == "counted":
            unseen += float(here[np.isnan(probs).all(axis=1)].sum())
        decisions = np.broadcast_to(here.sum(axis=1, keepdims=True), here.shape)
        known = ~np.isnan(probs) & (decisions > 0)
        place = (np.minimum(probs[known] * BINS, BINS - 1)).astype(int) + BINS * np.nonzero(known)[1]
        for total, weights in zip(sums, (decisions, decisions * np.nan_to_num(probs), here), strict=True):
            total += np.bincount(place, weights=weights[known], minlength=len(total))
    number, mean, rate = sums[0], safe_ratio(sums[1], sums[0]), safe_ratio(sums[2], sums[0])
    distance = np.abs(mean - rate)
    # What was counted on the other half scatters as much as what it is held against.
    halves = 1 if evidence.behavior.origin in ("given", "fitted") else 2
    chance = CHANCE * np.sqrt(halves * np.clip(mean * (1 - mean), 0, None) / np.maximum(number, 1))
    error, beyond = (
        float(np.sum(number * far) / number.sum()) if number.any() else np.nan
        for far in (distance, np.maximum(distance - chance, 0))
    )
    shape = (n_actions, BINS)
    shares = unseen / max(float(evidence.counts.sum()), 1)
    return Calibration(mean.reshape(shape), rate.reshape(shape), number.reshape(shape), error, beyond, shares)


def _stated(evidence: Evidence, others: Integers) -> Floats:
    """What is stated per cell and action, given the actions of the other half of the episodes; NaN where nothing is."""
    pi_b, cells = evidence.behavior, evidence.cells
    if pi_b.origin in ("given", "fitted"):
        return pi_b.probs
    counts = count_actions(cells, others, len(evidence.logbook.actions))
    below = np.broadcast_to(counts.sum(axis=1, keepdims=True), counts.shape)
    if pi_b.origin == "logged":
        rows = others >= 0
        below = np.zeros_like(counts)
        np.add.at(below, (cells.of_row[rows], others[rows]), 1 / pi_b.lookup.taken(slice(0, len(others)))[rows])
    found: Floats = np.divide(counts, below, out=np.full_like(counts, np.nan), where=below > 0)
    return found


def judge_behavior(evidence: Evidence, *, matters: bool = True) -> Finding:
    """Put a light on the calibration."""
    found = behavior_calibration(evidence)
    figure = (found.beyond if found.unseen < 1 else 0.0) + found.unseen
    light = OFF.light(figure) if matters else GREEN
    origin = "counted on the other half of the episodes" if evidence.behavior.origin == "counted" else "as given"
    alone = f" {found.unseen:.0%} of decisions lie where the other half says nothing." if found.unseen > 0 else ""
    sentence = (
        f"Probabilities of the behaviour policy, {origin}, are off what was done by {found.error:.1%} in the mean, "
        f"{found.beyond:.1%} beyond two standard errors of each group."
        if np.isfinite(found.error)
        else "No action was taken in two cells alike, and the behaviour policy cannot be checked."
    )
    return Finding(
        "calibration of the behaviour policy", light, "-" if np.isnan(figure) else f"{figure:.1%}",
        f"{OFF}, mean distance of stated from seen beyond chance" if matters else SETTLED, f"{sentence}{alone}",
        "" if light == GREEN or np.isnan(figure) else
        "Group states, or count by state alone (cell='state')." if evidence.behavior.origin == "counted" else
        "The behaviour policy given is not the one that acted: use behavior='count'.",
    )  # fmt: skip
