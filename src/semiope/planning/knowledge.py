"""What logs and answers so far say of the answers still missing: expectations, and how far they may be off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from semiope._arrays import Floats
from semiope.data.annotations import Annotations
from semiope.data.labels import ABSENT
from semiope.data.logbook import AlignedAnnotations, Logbook
from semiope.errors import OptionError, SchemaError
from semiope.pipeline.inputs import read_answers
from semiope.planning.case import Case, Records
from semiope.planning.convert import of_policy
from semiope.planning.level import together
from semiope.planning.matters import Matters
from semiope.planning.residuals import Components, Prior, expected
from semiope.policies.behavior import shares
from semiope.policies.cells import cells_of, count_actions
from semiope.policies.lookup import BoundPolicy
from semiope.policies.policy import AnyPolicy, Policy

# Probabilities that differ by less are the same.
SAME = 1e-9


@dataclass(frozen=True, eq=False)
class Knowledge:
    """Answers expected in each cell by each policy, (n_policies, n_cells), and the variances of what they miss.

    `counts` is how often each pair was logged, `times` how often each cell was answered; `returns` those of what
    answers speak of, (horizon, n_states, n_actions), if there is a model.
    """

    answers: Floats
    parts: Components
    counts: Floats
    times: Floats
    returns: Floats | None


def recorded(logbook: Logbook, policies: Mapping[str, AnyPolicy], gamma: float, noise: float | None) -> Records | str:
    """The model counted from the logs; or why none can be, or a policy has no place in it."""
    for name, policy in policies.items():
        if not isinstance(policy, Policy):
            return f"policy {name!r} is given row by row"
    records = Records(logbook.episodes, tuple(logbook.actions.words.to_pylist()), gamma, noise=noise)
    try:
        records.prior  # noqa: B018 (counted here)
    except SchemaError as error:
        return str(error).rstrip(".")
    return records


def is_todays(policy: BoundPolicy, logbook: Logbook) -> bool:
    """Whether a policy does what is done today: by the probabilities logged or, if there are none, as counted."""
    episodes = logbook.episodes
    row = np.flatnonzero(episodes.action >= 0)
    probs, logged = policy.at(row), episodes.behavior_prob
    if logged is not None:
        off = probs[np.arange(len(row)), episodes.action[row]] - logged[row]
    else:
        off = (
            probs
            - shares(count_actions(cells_of(episodes, "state"), episodes.action, probs.shape[1]))[episodes.state[row]]
        )
    return bool(np.abs(off).max(initial=0.0) < SAME)


def learn(
    matters: Matters, cases: list[Case], annotations: Annotations | None, gamma: float, noise: float | None = None
) -> Knowledge:
    """Fit the annotation model to logs and answers; without a case for each policy, take plain means."""
    episodes, aligned = matters.logbook.episodes, matters.logbook.annotations
    counts = count_actions(cells_of(episodes, "state"), episodes.action, len(matters.logbook.actions))
    told = None
    if cases:
        answers, parts, told = _modelled(matters, cases, annotations)
    else:
        answers, parts = _plain(matters, aligned, gamma, noise)
    return Knowledge(answers, parts, counts, _times(matters, aligned), told)


def _times(matters: Matters, aligned: AlignedAnnotations) -> Floats:
    """How often each cell was answered, by questions that matter and by others."""
    episodes, row = matters.logbook.episodes, aligned.row
    cell = matters.cell_at(episodes.step[row], episodes.state[row], aligned.action)
    return np.bincount(cell[cell >= 0], minlength=len(matters.cells.step)).astype(np.float64)


def _modelled(
    matters: Matters, cases: list[Case], annotations: Annotations | None
) -> tuple[Floats, Components, Floats]:
    at = matters.places(cases[0].records)
    # Answers about today's policy say the same whichever policy they are turned to.
    spoken_of = cases[:1] if cases[0].about_today else cases
    told = [_told(case, annotations, matters.logbook) for case in spoken_of]
    returns = [of_policy(case, told[0][0]) for case in cases] if cases[0].about_today else [one for one, _ in told]
    return np.stack([at.read(one) for one in returns]), told[-1][1], told[0][0]


def _told(case: Case, annotations: Annotations | None, logbook: Logbook) -> tuple[Floats, Components]:
    """What logs and answers, if there are any, say of the policy that answers speak of, and the variances."""
    if annotations is None or not len(logbook.annotations.row):
        return case.expected, expected(case.prior)
    return together(case, *case.records.counterfactual(annotations))


def _plain(
    matters: Matters, aligned: AlignedAnnotations, gamma: float, noise: float | None
) -> tuple[Floats, Components]:
    """Mean returns from each step on where nobody was asked, and as wide as returns scatter."""
    episodes = matters.logbook.episodes
    returns = episodes.returns_to_go(gamma)
    decided = episodes.action != ABSENT
    step = episodes.step[decided]
    steps = np.bincount(step, weights=returns[decided]) / np.maximum(np.bincount(step), 1)
    expectation = steps[matters.cells.step]
    place = matters.position(aligned.row, aligned.action)
    cell = matters.cell[place[place >= 0]]
    n = np.bincount(cell, minlength=len(expectation))
    told = np.bincount(cell, weights=aligned.value[place >= 0], minlength=len(expectation))
    expectation = np.where(n > 0, told / np.maximum(n, 1), expectation)
    parts = expected(Prior(float(np.std(returns[decided])), episodes.n_episodes, noise))
    return np.repeat(expectation[None], matters.n_policies, axis=0), parts


def read(annotations: Any, policies: Mapping[str, AnyPolicy]) -> Annotations | None:
    """The answers so far, the same for all policies."""
    by_policy = read_answers(annotations, policies)
    answers = next(iter(by_policy.values()))
    if any(one is not answers for one in by_policy.values()):
        raise OptionError("annotations: one answer serves all policies of a plan. Give one table for all of them.")
    return answers
