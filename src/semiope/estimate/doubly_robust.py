"""Direct and doubly robust estimators: a model of returns, alone or corrected by importance sampling.

    dm        the mean of V-hat over first states               dm+       the same with annotations in the model
    dr, wdr   pdis, pdwis-step with the model as critic         dm+-is    dr with annotations in the model
    dm+-wis   wdr with annotations in the model
    dm-is+    c-pdis with the model as critic                   dm+-is+   c-pdis with annotations in both

`critic.py` shapes rewards and annotations so that the estimators' own recursions serve. Models are cross-fitted: that
of an episode never saw it, so that dr and dm-is+ stay unbiased whatever the model says, and so does dm+-is for
annotations that are wrong.
"""

from __future__ import annotations

import numpy as np

from semiope.estimate.critic import Critic
from semiope.estimate.problem import Problem, Slab
from semiope.estimate.scan import Terms


def nothing(slab: Slab) -> Terms:
    """f = 0: nothing after the first decision is looked at; every episode counts one."""
    decided = slab.decided.astype(np.float64)
    return Terms(1 - decided, np.zeros(len(decided)), decided)


def plain(problem: Problem) -> Critic:
    """The model of the logs alone."""
    return problem.modelled.critic


def annotated(problem: Problem) -> Critic:
    """The model corrected by annotations."""
    return problem.modelled.annotated_critic
