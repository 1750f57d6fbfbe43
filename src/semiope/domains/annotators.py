"""Simulated experts: exact returns plus each expert's own bias and noise, as far as each answers at all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, overload

import numpy as np
import pyarrow as pa

from semiope._arrays import Booleans, Floats, Integers, as_floats, frozen, id_dtype
from semiope._memory import refuse_beyond_memory
from semiope._random import ANNOTATIONS, Seed, fill, key_of
from semiope.data.annotations import Annotations
from semiope.data.episodes import Episodes, read_episodes
from semiope.data.labels import ABSENT
from semiope.errors import OptionError, SchemaError, nearest
from semiope.models.checks import flags
from semiope.models.places import Places, places_of_rows
from semiope.models.tabular import TabularMDP
from semiope.policies.policy import Policy


@dataclass(frozen=True)
class Annotator:
    """An expert who answers `returns + bias + std z`, z standard normal, to a share `ratio` of the questions.

    `bias`, `std` and `ratio` are numbers, or arrays (n_states, n_actions) over the state and the action asked about, or
    (horizon, n_states, n_actions). `stated_std` is what the expert says of his own scatter, for the column `std`.
    """

    name: str = "expert"
    bias: Any = 0.0
    std: Any = 0.0
    ratio: Any = 1.0
    stated_std: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise OptionError(f"annotator: {self.name!r} is no name.")
        for name in ("bias", "std", "ratio"):
            if not np.isfinite(as_floats(getattr(self, name), f"annotator {self.name!r}: {name}")).all():
                raise OptionError(f"annotator {self.name!r}: {name} is not finite.")
        if np.min(self.std) < 0:
            raise OptionError(f"annotator {self.name!r}: std is {np.min(self.std):g}, but must not be negative.")
        if np.min(self.ratio) < 0 or np.max(self.ratio) > 1:
            raise OptionError(
                f"annotator {self.name!r}: ratio must lie between 0 and 1: it is the share of questions answered."
            )
        if self.stated_std is not None and not 0 < self.stated_std < math.inf:
            raise OptionError(f"annotator {self.name!r}: stated_std is {self.stated_std}, but must be above 0.")


@overload
def annotate(
    episodes: Any, mdp: TabularMDP, returns: Mapping[str, Floats | Policy], *, askable: Booleans | None = ...,
    annotators: Annotator | Sequence[Annotator] = ..., of_action_taken: bool = ..., seed: Seed = ...,
) -> dict[str, Annotations]: ...  # fmt: skip
@overload
def annotate(
    episodes: Any, mdp: TabularMDP, returns: Floats | Policy, *, askable: Booleans | None = ...,
    annotators: Annotator | Sequence[Annotator] = ..., of_action_taken: bool = ..., seed: Seed = ...,
) -> Annotations: ...  # fmt: skip
def annotate(
    episodes: Any,
    mdp: TabularMDP,
    returns: Any,
    *,
    askable: Booleans | None = None,
    annotators: Annotator | Sequence[Annotator] = (),
    of_action_taken: bool = False,
    seed: Seed = 0,
) -> Any:
    """Ask every annotator about every decision and every action that is askable and was not taken.

    `returns` is what there is to know: a policy whose returns the annotators have in mind, or an array (horizon,
    n_states, n_actions) as `mdp.action_values` gives it; a dict of these gives a dict of annotations by name, whose
    noise is the same. `askable`, (n_states, n_actions, n_actions), says by state and action taken which others can be
    asked for (default: all that are available). `of_action_taken` asks about the action taken, too: answers that
    calibrate an annotator.
    Whether a question is answered, and its noise, depend on the seed, the annotator's place in the list, episode, step
    and action alone: not on the policy, nor on `bias`, `std` and `ratio`.
    """
    experts = _experts(annotators)
    if not isinstance(mdp, TabularMDP):
        raise OptionError(f"annotate: the second argument is a {type(mdp).__name__}; give episodes, then the model.")
    episodes = episodes if isinstance(episodes, Episodes) else read_episodes(episodes)
    several = returns if isinstance(returns, Mapping) else {"": returns}
    tables = {
        name: mdp.action_values(one) if isinstance(one, Policy) else mdp.per_step(one, f"returns {name}".strip())
        for name, one in several.items()
    }
    episode, places = _questions(episodes, mdp, askable, of_action_taken)
    if not len(episode):
        raise SchemaError("annotate: there is nothing to ask about in these episodes. Draw more of them.")
    answers = _answers(experts, mdp, places, episodes.labels.numbers[episode], key_of(seed, ANNOTATIONS))
    if not len(answers.which):
        raise SchemaError("annotate: not one question is answered. Raise the annotators' ratio, or draw more episodes.")
    told, labels = episodes.labels.used(episode[answers.which])
    asked, actions = mdp.actions.used(places.action[answers.which])
    stated = [expert.stated_std for expert in experts if expert.stated_std is not None]
    found = {
        name: Annotations(
            labels=labels,
            actions=actions,
            episode=frozen(told),
            step=frozen(places.step[answers.which].astype(id_dtype(mdp.horizon))),
            action=frozen(asked),
            value=frozen(_finite(places.read(table)[answers.which] + answers.off)),
            std=frozen(np.array(stated)[answers.who]) if stated else None,
            annotator=pa.array([expert.name for expert in experts]).take(pa.array(answers.who)),
        )
        for name, table in tables.items()
    }
    return found if isinstance(returns, Mapping) else found[""]


def read_annotator(text: str) -> Annotator:
    """Return an annotator from text such as 'nurse,bias=0.1,std=0.2,ratio=0.5'."""
    name, *parts = (part.strip() for part in text.split(","))
    given: dict[str, float] = {}
    fields = ("bias", "std", "ratio")
    for part in parts:
        word, _, number = part.partition("=")
        if word in given:
            raise OptionError(f"annotator: {text!r}: {word} is given twice.")
        if word not in fields:
            raise OptionError(f"annotator: {text!r}: {word!r} is not one of bias, std, ratio.{nearest(word, fields)}")
        try:
            given[word] = float(number)
        except ValueError:
            raise OptionError(f"annotator: {text!r}: {number!r} is not a number.") from None
    if not name or "=" in name:
        raise OptionError(f"annotator: {text!r} has no name. Use NAME[,bias=B][,std=S][,ratio=R].")
    return Annotator(name, **given)


class _Answers(NamedTuple):
    """Which question each answer is to, who gave it, and how far it is off."""

    which: Integers
    who: Integers
    off: Floats


def _answers(experts: list[Annotator], mdp: TabularMDP, places: Places, numbers: Integers, key: np.uint64) -> _Answers:
    uniform, gaussian = np.zeros((2, len(numbers)))
    parts = []
    for place, expert in enumerate(experts):
        bias, std, ratio = (
            places.read(mdp.per_step(getattr(expert, name), f"annotator {expert.name!r}: {name}"))
            for name in ("bias", "std", "ratio")
        )
        if std.any() or (ratio < 1).any():
            fill(key, numbers, places.step, place * mdp.n_actions + places.action, uniform, gaussian)
        answered = np.flatnonzero(uniform < ratio)
        parts.append(_Answers(answered, np.full(len(answered), place), (bias + std * gaussian)[answered]))
    return _Answers(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _questions(
    episodes: Episodes, mdp: TabularMDP, askable: Booleans | None, of_action_taken: bool
) -> tuple[Integers, Places]:
    """Episode and place of every question, in the order of the rows."""
    shape = (mdp.n_states, mdp.n_actions, mdp.n_actions)
    if askable is not None:
        askable = flags(askable, shape, True, "askable")
    rows = places_of_rows(mdp, episodes)
    decided = np.flatnonzero(episodes.action != ABSENT)
    size = float(len(decided)) * mdp.n_actions * 16 * 8
    refuse_beyond_memory(size, "the questions about these episodes", "Annotate fewer episodes at a time.")
    state, taken = rows.state[decided], rows.action[decided]
    asked = np.array(mdp.available[state] if askable is None else askable[state, taken] & mdp.available[state])
    asked[np.arange(len(decided)), taken] = of_action_taken
    position, action = np.nonzero(asked)
    row = decided[position]
    episode = np.repeat(np.arange(episodes.n_episodes), episodes.lengths)[row]
    return episode, Places(rows.step[row], rows.state[row], action)


def _finite(values: Floats) -> Floats:
    if not np.isfinite(values).all():
        raise SchemaError(
            "annotate: an answer is not a finite number: the returns are not, or the noise is beyond range."
        )
    return values


def _experts(annotators: Any) -> list[Annotator]:
    experts = list(annotators) if isinstance(annotators, Sequence) else [annotators]
    if not all(isinstance(expert, Annotator) for expert in experts):
        raise OptionError("annotators: give one Annotator or a list of them, such as so.Annotator('ann', std=0.2).")
    names = [expert.name for expert in experts]
    if len(set(names)) < len(names):
        raise OptionError(f"annotators: {', '.join(names)}: give each annotator a name of its own.")
    stated = [expert.stated_std is not None for expert in experts]
    if any(stated) and not all(stated):
        raise OptionError("annotators: either all state their std, or none does.")
    return experts or [Annotator()]
