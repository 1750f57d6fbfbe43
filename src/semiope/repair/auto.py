"""Which repairs the annotations ask for, and why: one sentence a choice.

Nothing is chosen by how annotations compare with a model. Missing and noisy annotations need no repair: estimators of
the prediction-powered family complete them. A bias that all annotators share is not repaired either; where the logs can
show it, they do (`pipeline/rivals.py`).
"""

from __future__ import annotations

from semiope.data.annotations import Annotations

Steps = list[tuple[str, str]]


def choose(annotations: Annotations, *, about_behavior: bool) -> tuple[Steps, list[str]]:
    """The steps, and a sentence on each choice; `about_behavior`: a plan asked about the behavior policy."""
    steps: Steps = []
    reasons = []
    named = annotations.annotator is not None and not annotations.annotator.null_count
    n = len(annotations.annotator.unique()) if named and annotations.annotator is not None else 1
    if n > 1:
        steps.append(("pool", ""))
        reasons.append(f"repair: pool, because there are {n} annotators, who may differ.")
    if about_behavior:
        steps.append(("convert", ""))
        reasons.append("repair: convert, because the plan asked about the behavior policy.")
    if not steps:
        reasons.append("repair: none, because there is one annotator, and annotations speak of the policy.")
    return steps, reasons
