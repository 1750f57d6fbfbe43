"""What logs and answers cover of a policy, state by state, and which questions would cover more."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from semiope._arrays import Floats, Integers
from semiope.diagnostics.findings import GREEN, Finding, Rule
from semiope.diagnostics.support import NEGLIGIBLE
from semiope.estimate.problem import Problem, augmented_support, behavior_support
from semiope.estimate.registry import SUPPORT

LACKING = Rule(amber=NEGLIGIBLE, red=0.05)
QUESTIONS = 40
SHOWN = 3


class SupportMap(NamedTuple):
    """By state, those with most decisions first: how many were logged, and the share of the policy's decisions there
    on actions without support by the logs alone, and by logs and answers.
    """

    state: list[int | str]
    decisions: Integers
    logged: Floats
    augmented: Floats


def support_map(problem: Problem) -> SupportMap:
    """Where the policy does what nobody did, and what the answers mend of it."""
    evidence = problem.evidence
    cells, states = evidence.cells, evidence.logbook.episodes.states
    decisions = np.bincount(cells.state, weights=evidence.counts.sum(axis=1), minlength=len(states))
    order = np.argsort(-decisions, kind="stable")
    order = order[decisions[order] > 0]
    shares = []
    for support in (behavior_support, augmented_support):
        lacking = _lacking(problem, support(problem)).sum(axis=1)
        shares.append(np.bincount(cells.state, weights=lacking, minlength=len(states))[order] / decisions[order])
    return SupportMap([states[int(s)] for s in order], decisions[order].astype(np.int64), *shares)


def judge_coverage(problem: Problem, annotated: str | None) -> list[Finding]:
    """Mass of the policy without support: by the logs alone, and by logs and annotations.

    `annotated` is the support of an estimator in which annotations stand for what was not logged; None: they do not.
    """
    evidence = problem.evidence
    total = max(float(evidence.counts.sum()), 1.0)
    before = _lacking(problem, behavior_support(problem))
    found = [_finding(problem, before / total, "by the logs alone", matters=annotated is None)]
    if annotated is not None:
        after = _lacking(problem, SUPPORT[annotated](problem))
        found.append(_finding(problem, after / total, "by logs and answers", matters=True))
    return found


def _finding(problem: Problem, lacking: Floats, by: str, *, matters: bool) -> Finding:
    mass = float(lacking.sum())
    light = LACKING.light(mass) if matters else GREEN
    name = f"decisions without support {by}"
    rule = f"amber above 0, red above {LACKING.red:.0%}" if matters else "for information: answers are used"
    if mass <= NEGLIGIBLE:
        done = "has support by the logs"
        if by == "by logs and answers":
            done = "was logged, or is of a kind about which questions were asked"
        return Finding(name, light, "0%", rule, f"Everything that the policy would do {done}.")
    cells = problem.evidence.cells
    states = problem.evidence.logbook.episodes.states
    per_state = np.bincount(cells.state, weights=lacking.sum(axis=1), minlength=len(states))
    concerned = np.flatnonzero(per_state > 0)
    first = ", ".join(repr(states[int(s)]) for s in concerned[np.argsort(-per_state[concerned], kind="stable")][:SHOWN])
    whose = "Estimates" if matters else "Estimates from the logs alone"
    sentence = (
        f"{mass:.1%} of the policy's decisions at the logged steps are actions that were never "
        f"{'taken' if by == 'by the logs alone' else 'taken or answered for'} there, in {len(concerned):,} "
        f"state{'s' if len(concerned) > 1 else ''} (first {first}). {whose} leave out what they bring."
    )
    return Finding(name, light, f"{mass:.1%}", rule, sentence, _questions(problem, lacking) if matters else "")


def _questions(problem: Problem, lacking: Floats) -> str:
    """How much a few questions, about what matters most, would cover."""
    counts = problem.evidence.counts.sum(axis=1)
    order = np.argsort(-lacking.max(axis=1), kind="stable")
    order = order[lacking[order].max(axis=1) > 0]
    steps = np.minimum(np.cumsum(counts[order]), QUESTIONS)
    several = order[: int(np.searchsorted(steps, QUESTIONS)) + 1]
    asked = int(steps[min(len(several), len(steps)) - 1])
    gained = float(lacking[several].max(axis=1).sum()) / float(lacking.sum())
    steps_asked = "this 1 step" if asked == 1 else f"{asked} steps in these states"
    return f"Annotating {steps_asked}, one action each, would cover {gained:.0%} of it."


def _lacking(problem: Problem, support: Floats) -> Floats:
    """Decisions of the policy on actions without support, per cell and action."""
    probs = problem.evaluation.mean_probs(problem.evidence.cells)
    decisions = problem.evidence.counts.sum(axis=1, keepdims=True)
    lacking: Floats = decisions * np.where(support > 0, 0.0, probs)
    return lacking
