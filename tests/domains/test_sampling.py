"""Datasets drawn from every world have the world's exact distribution, however the work is divided."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import semiope as so
from semiope.diagnostics import sequential
from semiope.diagnostics.setting import Setting
from semiope.domains.world import World
from semiope.models import sampling
from tests.domains.worlds import NAMES, all_worlds
from tests.models.test_tabular import dense

N = 200_000
ERROR = 1e-4  # probability of a false alarm, of each chi-square test


def ids(world: World, episodes: so.Episodes) -> tuple[np.ndarray, np.ndarray]:
    state = world.mdp.states.positions_of(episodes.states)[episodes.state]
    known = np.append(world.mdp.actions.positions_of(episodes.actions), -1)
    return state, known[episodes.action]


def chi_square(observed: np.ndarray, expected: np.ndarray) -> float:
    """p-value for counts; cells that expect fewer than 10 are put together, those that expect none must be empty."""
    assert not observed[expected == 0].any()
    small = expected < 10
    observed = np.append(observed[~small], observed[small].sum())
    expected = np.append(expected[~small], expected[small].sum())
    observed, expected = observed[expected > 0], expected[expected > 0]
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return float(stats.chi2.sf(statistic, len(expected) - 1)) if len(expected) > 1 else 1.0


def transition_p_value(world: World, state: np.ndarray, action: np.ndarray, following: np.ndarray) -> float:
    """p-value of the next states, given the pairs visited; small cells of a pair are put together."""
    mdp = world.mdp
    pair = state.astype(np.int64) * mdp.n_actions + action
    visits = np.bincount(pair, minlength=mdp.n_states * mdp.n_actions)
    expected = visits[:, None] * dense(mdp).reshape(len(visits), -1)
    observed = np.bincount(pair * mdp.n_states + following, minlength=expected.size).reshape(expected.shape)
    assert not observed[expected == 0].any()
    small = expected < 10
    statistic = float((np.where(small, 0, observed - expected) ** 2 / np.where(small, 1, expected)).sum())
    rest, rest_observed = (np.where(small, table, 0).sum(axis=1) for table in (expected, observed))
    # What is left of a pair is a cell of its own if it is large enough, else it is dropped with its degree of freedom.
    kept = rest >= 10
    statistic += float(((rest_observed - rest)[kept] ** 2 / rest[kept]).sum())
    cells = (~small).sum(axis=1) + kept
    whole = kept | (rest == 0)
    freedom = int(np.where(whole, np.maximum(cells - 1, 0), cells).sum())
    p_value = float(stats.chi2.sf(statistic, freedom))
    assert p_value < 1 - 1e-9  # a fit too good would mean that the degrees of freedom are wrong
    return p_value


@pytest.mark.parametrize("name", NAMES)
def test_state_action_frequencies_at_every_step(name: str) -> None:
    world = all_worlds()[name]
    mdp, episodes = world.mdp, world.sample(N, seed=11)
    state, action = ids(world, episodes)
    occupied = mdp.state_distributions(world.behavior)
    probs = np.where(mdp.terminal[:, None], 0.0, mdp.probs(world.behavior)[0])
    for step in range(mdp.horizon):
        here = episodes.step == step
        # One more column for rows without an action, one more cell for episodes that have ended.
        joint = occupied[step][:, None] * np.column_stack([probs, mdp.terminal])
        cells = state[here] * (mdp.n_actions + 1) + np.where(action[here] < 0, mdp.n_actions, action[here])
        observed = np.append(np.bincount(cells, minlength=joint.size), N - here.sum())
        expected = N * np.append(joint, max(0.0, 1 - joint.sum()))
        expected[expected < 1e-6] = 0.0
        assert chi_square(observed, expected) > ERROR


@pytest.mark.parametrize("name", NAMES)
def test_transitions_follow_the_tables(name: str) -> None:
    """Frequencies of (state, action, next state): independent draws given the pairs that were visited."""
    world = all_worlds()[name]
    mdp, episodes = world.mdp, world.sample(N // 4, seed=12)
    state, action = ids(world, episodes)
    last = np.zeros(len(state), dtype=bool)
    last[episodes.offsets[1:] - 1] = True
    row = np.flatnonzero(~last)
    if mdp.horizon == 1:
        assert not len(row)
        return
    assert transition_p_value(world, state[row], action[row], state[row + 1]) > ERROR


@pytest.mark.parametrize("name", NAMES)
def test_rewards_have_their_means_and_deviations(name: str) -> None:
    world = all_worlds()[name]
    episodes = world.sample(N // 4, seed=13)
    state, action = ids(world, episodes)
    mean, std = (table[state, np.maximum(action, 0)] for table in (world.mdp.reward, world.mdp.reward_std))
    assert np.array_equal(episodes.reward[std == 0], mean[std == 0])
    if (std > 0).any():
        standardized = ((episodes.reward - mean) / np.where(std > 0, std, 1))[std > 0]
        assert stats.kstest(standardized, "norm").pvalue > ERROR


@pytest.mark.parametrize("name", NAMES)
def test_the_mean_return_is_the_exact_value(name: str) -> None:
    world = all_worlds()[name]
    found = so.evaluate(
        world.sample(N, seed=14, propensities=True), world.behavior, estimators=["pdis"], gamma=world.mdp.gamma
    )
    assert abs(found["pdis"].value - world.mdp.value(world.behavior)) < 4 * found["pdis"].std_error


@pytest.mark.parametrize("name", NAMES)
def test_the_same_episodes_however_the_work_is_divided(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world = all_worlds()[name]
    whole = world.sample(500, seed=15, propensities=True).to_arrow()
    parts = [world.sample(n, seed=15, first=first, propensities=True) for first, n in ((0, 100), (100, 1), (101, 399))]
    assert so.Episodes.concat(parts).to_arrow().equals(whole)
    monkeypatch.setattr(sampling, "SLAB", 7)
    assert world.sample(500, seed=15, propensities=True).to_arrow().equals(whole)
    assert not world.sample(500, seed=16, propensities=True).to_arrow().equals(whole)


@pytest.mark.parametrize("name", NAMES)
def test_drawn_episodes_are_what_their_table_says(name: str) -> None:
    """Built directly, without the checks of a table: reading the table must give the same."""
    drawn = all_worlds()[name].sample(300, seed=17, propensities=True)
    read = so.read_episodes(drawn.to_arrow())
    assert read.to_arrow().equals(drawn.to_arrow())
    assert set(read.states.words.to_pylist()) == set(drawn.states.words.to_pylist())
    assert set(read.actions.words.to_pylist()) == set(drawn.actions.words.to_pylist())
    assert np.array_equal(read.offsets, drawn.offsets)


def test_propensities_are_those_of_the_policy() -> None:
    world = all_worlds()["sepsis"]
    episodes = world.sample(200, seed=18, propensities=True)
    state, action = ids(world, episodes)
    decided = action >= 0
    assert episodes.behavior_prob is not None
    expected = world.behavior.probs[state[decided], action[decided]]
    assert np.array_equal(episodes.behavior_prob[decided], expected)
    assert np.isnan(episodes.behavior_prob[~decided]).all()
    assert world.sample(200, seed=18).behavior_prob is None


def test_progress_is_told() -> None:
    told: list[tuple[int, int]] = []
    all_worlds()["tree"].sample(1000, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (1000, 1000)


def test_reward_noise_is_independent_over_steps_and_episodes_and_of_what_follows() -> None:
    """Noise in every state; correlations and the variance of returns, error probability 1e-4 each."""
    mdp = so.TabularMDP.from_dense(
        np.tile([0.3, 0.3, 0.4], (3, 2, 1)), reward=np.zeros((3, 2)), reward_std=1.0, initial=[1, 0, 0], horizon=4
    )
    policy, n = mdp.policy(np.full((3, 2), 0.5)), 50_000
    episodes = mdp.sample(policy, n, seed=19)
    noise, state = episodes.reward.reshape(n, 4), episodes.state.reshape(n, 4)
    for first, second in ((0, 1), (1, 2), (0, 3)):
        assert stats.pearsonr(noise[:, first], noise[:, second]).pvalue > ERROR
        assert stats.pearsonr(np.abs(noise[:, first]), np.abs(noise[:, second])).pvalue > ERROR
    for lag in (1, 2):
        assert stats.pearsonr(noise[lag:, 0], noise[:-lag, 0]).pvalue > ERROR
    assert stats.pearsonr(noise[:, 0], state[:, 1]).pvalue > ERROR
    assert stats.pearsonr(noise[:, 0], episodes.action.reshape(n, 4)[:, 0]).pvalue > ERROR
    assert stats.pearsonr(np.abs(noise[:, 0]), state[:, 1]).pvalue > ERROR
    expected = sequential.pdis(Setting.of(mdp, policy, policy)).variance
    assert expected == 4.0
    assert abs(noise.sum(axis=1).var() - expected) < 4 * expected * (2 / n) ** 0.5


def test_a_policy_per_step_is_followed() -> None:
    world = all_worlds()["tree"]
    probs = np.zeros((5, world.mdp.n_states, 2))
    probs[::2, :, 0] = probs[1::2, :, 1] = 1.0
    episodes = world.mdp.sample(world.mdp.policy(probs), 50)
    decided = episodes.action >= 0
    assert np.array_equal(episodes.action[decided], episodes.step[decided] % 2)
