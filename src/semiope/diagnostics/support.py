"""Support: how much of a policy lies on actions about which the data say nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from semiope._arrays import Floats
from semiope.errors import nearest
from semiope.estimate.problem import Problem, differing_propensities
from semiope.estimate.registry import ESTIMATORS, SUPPORT

WORST = 3
# Less than this is rounding: an estimate can do without it.
NEGLIGIBLE = 1e-9
WAY_OUT = {
    "logged": "Annotating those actions there would mend it.",
    "augmented": "More annotations of those actions there would mend it.",
    "asked": "Ask about those actions there as well, or use pp-dr, which has the logs where nothing was asked.",
    "divided": "Ask about those actions there as well.",
}


class Unsupported(NamedTuple):
    """`mass` is the share of the policy's decisions, at the steps logged, on actions without support.

    `states` are the states that contribute most to it, with their own share and the action that most of it is on.
    """

    mass: float
    states: list[tuple[int | str, float, int | str]]


def unsupported_mass(problem: Problem, support: Floats) -> Unsupported:
    """Return the mass of the policy on actions that have probability 0 in `support` (n_cells, n_actions)."""
    evidence = problem.evidence
    cells, states, decisions = evidence.cells, evidence.logbook.episodes.states, evidence.counts.sum(axis=1)
    probs = problem.evaluation.mean_probs(cells)
    lacking = np.zeros((len(states), len(evidence.logbook.actions)))
    np.add.at(lacking, cells.state, decisions[:, None] * np.where(support > 0, 0.0, probs))
    per_state, decided = lacking.sum(axis=1), np.bincount(cells.state, weights=decisions, minlength=len(states))
    worst = [int(s) for s in np.argsort(-per_state, kind="stable")[:WORST] if per_state[s] > 0]
    total = float(decisions.sum())
    return Unsupported(
        float(per_state.sum()) / total if total else 0.0,
        [
            (states[s], float(per_state[s] / decided[s]), evidence.logbook.actions[int(lacking[s].argmax())])
            for s in worst
        ],
    )


def judge_support(problem: Problem, names: Sequence[str]) -> tuple[dict[str, float], list[str]]:
    """Return the unsupported mass per kind of support that these estimators need, and a warning where there is any."""
    masses, messages = {}, []
    for kind, probs in SUPPORT.items():
        concerned = [name for name in names if ESTIMATORS[name].support == kind]
        if not concerned:
            continue
        masses[kind], states = unsupported_mass(problem, probs(problem))
        if masses[kind] > NEGLIGIBLE:
            worst = ", ".join(f"{state!r} ({share:.0%}, mostly {action!r})" for state, share, action in states)
            where = f" Worst states: {worst}." if problem.evidence.logbook.episodes.has_states else ""
            messages.append(
                f"policy {problem.name!r}: {masses[kind]:.1%} of its decisions at the logged steps are actions without "
                f"support for {', '.join(concerned)}: {_missing(concerned)}."
                f"{where}{_never_seen(problem)} {_way_out(problem, kind)}"
            )
    return masses, messages


def _missing(names: Sequence[str]) -> str:
    """What happens to actions without support."""
    modelled = [name for name in names if ESTIMATORS[name].recipe.critic]
    uneven = [name for name in modelled if ESTIMATORS[name].recipe.per_step]
    alone = [name for name in modelled if name not in uneven]
    parts = []
    if len(modelled) < len(names):
        parts.append("these estimates leave out what those actions bring")
    if alone:
        parts.append(f"for {', '.join(alone)} it rests on the model alone")
    if uneven:
        parts.append(f"{', '.join(uneven)} divide by ratios that miss them, and correct the model too much")
    return "; ".join(parts)


def _way_out(problem: Problem, kind: str) -> str:
    if kind == "logged" and len(problem.annotations.row):
        left = unsupported_mass(problem, SUPPORT["augmented"](problem)).mass
        if left <= NEGLIGIBLE:
            return "They are annotated: use estimators that use annotations, such as pp-dr and c-pdis."
    return WAY_OUT[kind]


def judge_propensities(problem: Problem, names: Sequence[str]) -> list[str]:
    """Warn if logged propensities differ within a cell, where estimators with annotations use one pi_b for all."""
    concerned = [name for name in names if ESTIMATORS[name].support == "augmented"]
    evidence = problem.evidence
    if concerned and evidence.by_features:  # known row by row; `note_on_propensities` says by what
        return []
    differ = evidence.derived(differing_propensities) if concerned and len(problem.annotations.row) else 0
    if not differ:
        return []
    return [
        f"behavior_prob: {differ:,} propensities differ from the mean of their {evidence.cells.kind} and action, while "
        f"{', '.join(concerned)} take the behaviour policy to be the same throughout, and are biased if it is not. "
        "Use cell='step,state' if it changes over time, or give the whole behaviour policy row by row."
    ]


def judge_means(problem: Problem, names: Sequence[str]) -> list[str]:
    """Warn if rewards are weighted by the whole episode, while means are right for what comes before a step only."""
    concerned = [name for name in names if ESTIMATORS[name].support == "augmented" and ESTIMATORS[name].recipe.whole]
    if not concerned or not problem.evidence.by_prefix or problem.evidence.logbook.episodes.lengths.max() < 2:
        return []
    return [
        f"policy {problem.name!r}: with means='prefix', {' and '.join(concerned)} weigh a reward by what the episode "
        "was asked about later, and are biased if that depends on its past. Use c-pdis or c-pdwis, which do not."
    ]


def _never_seen(problem: Problem) -> str:
    """Name the actions of the policy that occur neither in the logs nor in the annotations: perhaps misspelt."""
    evidence = problem.evidence
    actions = evidence.logbook.actions
    seen = evidence.counts.sum(axis=0) > 0
    seen[problem.annotations.action] = True
    unseen = ~seen & (problem.evaluation.mean_probs(evidence.cells).sum(axis=0) > 0)
    if not unseen.any():
        return ""
    names = [actions[int(action)] for action in np.flatnonzero(unseen)[:WORST]]
    guess = nearest(str(names[0]), [str(actions[int(action)]) for action in np.flatnonzero(seen)])
    return f" Nobody ever took or annotated {', '.join(map(repr, names))}.{guess}"
