"""From annotations of the behavior policy to annotations of the policy evaluated (appendix D.1).

Annotators who know current practice expect g ~ Q_t of pi_b. The annotation model is fitted with pi_b, and gives Q of
pi_b wherever the policy may come to (`models/annotation_model.py`). What pi_e adds to it follows from that and from the
logged transitions (`models/performance_difference.py`): an annotation becomes g + Delta-hat_t(s, a).

Where states are features, Q-hat of both comes from fitted Q evaluation on the logs (`models/feature_model.py`).

The option `authors` follows the paper's code: Q-hat of both from its own counted MDP, without annotations.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from semiope._arrays import Floats, frozen
from semiope.data.annotations import Annotations
from semiope.errors import count
from semiope.models.performance_difference import differences
from semiope.repair.case import Case


def convert(annotations: Annotations, case: Case, option: str = "") -> tuple[Annotations, str]:
    """Convert the annotations; also say what was done."""
    if case.by_features and not option:
        return _by_features(annotations, case)
    case.countable("convert")
    records = case.records
    places = records.places(annotations)
    if option == "authors":
        known = records.empirical.mdp.available[places.state, places.action]
        value = annotations.value + np.where(known, places.read(_authors(case)), 0.0)
        kept = int(np.count_nonzero(~known))
        left = f"; {count(kept, 'annotation')} of pairs never logged kept" if kept else ""
        done = f"convert: {count(len(value) - kept, 'annotation')} converted as in the paper's code{left}."
        return replace(annotations, value=frozen(value)), done
    change = differences(case.model(behavior=False), case.fitted(annotations, behavior=True).returns)
    unlogged = int(np.count_nonzero(~records.empirical.mdp.available[places.state, places.action]))
    left = f" ({unlogged:,} of pairs never logged, by what follows their state in general)" if unlogged else ""
    done = f"convert: {count(len(annotations), 'annotation')} converted from the behavior policy to the policy{left}."
    return replace(annotations, value=frozen(annotations.value + places.read(change))), done


def _by_features(annotations: Annotations, case: Case) -> tuple[Annotations, str]:
    """Convert by fitted Q evaluation of both policies on features."""
    change = case.returns_by_features(behavior=False) - case.returns_by_features(behavior=True)
    value = frozen(annotations.value + case.at(annotations, change))
    return replace(annotations, value=value), (
        f"convert: {count(len(annotations), 'annotation')} converted from the behavior policy to the policy, by fitted "
        "Q evaluation of both on features."
    )


def _authors(case: Case) -> Floats:
    """The difference of returns in the MDP that the paper's code counts."""
    model, records = case.records.authors, case.records
    nothing = np.zeros((model.horizon, model.n_states, 1))
    evaluation = records.empirical.mdp.look_up(case.policy, f"policy {case.name!r}")  # type: ignore[arg-type]
    returns = [model.evaluate_with(nothing, probs) for probs in (evaluation, records.behavior[None])]
    return returns[0] - returns[1]
