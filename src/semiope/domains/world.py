"""A world: a model, the policy that makes its logs, policies to evaluate, and what counterfactuals can be asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from semiope._arrays import Booleans
from semiope._random import Seed
from semiope.data.annotations import Annotations
from semiope.data.episodes import Episodes
from semiope.domains.annotators import Annotator, annotate
from semiope.errors import OptionError, nearest
from semiope.models.tabular import TabularMDP
from semiope.policies.policy import Policy


@dataclass(frozen=True, eq=False)
class World:
    """`askable` is (n_states, n_actions, n_actions): [state, action taken, action that can be annotated].

    `words` and `action_words` say in words what states and actions are.
    """

    name: str
    mdp: TabularMDP
    behavior: Policy
    policies: dict[str, Policy]
    askable: Booleans
    words: tuple[str, ...]
    action_words: tuple[str, ...]

    def sample(self, n_episodes: int, *, seed: Seed = 0, **options: Any) -> Episodes:
        """Draw episodes under the behaviour policy; options as of `TabularMDP.sample`."""
        return self.mdp.sample(self.behavior, n_episodes, seed=seed, **options)

    def annotate(
        self,
        episodes: Episodes,
        policy: str | Policy,
        *,
        annotators: Annotator | Sequence[Annotator] = (),
        seed: Seed = 0,
    ) -> Annotations:
        """Let experts say what they expect of every counterfactual that can be asked for, under a policy.

        `policy`: one of `policies` by name, "behavior", or any other. Without annotators: exact answers to everything.
        """
        returns = self.mdp.action_values(self.policy(policy))
        return annotate(episodes, self.mdp, returns, askable=self.askable, annotators=annotators, seed=seed)

    def policy(self, policy: str | Policy) -> Policy:
        """A policy of this world by name."""
        if isinstance(policy, Policy):
            return policy
        known = {"behavior": self.behavior, **self.policies}
        if policy not in known:
            raise OptionError(
                f"policy: {self.name} has none called {policy!r}.{nearest(policy, known)} Known: {', '.join(known)}."
            )
        return known[policy]

    def tell(self, episodes: Episodes, number: int) -> str:
        """An episode in words, a line per step."""
        rows = range(episodes.offsets[number], episodes.offsets[number + 1])
        state = self.mdp.states.positions_of(episodes.states)[episodes.state]
        action = self.mdp.actions.positions_of(episodes.actions)[episodes.action]
        lines = [f"episode {episodes.labels[number]}"]
        for step, row in enumerate(rows):
            done = f" -> {self.action_words[action[row]]}" if episodes.action[row] >= 0 else ""
            paid = f" ({episodes.reward[row]:+.4g})" if episodes.reward[row] else ""
            lines.append(f"{step:4d}  {self.words[state[row]]}{done}{paid}")
        return "\n".join(lines)

    def glossary(self) -> pa.Table:
        """What each state is, in words."""
        return pa.table({"state": self.mdp.states.words, "meaning": pa.array(self.words)})
