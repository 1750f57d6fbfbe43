"""The one compiled backward recursion that all estimators share.

Per episode, from its last step to its first,

    v <- f_t (r_t + gamma v) + c_t          m <- f_t m + k_t          from v = 0, m = 1.

An estimator is its factors f_t and, with annotations, its additions c_t (to the value) and k_t (to the normaliser).
With `whole`, rewards are weighted by the whole episode's ratio instead of the ratio up to their step (IS instead of
PDIS): v <- f_t (m r_t + gamma v) + c_t, with m as it stands before the step.

Products over long episodes leave the range of float64. v and m are therefore kept as mantissa and power of two; the
powers are stripped off per episode and put back on a scale common to all episodes, so that ratios of sums stay right.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from semiope._arrays import Floats, Integers
from semiope._compiled import compiled

BIG, SMALL, SHIFT = 2.0**300, 2.0**-300, 300


class Terms(NamedTuple):
    """What an estimator prepares: per row `f`, and `c` and `k` if it uses annotations; per episode, if not one,
    `weight` (multiplies v and m) and `samples` (how many the episode stands for). `k_squared` is given if an episode
    stands for several samples, so that the squares of their ratios can be summed for the effective sample size.
    """

    f: Floats
    c: Floats | None = None
    k: Floats | None = None
    weight: Floats | None = None
    samples: Floats | None = None
    k_squared: Floats | None = None


class Scaled(NamedTuple):
    """Numbers mantissa * 2**exponent."""

    mantissa: Floats
    exponent: Integers

    @classmethod
    def empty(cls, n: int) -> Scaled:
        """Return room for n numbers."""
        return cls(np.empty(n), np.empty(n, dtype=np.int64))

    def part(self, first: int, last: int) -> Scaled:
        """Return a view of the numbers from first to last."""
        return Scaled(self.mantissa[first:last], self.exponent[first:last])

    def on_common_scale(self) -> tuple[Floats, int]:
        """Return x and e such that the numbers are x * 2**e, with e = 0 whenever float64 can hold them all."""
        if not self.exponent.any():
            return self.mantissa, 0
        some = self.mantissa != 0
        highest = int(self.exponent[some].max()) if some.any() else 0
        return np.ldexp(self.mantissa, self.exponent - highest), highest


def scan(
    reward: Floats,
    offsets: Integers,
    gamma: float,
    terms: Terms,
    values: Scaled,
    normalizers: Scaled,
    *,
    whole: bool = False,
) -> None:
    """Run the recursion over the episodes between `offsets`, into `values` and `normalizers`."""
    _scan(
        reward, offsets, gamma, whole, terms.f, terms.c, terms.k,
        values.mantissa, values.exponent, normalizers.mantissa, normalizers.exponent,
    )  # fmt: skip
    if terms.weight is not None:
        values.mantissa[:] *= terms.weight
        normalizers.mantissa[:] *= terms.weight


@compiled
def _scan(
    reward: Floats,
    offsets: Integers,
    gamma: float,
    whole: bool,
    f: Floats,
    c: Floats | None,
    k: Floats | None,
    v_out: Floats,
    v_exponent: Integers,
    m_out: Floats,
    m_exponent: Integers,
) -> None:
    for i in range(len(offsets) - 1):
        start, stop = offsets[i], offsets[i + 1]
        v, m, least = 0.0, 1.0, 1.0
        for t in range(stop - 1, start - 1, -1):
            add_v = 0.0 if c is None else c[t]
            add_m = 0.0 if k is None else k[t]
            # Multiplied out, so that each step waits for one multiplication and one addition of the step before.
            own = f[t] * (m * reward[t]) if whole else f[t] * reward[t]
            v = (own + add_v) + (f[t] * gamma) * v
            m = f[t] * m + add_m
            least = min(least, m if m > 0.0 else least)
        v_exponent[i], m_exponent[i] = 0, 0
        # What overflowed on the way is not finite at the end; what vanished passed through small numbers.
        if not (abs(v) < BIG and m < BIG and least > SMALL):
            v, m, v_exponent[i], m_exponent[i] = _scaled(reward, start, stop, gamma, whole, f, c, k)
        v_out[i], m_out[i] = v, m


@compiled
def _scaled(
    reward: Floats,
    start: int,
    stop: int,
    gamma: float,
    whole: bool,
    f: Floats,
    c: Floats | None,
    k: Floats | None,
) -> tuple[float, float, int, int]:
    """The same for one episode, with v and m as mantissa and power of two throughout."""
    v, m, ve, me = 0.0, 1.0, 0, 0
    for t in range(stop - 1, start - 1, -1):
        add_v = 0.0 if c is None else c[t]
        add_m = 0.0 if k is None else k[t]
        if whole:
            # |v| is at most m times a return, so that one power of two serves both.
            v, m = f[t] * (m * reward[t] + gamma * v), f[t] * m
            if (add_v != 0.0 or add_m != 0.0) and ve < 0:
                v, m, ve = math.ldexp(v, ve), math.ldexp(m, ve), 0
            v, m = v + math.ldexp(add_v, -ve), m + math.ldexp(add_m, -ve)
            by = _shift(max(abs(v), m))
            v, m, ve = math.ldexp(v, -by), math.ldexp(m, -by), (ve + by if v != 0.0 or m != 0.0 else 0)
            me = ve
        else:
            v, ve = _plus(f[t] * gamma * v, ve, f[t] * reward[t] + add_v)
            by = _shift(abs(v))
            v, ve = math.ldexp(v, -by), (ve + by if v != 0.0 else 0)
            m, me = _plus(f[t] * m, me, add_m)
            by = _shift(m)
            m, me = math.ldexp(m, -by), (me + by if m != 0.0 else 0)
    return v, m, ve, me


@compiled
def _plus(x: float, exponent: int, add: float) -> tuple[float, int]:
    """Return x * 2**exponent + add as mantissa and exponent; a vanishing x returns to the scale of `add`."""
    if add == 0.0:
        return x, exponent
    if exponent < 0:
        x, exponent = math.ldexp(x, exponent), 0
    return x + math.ldexp(add, -exponent), exponent


@compiled
def _shift(size: float) -> int:
    """Power of two by which a number of this size is to be scaled down."""
    if size >= BIG:
        return SHIFT
    if 0.0 < size <= SMALL:
        return -SHIFT
    return 0
