"""Refutation: what must hold if an estimate is right, tried by evaluating again with something changed."""

from __future__ import annotations

import numpy as np

from semiope._arrays import Floats, Integers
from semiope.diagnostics.findings import AMBER, GREEN, Finding, Rule
from semiope.estimate.evidence import Evidence
from semiope.estimate.result import EpisodeValues, Estimate
from semiope.estimate.scan import Scaled, Terms, scan
from semiope.pipeline.clustered import can_do_without, clustered
from semiope.pipeline.results import Results
from semiope.policies.lookup import safe_ratio

# The placebo and what was observed share their episodes, so that by chance they are less far off than this says: a
# placebo that is red is wrong for sure, one that is green may be. Leaving out an annotator is no matter of chance.
PLACEBO = Rule(amber=2.0, red=3.0, form="{:.0f}")
APART = Rule(amber=1.0, red=2.0, form="{:.0f}")


def placebo(results: Results) -> Finding:
    """Evaluate by pdis the policy that acted, as counted from the logs: it must be worth what was observed.

    Answers are left out, since they speak of the new policy.
    """
    problem, observed = results.origin.weighed.problem, results.origin.observed
    n, ratio = len(observed.values), _ratios_of_placebo(problem.evidence)
    values, ratios = Scaled.empty(n), Scaled.empty(n)
    for slab in problem.slabs():
        here = (slab.first, slab.last)
        scan(slab.reward, slab.offsets, problem.gamma, Terms(ratio[slab.rows]), values.part(*here), ratios.part(*here))
    scaled, exponent = values.on_common_scale()
    found = Estimate("placebo", "pdis", EpisodeValues(scaled, observed.normalizers, exponent))
    rounding = 1e-9 * max(float(np.abs(problem.no_critic.reward).max()), 1e-290)
    apart = abs(found.value - observed.value) / max(float(np.hypot(observed.std_error, found.std_error)), rounding)
    light = PLACEBO.light(apart)
    counted = problem.evidence.behavior.origin == "counted"
    return Finding(
        "placebo: today's policy", light, f"{found.value:.4g} against {observed.value:.4g}",
        "for information: a counted policy cannot fail this" if counted else f"{PLACEBO} standard errors apart",
        f"Evaluated like the new one, the policy that acted comes to {found.value:.4g}; {observed.value:.4g} was "
        f"observed{' as it must' if light == GREEN else ': these should be the same'}.",
        "" if light == GREEN else
        f"The behavior policy is not the one that acted. Try {problem.evidence.another_behavior}.",
    )  # fmt: skip


def _ratios_of_placebo(evidence: Evidence) -> Floats:
    """Per row, the share of other episodes' decisions in the cell that took the same action, over the pi_b used.

    An episode must not count itself: where cells are seldom visited, it would seem to do the usual. 1 where no other
    episode made a decision, and everywhere if pi_b is itself counted.
    """
    episodes, cells, n_actions = evidence.logbook.episodes, evidence.cells, len(evidence.logbook.actions)
    found, decided = np.ones(episodes.n_steps), episodes.action >= 0
    if evidence.behavior.origin == "counted":
        return found
    cell, action = cells.of_row[decided], episodes.action[decided]
    here = np.repeat(np.arange(episodes.n_episodes), episodes.lengths)[decided] * len(cells) + cell
    others = evidence.counts.sum(axis=1)[cell] - _times(here)
    alike = evidence.counts[cell, action] - _times(here * n_actions + action)
    stated = evidence.behavior.lookup.taken(slice(0, episodes.n_steps))[decided]
    found[decided] = np.where(others > 0, safe_ratio(alike, others) / stated, 1.0)
    return found


def _times(keys: Integers) -> Integers:
    """How often each key occurs, at each of its places."""
    _, place, times = np.unique(keys, return_inverse=True, return_counts=True)
    found: Integers = times[place]
    return found


def leave_one_out(results: Results, estimator: str) -> Finding:
    """Whether the estimate hangs on one annotator."""
    own = results[estimator]
    name, rule = "leaving out one annotator", f"{APART} standard errors"
    annotations = results.origin.annotations
    if annotations is None or not can_do_without(annotations, estimator):
        known = annotations is not None and annotations.inclusion_prob is not None
        why = (
            "Inclusion probabilities are those of all annotators together: what one alone contributes cannot be told."
            if known
            else f"{estimator} cannot be computed without one of the annotators."
        )
        return Finding(name, AMBER, "-", rule, why)
    error, (low, high), found = clustered(results, estimator)
    far = float(np.max(np.abs(found.values - own.value)))
    apart = far / max(own.std_error, 1e-9 * abs(own.value), 1e-300)
    light = APART.light(apart)
    listed = ", ".join(f"{name} {value:.4g}" for name, value in zip(found.annotators[:10], found.values, strict=False))
    listed += " ..." if len(found.annotators) > 10 else ""
    return Finding(
        name, light, f"{apart:.1f} standard errors", rule,
        f"Without each of them in turn the estimate is: {listed} (all: {own.value:.4g}). Clustered by annotator, its "
        f"standard error is {error:.2g} instead of {own.std_error:.2g}, and its 95% interval {low:.3g} to {high:.3g}.",
        "" if light == GREEN else "Look at that annotator's bias and noise, and at shared questions.",
    )  # fmt: skip
