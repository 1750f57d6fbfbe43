"""The annotation model: what the logs' own model expects, corrected by what annotators say.

The model counted from the logs gives Q-hat_t(s, a) of the policy under evaluation; the residuals of the answers against
it are taken apart and predicted with shrinkage (`residuals.py`). Their sum answers every question: those that were not
asked and, with less noise than the annotators, those that were. Answers about today's policy (option `today`) are
completed as such, and all of them then turned to the policy (`convert.py`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from semiope.data.annotations import Annotations
from semiope.errors import count
from semiope.models.case import Case, Regression
from semiope.models.level import together
from semiope.repair.convert import of_policy
from semiope.repair.fill import Questions, answered, questions

TODAY = "today"


def model(annotations: Annotations, case: Case, option: str = "") -> tuple[Annotations, str]:
    """Answer every question about a pair that was logged or annotated, or that the policy may choose."""
    if case.regression is not None:
        return _by_regression(annotations, case.regression)
    records = case.records
    mdp = records.empirical.mdp
    at, value = records.counterfactual(annotations)
    returns, parts = together(case, at, value)
    if option == TODAY:
        returns = of_policy(case, returns)
    pairs = mdp.decisions | (case.evaluation > 0).any(axis=0)
    pairs[at.state, at.action] = True
    asked = questions(records, pairs)
    stds = ", ".join(f"{name} {variance**0.5:.3g}" for name, variance in parts._asdict().items())
    turned = ", turned from the behaviour policy to the policy" if option == TODAY else ""
    done = (
        f"model: {count(len(value), 'answer')} and the logs together answer {count(len(asked.row), 'question')}"
        f"{turned} (standard deviations of what the model misses: {stds})."
    )
    return answered(records.episodes, records.empirical.mdp.actions, asked, asked.places(records).read(returns)), done


def _by_regression(annotations: Annotations, regression: Regression) -> tuple[Annotations, str]:
    """The same for states that do not recur: returns fitted on features, and a fit of what answers say beyond."""
    study = replace(regression.study, logbook=regression.logbook(annotations))
    aligned = study.logbook.annotations
    fitted = regression.model.fit(study, 0)
    returns = regression.model.corrected(study, 0, fitted)
    wanted = study.probs > 0
    wanted[:, np.unique(aligned.action)] = True
    rows = study.decisions.row
    wanted[rows, study.episodes.action[rows]] = False
    position, action = np.nonzero(wanted[rows])
    asked = Questions(rows[position], action)
    done = (
        f"model: {count(len(aligned.row), 'answer')} and the logs together answer {count(len(action), 'question')} "
        f"({regression.model.told}, fitted to all)."
    )
    return answered(study.episodes, study.logbook.actions, asked, returns[asked.row, asked.action]), done
