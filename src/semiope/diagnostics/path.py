"""The logged path: how far into an episode a policy would have done what was done, and how thin the logs are there."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from semiope._arrays import Booleans, Floats, Integers, frozen
from semiope._compiled import compiled
from semiope.diagnostics.findings import GREEN, SETTLED, Finding, Rule
from semiope.estimate.problem import Problem, Slab, behavior
from semiope.policies.lookup import safe_ratio

ON_PATH = Rule(amber=0.5, red=0.1)
THIN = Rule(amber=0.05, red=0.2)
FEW = 5
SHOWN = 5


class Path(NamedTuple):
    """`follows` is the probability, by step, that the policy has done so far what was logged, given that the episode
    gets there; `share` the part of an episode's decisions up to which it does so, in the mean.

    Where both act by chance, they agree as often as they can: with probability min(1, pi_e / pi_b) on the action taken.
    A policy that is today's so never leaves the path.
    """

    follows: Floats
    share: float


def logged_path(problem: Problem) -> Path:
    """Follow each episode as long as the policy does."""
    episodes = problem.evidence.logbook.episodes
    follows, there = np.zeros((2, int(episodes.lengths.max())))
    share = 0.0
    for slab in problem.slabs():
        share += _follow(frozen(_agreeing(slab)), frozen(slab.decided), frozen(slab.offsets), follows, there)
    return Path(safe_ratio(follows, there), share / episodes.n_episodes)


def judge_path(problem: Problem, *, listens: bool) -> Finding:
    """How much of the logs speaks of the policy; `listens`: answers take over where it leaves them."""
    share = logged_path(problem).share
    light = GREEN if listens else ON_PATH.light(share)
    then = "Where it leaves them, the experts' answers take over." if listens else "After that, nothing was logged."
    return Finding(
        "steps on the logged path", light, f"{share:.0%}",
        f"{ON_PATH} of an episode's decisions, unless answers are used",
        f"In the mean the policy would have done what was done up to {share:.0%} of an episode's decisions. {then}",
        "" if light == GREEN else "Ask experts about the first step at which the policy leaves the logs.",
    )  # fmt: skip


class Matters(NamedTuple):
    """States by how many of the policy's decisions are made there: `share` of them, `visits` logged."""

    state: list[int | str]
    share: Floats
    visits: Integers


def states_that_matter(problem: Problem, shown: int = SHOWN) -> Matters:
    """The states in which most of the policy's decisions on the logged path, weighted as pi_e goes, are made."""
    weight = _path_weights(problem)
    episodes = problem.evidence.logbook.episodes
    decided = episodes.action >= 0
    n_states = len(episodes.states)
    total = np.bincount(episodes.state[decided], weights=weight[decided], minlength=n_states)
    visits = np.bincount(episodes.state[decided], minlength=n_states)
    order = np.argsort(-total, kind="stable")[:shown]
    order = order[total[order] > 0]
    shares = total[order] / max(float(total.sum()), 1e-300)
    return Matters([episodes.states[int(s)] for s in order], shares, visits[order])


def judge_thin(problem: Problem, *, listens: bool, matters: bool = True) -> Finding:
    """Whether the policy's own actions were logged, or answered for, often enough where it goes."""
    evidence = problem.evidence
    probs, counts = problem.evaluation.mean_probs(evidence.cells), evidence.counts
    if listens:
        answers = problem.annotations
        counts = counts.copy()
        np.add.at(counts, (evidence.cells.of_row[answers.row], answers.action), 1.0)
    decided = evidence.logbook.episodes.action >= 0
    weight = np.bincount(
        evidence.cells.of_row[decided], weights=_path_weights(problem)[decided], minlength=len(evidence.cells)
    )[:, None]
    logged = np.where(counts > 0, probs, 0.0) * weight
    thin = float(logged[counts < FEW].sum()) / max(float(logged.sum()), 1e-300)
    light = THIN.light(thin) if matters else GREEN
    top = states_that_matter(problem)
    listed = ", ".join(f"{s!r} ({share:.0%}, {n:,} visits)" for s, share, n in zip(*top, strict=True))
    return Finding(
        "decisions on thin evidence", light, f"{thin:.0%}",
        f"{THIN} on pairs seen fewer than {FEW} times" if matters else SETTLED,
        f"{thin:.0%} of what the policy would do on the logged path was logged "
        f"{'or answered for ' if listens else ''}fewer than {FEW} times in its "
        f"{evidence.cells.kind.replace(',', ' and ')}. States that matter most: {listed}.",
        "" if light == GREEN else "Group states, count by state alone (cell='state'), or ask experts there.",
    )  # fmt: skip


def _path_weights(problem: Problem) -> Floats:
    """Per row, the probability that the policy would have done all that was logged before it."""
    found = np.empty(problem.evidence.logbook.episodes.n_steps)
    for slab in problem.slabs():
        _reach(frozen(_agreeing(slab)), frozen(slab.offsets), found[slab.rows])
    return found


def _agreeing(slab: Slab) -> Floats:
    """Per row, the probability that the policy would have done what was done, 1 where there was no decision."""
    return np.minimum(slab.ratio_taken(behavior), 1.0)


@compiled
def _reach(probs: Floats, offsets: Integers, found: Floats) -> None:
    for i in range(len(offsets) - 1):
        product = 1.0
        for row in range(offsets[i], offsets[i + 1]):
            found[row] = product
            product *= probs[row]


@compiled
def _follow(probs: Floats, decided: Booleans, offsets: Integers, follows: Floats, there: Floats) -> float:
    share = 0.0
    for i in range(len(offsets) - 1):
        product, on_path, decisions = 1.0, 0.0, 0.0
        for row in range(offsets[i], offsets[i + 1]):
            product *= probs[row]
            follows[row - offsets[i]] += product
            there[row - offsets[i]] += 1.0
            if decided[row]:
                on_path += product
                decisions += 1.0
        share += on_path / decisions if decisions > 0 else 1.0
    return share
