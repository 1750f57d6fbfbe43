"""Which repairs the data ask for, and why: one sentence a choice."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from semiope._arrays import Booleans, Floats
from semiope.data.annotations import Annotations
from semiope.models.case import Case
from semiope.models.level import Level, common_bias
from semiope.models.places import Places
from semiope.models.residuals import predict
from semiope.policies.policy import Policy
from semiope.repair.fill import questions

Steps = list[tuple[str, str]]
# Differences count from so many standard errors on.
DEVIATIONS = 2.0
# Whose returns answers are is judged over states: it takes this many, and so many standard errors (5%, one-sided).
STATES, SURE = 10, 1.64
# Fewer questions left open, and less noise beside the spread of returns, are no reason for a model.
COMPLETE, QUIET = 0.995, 0.05


class Look(NamedTuple):
    """What the answers look like: whose returns they are, what they have in common, how many, how noisy.

    `today` is how many standard errors closer they are to returns of today's policy than to those of the one evaluated.
    """

    annotators: int
    today: float
    level: Level
    share: float
    noise: float
    spread: float

    @property
    def biased(self) -> bool:
        """Whether answers have a bias in common."""
        return abs(self.level.bias) > DEVIATIONS * self.level.error


def choose(annotations: Annotations, case: Case) -> tuple[Steps, list[str]]:
    """The steps, and a sentence on each choice."""
    if not isinstance(case.policy, Policy):
        return [], ["repair: none, because a policy given row by row leaves no states to count a model in."]
    look = look_at(annotations, case)
    if look is None:
        return [], ["repair: none, because no answer is about an action that was not taken."]
    steps: Steps = []
    reasons = []

    def take(name: str, why: str, option: str = "") -> None:
        steps.append((name, option))
        reasons.append(f"repair: {name}{':' if option else ''}{option}, because {why}.")

    if look.annotators > 1:
        take("pool", f"there are {look.annotators} annotators, each with a bias and noise of their own")
    elif look.biased:
        off = f"{look.level.bias:+.3g} (standard error {look.level.error:.2g})"
        take("pool", f"answers about what was logged are off by {off} in the mean")
    if look.today > SURE:
        by = f"{look.today:.1f} standard errors"
        take("convert", f"the answers fit returns of today's policy better than those of this one ({by})", "state")
    if look.share < COMPLETE:
        take("model", f"{look.share:.0%} of what the policy would do otherwise is annotated")
    elif look.noise > QUIET * look.spread:
        take("model", f"answers scatter by {look.noise:.2g}, returns by {look.spread:.2g}")
    if not steps:
        reasons.append("repair: none, because the answers are complete, without noise and without a bias that shows.")
    return steps, reasons


def look_at(annotations: Annotations, case: Case) -> Look | None:
    """Look at answers that are returns; None if there are none about actions not taken."""
    records = case.records
    aligned = records.aligned(annotations)
    if not len(aligned.row):
        return None
    mdp = records.empirical.mdp
    at, value = records.places_of(aligned), aligned.value
    today = _closeness_to_today(case, at, value)
    about = Case(records, case.policy, case.name, today > SURE)
    _, parts = predict(at, value - at.read(about.expected), records.empirical.counts, mdp.horizon, records.prior)
    who = 1 if annotations.annotator is None else len(annotations.annotator.unique())
    rows = records.rows.part(records.rows.action >= 0)
    spread = float(np.std(rows.read(records.behavior_returns)))
    level = common_bias(about, at, value)
    return Look(who, today, level, _share(case, at), float(np.sqrt(parts.noise)), spread)


def _closeness_to_today(case: Case, at: Places, value: Floats) -> float:
    """By how many standard errors answers about logged pairs fit returns of today's policy better, levels aside."""
    records = case.records
    known = records.empirical.mdp.available[at.state, at.action]
    states = len(np.unique(at.state[known]))
    if states < STATES:
        return 0.0
    off = [(value - at.read(returns))[known] for returns in (case.returns, records.behavior_returns)]
    unit = max(*(float(np.abs(x).max()) for x in off), 1e-100)
    squares = [((x - x.mean()) / unit) ** 2 for x in off]
    better = squares[0] - squares[1]
    by_state = np.bincount(at.state[known], weights=better - better.mean())
    # Answers of a state go together, but not less apart than answers at all do.
    scatter = max(float(np.sum(by_state**2)), float(np.sum((better - better.mean()) ** 2)))
    error = float(np.sqrt(scatter * states / (states - 1)))
    return float(better.sum()) / error if error > 1e-12 * len(better) else 0.0


def _share(case: Case, at: Places) -> float:
    """The share of what the policy would do otherwise that is annotated."""
    chosen: Booleans = np.any(case.evaluation > 0, axis=0)
    asked = questions(case.records, chosen).places(case.records)
    wanted = case.evaluation[np.minimum(asked.step, len(case.evaluation) - 1), asked.state, asked.action].sum()
    given = case.evaluation[np.minimum(at.step, len(case.evaluation) - 1), at.state, at.action].sum()
    return float(given / wanted) if wanted > 0 else 1.0
