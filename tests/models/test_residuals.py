"""Residuals taken apart: prediction against plain Gaussian conditioning, variances against simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semiope.models.places import Places
from semiope.models.residuals import Components, components, means, predict

T, S, A = 3, 2, 2


def random_answers(seed: int, n: int) -> tuple[Places, np.ndarray]:
    rng = np.random.default_rng(seed)
    return Places(rng.integers(T, size=n), rng.integers(S, size=n), rng.integers(A, size=n)), rng.normal(size=n)


@given(st.integers(0, 2**32 - 1), st.integers(2, 25))
@settings(max_examples=50)
def test_prediction_is_the_conditional_mean(seed: int, n: int) -> None:
    """All of it as one Gaussian vector, conditioned by solving with the whole covariance matrix."""
    places, residual = random_answers(seed, n)
    known = np.array([[True, False], [True, True]])
    found, parts = predict(places, residual, known, T)
    flags = known[places.state, places.action]
    pair = places.state * A + places.action
    mean = dict(zip((False, True), means(residual, flags, pair), strict=True))
    same_pair = pair[:, None] == pair
    same_step = same_pair & (places.step[:, None] == places.step)
    floor = max(parts.noise, 1e-11)
    covariance = parts.pair * same_pair + parts.step * same_step + floor * np.eye(n)
    solved = np.linalg.solve(covariance, residual - np.array([mean[bool(flag)] for flag in flags]))
    for t, s, a in np.ndindex(T, S, A):
        here = pair == s * A + a
        cross = parts.pair * here + parts.step * (here & (places.step == t))
        assert found[t, s, a] == pytest.approx(mean[bool(known[s, a])] + cross @ solved, abs=1e-4)


def simulated(seed: int, parts: Components) -> Components:
    rng = np.random.default_rng(seed)
    n_pairs, n_steps, n = 400, 6, 20_000
    pair, step = rng.integers(n_pairs, size=n), rng.integers(n_steps, size=n)
    mu = rng.normal(scale=parts.pair**0.5, size=n_pairs)
    delta = rng.normal(scale=parts.step**0.5, size=(n_steps, n_pairs))
    residual = mu[pair] + delta[step, pair] + rng.normal(scale=parts.noise**0.5, size=n)
    groups, of_answer, times = np.unique(step * n_pairs + pair, return_inverse=True, return_counts=True)
    means = np.bincount(of_answer, weights=residual) / times
    return components(residual, of_answer, means, times.astype(float), groups % n_pairs)


@pytest.mark.parametrize("parts", [Components(0.5, 0.2, 1.0), Components(0.0, 0.3, 0.1), Components(1.0, 0.0, 0.0)])
def test_variances_are_found(parts: Components) -> None:
    """400 pairs: a variance between them is known to 7%, the others better; three times that is allowed."""
    found = simulated(1, parts)
    assert found.noise == pytest.approx(parts.noise, rel=0.05, abs=1e-9)
    assert found.step == pytest.approx(parts.step, rel=0.2, abs=0.01)
    assert found.pair == pytest.approx(parts.pair, rel=0.25, abs=0.01)


def test_without_repeated_questions_scatter_is_noise() -> None:
    """300 answers to as many questions of 50 pairs, all noise: the predictions stay close to the model."""
    rng = np.random.default_rng(5)
    step, pair = np.divmod(np.arange(300), 50)
    places = Places(step, pair // 2, pair % 2)
    found, parts = predict(places, rng.normal(size=300), np.ones((25, 2), dtype=bool), 6)
    assert parts.step == 0.0
    assert parts.noise == pytest.approx(1.0, rel=0.3)
    assert float(np.sqrt(np.mean(places.read(found) ** 2))) < 0.4


def test_answers_without_noise_are_believed() -> None:
    """Each question asked twice with the same answer: prediction repeats it."""
    places, residual = random_answers(3, 8)
    unique = np.unique(np.ravel_multi_index(places, (T, S, A)), return_index=True)[1]
    places, residual = Places(*(column[unique] for column in places)), residual[unique]
    twice = Places(*(np.tile(column, 2) for column in places))
    found, parts = predict(twice, np.tile(residual, 2), np.ones((S, A), dtype=bool), T)
    assert parts.noise == pytest.approx(0.0, abs=1e-20)
    assert parts.step > 0
    assert places.read(found) == pytest.approx(residual, abs=1e-6)


def test_means_are_shrunk_by_what_is_uncertain_in_them() -> None:
    """By hand: two pairs with two answers each. Their means 1 and 3 have mean 2 and a squared error of 1."""
    flags = np.ones(4, dtype=bool)
    found = means(np.array([0.5, 1.5, 3.0, 3.0]), flags, np.array([0, 0, 1, 1]))
    assert found.tolist() == [0.0, pytest.approx(2 * (1 - 1 / 4))]
    many = means(np.full(100, 2.0), np.zeros(100, dtype=bool), np.arange(100))
    assert many.tolist() == [2.0, 0.0]
    assert means(np.array([1.0, -1.0]), flags[:2], np.array([0, 1])).tolist() == [0.0, 0.0]


def test_one_answer_moves_its_own_pair_alone() -> None:
    found, parts = predict(Places(*np.zeros((3, 1), dtype=int)), np.array([2.0]), np.ones((S, A), dtype=bool), T)
    assert parts == Components(4.0, 0.0, 0.0)
    expected = np.zeros((T, S, A))
    expected[:, 0, 0] = 2.0
    assert found == pytest.approx(expected)
