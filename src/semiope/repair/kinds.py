"""Answers that are rewards or preferences, made into answers that are returns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from semiope._arrays import Booleans, Floats, Integers, frozen
from semiope.data.annotations import PREFERENCE, RETURN, REWARD, Annotations
from semiope.data.logbook import refuse_undecided
from semiope.errors import SHOWN, OptionError, SchemaError, count
from semiope.models.case import Case
from semiope.models.level import together
from semiope.models.places import Places
from semiope.models.residuals import predict
from semiope.repair.preferences import Comparisons, Preferred, fitted
from semiope.repair.rewards import completed

# Standard deviations are above 0, if only just.
_LEAST = 1e-9


def only_returns(annotations: Annotations) -> Annotations | None:
    """The answers that are returns; None if there are none."""
    if annotations.said is None:
        return annotations
    which = np.flatnonzero(annotations.said.kind == RETURN)
    if not len(which):
        return None
    return _some(annotations, which, annotations.value, annotations.std)


def as_returns(annotations: Annotations, case: Case) -> tuple[Annotations, list[str]]:
    """All answers as returns, with what is uncertain about them in `std`, and a sentence on each kind.

    An answer that prefers an action to another becomes one about each of the two that was not taken.
    """
    said = annotations.said
    if said is None:
        return annotations, []
    if case.regression is not None:
        raise OptionError(
            "annotations: rewards and preferences become returns by counting what follows a state, and returns are not "
            "counted by state here. Leave these rows out, or use model='empirical'."
        )
    records = case.records
    places, row = records.places(annotations), records.rows_of(annotations)
    ids = records.empirical.mdp.actions.positions_of(annotations.actions)
    taken = records.rows.action[row]
    refuse_undecided(row, records.episodes)
    value, std, notes = annotations.value.copy(), _stds(annotations, case, places, taken), []
    paid = said.kind == REWARD
    if paid.any():
        value[paid], added = completed(case, places.part(paid), value[paid])
        std[paid] = np.hypot(std[paid], added)
        notes.append(f"reward: {count(int(paid.sum()), 'answer')} completed by what the model says follows.")
    preferred = said.kind == PREFERENCE
    plain = _some(annotations, np.flatnonzero(~preferred), value, std)
    if not preferred.any():
        return plain, notes
    if annotations.weight is not None:
        raise SchemaError(
            "annotations: a column 'weight' splits samples between answers, and preferences become answers of their "
            "own. Leave the column out."
        )
    other = np.where(said.versus >= 0, ids[said.versus], taken)
    _refuse_same(annotations, preferred & (other == places.action))
    told = ~preferred & (taken != places.action)
    returns = together(case, places.part(told), value[told])[0] if told.any() else case.expected
    known = records.empirical.mdp.available.copy()
    known[places.state[told], places.action[told]] = True
    given = Comparisons(places.part(preferred), other[preferred], annotations.value[preferred])
    found = fitted(case, returns, given, known)
    notes.append(_told(found, int(preferred.sum())))
    case.doubts.extend(_doubts(found, case))
    return _joined(plain, annotations, case, row[preferred], given, returns, found), notes


def _stds(annotations: Annotations, case: Case, places: Places, taken: Integers) -> Floats:
    """How much each answer scatters: as it says, or as answers that are returns do."""
    if annotations.std is not None:
        return annotations.std.copy()
    assert annotations.said is not None
    records, horizon = case.records, case.records.empirical.mdp.horizon
    told = (annotations.said.kind == RETURN) & (taken != places.action)
    if not told.any():
        return np.zeros(len(annotations))
    at = places.part(told)
    _, parts = predict(
        at, annotations.value[told] - at.read(case.expected), records.empirical.counts, horizon, records.prior
    )
    return np.where(annotations.said.kind == RETURN, np.sqrt(parts.noise), 0.0)


def _joined(
    plain: Annotations,
    annotations: Annotations,
    case: Case,
    row: Integers,
    given: Comparisons,
    returns: Floats,
    found: Preferred,
) -> Annotations:
    """The other answers, and one about every action that was compared and not taken."""
    records = case.records
    rows, actions = np.concatenate([row, row]), np.concatenate([given.at.action, given.other])
    kept = actions != records.rows.action[rows]
    n_actions = records.empirical.mdp.n_actions
    questions = np.unique(rows[kept] * n_actions + actions[kept])
    if not len(questions):
        return plain
    rows, actions = np.divmod(questions, n_actions)
    step, state = records.rows.step[rows], records.rows.state[rows]
    episodes, words = records.episodes, records.empirical.mdp.actions
    episode = episodes.labels.decode(episodes.episode_of(rows))
    table = {
        "episode": episode, "step": pa.array(step), "action": words.decode(actions),
        "value": returns[step, state, actions] + found.correction[state, actions],
        "std": np.maximum(found.std[state, actions], _LEAST),
    }  # fmt: skip
    if annotations.annotator is not None:
        table["annotator"] = pa.array(["(preferences)"] * len(rows))
    new = pa.table(table)
    if not len(plain):
        return Annotations.from_arrow(new)
    before = plain.to_arrow().select(new.column_names)
    if annotations.annotator is not None:
        place = before.column_names.index("annotator")
        before = before.set_column(place, "annotator", before.column("annotator").cast(pa.string()))
    return Annotations.from_arrow(pa.concat_tables([before, new], promote_options="permissive"))


def _some(annotations: Annotations, which: Integers, value: Floats, std: Floats | None) -> Annotations:
    """Some of the answers, with these values and standard deviations."""
    who = None if annotations.annotator is None else annotations.annotator.take(pa.array(which))
    return replace(
        annotations,
        episode=frozen(annotations.episode[which]),
        step=frozen(annotations.step[which]),
        action=frozen(annotations.action[which]),
        value=frozen(value[which]),
        std=None if std is None else frozen(np.maximum(std[which], _LEAST)),
        weight=None if annotations.weight is None else frozen(annotations.weight[which]),
        annotator=who,
        extra=None,
        said=None,
    )


def _refuse_same(annotations: Annotations, wrong: Booleans) -> None:
    if wrong.any():
        first = int(np.argmax(wrong))
        raise SchemaError(
            f"annotations: {count(int(wrong.sum()), 'preference')} of the action taken to itself. First: row "
            f"{first} (action {annotations.actions[int(annotations.action[first])]!r}). Name the other action in "
            "'versus'; if it is empty, the action taken is meant."
        )


def _told(found: Preferred, n: int) -> str:
    scale = f" Their scale, in units of return: beta {found.beta:.2g}." if found.found else ""
    return f"preference: {count(n, 'answer')} fitted (Bradley-Terry).{scale}"


def _doubts(found: Preferred, case: Case) -> list[str]:
    doubts = []
    if not found.found:
        doubts.append(
            "preference: the returns known do not tell the scale of the preferences; the answers made of them are "
            "little more than those returns. Ask about actions that were logged, or for some returns as well."
        )
    if len(found.apart):
        states = case.records.episodes.states
        shown = ", ".join(repr(states[int(s)]) for s in found.apart[:SHOWN])
        doubts.append(
            f"preference: in {count(len(found.apart), 'state')} the actions compared fall into sets that no comparison "
            f"connects (first: {shown}); how the sets compare is left to the returns known. Compare across the sets."
        )
    return doubts
