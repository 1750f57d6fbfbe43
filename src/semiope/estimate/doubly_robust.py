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

from semiope._arrays import Floats
from semiope.estimate.problem import Slab
from semiope.estimate.scan import Terms


def nothing(slab: Slab) -> Floats:
    """f = 0: nothing after the first decision is looked at."""
    return np.where(slab.decided, 0.0, 1.0)


def once(slab: Slab, terms: Terms) -> Terms:
    """Let every episode count one: k = 1 at decisions."""
    decided = slab.decided.astype(np.float64)
    return terms._replace(c=np.zeros(len(decided)), k=decided)
