"""Annotations that are not returns: rewards completed by what follows, preferences left aside.

A reward r~ of action a becomes the return r~ + gamma sum_s' p-hat(s'|s, a) V-hat(s') of the MDP counted from the logs.
Where a pair was never logged, nobody knows what follows it, and its rewards cannot be completed: they are left out,
unless episodes have a single step. Where states are features, what follows is Q-hat less the reward, both by regression
(`models/feature_model.py`); of an action that was never logged at all, nobody knows it.

A preference has no scale: it says which of two actions is better, and not by how much. No estimate of a value can be
made of preferences alone. Beside returns they could only inform the model, and have not made estimates more precise,
neither in counted MDPs nor, as predictions by a logistic regression of who is preferred, where states are features. So
they are left out as well.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from semiope._arrays import Booleans, Floats, Integers, frozen
from semiope.data.annotations import PREFERENCE, RETURN, REWARD, Annotations
from semiope.data.labels import ABSENT
from semiope.errors import SchemaError, count
from semiope.repair.case import Case


def as_returns(annotations: Annotations, case: Case) -> tuple[Annotations, list[str]]:
    """The annotations that are, or can be made, returns; and a sentence on what was done with each kind."""
    said = annotations.said
    if said is None:
        return annotations, []
    notes, value = [], annotations.value.copy()
    kept = said.kind == RETURN
    paid = np.flatnonzero(said.kind == REWARD)
    if len(paid):
        follows, known = (_by_features if case.by_features else _by_counts)(annotations, case, paid)
        value[paid[known]] += follows[known]
        kept[paid[known]] = True
        notes.append(f"reward: {count(int(known.sum()), 'annotation')} completed by what the logs say follows.")
        if not known.all():
            case.doubts.append(
                f"reward: {count(int((~known).sum()), 'annotation')} of actions never logged in their state left out: "
                "what follows them is not known. Ask for returns there."
            )
    preferred = int(np.count_nonzero(said.kind == PREFERENCE))
    if preferred:
        case.doubts.append(
            f"preference: {count(preferred, 'annotation')} left out: a preference says which action is better, not by "
            f"how much. Ask for returns. {count(int(kept.sum()), 'annotation')} remain."
        )
    if not kept.any():
        aside = f" ({count(preferred, 'preference')} among them say which action is better, not by how much)"
        raise SchemaError(
            f"annotations: not one is a return, or can be made one{aside if preferred else ''}. Ask what return is "
            "expected after an action, or for rewards of actions that were logged in the same state."
        )
    left = replace(annotations, value=frozen(value), said=None)
    return left.some(np.flatnonzero(kept)), notes


def _by_counts(annotations: Annotations, case: Case, paid: Integers) -> tuple[Floats, Booleans]:
    """What follows each reward in the counted MDP, and whether that is known."""
    case.countable("a reward as annotation")
    places, mdp = case.records.places(annotations).part(paid), case.records.empirical.mdp
    reward = np.where(mdp.available, mdp.reward, 0.0)[places.state, places.action]
    # Where there is one step alone, nothing follows. Else rewards of pairs never logged would be kept at the last
    # step only, and look like support for the pair at all steps.
    alone = mdp.horizon == 1
    known = mdp.available[places.state, places.action] | alone
    follows = places.read(case.model(behavior=case.about_behavior).returns()) - reward
    return np.where(alone, 0.0, follows), known


def _by_features(annotations: Annotations, case: Case, paid: Integers) -> tuple[Floats, Booleans]:
    """What follows each reward by fitted Q evaluation: the return less its first reward; known of actions logged."""
    behavior = case.about_behavior
    whole = case.returns_by_features(behavior=behavior)
    follows = case.at(annotations, whole - case.returns_by_features(behavior=behavior, rounds=1))[paid]
    logged = case.episodes.actions.positions_of(annotations.actions)[annotations.action[paid]] != ABSENT
    return follows, logged
