"""Residuals taken apart: against plain Gaussian vectors with the whole covariance matrix, and against simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

import semiope as so
from semiope._arrays import Floats
from semiope.models.places import Places
from semiope.planning.case import Case, Records
from semiope.planning.level import together
from semiope.planning.residuals import (
    CENTRE,
    LEAN,
    PART,
    Components,
    Prior,
    Summary,
    _misfit,
    _summed,
    expected,
    fitted,
    predict,
)  # fmt: skip

T, S, A = 3, 2, 2
COUNTS = np.array([[5.0, 0.0], [1.0, 0.0]])
EPISODES = 40


def random_answers(seed: int, n: int) -> tuple[Places, Floats]:
    rng = np.random.default_rng(seed)
    return Places(rng.integers(T, size=n), rng.integers(S, size=n), rng.integers(A, size=n)), rng.normal(size=n)


def everywhere(horizon: int = T, counts: Floats = COUNTS) -> Places:
    step, state, action = np.indices((horizon, *counts.shape)).reshape(3, -1)
    return Places(step, state, action)


def shared_variance(one: Places, other: Places, parts: Components) -> Floats:
    """Covariances of m + mu + delta between places, entry by entry as the model is written down."""
    found = np.zeros((len(one.step), len(other.step)))
    for i, (t, s, a) in enumerate(zip(*one, strict=True)):
        for j, (u, r, b) in enumerate(zip(*other, strict=True)):
            n = COUNTS[s, a]
            if (n > 0) == (COUNTS[r, b] > 0):
                found[i, j] += PART * parts.logged / EPISODES if n > 0 else parts.unlogged
            if (s, a) == (r, b):
                found[i, j] += parts.logged / n if n > 0 else parts.unlogged
                found[i, j] += parts.step if t == u else 0.0
    return found


def summary(places: Places, residual: Floats) -> Summary:
    """The answers as the misfit takes them, numbered by `numpy.unique`."""
    pair = places.state * A + places.action
    groups, of_answer = np.unique(places.step * S * A + pair, return_inverse=True)
    pairs, of_group = np.unique(groups % (S * A), return_inverse=True)
    return _summed(residual, of_answer, of_group, COUNTS.ravel()[pairs])


@given(st.integers(0, 2**32 - 1), st.integers(1, 25), st.floats(-2, 2))
@settings(max_examples=50, deadline=None)
def test_prediction_is_the_conditional_mean(seed: int, n: int, log_scatter: float) -> None:
    """All of it as one Gaussian vector, conditioned by solving with the whole covariance matrix."""
    places, residual = random_answers(seed, n)
    found, parts = predict(places, residual, COUNTS, T, Prior(10**log_scatter, EPISODES))
    covariance = shared_variance(places, places, parts) + parts.noise * np.eye(n)
    cross = shared_variance(everywhere(), places, parts)
    plain = cross @ np.linalg.solve(covariance, residual)
    assert found.ravel() == pytest.approx(plain, abs=1e-7 * np.linalg.cond(covariance) ** 0.5)


logs_of_variances = st.lists(st.floats(-4, 2), min_size=4, max_size=4).map(np.array)


@given(st.integers(0, 2**32 - 1), st.integers(1, 25), logs_of_variances, logs_of_variances)
@settings(max_examples=50, deadline=None)
def test_the_misfit_is_minus_the_log_density(seed: int, n: int, logs: Floats, others: Floats) -> None:
    """Between any two sets of variances it differs as the density of the answers and the prior do."""
    places, residual = random_answers(seed, n)
    centre = CENTRE + 0.3

    def plainly(logs: Floats) -> float:
        parts = Components(*np.exp(logs))
        covariance = shared_variance(places, places, parts) + parts.noise * np.eye(n)
        density = multivariate_normal.logpdf(residual, np.zeros(n), covariance)
        prior = -0.5 * LEAN @ (logs + np.exp(centre) / np.exp(logs))
        return -float(density + prior)

    given, elsewhere = (_misfit(x, summary(places, residual), centre, LEAN, EPISODES)[0] for x in (logs, others))
    assert given - elsewhere == pytest.approx(plainly(logs) - plainly(others), rel=1e-8, abs=1e-6)


@given(st.integers(0, 2**32 - 1), st.integers(1, 25), logs_of_variances)
@settings(max_examples=50, deadline=None)
def test_the_gradient_by_differences(seed: int, n: int, logs: Floats) -> None:
    answers = summary(*random_answers(seed, n))
    _, gradient = _misfit(logs, answers, CENTRE, LEAN, EPISODES)
    h = 1e-5
    for k, shift in enumerate(h * np.eye(4)):
        up, down = (_misfit(logs + sign * shift, answers, CENTRE, LEAN, EPISODES)[0] for sign in (1, -1))
        assert gradient[k] == pytest.approx((up - down) / (2 * h), rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("n", [1, 4, 25, 200])
def test_the_variances_found_are_the_best(n: int) -> None:
    """No step of a twentieth, in any direction, improves the misfit."""
    answers = summary(*random_answers(n, n))
    found = np.log(fitted(answers, Prior(1.0, EPISODES)))
    least, _ = _misfit(found, answers, CENTRE, LEAN, EPISODES)
    around = np.random.default_rng(0).normal(size=(200, 4))
    for shift in 0.05 * around / np.linalg.norm(around, axis=1, keepdims=True):
        assert _misfit(found + shift, answers, CENTRE, LEAN, EPISODES)[0] > least


def simulated(seed: int, parts: Components, n: int = 20_000) -> tuple[Places, Floats, Floats, Floats]:
    """Answers about 800 pairs, half of them logged, at six steps; also what they scatter around, and counts."""
    rng = np.random.default_rng(seed)
    counts = np.where(np.arange(800) % 2, rng.geometric(0.3, size=800), 0).reshape(400, 2).astype(float)
    places = Places(rng.integers(6, size=n), rng.integers(400, size=n), rng.integers(2, size=n))
    variance = np.where(counts > 0, parts.logged / np.maximum(counts, 1), parts.unlogged)
    mu = rng.normal(size=counts.shape) * np.sqrt(variance)
    level = np.where(counts > 0, 0.1, -1.0)
    truth = level + mu + rng.normal(scale=parts.step**0.5, size=(6, *counts.shape))
    return places, places.read(truth) + rng.normal(scale=parts.noise**0.5, size=n), truth, counts


@pytest.mark.parametrize(
    "parts",
    [Components(1.0, 0.5, 0.2, 1.0), Components(0.2, 2.0, 0.05, 0.1), Components(1.0, 1.0, 0.5, 1e-4)],
)
def test_variances_are_found(parts: Components) -> None:
    """400 pairs each: their variances are known to 7%, the others to 3%; three times that is allowed.

    What the logs say of pairs that were logged, 1, counts as 40 more.
    """
    places, residual, truth, counts = simulated(1, parts)
    found, variances = predict(places, residual, counts, 6, Prior(1.0, 1000))
    assert variances.logged == pytest.approx((400 * parts.logged + 40) / 440, rel=0.21)
    assert variances.unlogged == pytest.approx(parts.unlogged, rel=0.21)
    assert variances.step == pytest.approx(parts.step, rel=0.1)
    assert variances.noise == pytest.approx(parts.noise, rel=0.05)
    # The prediction is better than the answers are, and than what the model says without them.
    off = np.sqrt(np.mean((places.read(found) - places.read(truth)) ** 2))
    assert off < 0.9 * np.sqrt(np.mean((residual - places.read(truth)) ** 2))
    assert off < 0.9 * np.sqrt(np.mean(residual**2))


def test_pure_noise_leaves_the_model_nearly_as_it_is() -> None:
    """1200 answers with noise 1 about 50 pairs, and nothing behind it. Means of pairs scatter by 0.2: predictions by
    less than half of that where pairs were logged, and by less than three quarters where they never were.
    """
    rng = np.random.default_rng(5)
    step, pair = np.divmod(np.arange(1200) % 300, 50)
    places = Places(step, pair // 2, pair % 2)
    counts = np.where(np.arange(50) % 2, 4.0, 0.0).reshape(25, 2)
    found, parts = predict(places, rng.normal(size=1200), counts, 6, Prior(0.3, 500))
    assert parts.noise == pytest.approx(1.0, rel=0.15)
    assert float(np.sqrt(np.mean(found[:, counts > 0] ** 2))) < 0.1
    assert float(np.sqrt(np.mean(found[:, counts == 0] ** 2))) < 0.15


def test_answers_without_noise_are_repeated() -> None:
    """Each of 40 questions asked twice with the same answer: predictions repeat it, as they do not if they differ."""
    rng = np.random.default_rng(3)
    counts = np.where(np.arange(20) % 2, 3.0, 0.0).reshape(10, 2)
    asked = everywhere(2, counts)
    residual, twice = rng.normal(size=40), Places(*(np.tile(column, 2) for column in asked))
    found, parts = predict(twice, np.tile(residual, 2), counts, 2, Prior(1.0, 100))
    assert asked.read(found) == pytest.approx(residual, abs=1e-8)
    assert parts.noise < 1e-10
    differing, _ = predict(twice, np.concatenate([residual, -residual]), counts, 2, Prior(1.0, 100))
    assert np.abs(asked.read(differing)).max() < 0.1
    few = twice.part(np.flatnonzero(np.arange(80) % 40 < 3))
    nearly, _ = predict(few, np.tile(residual[:3], 2), counts, 2, Prior(1.0, 100))
    assert few.part(np.arange(3)).read(nearly) == pytest.approx(residual[:3], abs=0.05)


def test_the_oftener_logged_the_less_it_is_moved() -> None:
    """All answers are the same: pairs move less the better the logs know them, those never logged most."""
    counts = np.array([[1.0, 3.0], [30.0, 1000.0], [0.0, 0.0]])
    asked = everywhere(1, counts)
    rng = np.random.default_rng(1)
    residual = np.repeat(1.0, 12) + np.tile([-1.0, 1.0], 6) + 0.01 * rng.normal(size=12)
    twice = Places(*(np.repeat(column, 2) for column in asked))
    found, _ = predict(twice, residual, counts, 1, Prior(1.0, 10_000))
    once, thrice, often, always, never, _ = found.ravel()
    assert never > once > thrice > often > always > 0
    assert never > 0.5
    assert always < 0.02


def test_pairs_that_nobody_was_asked_about_move_with_their_like() -> None:
    """What is said of pairs never logged moves the others of them, and no pair that was logged."""
    counts = np.array([[0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [5.0, 5.0]])
    asked = Places(np.zeros(5, dtype=int), np.array([0, 0, 1, 1, 2]), np.array([0, 1, 0, 1, 0]))
    found, _ = predict(asked, np.array([-1.0, -0.9, -1.1, -1.0, -1.05]), counts, 2, Prior(1.0, 100))
    assert found[:, 2, 1] == pytest.approx(-0.85, abs=0.15)
    assert found[:, 3].tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_the_level_where_the_logs_know_better_stays() -> None:
    """All answers are too high by 1: with few episodes the level of logged pairs follows, with many it stays."""
    counts = np.full((50, 2), 400.0)
    asked = everywhere(1, counts)
    residual = 1.0 + np.random.default_rng(2).normal(size=100)
    few, many = (predict(asked, residual, counts, 1, Prior(0.5, n))[0].mean() for n in (4, 100_000))
    assert few > 0.6
    assert many < 0.2


@pytest.mark.parametrize("scale", [2.0**332, -(2.0**332), 2.0**-332, 2.0**498, 2.0**-498, -1.0])
def test_units(scale: float) -> None:
    """Powers of two, from 1e-150 to 1e150, change no digit."""
    places, residual, _, counts = simulated(2, Components(1.0, 0.5, 0.2, 1.0), n=500)
    found, parts = predict(places, residual, counts, 6, Prior(0.7, 100))
    scaled, in_units = predict(places, scale * residual, counts, 6, Prior(0.7 * abs(scale), 100))
    assert np.abs(found).max() > 0.5
    assert np.array_equal(scaled, scale * found)
    assert [variance / scale / scale for variance in in_units] == list(parts)


@pytest.mark.parametrize("scale", [1.0, 1e100, 1e-100, 0.3])
def test_the_order_of_answers_and_rounding_do_not_matter(scale: float) -> None:
    """The search for variances ends somewhere close to the best ones: what comes out is the same to ten digits."""
    places, residual, _, counts = simulated(2, Components(1.0, 0.5, 0.2, 1.0), n=500)
    found, _ = predict(places, residual, counts, 6, Prior(0.7, 100))
    order = np.random.default_rng(1).permutation(500)
    other, _ = predict(places.part(order), scale * residual[order], counts, 6, Prior(0.7 * scale, 100))
    assert other / scale == pytest.approx(found, rel=1e-10, abs=1e-11)


def test_what_is_expected_without_answers() -> None:
    """Answers that say nothing new: the variances stay of the size that the logs say."""
    parts = expected(Prior(2.0, 10))
    assert parts == pytest.approx((4.0, 4.0, 0.008, 0.02))
    assert expected(Prior(0.0, 10)) == (0.0, 0.0, 0.0, 0.0)


EXTREMES = {
    "one of all": (np.array([1.0, 1e150, -1.0, 0.5]), 1.0),
    "all": (np.array([2e150, 1e150, -1e150, 0.0]), 1.0),
    "the largest there are": (np.array([1e308, -1e308, 1e307, 0.0]), 1e307),
    "logs that are exact": (np.array([1.0, -1.0, 0.5, 2.0]), 0.0),
    "logs and answers that are exact": (np.zeros(4), 0.0),
    "answers that agree with the logs": (np.zeros(4), 1.0),
    "answers that contradict each other": (np.array([1.0, -1.0, 1.0, -1.0]), 0.0),
    "all the same": (np.full(4, 0.7), 1.0),
    "all the same, exact logs": (np.full(4, 0.7), 0.0),
    "tiny": (np.array([1e-150, 2e-150, -1e-150, 0.0]), 1e-150),
    "tiny beside the logs": (np.array([1e-200, 2e-200, -1e-200, 0.0]), 1.0),
    "subnormal": (np.array([1e-310, 2e-310, 0.0, 0.0]), 1e-310),
    "logs beyond all measure": (np.array([1.0, 2.0, 3.0, 4.0]), 1e300),
}


@pytest.mark.parametrize("case", EXTREMES)
@pytest.mark.parametrize("n", [1, 4])
@pytest.mark.parametrize("same", [False, True])
def test_extremes_stay_numbers_without_warnings(case: str, n: int, same: bool) -> None:
    """Answers to one question or to several; predictions are finite and not beyond the largest answer."""
    residual, scatter = EXTREMES[case]
    places = Places(np.zeros(n, dtype=int), np.arange(n) % S * (not same), np.arange(n) // S * (not same))
    with np.errstate(all="raise", under="ignore"):
        found, _ = predict(places, residual[:n], COUNTS, T, Prior(scatter, EPISODES))
    assert np.isfinite(found).all()
    assert np.abs(found).max() <= (1 + 1e-9) * np.abs(residual[:n]).max()


def test_answers_beside_exact_logs_are_believed_only_where_the_logs_say_nothing() -> None:
    """Returns without any scatter; ten pairs with a noisy answer at each of six steps, half of them never logged."""
    rng = np.random.default_rng(4)
    counts = np.where(np.arange(10) % 2, 5.0, 0.0).reshape(5, 2)
    truth = np.where(counts > 0, 0.0, rng.normal(size=counts.shape))
    asked = everywhere(6, counts)
    residual = truth[asked.state, asked.action] + 0.3 * rng.normal(size=60)
    found, parts = predict(asked, residual, counts, 6, Prior(0.0, 50))
    assert parts.noise == pytest.approx(0.09, rel=0.5)
    assert np.abs(found[:, counts > 0]).max() < 0.01
    assert np.abs(found - truth)[:, counts == 0].mean() < 0.2


def test_one_answer_moves_its_own_pair_and_its_like() -> None:
    """By hand, in units of the prior: the pair is logged once, of 40 episodes; variances stay near what is expected."""
    places = Places(np.array([0]), np.array([1]), np.array([0]))
    found, parts = predict(places, np.array([0.5]), COUNTS, T, Prior(1.0, EPISODES))
    level = PART * parts.logged / EPISODES
    total = level + parts.logged + parts.step + parts.noise
    assert found[0, 1, 0] == pytest.approx(0.5 * (total - parts.noise) / total)
    assert found[1, 1, 0] == pytest.approx(0.5 * (level + parts.logged) / total)
    assert found[0, 0, 0] == pytest.approx(0.5 * level / total)
    assert (found[:, :, 1] == 0).all()
    assert parts == pytest.approx(expected(Prior(1.0, EPISODES)), rel=0.25)


def test_what_answers_say_of_pairs_never_logged_is_taken_once() -> None:
    """One step, b never logged. What is said of b changes nothing about a, and a second look at it nothing about b."""
    n = 40
    logs = so.Episodes.from_arrays(
        episode=np.arange(n), step=[0] * n, state=["s"] * n, action=["a"] * n, reward=np.arange(n) % 2
    )
    policy = so.Policy.from_arrow({"state": ["s"], "action": ["b"], "prob": [1.0]})
    records = Records(logs, ("a", "b"), 1.0)
    asked = so.Annotations.from_arrays(
        episode=[0, 1, 2], step=[0] * 3, action=["b"] * 3, value=np.array([1.0, 2.5, 1.2])
    )
    at, value = records.counterfactual(asked)
    once, parts = predict(at, value - 0.5, records.empirical.counts, 1, records.prior)
    found, same = together(Case(records, policy, "p"), at, value)
    assert found[0, 0] == pytest.approx([0.5, 0.5 + once[0, 0, 1]])
    assert same == parts
    # So much is left to be shrunk that a second time would show.
    assert 0.5 < once[0, 0, 1] < 1.0
