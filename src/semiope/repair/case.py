"""What a repair looks at: the logs, one policy, and models of what annotators say."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from semiope._arrays import Floats
from semiope.data.annotations import Annotations
from semiope.data.episodes import Episodes
from semiope.data.labels import ABSENT
from semiope.data.logbook import Logbook
from semiope.errors import OptionError
from semiope.models.annotation_model import AnnotationModel, fit
from semiope.models.bellman import BellmanModel
from semiope.models.counted import annotated_in, behavior_model, bellman_model, can_be_counted
from semiope.models.feature_model import FeatureModel
from semiope.models.records import Records
from semiope.models.study import Corrected, Outcomes, Study
from semiope.policies.cells import cells_of
from semiope.policies.lookup import everything
from semiope.policies.policy import AnyPolicy, Policy


@dataclass(frozen=True, eq=False)
class Case:
    """One policy before the logs; `outcomes` is the model of its returns, `words` are the labels of all actions.

    `about_behavior`: so far, annotations speak of the behavior policy. Steps add to `doubts` what a user is to be
    warned of, and to `between` the standard error of the annotators' mean because others could have been asked.
    """

    episodes: Episodes
    words: tuple[int | str, ...]
    policy: AnyPolicy
    name: str
    gamma: float
    outcomes: Outcomes
    about_behavior: bool = False
    doubts: list[str] = field(default_factory=list)
    between: list[float] = field(default_factory=list)

    @cached_property
    def records(self) -> Records:
        """The logs with the MDP counted from them."""
        return Records(self.episodes, self.words, self.gamma)

    def study(self, annotations: Annotations | None) -> Study:
        """What a model is fitted to: all episodes, without folds."""
        logbook = Logbook.of(self.episodes, annotations, {f"policy {self.name!r}": self.policy.actions})
        bound = self.policy.bind(logbook, cells_of(self.episodes, "state"), f"policy {self.name!r}")
        return Study(logbook, self.policy, everything(bound, logbook), self.gamma, self.name)

    def corrected(self, annotations: Annotations) -> Corrected:
        """The model of returns corrected by annotations, and what it found of annotators."""
        study = self.study(annotations)
        return self.outcomes.corrected(study, 0, self.outcomes.fit(study, 0))

    def countable(self, step: str) -> None:
        """Fail where no MDP can be counted, which this step needs."""
        if not can_be_counted(self.study(None)):
            given = "" if isinstance(self.policy, Policy) else f" (policy {self.name!r} is given row by row)"
            raise OptionError(
                f"repair: {step} counts what follows a state, and needs a policy over states that recur{given}. "
                "Leave it out, or group states."
            )

    @cached_property
    def by_features(self) -> bool:
        """Whether returns are modelled by features: no MDP can be counted, and there are some."""
        return self.episodes.features is not None and not can_be_counted(self.study(None))

    def returns_by_features(self, *, behavior: bool, rounds: int | None = None) -> Floats:
        """Q-hat of the policy in every row, or of the behavior policy, by a regression on features.

        The behavior policy is as it was logged: in the next row it does what was done there. `rounds` is how many
        rewards ahead returns go; None: all.
        """
        study = self.study(None)
        if behavior:
            probs, action = np.zeros_like(study.probs), self.episodes.action
            decided = np.flatnonzero(action != ABSENT)
            probs[decided, action[decided]] = 1.0
            study = replace(study, probs=probs)
        return FeatureModel(folds=None, rounds=rounds).fit(study, 0).at(np.arange(self.episodes.n_steps))

    def at(self, annotations: Annotations, returns: Floats) -> Floats:
        """Entries of a table (n_rows, n_actions) at the questions of annotations."""
        row = self.episodes.rows_of(annotations.labels, annotations.episode, annotations.step, "annotations")
        action = self.study(None).logbook.actions.ids_of(annotations.actions, "annotations")[annotations.action]
        found: Floats = returns[row, action]
        return found

    def model(self, *, behavior: bool) -> BellmanModel:
        """The policy, or the behavior policy, in the MDP counted from all logs."""
        return behavior_model(self.records) if behavior else bellman_model(self.records, self.policy, self.name)

    def fitted(self, annotations: Annotations, *, behavior: bool) -> AnnotationModel:
        """The annotation model of all annotations, which speak of the policy or of the behavior policy."""
        study = self.study(annotations)
        model = self.model(behavior=behavior)
        return fit(model, annotated_in(study, model), study.n_annotators)
