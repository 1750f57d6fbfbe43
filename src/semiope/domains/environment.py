"""Worlds as Gymnasium environments: `gymnasium.make("semiope/Sepsis-v0")`.

A rollout follows the world's tables row by row. In a terminal state one more step is taken, whatever the action: it
pays that state's reward and terminates, just as a terminal state is a row of its own in a table of episodes. After
`horizon` steps the episode is truncated. `info` has the observation in `words` and whether it asks for a `decision`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from semiope._extras import need
from semiope.domains import sepsis
from semiope.domains.world import World
from semiope.errors import OptionError
from semiope.models.transitions import END

if TYPE_CHECKING:
    import gymnasium

    Env = gymnasium.Env[np.int64, np.int64]
else:
    gymnasium = need("gymnasium", "gym", "The environment")
    Env = gymnasium.Env


class WorldEnv(Env):
    """Any world, a step at a time; renders as text."""

    metadata = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012 - as Gymnasium declares it

    def __init__(self, world: World, render_mode: str | None = None) -> None:
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise OptionError(f"render_mode: {render_mode!r} is not one of {', '.join(self.metadata['render_modes'])}.")
        self.world, self.render_mode = world, render_mode
        self.observation_space = gymnasium.spaces.Discrete(world.mdp.n_states)
        self.action_space = gymnasium.spaces.Discrete(world.mdp.n_actions)
        self._start = np.cumsum(world.mdp.initial)
        self._state = self._elapsed = 0
        self._done = True
        self._last_action: int | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.int64, dict[str, Any]]:
        """Start an episode; `options={"state": id}` starts it in a state of choice."""
        super().reset(seed=seed)
        if options is not None and (not isinstance(options, dict) or set(options) - {"state"}):
            raise OptionError(f"options: {options!r}; there is only one, as in {{'state': 3}}.")
        wanted = (options or {}).get("state")
        if wanted is not None and not self.observation_space.contains(wanted):
            raise OptionError(f"state: {wanted} is not an id from 0 to {self.world.mdp.n_states - 1}.")
        self._state = self._draw(self._start) if wanted is None else int(wanted)
        self._elapsed, self._done, self._last_action = 0, False, None
        return np.int64(self._state), self._info()

    def step(self, action: np.int64) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        """Take an action; in a terminal state, whatever it is, collect the last reward."""
        mdp = self.world.mdp
        if self._done:
            raise OptionError("step: the episode is over. Call reset first.")
        known = isinstance(action, int | np.integer) and 0 <= action < mdp.n_actions
        if not known:
            raise OptionError(f"action: {action!r} is not an action; they are the ids 0 to {mdp.n_actions - 1}.")
        chosen = int(action)
        if not (mdp.terminal[self._state] or mdp.available[self._state, chosen]):
            raise OptionError(f"action: {chosen} is not available in state {mdp.states[self._state]!r}.")
        reward = float(mdp.reward[self._state, chosen])
        if mdp.reward_std[self._state, chosen] > 0:
            reward += float(mdp.reward_std[self._state, chosen]) * float(self.np_random.normal())
        terminated = bool(mdp.terminal[self._state])
        following = self._follow(chosen)
        if following == END:
            terminated = True
        else:
            self._state = following
        self._elapsed += 1
        self._last_action = None if terminated else chosen
        truncated = not terminated and self._elapsed >= mdp.horizon
        self._done = terminated or truncated
        return np.int64(self._state), reward, terminated, truncated, self._info()

    def render(self) -> Any:
        """The patient, or whoever it is, in words."""
        if self.render_mode == "ansi":
            done = "" if self._last_action is None else f"{self.world.action_words[self._last_action]} -> "
            return f"step {self._elapsed}: {done}{self.world.state_words[self._state]}\n"
        return None

    def _follow(self, action: int) -> int:
        table = self.world.mdp.transitions
        pair = self._state * table.n_actions + action
        entries = slice(table.offsets[pair], table.offsets[pair + 1])
        if entries.start == entries.stop:  # a terminal state after which nothing is listed
            return END
        return int(table.following[entries][self._draw(np.cumsum(table.prob[entries]))])

    def _draw(self, cumulative: Any) -> int:
        return int(np.searchsorted(cumulative, self.np_random.random() * cumulative[-1], side="right"))

    def _info(self) -> dict[str, Any]:
        decision = not self._done and not bool(self.world.mdp.terminal[self._state])
        return {"words": self.world.state_words[self._state], "decision": decision}


class SepsisEnv(WorldEnv):
    """The sepsis simulator; renders a patient's vitals as text or as an image."""

    metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 1}  # noqa: RUF012 - as Gymnasium declares it

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(sepsis.world(), render_mode)

    def render(self) -> Any:
        """The patient in words, or as an array (height, width, 3) of bytes."""
        if self.render_mode == "rgb_array":
            from semiope.domains.picture import draw_patient

            action = None if self._last_action is None else sepsis.describe_treatment(self._last_action)
            return draw_patient(self._state, f"step {self._elapsed}" + (f", after {action}" if action else ""))
        return super().render()
