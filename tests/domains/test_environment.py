"""The Gymnasium environment: Gymnasium's own checker, rollouts that follow the tables, pictures."""

from __future__ import annotations

import importlib
import subprocess
import sys
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from scipy import stats

import semiope as so
from semiope.domains import sepsis
from semiope.domains.environment import SepsisEnv, WorldEnv
from semiope.domains.picture import draw_patient
from tests.domains.test_sampling import ERROR, chi_square, transition_p_value
from tests.domains.worlds import NAMES, all_worlds


@pytest.mark.parametrize("mode", [None, "ansi", "rgb_array"])
def test_gymnasiums_checker_has_nothing_to_say(mode: str | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make("semiope/Sepsis-v0", render_mode=mode).unwrapped)


@pytest.mark.parametrize("name", NAMES)
def test_every_world_passes_the_checker(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(WorldEnv(all_worlds()[name], render_mode="ansi"), skip_render_check=True)


@pytest.mark.parametrize("order", ["semiope, gymnasium", "gymnasium, semiope"])
def test_it_is_registered_in_whatever_order_of_imports(order: str) -> None:
    code = f"import {order}; print(gymnasium.make('semiope/Sepsis-v0').unwrapped)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "SepsisEnv" in done.stdout


def test_asking_whether_gymnasium_is_there_does_not_end_the_watch_for_it() -> None:
    code = "import semiope, importlib.util as u; u.find_spec('gymnasium'); import gymnasium; "
    code += "print(gymnasium.make('semiope/Sepsis-v0').unwrapped)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "SepsisEnv" in done.stdout


def test_importing_semiope_does_not_import_gymnasium() -> None:
    code = "import semiope, sys; print('gymnasium' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_without_gymnasium_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    monkeypatch.delitem(sys.modules, "semiope.domains.environment")
    with pytest.raises(so.MissingExtraError, match=r'pip install "semiope\[gym\]"'):
        importlib.import_module("semiope.domains.environment")


def roll(env: SepsisEnv, n: int, policy: np.ndarray, seed: int) -> dict[str, list[Any]]:
    """Episodes in our format: a terminal state's row has no action."""
    rows: dict[str, list[Any]] = {name: [] for name in ("episode", "step", "state", "action", "reward")}
    rng = np.random.default_rng(seed)
    env.reset(seed=seed + 1)  # not the stream of the actions
    for episode in range(n):
        state, info = env.reset()
        for step in range(100):
            action = int(rng.choice(8, p=policy[state]))
            following, reward, terminated, truncated, after = env.step(np.int64(action))
            row = (episode, step, int(state), action if info["decision"] else -1, reward)
            for column, entry in zip(rows.values(), row, strict=True):
                column.append(entry)
            if terminated or truncated:
                break
            state, info = following, after
    return rows


def test_rollouts_follow_the_tables() -> None:
    """Initial states, transitions and the mean return of 3000 rollouts; error probability 1e-4 each."""
    world, n = sepsis.world(), 3000
    rows = roll(SepsisEnv(), n, world.behavior.probs, seed=31)
    episodes = so.Episodes.from_arrays(**rows)
    assert episodes.lengths.max() == 20
    state = np.array(rows["state"])
    first = np.bincount(state[episodes.offsets[:-1]], minlength=1442)
    assert chi_square(first, n * world.mdp.initial) > ERROR
    action = np.array(rows["action"])
    row = np.setdiff1d(np.arange(len(state)), episodes.offsets[1:] - 1)
    assert transition_p_value(world, state[row], action[row], state[row + 1]) > ERROR
    returns = so.evaluate(episodes, so.estimate_behavior(episodes), estimators=["is"], gamma=0.99)["is"].values
    assert stats.ttest_1samp(returns, world.mdp.value(world.behavior)).pvalue > ERROR


def test_rewards_scatter_as_they_should() -> None:
    world = all_worlds()["one-state bandit"]
    env = WorldEnv(world)
    env.reset(seed=3)
    paid = []
    for _ in range(5000):
        env.reset()
        paid.append(env.step(np.int64(1))[1])
    assert stats.kstest((np.array(paid) - 2.0) / 0.5, "norm").pvalue > ERROR


def test_a_terminal_state_pays_on_one_more_step() -> None:
    env = SepsisEnv(render_mode="ansi")
    _, info = env.reset(seed=0, options={"state": 0})
    assert info["decision"] is False
    assert info["words"].startswith("dead")
    following, reward, terminated, truncated, info = env.step(np.int64(3))
    assert (int(following), reward, terminated, truncated) == (sepsis.DEAD, -1.0, True, False)
    assert env.render() == "step 1: after death\n"
    with pytest.raises(so.OptionError, match="reset first"):
        env.step(np.int64(0))


def test_an_episode_is_cut_at_the_horizon() -> None:
    world = so.TabularMDP.from_dense([[[1.0]]], reward=[[1.0]], initial=[1.0], horizon=3)
    from semiope.domains.world import World

    here = World("one", world, world.policy(np.ones((1, 1))), {}, np.ones((1, 1, 1), dtype=bool), ("here",), ("stay",))
    env = WorldEnv(here)
    env.reset(seed=0)
    assert [env.step(np.int64(0))[2:4] for _ in range(3)] == [(False, False), (False, False), (False, True)]


def test_what_cannot_be_done() -> None:
    env = SepsisEnv()
    with pytest.raises(so.OptionError, match="reset first"):
        env.step(np.int64(0))
    env.reset(seed=0)
    for wrong in (8, -1, "wait", 1.5, None):
        with pytest.raises(so.OptionError, match="is not an action; they are the ids 0 to 7"):
            env.step(wrong)  # type: ignore[arg-type]
    with pytest.raises(so.OptionError, match="state: 5000"):
        env.reset(options={"state": 5000})
    with pytest.raises(so.OptionError, match="there is only one"):
        env.reset(options={"stat": 3})
    with pytest.raises(so.OptionError, match="render_mode: 'human'"):
        SepsisEnv(render_mode="human")


def test_text_says_what_was_done_and_what_came_of_it() -> None:
    env = SepsisEnv(render_mode="ansi")
    env.reset(seed=0)
    following = env.step(np.int64(5))[0]
    assert env.render() == f"step 1: antibiotics and vasopressors -> {sepsis.describe(int(following))}\n"


def test_pictures_show_what_differs() -> None:
    calm = sepsis.NUMBER[sepsis.Patient(False, 0, 0, 0, 0, True, False, False)]
    pressed = sepsis.NUMBER[sepsis.Patient(False, 0, 1, 0, 0, True, False, False)]
    one, other = draw_patient(calm, "step 0"), draw_patient(pressed, "step 0")
    assert one.shape == (320, 480, 3)
    assert one.dtype == np.uint8
    changed = np.argwhere((one != other).any(axis=2))
    assert 120 <= changed[:, 0].min() <= changed[:, 0].max() <= 154  # the row of pressure alone
    assert not np.array_equal(draw_patient(sepsis.DEAD, "end"), draw_patient(sepsis.DISCHARGED, "end"))
