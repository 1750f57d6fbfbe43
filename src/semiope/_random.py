"""Randomness: seeds, and numbers that depend only on a seed and on what they are for.

Simulations do not carry a generator along. Each number is Philox4x32-10 (Salmon et al., 2011) of a key made from the
seed and of a counter that says what the number is for: (episode, step, purpose). So data do not depend on the order in
which, or in how many parts, they are drawn.
"""

from __future__ import annotations

import math
from numbers import Integral

import numpy as np

from semiope._arrays import Floats, Integers
from semiope._compiled import compiled
from semiope.errors import OptionError

Seed = int | np.random.Generator
EPISODES, ANNOTATIONS, BOOTSTRAP, PLANS = 0, 1, 2, 3

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_ROUNDS = 10


def generator(seed: Seed) -> np.random.Generator:
    """Return the random generator for a seed; fail for one that is negative."""
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng(_checked(seed))


def key_of(seed: Seed, stream: int) -> np.uint64:
    """Return the key of all counter-based draws made with a seed, for one use of it.

    Uses are numbered, so that episodes and annotations drawn with the same seed have nothing in common.
    """
    if isinstance(seed, np.random.Generator):
        return seed.integers(2**64, dtype=np.uint64)
    return np.uint64(np.random.SeedSequence(_checked(seed), spawn_key=(stream,)).generate_state(1, np.uint64)[0])


def _checked(seed: object) -> int:
    if not isinstance(seed, Integral) or isinstance(seed, bool) or seed < 0:
        raise OptionError(f"seed: {seed!r} is not one of 0, 1, 2 ...")
    return int(seed)


@compiled
def philox(
    key: np.uint64, c0: np.uint64, c1: np.uint64, c2: np.uint64, c3: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Philox4x32-10: four 32-bit words from a 64-bit key and a counter of four 32-bit words."""
    k0, k1 = key & _LOW, key >> _HALF
    for _ in range(_ROUNDS):
        p0, p1 = _MULTIPLIERS[0] * c0, _MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (p1 >> _HALF) ^ c1 ^ k0, p1 & _LOW, (p0 >> _HALF) ^ c3 ^ k1, p0 & _LOW
        k0, k1 = (k0 + _WEYL[0]) & _LOW, (k1 + _WEYL[1]) & _LOW
    return c0, c1, c2, c3


@compiled
def uniforms(key: np.uint64, episode: int, step: int, purpose: int) -> tuple[float, float]:
    """Two numbers in [0, 1) with 53 bits each."""
    e = np.uint64(episode)
    w0, w1, w2, w3 = philox(key, e & _LOW, e >> _HALF, np.uint64(step) & _LOW, np.uint64(purpose) & _LOW)
    first = (w0 >> np.uint64(5)) * 67108864.0 + (w1 >> np.uint64(6))
    second = (w2 >> np.uint64(5)) * 67108864.0 + (w3 >> np.uint64(6))
    return first / 9007199254740992.0, second / 9007199254740992.0


@compiled
def normal(key: np.uint64, episode: int, step: int, purpose: int) -> float:
    """A standard normal number (Box and Muller)."""
    first, second = uniforms(key, episode, step, purpose)
    return math.sqrt(-2.0 * math.log(1.0 - first)) * math.cos(2.0 * math.pi * second)


@compiled
def fill(
    key: np.uint64, episode: Integers, step: Integers, purpose: Integers, uniform: Floats, gaussian: Floats
) -> None:
    """One uniform and one independent standard normal number for each (episode, step, purpose)."""
    for i in range(len(episode)):
        uniform[i] = uniforms(key, episode[i], step[i], 2 * purpose[i])[0]
        gaussian[i] = normal(key, episode[i], step[i], 2 * purpose[i] + 1)
