"""The one compiled backward recursion that all estimators share.

Per episode, from its last step to its first,

    v <- f_t (r_t + gamma v) + c_t          m <- f_t m + k_t          from v = 0, m = 1.

An estimator is its factors f_t and, with annotations, its additions c_t (to the value) and k_t (to the normaliser).
With `whole`, rewards are weighted by the whole episode's ratio instead of the ratio up to their step (IS instead of
PDIS): v <- f_t (m r_t + gamma v) + c_t, with m as it stands before the step.

Products over long episodes leave the range of float64. v and m are therefore kept as mantissa and power of two; the
powers are stripped off per episode and put back on a scale common to all episodes: ratios of sums stay right.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from semiope._arrays import Floats, Integers, frozen
from semiope._compiled import compiled, constant

BIG, SMALL = 2.0**300, 2.0**-300
# Powers of two that leave room for sums over many episodes.
SAFE = 900
ZERO = constant(0)
# Stands for additions that are all 0.
NOTHING = np.empty(0)


class Terms(NamedTuple):
    """What an estimator prepares: per row `f`, and `c` and `k` unless they are 0; per episode, unless they are 1,
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
        """Return x and e such that the numbers are x * 2**e, with e = 0 if the largest fits well into float64."""
        if not self.exponent.any():
            return self.mantissa, 0
        some = self.mantissa != 0
        sizes = np.frexp(self.mantissa[some])[1] + self.exponent[some]
        top = int(sizes.max()) if some.any() else 0
        common = 0 if abs(top) < SAFE else top
        return np.ldexp(self.mantissa, self.exponent - common), common


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
        frozen(reward), offsets, gamma, whole, terms.f, NOTHING if terms.c is None else terms.c,
        NOTHING if terms.k is None else terms.k,
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
    c: Floats,
    k: Floats,
    v_out: Floats,
    v_exponent: Integers,
    m_out: Floats,
    m_exponent: Integers,
) -> None:
    for i in range(len(offsets) - 1):
        start, stop = offsets[i], offsets[i + 1]
        v, m, least = 0.0, 1.0, 1.0
        for t in range(stop - 1, start - 1, -1):
            add_v = c[t] if len(c) else 0.0
            add_m = k[t] if len(k) else 0.0
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
def continue_each(reward: Floats, offsets: Integers, gamma: float, f: Floats, c: Floats, found: Floats) -> None:
    """Fill in r + gamma v of the step after, for each row; what leaves the range of numbers is not kept apart."""
    for i in range(len(offsets) - 1):
        v = 0.0
        for t in range(offsets[i + 1] - 1, offsets[i] - 1, -1):
            found[t] = reward[t] + gamma * v
            v = f[t] * found[t] + c[t]


@compiled
def _scaled(
    reward: Floats,
    start: int,
    stop: int,
    gamma: float,
    whole: bool,
    f: Floats,
    c: Floats,
    k: Floats,
) -> tuple[float, float, int, int]:
    """The same for one episode, with v and m as mantissa and power of two throughout."""
    v, m, ve, me = 0.0, 1.0, ZERO, ZERO
    for t in range(stop - 1, start - 1, -1):
        add_v = c[t] if len(c) else 0.0
        add_m = k[t] if len(k) else 0.0
        if whole:
            # |v| is at most m times a return, so that one power of two serves both.
            v, m = f[t] * (m * reward[t] + gamma * v), f[t] * m
            if add_v != 0.0 or add_m != 0.0:
                common = max(ve, 0) if v != 0.0 or m != 0.0 else 0
                v = math.ldexp(v, ve - common) + math.ldexp(add_v, -common)
                m, ve = math.ldexp(m, ve - common) + math.ldexp(add_m, -common), common
            by = shift_for(max(abs(v), m))
            v, m, ve = math.ldexp(v, -by), math.ldexp(m, -by), ve + by
            me = ve
        else:
            v, ve = add_scaled(f[t] * gamma * v, ve, f[t] * reward[t] + add_v, ZERO)
            by = shift_for(abs(v))
            v, ve = math.ldexp(v, -by), ve + by
            m, me = add_scaled(f[t] * m, me, add_m, ZERO)
            by = shift_for(m)
            m, me = math.ldexp(m, -by), me + by
    return v, m, ve, me


