"""A world: a model, the policy that makes its logs, policies to evaluate, and what counterfactuals can be asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import pyarrow as pa

from semiope._arrays import Booleans, frozen
from semiope._options import Progress
from semiope._random import Seed
from semiope.data.annotations import Annotations
from semiope.data.episodes import Episodes
from semiope.data.labels import ABSENT
from semiope.diagnostics.setting import Setting
from semiope.domains.annotators import Annotator, annotate
from semiope.errors import OptionError, nearest
from semiope.models.tabular import TabularMDP
from semiope.policies.policy import Policy
from semiope.weights.moments import WeightMoments


@dataclass(frozen=True, eq=False)
class World:
    """`askable` is (n_states, n_actions, n_actions): [state, action taken, action that can be annotated].

    `state_words` and `action_words` say in words what states and actions are.
    """

    name: str
    mdp: TabularMDP
    behavior: Policy
    policies: dict[str, Policy]
    askable: Booleans
    state_words: tuple[str, ...]
    action_words: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "askable", frozen(self.askable))
        if "behavior" in self.policies:
            raise OptionError("policies: 'behavior' is the name of the policy that makes the logs. Use another.")

    def sample(
        self,
        n_episodes: int,
        *,
        seed: Seed = 0,
        first: int = 0,
        propensities: bool = False,
        progress: Progress | None = None,
    ) -> Episodes:
        """Draw episodes under the behaviour policy; see `TabularMDP.sample`."""
        return self.mdp.sample(
            self.behavior, n_episodes, seed=seed, first=first, propensities=propensities, progress=progress
        )

    @overload
    def annotate(
        self, episodes: Any, policy: str | Policy, *, annotators: Annotator | Sequence[Annotator] = ...,
        of_action_taken: bool = ..., seed: Seed = ...,
    ) -> Annotations: ...  # fmt: skip
    @overload
    def annotate(
        self, episodes: Any, policy: Mapping[str, Policy], *, annotators: Annotator | Sequence[Annotator] = ...,
        of_action_taken: bool = ..., seed: Seed = ...,
    ) -> dict[str, Annotations]: ...  # fmt: skip
    def annotate(
        self,
        episodes: Any,
        policy: Any,
        *,
        annotators: Annotator | Sequence[Annotator] = (),
        of_action_taken: bool = False,
        seed: Seed = 0,
    ) -> Any:
        """Let experts say what they expect of every counterfactual that can be asked for, under a policy.

        `policy`: one of `policies` by name, "behavior", any other, or several in a dict. Without annotators: exact
        answers to everything.
        """
        known = policy if isinstance(policy, Mapping) else self.policy(policy)
        return annotate(
            episodes, self.mdp, self.mdp.action_values(known), askable=self.askable, annotators=annotators,
            of_action_taken=of_action_taken, seed=seed,
        )  # fmt: skip

    def policy(self, policy: Any) -> Policy:
        """A policy of this world by name, or any other, as a policy or an array of probabilities."""
        if not isinstance(policy, str):
            return policy if isinstance(policy, Policy) else self.mdp.policy(policy)
        known = {"behavior": self.behavior, **self.policies}
        if policy not in known:
            raise OptionError(
                f"policy: {self.name} has none called {policy!r}.{nearest(policy, known)} Known: {', '.join(known)}."
            )
        return known[policy]

    def tell(self, episodes: Episodes, number: int) -> str:
        """An episode in words, a line per step."""
        if not 0 <= number < episodes.n_episodes:
            raise OptionError(
                f"tell: there is no episode number {number}; they go from 0 to {episodes.n_episodes - 1}."
            )
        rows = slice(episodes.offsets[number], episodes.offsets[number + 1])
        state = self.mdp.states.positions_of(episodes.states)[episodes.state[rows]]
        action = np.append(self.mdp.actions.positions_of(episodes.actions), ABSENT)[episodes.action[rows]]
        if (state == ABSENT).any() or (action[episodes.action[rows] != ABSENT] == ABSENT).any():
            raise OptionError(f"tell: these are not episodes of the world {self.name!r}.")
        lines = [f"episode {episodes.labels[number]}"]
        for step, (s, a, paid) in enumerate(zip(state, action, episodes.reward[rows], strict=True)):
            done = f" -> {self.action_words[a]}" if a != ABSENT else ""
            lines.append(f"{step:4d}  {self.state_words[s]}{done}" + (f" ({paid:+.4g})" if paid else ""))
        return "\n".join(lines)

    def setting(self, policy: str | Policy, annotator: Annotator | None = None) -> Setting:
        """What theory says of this world: one annotator, weights split equally where there is an answer.

        See `semiope.diagnostics.theory` and `semiope.diagnostics.sequential` for what can be asked of a setting.
        """
        expert = annotator or Annotator()
        if np.ndim(expert.ratio) > 2:
            raise OptionError("setting: answers that are missing by step have no stationary weights; use Setting.of.")
        answered = self.mdp.per_step(expert.ratio, "ratio")[0][:, None, :] * self.askable
        return Setting.of(
            self.mdp, self.behavior, self.policy(policy), weights=WeightMoments.equal(answered),
            annotation_bias=expert.bias, annotation_std=expert.std,
        )  # fmt: skip

    def glossary(self) -> dict[str, pa.Table]:
        """What states and actions are, in words."""
        return {
            f"{name}s": pa.table({name: labels.words, "meaning": pa.array(words)})
            for name, labels, words in (
                ("state", self.mdp.states, self.state_words),
                ("action", self.mdp.actions, self.action_words),
            )
        }

    def __repr__(self) -> str:
        return f"World({self.name!r}, {self.mdp!r}, {len(self.policies)} policies: {', '.join(self.policies)})"
