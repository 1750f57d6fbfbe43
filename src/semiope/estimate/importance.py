"""Importance sampling from the logs alone: IS, WIS, PDIS and weighted PDIS.

With rho_t = pi_e(a_t|s_t) / pi_b(a_t|s_t) and rho_1:t the product of the ratios up to step t, an episode is worth

    IS      rho_1:T (r_1 + gamma r_2 + ...)             PDIS    rho_1:1 r_1 + gamma rho_1:2 r_2 + ...

Both are the recursion with f_t = rho_t, with rewards weighted by the whole product or by the product so far. Weighted
(self-normalised) forms divide by sums of ratios instead of by the number of episodes.
"""

from __future__ import annotations

from semiope._arrays import Floats
from semiope.estimate.problem import Slab, behavior


def ratio(slab: Slab) -> Floats:
    """f = rho: the ratio of the action taken, 1 where there was no decision."""
    return slab.ratio_taken(behavior)