@compiled
def add_scaled(x: float, x_exponent: int, y: float, y_exponent: int) -> tuple[float, int]:
    """Return x * 2**x_exponent + y * 2**y_exponent as mantissa and exponent."""
    if y == 0.0:
        return x, x_exponent
    if x == 0.0:
        return y, y_exponent
    exponent = max(x_exponent, y_exponent)
    return math.ldexp(x, x_exponent - exponent) + math.ldexp(y, y_exponent - exponent), exponent


@compiled
def shift_for(size: float) -> int:
    """Power of two by which a number of this size is to be scaled down: to about 1, once it has left the range."""
    return math.frexp(size)[1] if size >= BIG or 0.0 < size <= SMALL else 0


# What estimators that normalise per step need stands here as well: compiled code that calls the functions above lies in
# one file with them, since a change in another file would not make numba compile it anew.


@compiled
def add_steps(
    f: Floats,
    reward: Floats,
    offsets: Integers,
    ratios: Floats,
    rewards: Floats,
    ended: Floats,
    alive: Floats,
    exponent: Integers,
) -> None:
    """Add a run of episodes to sums per step of ratios so far, ratio-weighted rewards, and last ratios."""
    for i in range(len(offsets) - 1):
        ratio, e = 1.0, 0
        for row in range(offsets[i], offsets[i + 1]):
            t = row - offsets[i]
            alive[t] += 1.0
            ratio *= f[row]
            if ratio == 0.0:
                continue
            by = shift_for(ratio)
            ratio, e = math.ldexp(ratio, -by), e + by
            if ratios[t] == 0.0:
                exponent[t] = e
            elif e > exponent[t]:
                down = int(exponent[t]) - e
                ratios[t], rewards[t] = math.ldexp(ratios[t], down), math.ldexp(rewards[t], down)
                ended[t] = math.ldexp(ended[t], down)
                exponent[t] = e
            share = math.ldexp(ratio, e - int(exponent[t]))
            ratios[t] += share
            rewards[t] += share * reward[row]
            if row == offsets[i + 1] - 1:
                ended[t] += share


@compiled
def sum_residuals(
    f: Floats,
    reward: Floats,
    offsets: Integers,
    discount: Floats,
    mean_reward: Floats,
    mean_ratio: Floats,
    mean_exponent: Integers,
    out: Floats,
) -> None:
    """Sum gamma^t rho_1:t / d_t (r_t - R_t) over each episode; steps at which d_t is 0 bring nothing."""
    for i in range(len(offsets) - 1):
        ratio, e, total = 1.0, 0, 0.0
        for row in range(offsets[i], offsets[i + 1]):
            t = row - offsets[i]
            ratio *= f[row]
            if ratio == 0.0:
                break
            by = shift_for(ratio)
            ratio, e = math.ldexp(ratio, -by), e + by
            weight = math.ldexp(ratio / mean_ratio[t], e - int(mean_exponent[t]))
            total += discount[t] * weight * (reward[row] - mean_reward[t])
        out[i] = total


@compiled
def include_finished(sums: Floats, exponent: Integers, ended: Floats, exponent_ended: Integers) -> None:
    """Add to each step's sum the last ratios of the episodes that ended before it."""
    finished, e = 0.0, ZERO
    for t in range(len(sums)):
        sums[t], exponent[t] = add_scaled(sums[t], exponent[t], finished, e)
        finished, e = add_scaled(finished, e, ended[t], exponent_ended[t])


@compiled
def sum_from_the_end(terms: Floats, exponent: Integers, mantissa_out: Floats, exponent_out: Integers) -> None:
    """Fill in, for each step, the sum of the terms from there to the end."""
    total, e = 0.0, ZERO
    for t in range(len(terms) - 1, -1, -1):
        total, e = add_scaled(total, e, terms[t], exponent[t])
        mantissa_out[t], exponent_out[t] = total, e
