"""The annotation model: what the logs' own model expects, corrected by what annotators say.

The model counted from the logs gives Q-hat_t(s, a) of the policy under evaluation; the residuals of the answers against
it are taken apart and predicted with shrinkage (`residuals.py`). Their sum answers every question: those that were not
asked and, with less noise than the annotators, those that were.
"""

from __future__ import annotations

from semiope.data.annotations import Annotations
from semiope.errors import count
from semiope.repair.case import Case
from semiope.repair.fill import answered, questions
from semiope.repair.level import together


def model(annotations: Annotations, case: Case, option: str = "") -> tuple[Annotations, str]:
    """Answer every question about a pair that was logged or annotated, or that the policy may choose."""
    records = case.records
    mdp = records.empirical.mdp
    at, value = records.counterfactual(annotations)
    returns, parts = together(case, at, value)
    pairs = mdp.decisions | (case.evaluation > 0).any(axis=0)
    pairs[at.state, at.action] = True
    asked = questions(records, pairs)
    stds = ", ".join(f"{name} {variance**0.5:.3g}" for name, variance in parts._asdict().items())
    done = (
        f"model: {count(len(value), 'answer')} and the logs together answer {count(len(asked.row), 'question')} "
        f"(standard deviations of what the model misses: {stds})."
    )
    return answered(records, asked, asked.places(records).read(returns)), done
