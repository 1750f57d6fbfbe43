"""Weights by estimated variances for one policy: what they rest on, and the problem seen with them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from semiope._arrays import Floats
from semiope.estimate.counterfactual import split_factor, split_shares
from semiope.estimate.critic import Critic
from semiope.estimate.problem import Problem
from semiope.estimate.registry import Estimator
from semiope.estimate.scan import continue_each
from semiope.weights.estimated import Known, estimated_weights


@dataclass(frozen=True, eq=False)
class Weighed:
    """A problem with the kind of weights that was asked for; None: those it has."""

    problem: Problem
    kind: str | None

    def seen_by(self, estimator: Estimator) -> Problem:
        """The problem as this estimator is to see it: only those that split weights are concerned."""
        if not estimator.completes and self.problem.without_predictions is not self.problem:
            return self._without_predictions.seen_by(estimator)
        if self.kind is None or estimator.support != "augmented":
            return self.problem
        return self._centred if estimator.recipe.critic else self._plain

    @cached_property
    def _without_predictions(self) -> Weighed:
        return Weighed(self.problem.without_predictions, self.kind)

    @cached_property
    def _plain(self) -> Problem:
        assert self.kind is not None
        return reweighed(self.problem, self.kind)

    @cached_property
    def _centred(self) -> Problem:
        assert self.kind is not None
        return reweighed(self.problem, self.kind, centred=True)


def reweighed(problem: Problem, kind: str, *, centred: bool = False) -> Problem:
    """The problem with weights of this kind instead of those it has; `centred`: for estimators that have a critic."""
    evidence = problem.evidence
    if not len(problem.annotations.row):
        return problem
    critic = problem.modelled.annotated_critic if centred else problem.no_critic
    returns, study = problem.modelled.annotated_returns, problem.modelled.study
    outcome = _continued(problem, critic)
    if centred:
        action = evidence.logbook.episodes.action
        outcome = outcome + np.where(action >= 0, returns.of(np.arange(len(action)), action), 0.0)
    known = Known(returns.at(np.arange(len(outcome))), study.probs, outcome, study.fold_of_row)
    split = estimated_weights(kind, evidence.logbook, evidence.cells, evidence.behavior.probs, known, centred=centred)
    return replace(problem, evidence=replace(evidence, split_weights=split, _derived={}), _ratios={})


# Beyond this, products of ratios have left all proportion, and squares the range of numbers.
LARGEST = 1e150


def _continued(problem: Problem, critic: Critic) -> Floats:
    """r + gamma v after each action taken, v by c-pdis with the weights that the problem has."""
    found = np.empty(problem.evidence.logbook.episodes.n_steps)
    for slab in problem.slabs(critic):
        c, _ = slab.additions(split_shares(slab))
        continue_each(slab.reward, slab.offsets, problem.gamma, split_factor(slab), c, found[slab.rows])
    return np.clip(np.nan_to_num(found), -LARGEST, LARGEST)
