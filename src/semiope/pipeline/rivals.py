"""Estimates that do not take the annotators' word, beside one that does: Hausman's test, and what follows from it.

If annotators are right, an estimate that trusts them (T) and one that rests on what was logged (L) have the same mean,
and T the smaller variance; if all of them share a bias, T has it and L has not. Three kinds of L:

    actions taken        annotators were also asked about actions that were taken: their shared bias b is the mean of
                         annotation minus outcome, r + gamma v weighted to the policy as in T. Of v, a part k comes from
                         annotations and has the bias as well: b = sum (g - r - gamma v) / sum (1 - gamma k).
                         L = T - b K, with K the part of T that comes from annotations.
    logs alone           dm+-is, which corrects the model by ratios; where weights are not carried by a few episodes. If
                         the behavior policy was fitted to features, it may be wrong in its form, and a difference shows
                         no bias
    model of the logs    the MDP counted from all logs, where every pair that the policy comes to was logged; its
                         variance is that of its Bellman errors

One whose standard error is larger than the standard deviation of logged returns tells less than a single episode does,
and is left out. The one with the smallest standard error of T - L comes first. The model may be wrong in ways that its
variance does not know, if states do not tell all that matters: a difference to it is a reason to doubt, but shows no
bias.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from semiope._arrays import Floats, root_mean_square
from semiope.diagnostics.findings import RED, judge_average, judge_weights, worst
from semiope.diagnostics.support import unsupported_mass
from semiope.estimate.passes import episode_values
from semiope.estimate.problem import Problem, behavior_support
from semiope.estimate.registry import ESTIMATORS, Estimator
from semiope.estimate.result import ROUNDING, Estimate, Part, Rival, degrees_of_freedom, standard_error
from semiope.estimate.scan import continue_each

# With more of the policy's decisions never logged, logs and annotations speak of different things.
LOGGED = 0.01


class Trusting(NamedTuple):
    """An estimate that trusts annotations: its per-episode values, and the part of each that comes from annotations.

    `ahead` is r + gamma v after each action taken, `said` the part of it that comes from annotations.
    """

    values: Floats
    annotated: Floats
    ahead: Floats
    said: Floats


def between_annotators(problem: Problem, estimate: Estimate, pooled: float = 0.0) -> tuple[Part, ...]:
    """The variance of an estimate because its annotators are some of those who could have been asked.

    Where annotators differ by more than noise, with standard deviation b between them, the mean of J of them has the
    standard error b / sqrt(J), and the estimate K times as much, K being the part of it that comes from annotations.
    `pooled` is that standard error where annotators were pooled before.
    """
    n = problem.annotations.n_annotators
    if estimate.per_episode.value_exponent:
        return ()
    if n > 1 and ESTIMATORS[estimate.estimator].completes:
        pooled = float(np.mean([one.between for one in problem.modelled.corrected])) / math.sqrt(n)
    if not pooled > 0:
        return ()
    share = float(follow(problem, ESTIMATORS[estimate.estimator], estimate).annotated.mean())
    return (Part(share * pooled, math.inf),)


def rivals_of(problem: Problem, estimator: Estimator, estimate: Estimate) -> list[Rival]:
    """Estimates that do not trust annotations; the one that can best be told apart from this one first."""
    if not len(problem.annotations.row) or len(estimate.values) < 2 or estimate.per_episode.value_exponent:
        return []
    trusting = follow(problem, estimator, estimate)
    found = [
        _by_actions_taken(problem, trusting),
        _by_logs(problem.without_predictions, estimate),
        _by_model(problem, estimate),
    ]
    # What is known less surely than from a single logged return is not known.
    returns = problem.evidence.logbook.episodes.returns(problem.gamma)
    single = root_mean_square(returns - returns.mean())
    known = [one for one in found if one is not None and (one.std_error <= single or not single)]
    return sorted(known, key=lambda one: one.apart_error)


def follow(problem: Problem, estimator: Estimator, estimate: Estimate) -> Trusting:
    """Take an estimate apart into what comes from logs and from annotations."""
    recipe, episodes = estimator.recipe, problem.evidence.logbook.episodes
    critic = recipe.critic_of(problem)
    ahead, said, annotated = np.empty(episodes.n_steps), np.empty(episodes.n_steps), np.empty(episodes.n_episodes)
    for slab in problem.slabs(critic):
        factor = recipe.factor(slab)
        shares = np.zeros(slab.entries.stop - slab.entries.start) if recipe.shares is None else recipe.shares(slab)
        c, k = slab.additions(shares)
        rows, zeros = slab.rows, np.zeros(len(slab.reward))
        continue_each(slab.reward, slab.offsets, problem.gamma, factor, c, ahead[rows])
        continue_each(zeros, slab.offsets, problem.gamma, factor, k, said[rows])
        first = slab.offsets[:-1]
        annotated[slab.first : slab.last] = (factor * said[rows] + k)[first]
    if recipe.critic is not None:
        modelled = problem.modelled
        returns = modelled.annotated_returns if recipe.critic == "annotated" else modelled.returns
        decided = np.flatnonzero(episodes.action >= 0)
        ahead[decided] += returns.of(decided, episodes.action[decided])
    return Trusting(estimate.values, annotated, ahead, said)


def _by_actions_taken(problem: Problem, trusting: Trusting) -> Rival | None:
    """T without the bias that annotators show about actions that were taken."""
    taken, episodes = problem.annotations.taken, problem.evidence.logbook.episodes
    if taken is None or len(taken.value) < 2:
        return None
    offset = np.zeros(len(taken.value))
    if taken.annotator is not None:
        known = np.mean([np.append(one.offsets, 0.0) for one in problem.modelled.corrected], axis=0)
        offset = known[taken.annotator]
    episode, n = episodes.episode_of(taken.place), episodes.n_episodes
    off = np.bincount(episode, weights=taken.value - offset - trusting.ahead[taken.place], minlength=n)
    part = np.bincount(episode, weights=1 - trusting.said[taken.place], minlength=n)
    if not part.sum() > 0:
        return None
    bias, share = float(off.sum() / part.sum()), float(trusting.annotated.mean())
    pull = (off - bias * part) / part.mean()
    ones = np.ones(n)
    error = standard_error(pull, ones)
    left = trusting.values - share * pull - bias * trusting.annotated
    value = float(trusting.values.mean()) - bias * share
    if not error > 0 or not math.isfinite(error) or not share > 0:
        return None
    degrees = degrees_of_freedom(left - left.mean())
    return Rival("actions taken", value, standard_error(left, ones), degrees, bias / error, error * share, True)


def _by_logs(problem: Problem, estimate: Estimate) -> Rival | None:
    """dm+-is, where the logs have support and its weights are not carried by a few episodes."""
    if unsupported_mass(problem, behavior_support(problem)).mass > LOGGED:
        return None
    kind = ESTIMATORS["dm+-is"]
    alone = Estimate(problem.name, "dm+-is", episode_values(problem, kind.recipe))
    if alone.per_episode.value_exponent or alone.per_episode.normalizer_exponent:
        return None
    counted = problem.evidence.behavior.origin == "counted"
    lights = [one.light for one in (*judge_weights(alone), judge_average(alone, counted=counted))]
    if worst(lights) == RED:
        return None
    error = standard_error(estimate.values - alone.values, np.ones(len(alone.values)))
    apart = _in_errors(estimate, alone.unshrunk, error)
    if apart is None:
        return None
    degrees = degrees_of_freedom(alone.values - alone.unshrunk)
    # A behavior policy that was fitted may be wrong in its form: then a difference shows no bias.
    shows = problem.evidence.behavior.origin != "fitted"
    return Rival("logs alone", alone.unshrunk, alone.over_episodes, degrees, apart, error, shows)


def _by_model(problem: Problem, estimate: Estimate) -> Rival | None:
    """The MDP counted from all logs, where every pair that the policy comes to was logged."""
    counted = problem.modelled.of_all_logs
    if counted is None or counted.never_logged > LOGGED:
        return None
    by_model, ones = counted.model.std_error_of(counted.starts), np.ones(len(counted.values))
    apart_error = math.hypot(by_model, standard_error(estimate.values - problem.modelled.annotated_critic.start, ones))
    value = float(counted.values.mean())
    apart = _in_errors(estimate, value, apart_error)
    if apart is None:
        return None
    error = math.hypot(by_model, standard_error(counted.values, ones))
    return Rival("model of the logs", value, error, float(len(ones) - 1), apart, apart_error, False)


def _in_errors(estimate: Estimate, other: float, error: float) -> float | None:
    """The difference of an estimate to another in standard errors; None if there is none to measure it by."""
    if not math.isfinite(error):
        return None
    size = abs(estimate.unshrunk) + abs(other)
    difference = estimate.unshrunk - other
    if error <= ROUNDING * size:
        return 0.0 if abs(difference) <= ROUNDING * size else None
    return difference / error
