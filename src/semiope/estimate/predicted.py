"""Prediction-powered estimators: annotations completed by a model, and the model corrected by annotations.

C*-PDIS is linear in the annotations g of all actions not taken. Where a question was asked with probability p > 0, each
g is replaced by

    g-hat + xi / p (g - g-hat),      xi = 1 if the question was asked, else 0,

with any prediction g-hat that does not depend on the episode's own annotations. Its mean is that of g whatever g-hat
is: a good one makes the estimate precise, a bad one only wide. With the model as critic (`critic.py`), this is

    pp-pdis    f = pi_e(a) of the action taken           h = pi_e(a~) / p of each annotated action     (pp-is: the same)
    pp-dr      f = min(1, pi_e / (pi_b + (1 - pi_b) lambda))     h = (pi_e - pi_b f) / ((1 - pi_b) p)

pp-pdis needs no behavior policy. pp-dr divides each action between the logs, which show it with probability pi_b, and
the annotations, which are there with probability (1 - pi_b) p: both together count pi_e, for any f. Least variance has
f and h in proportion to 1 / A_L and 1 / A_A, the mean squares of what the model leaves of r + gamma v and of
annotations: lambda = p A_L / A_A. Ratios are clipped at one, so that products over long episodes cannot grow; what is
clipped off comes from annotations. lambda = 1 is pp-pdis; with lambda = 0 and pi_e = pi_b, the logs say it all.
pi_b is counted within each fold of the model, so that both together count pi_e where this model is used. Of pairs about
which nothing was ever asked, the logs have to tell: f = pi_e / pi_b, with pi_b of all episodes, as dr has it. Where
pi_b was fitted to features it may be wrong in its form, and lambda = 1.

Angelopoulos et al. (2023) have the idea for means, Robins et al. (1994) for missing data.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from semiope._arrays import Booleans, Floats, root_mean_square
from semiope.errors import SupportError
from semiope.estimate.critic import Critic
from semiope.estimate.problem import Problem, Slab
from semiope.estimate.scan import Terms, continue_each
from semiope.models.predictions import WithPredictions
from semiope.policies.lookup import safe_ratio


def completed_factor(slab: Slab) -> Floats:
    """f = pi_e of the action taken."""
    return slab.evaluation_taken()


def completed_shares(slab: Slab) -> Floats:
    """h = pi_e / p of each annotated action."""
    return slab.evaluation_annotated() / slab.problem.inclusion.prob[slab.entries]


def complete(slab: Slab, terms: Terms) -> Terms:
    """Let completed annotations count as all do: k = 1 - f, so that an episode's normalizer is 1."""
    return terms._replace(k=1.0 - terms.f)


def divided_factor(slab: Slab) -> Floats:
    """f of pp-dr."""
    return slab.problem.once(division).factor[slab.rows]


def divided_shares(slab: Slab) -> Floats:
    """h of pp-dr."""
    return slab.problem.once(division).shares[slab.entries]


def require_annotations(problem: Problem) -> None:
    """Fail where there is no annotation of an action not taken: nothing would correct the model."""
    if not len(problem.annotations.row):
        raise SupportError(
            f"policy {problem.name!r}: pp-is and pp-pdis correct a model by annotations, and there are none of actions "
            "not taken. Use dr, or pp-dr, which without annotations is dr."
        )


class Division(NamedTuple):
    """How pp-dr divides each action: f per row, h per annotation, and the lambda behind them (1: as pp-pdis)."""

    factor: Floats
    shares: Floats
    preference: float


class _Known(NamedTuple):
    """pi_e and pi_b at actions taken and annotated, p; and of actions taken about which nothing was ever asked.

    `by_logs` is pi_e / pi_b there.
    """

    evaluation: tuple[Floats, Floats]
    behavior: tuple[Floats, Floats]
    prob: Floats
    never: Booleans
    by_logs: Floats


def never_asked(problem: Problem) -> Booleans:
    """Rows whose action is one that nobody was asked about in their state."""
    episodes = problem.evidence.logbook.episodes
    found: Booleans = problem.inclusion.never[episodes.state, np.maximum(episodes.action, 0)] & (episodes.action >= 0)
    return found


def division(problem: Problem) -> Division:
    """Divide each action between logs and annotations, by how much what the model leaves of each scatters."""
    episodes, answers = problem.evidence.logbook.episodes, problem.annotations
    rows, entries = slice(0, episodes.n_steps), slice(0, len(answers.row))
    evaluation = problem.evaluation.taken(rows), problem.evaluation.annotated(entries)
    prob = problem.inclusion.prob
    # Predictions from outside are of actions not taken: only pp-pdis does not depend on what the model says of others.
    # A behavior policy fitted to features may be wrong in its form: pp-pdis does without it.
    fitted = problem.evidence.behavior.origin == "fitted"
    never = problem.once(never_asked)
    by_logs = safe_ratio(evaluation[0], problem.evidence.behavior.lookup.taken(rows))
    predicted = isinstance(problem.modelled.outcomes, WithPredictions)
    behavior = None if fitted or predicted else problem.behavior_at_questions
    if behavior is None:
        return Division(np.where(never, by_logs, evaluation[0]), evaluation[1] / prob, 1.0)
    known = _Known(evaluation, behavior, prob, never, by_logs)
    if problem.fixed is not None:
        return _divided(known, problem.fixed.once(division).preference)
    return _divided(known, _preference(problem, known))


def _preference(problem: Problem, known: _Known) -> float:
    """lambda: how much is to be said for annotations, by the mean squares of what the model leaves."""
    episodes, needed = problem.evidence.logbook.episodes, known.evaluation[1] > 0
    critic = problem.modelled.annotated_critic
    if not needed.any():
        return 0.0
    logs = root_mean_square(_left(problem, critic, _divided(known, 0.0))[episodes.action >= 0])
    said, typical = root_mean_square(critic.annotated[needed]), 1 / float(np.mean(1 / known.prob[needed]))
    # Multiplied out: a power that leaves the range of numbers would fail.
    return typical * (logs / said) * (logs / said) if said > 0 else np.inf if logs > 0 else 1.0


def _divided(known: _Known, preference: float) -> Division:
    taken, annotated = (_factor(*one, preference) for one in zip(known.evaluation, known.behavior, strict=True))
    pi_e, pi_b = known.evaluation[1], known.behavior[1]
    rest = np.maximum(pi_e - pi_b * annotated, 0.0)
    factor = np.where(known.never, known.by_logs, taken)
    return Division(factor, safe_ratio(rest, (1 - pi_b) * known.prob), preference)


def _factor(evaluation: Floats, behavior: Floats, preference: float) -> Floats:
    """f where the behavior policy has this probability; 1 where there was no decision, since both are 1 there."""
    if np.isinf(preference):
        return np.where(behavior >= 1, np.minimum(evaluation, 1.0), 0.0)
    return np.minimum(safe_ratio(evaluation, behavior + (1 - behavior) * preference), 1.0)


def _left(problem: Problem, critic: Critic, divided: Division) -> Floats:
    """What the model leaves of r + gamma v after each action taken."""
    found = np.empty(problem.evidence.logbook.episodes.n_steps)
    for slab in problem.slabs(critic):
        c, _ = slab.additions(divided.shares[slab.entries])
        continue_each(slab.reward, slab.offsets, problem.gamma, divided.factor[slab.rows], c, found[slab.rows])
    return found
