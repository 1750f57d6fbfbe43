"""The performance difference from few logged transitions."""

from __future__ import annotations

import numpy as np
import pytest

import semiope as so
from semiope._arrays import Floats
from semiope.domains import tree
from semiope.models.performance_difference import differences, predict, variance_components
from tests.repair.measure import case_of

WITHIN, PAIRS, STATES = 0.8, 0.3, 0.5


def nested(rng: np.random.Generator, times: Floats) -> tuple[Floats, Floats, list[tuple[int, int, float]]]:
    """Values of a nested design: means and mean squares by pair, and the values themselves with state and action."""
    effect = rng.normal(size=(len(times), 1)) * STATES**0.5 + rng.normal(size=times.shape) * PAIRS**0.5 + 2.0
    mean, square, rows = np.zeros(times.shape), np.zeros(times.shape), []
    for s, a in np.argwhere(times > 0).tolist():
        values = effect[s, a] + rng.normal(size=int(times[s, a])) * WITHIN**0.5
        mean[s, a], square[s, a] = values.mean(), (values**2).mean()
        rows += [(s, a, value) for value in values.tolist()]
    return mean, square, rows


def test_variance_components_are_unbiased() -> None:
    """Means over 100 unbalanced designs lie within four standard errors of the variances that made them."""
    rng = np.random.default_rng(1)
    times = rng.integers(0, 4, size=(60, 3)).astype(np.float64)
    found = np.array([variance_components(*nested(rng, times)[:2], times) for _ in range(100)])
    error = found.std(axis=0) / 10
    assert (np.abs(found.mean(axis=0) - (WITHIN, PAIRS, STATES)) < 4 * error).all()


def test_predictions_solve_the_mixed_model_equations() -> None:
    """The same as generalized least squares with the covariance of all values written out."""
    rng = np.random.default_rng(2)
    times = rng.integers(0, 4, size=(30, 3)).astype(np.float64)
    mean, square, rows = nested(rng, times)
    within, pairs, states = variance_components(mean, square, times)
    assert min(within, pairs, states) > 0
    s, a, value = (np.array(column) for column in zip(*rows, strict=True))
    same_state = s[:, None] == s
    same_pair = same_state & (a[:, None] == a)
    inverse = np.linalg.inv(states * same_state + pairs * same_pair + within * np.eye(len(s)))
    overall = (inverse @ value).sum() / inverse.sum()
    pull = inverse @ (value - overall)
    at = np.indices(times.shape)
    covariance = states * (at[0][..., None] == s) + pairs * ((at[0][..., None] == s) & (at[1][..., None] == a))
    found = np.empty(times.shape)
    predict(mean, square, times, found)
    assert found == pytest.approx(overall + covariance @ pull)


def test_what_does_not_vary_is_as_counted() -> None:
    """Without chance the mean of a logged pair is what followed it, however rarely it was logged."""
    times = np.array([[1.0, 3.0], [2.0, 0.0]])
    mean = np.array([[0.2, 0.7], [-1.0, 0.0]])
    found = np.empty((2, 2))
    predict(mean, mean**2, times, found)
    assert found[times > 0] == pytest.approx(mean[times > 0])


def test_a_state_with_one_pair_leans_on_all_states() -> None:
    """By hand: four states of one pair, two values each; between states 1.5, within pairs 1."""
    times, mean = np.full((4, 1), 2.0), np.array([[-2.0], [0.0], [0.0], [2.0]])
    square = mean**2 + 0.5  # two values, 1/sqrt(2) from their mean on either side: the variance is 1
    within, pairs, states = variance_components(mean, square, times)
    # Mean squares between states: 2 * 8 / 3 = within + 2 states.
    assert (within, pairs, states) == pytest.approx((1.0, 0.0, 13 / 6))
    found = np.empty((4, 1))
    predict(mean, square, times, found)
    assert found == pytest.approx(mean * (13 / 6) / (13 / 6 + 1 / 2))


def test_it_comes_to_the_truth() -> None:
    """With Q of the behavior policy known exactly, errors fall as one over the root of the episodes."""
    world = tree.tree(3, slip=0.3)
    policy = world.policies["always-y"]
    truth = world.mdp.action_values(policy) - world.mdp.action_values(world.behavior)
    errors = []
    for n in (300, 30_000):
        episodes = world.sample(n, seed=4)
        case = case_of(episodes, policy)
        mdp = case.records.empirical.mdp
        states, actions = (
            getattr(world.mdp, which).positions_of(getattr(mdp, which)) for which in ("states", "actions")
        )
        at = np.ix_(np.arange(mdp.horizon), states, actions)
        found = differences(case.model(behavior=False), world.mdp.action_values(world.behavior)[at])
        reached = case.records.empirical.counts > 0
        errors.append(float(np.sqrt(np.mean((found[0] - truth[at][0])[reached] ** 2))))
    assert errors[1] < 0.2 * errors[0]
    assert errors[1] < 0.01


def test_a_pair_logged_once_is_not_followed_around_forever() -> None:
    """In 20 states, waiting pays 1 and is followed by the same state once in ten times. In one it was logged once.

    There the state happened to follow. As counted, a policy that waits would stay there to the end.
    """
    kept, ended, gone = [("wait", 1.0), ("go", 0.0)], [("wait", 1.0)], [("go", 0.0)]
    logged = [(f"s{i}", one) for i in range(20) for one in [kept] + 9 * [ended] + 10 * [gone]]
    logged += [("rare", kept), ("long", 6 * gone)] + 2 * [("rare", gone)]
    rows = [(k, t, state, *did) for k, (state, one) in enumerate(logged) for t, did in enumerate(one)]
    names = ("episode", "step", "state", "action", "reward")
    episodes = so.Episodes.from_arrays(
        **{name: list(c) for name, c in zip(names, zip(*rows, strict=True), strict=True)}
    )
    states = sorted({row[2] for row in rows})
    policy = so.Policy.from_arrow({"state": states, "action": ["wait"] * len(states), "prob": [1.0] * len(states)})
    case = case_of(episodes, policy)
    words = case.records.empirical.mdp.states.words.to_pylist()
    wait = case.records.empirical.mdp.actions.words.to_pylist().index("wait")
    rare, usual = words.index("rare"), words.index("s0")
    practice = case.model(behavior=True).returns()
    counted = (case.model(behavior=False).returns() - practice)[0, :, wait]
    practice[:, rare] = practice[:, usual]
    found = differences(case.model(behavior=False), practice)[0, :, wait]
    assert counted[rare] > 3
    assert abs(found[rare] - counted[usual]) < 0.1 * (counted[rare] - counted[usual])
    assert found[usual] == pytest.approx(counted[usual], abs=0.05)
