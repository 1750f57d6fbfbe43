"""Repairing the annotations of several policies at once: what they share is counted once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from semiope.data.annotations import Annotations
from semiope.data.episodes import Episodes
from semiope.data.logbook import Logbook
from semiope.errors import OptionError, SchemaError
from semiope.models.case import Case, Records, Regression
from semiope.models.study import Outcomes, Study
from semiope.policies.cells import cells_of
from semiope.policies.lookup import everything
from semiope.policies.policy import AnyPolicy
from semiope.repair.steps import BY_REGRESSION, Mended, repaired


class Workshop:
    """Logs, policies, and the model of returns that repairs use."""

    def __init__(
        self, episodes: Episodes, policies: Mapping[str, AnyPolicy], answers: Sequence[Annotations | None], gamma: float
    ) -> None:
        self.policies, self.gamma = policies, gamma
        self.known = {f"policy {name!r}": policy.actions for name, policy in policies.items()}
        given = [one.actions for one in answers if one is not None]
        labels = [label for words in (*self.known.values(), *given) for label in words.words.to_pylist()]
        if not all(episodes.actions.comparable(words) for words in (*self.known.values(), *given)):
            raise SchemaError("repair: column 'action' holds integers here and strings there. Use the same labels.")
        self.records = Records(episodes, tuple(labels), gamma)

    def case(self, name: str, model: Outcomes | None = None) -> Case:
        """One policy before the records, with a model by regression if there is one."""
        policy = self.policies[name]
        if model is None:
            return Case(self.records, policy, name)
        episodes = self.records.episodes
        logbook = Logbook.of(episodes, None, self.known)
        bound = policy.bind(logbook, cells_of(episodes, "state"), f"policy {name!r}")
        study = Study(logbook, policy, everything(bound, logbook), self.gamma, name)
        return Case(self.records, policy, name, regression=Regression(model, study))

    def mend(self, name: str, annotations: Annotations, steps: list[tuple[str, str]], model: Outcomes | None) -> Mended:
        """The annotations of one policy after all steps."""
        if model is not None:
            for step, option in steps:
                if step not in BY_REGRESSION or option:
                    asked = f"{step}:{option}" if option else step
                    raise OptionError(
                        f"repair: {asked} needs states that recur, and returns are not counted by state here "
                        f"({model.told}). With such a model there is: {', '.join(BY_REGRESSION)}."
                    )
        return repaired(annotations, self.case(name, model), steps)
