"""The recursion itself against exact rational arithmetic, with factors that leave float64's range in a few steps."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from semiope.estimate.scan import Scaled, Terms, scan

EXTREME = st.sampled_from([0.0, 2.0**-700, 2.0**-150, 0.3, 1.0, 3.0, 2.0**150, 2.0**700])
ADDITION = st.sampled_from([0.0, 0.0, 2.0**-40, 0.7, 5.0])
# f, then k and the annotation g that makes c = k g, then the reward.
STEP = st.tuples(EXTREME, ADDITION, st.sampled_from([0.0, 2.0**-40, 5.0]), st.sampled_from([0.0, 1.0, -2.0]))


def exact(steps: list[tuple[float, float, float, float]], gamma: float, whole: bool) -> tuple[Fraction, Fraction]:
    v, m = Fraction(0), Fraction(1)
    for f, k, g, r in reversed(steps):
        v = Fraction(f) * ((m if whole else 1) * Fraction(r) + Fraction(gamma) * v) + Fraction(k * g)
        m = Fraction(f) * m + Fraction(k)
    return v, m


def as_fraction(number: Scaled) -> Fraction:
    return Fraction(float(number.mantissa[0])) * Fraction(2) ** int(number.exponent[0])


@given(steps=st.lists(STEP, min_size=1, max_size=12), gamma=st.sampled_from([0.0, 0.5, 1.0]), whole=st.booleans())
@settings(max_examples=1500)
def test_against_exact_arithmetic(steps: list[tuple[float, float, float, float]], gamma: float, whole: bool) -> None:
    f, k, g, reward = (np.array(column) for column in zip(*steps, strict=True))
    values, normalizers = Scaled.empty(1), Scaled.empty(1)
    scan(reward, np.array([0, len(steps)]), gamma, Terms(f, k * g, k), values, normalizers, whole=whole)
    v, m = exact(steps, gamma, whole)
    assert abs(as_fraction(normalizers) - m) <= m * Fraction(1, 10**12)
    # Rewards of opposite sign cancel; what is lost then is small beside the sum of absolute values.
    size, _ = exact([(f, k, g, abs(r)) for f, k, g, r in steps], gamma, whole)
    # With `whole`, v shares the scale of m, and is kept relative to that.
    size += m if whole else 0
    assert abs(as_fraction(values) - v) <= size * Fraction(1, 10**12) + Fraction(1, 2**1070)


@given(st.lists(st.tuples(st.floats(-1, 1), st.integers(-3000, 3000)), min_size=1, max_size=6))
def test_a_common_scale_loses_nothing_that_counts(numbers: list[tuple[float, int]]) -> None:
    mantissa, exponent = (np.array(column) for column in zip(*numbers, strict=True))
    scaled, common = Scaled(mantissa.astype(float), exponent.astype(int)).on_common_scale()
    true = [Fraction(x) * Fraction(2) ** int(e) for x, e in zip(mantissa, exponent, strict=True)]
    largest = max(abs(x) for x in true)
    for x, y in zip(true, scaled, strict=True):
        assert abs(Fraction(float(y)) * Fraction(2) ** common - x) <= largest * Fraction(1, 2**50)
    if not largest or Fraction(1, 2**800) < largest < 2**800:
        assert common == 0
