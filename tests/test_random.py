"""Counter-based random numbers: the published algorithm, and numbers that depend on nothing but what they are for."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import semiope as so
from semiope._random import ANNOTATIONS, EPISODES, fill, generator, key_of, philox


# Known answers of Philox4x32-10 published with it (Random123, kat_vectors): counter, key, result.
@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_gives_the_published_answers(
    counter: tuple[int, ...], key: tuple[int, int], expected: tuple[int, ...]
) -> None:
    whole = np.uint64(key[0] | key[1] << 32)
    assert tuple(int(word) for word in philox(whole, *(np.uint64(c) for c in counter))) == expected


def draws(seed: int, episode: range, step: int = 0, purpose: int = 0) -> tuple[np.ndarray, np.ndarray]:
    numbers = np.array(episode)
    uniform, gaussian = np.empty((2, len(numbers)))
    fill(
        key_of(seed, EPISODES), numbers, np.full_like(numbers, step), np.full_like(numbers, purpose), uniform, gaussian
    )
    return uniform, gaussian


def test_numbers_have_their_distributions() -> None:
    """Kolmogorov-Smirnov and a correlation, error probability 1e-4 each."""
    uniform, gaussian = draws(5, range(100_000))
    assert uniform.min() >= 0
    assert uniform.max() < 1
    assert stats.kstest(uniform, "uniform").pvalue > 1e-4
    assert stats.kstest(gaussian, "norm").pvalue > 1e-4
    assert stats.pearsonr(uniform, gaussian).pvalue > 1e-4
    assert stats.pearsonr(uniform, np.abs(gaussian)).pvalue > 1e-4
    assert stats.pearsonr(uniform[1:], uniform[:-1]).pvalue > 1e-4


def test_numbers_depend_on_what_they_are_for_alone() -> None:
    whole, part = draws(5, range(100)), draws(5, range(40, 60))
    assert np.array_equal(whole[0][40:60], part[0])
    assert np.array_equal(whole[1][40:60], part[1])
    others = [draws(6, range(100)), draws(5, range(100), step=1), draws(5, range(100), purpose=1)]
    others.append(draws(5, range(2**32, 2**32 + 100)))
    for other in others:
        assert not np.isin(other[0], whole[0]).any()


def test_seeds() -> None:
    assert key_of(3, EPISODES) == key_of(3, EPISODES)
    assert len({int(key_of(seed, stream)) for seed in (3, 4, 3 + 2**32) for stream in (EPISODES, ANNOTATIONS)}) == 6
    assert key_of(np.random.default_rng(3), EPISODES) == key_of(np.random.default_rng(3), EPISODES)
    rng = np.random.default_rng(0)
    assert generator(rng) is rng
    for wrong in (-1, 1.5, "7", None, True):
        with pytest.raises(so.OptionError, match="seed"):
            key_of(wrong, EPISODES)  # type: ignore[arg-type]
