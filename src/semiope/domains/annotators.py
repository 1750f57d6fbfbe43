"""Simulated experts: exact returns plus each expert's own bias and noise, as far as each answers at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from semiope._arrays import Booleans, Floats, Integers, as_floats, frozen, id_dtype
from semiope._memory import refuse_beyond_memory
from semiope._random import ANNOTATIONS, Seed, fill, key_of
from semiope.data.annotations import Annotations
from semiope.data.episodes import Episodes
from semiope.data.labels import ABSENT
from semiope.errors import OptionError, SchemaError, nearest
from semiope.models.tabular import TabularMDP


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


def annotate(
    episodes: Episodes,
    mdp: TabularMDP,
    returns: Floats,
    *,
    askable: Booleans | None = None,
    annotators: Annotator | Sequence[Annotator] = (),
    of_action_taken: bool = False,
    seed: Seed = 0,
) -> Annotations:
    """Ask every annotator about every decision and every action that is askable and was not taken.

    `returns` is (horizon, n_states, n_actions): what there is to know, as `mdp.action_values(policy)`. `askable`,
    (n_states, n_actions, n_actions), says by state and action taken which others can be asked for (default: all that
    are available). `of_action_taken` asks about the action taken, too: answers that calibrate an annotator.
    Whether a question is answered, and its noise, depend on the seed, the annotator's place, episode, step and action
    alone: not on the policy, nor on `bias`, `std` and `ratio`.
    """
    experts = [annotators] if isinstance(annotators, Annotator) else list(annotators) or [Annotator()]
    _check(experts)
    row, action = _questions(episodes, mdp, returns, askable, of_action_taken)
    state = mdp.states.positions_of(episodes.states)[episodes.state[row]]
    episode = np.repeat(np.arange(episodes.n_episodes), episodes.lengths)[row]
    step = episodes.step[row]
    known = returns[step, state, action]
    key, numbers = key_of(seed, ANNOTATIONS), _numbers(episodes)[episode]
    uniform, gaussian = np.zeros((2, len(row)))
    parts = []
    for place, expert in enumerate(experts):
        bias, std, ratio = (
            _at(getattr(expert, name), name, returns.shape, step, state, action) for name in ("bias", "std", "ratio")
        )
        _check_range(expert.name, std, ratio)
        if np.any(std) or np.any(ratio < 1):
            fill(key, numbers, step, place * mdp.n_actions + action, uniform, gaussian)
        answered = np.flatnonzero(uniform < ratio)
        parts.append((answered, (known + bias + std * gaussian)[answered]))
    if not sum(len(answered) for answered, _ in parts):
        raise SchemaError("annotate: not one question is answered. Raise the annotators' ratio, or draw more episodes.")
    which = np.concatenate([answered for answered, _ in parts])
    who = np.repeat(np.arange(len(experts)), [len(answered) for answered, _ in parts])
    told, labels = episodes.labels.used(episode[which])
    asked, actions = mdp.actions.used(action[which])
    stated = [expert.stated_std for expert in experts if expert.stated_std is not None]
    return Annotations(
        labels=labels,
        actions=actions,
        episode=frozen(told),
        step=frozen(step[which].astype(id_dtype(mdp.horizon))),
        action=frozen(asked),
        value=frozen(np.concatenate([value for _, value in parts])),
        std=frozen(np.array(stated)[who]) if stated else None,
        annotator=pa.array([expert.name for expert in experts]).take(pa.array(who)),
    )


def read_annotator(text: str) -> Annotator:
    """Return an annotator from text such as 'nurse,bias=0.1,noise=0.2,ratio=0.5'."""
    name, *parts = (part.strip() for part in text.split(","))
    given: dict[str, float] = {}
    fields = {"bias": "bias", "noise": "std", "ratio": "ratio"}
    for part in parts:
        word, _, number = part.partition("=")
        if word not in fields:
            raise OptionError(f"annotator: {text!r}: {word!r} is not one of bias, noise, ratio.{nearest(word, fields)}")
        try:
            given[fields[word]] = float(number)
        except ValueError:
            raise OptionError(f"annotator: {text!r}: {number!r} is not a number.") from None
    if not name or "=" in name:
        raise OptionError(f"annotator: {text!r} has no name. Use NAME[,bias=B][,noise=S][,ratio=R].")
    return Annotator(name, **given)


def _questions(
    episodes: Episodes, mdp: TabularMDP, returns: Floats, askable: Booleans | None, of_action_taken: bool
) -> tuple[Integers, Integers]:
    """Row and action of every question, in the order of the rows."""
    shape = (mdp.n_states, mdp.n_actions, mdp.n_actions)
    if returns.shape != (mdp.horizon, *shape[:2]):
        raise SchemaError(f"returns: an array of shape {returns.shape}; give {(mdp.horizon, *shape[:2])}.")
    if askable is not None and (askable.shape != shape or askable.dtype != np.bool_):
        raise SchemaError(f"askable: {askable.dtype} of shape {askable.shape}; give booleans of shape {shape}.")
    if int(episodes.lengths.max()) > mdp.horizon:
        raise SchemaError(
            f"annotate: episodes of {episodes.lengths.max()} steps, but the model's horizon is {mdp.horizon}."
        )
    known = mdp.states.positions_of(episodes.states)
    if (known == ABSENT).any():
        raise SchemaError(f"annotate: the model has no state {episodes.states[int(np.argmin(known))]!r}.")
    decided = np.flatnonzero(episodes.action != ABSENT)
    state = known[episodes.state[decided]]
    taken = mdp.actions.ids_of(episodes.actions, "episodes")[episodes.action[decided]]
    size = float(len(decided)) * mdp.n_actions * (1 + 5 * 8)
    refuse_beyond_memory(size, "the questions about these episodes", "Annotate fewer episodes at a time.")
    asked = np.array(mdp.available[state] if askable is None else askable[state, taken] & mdp.available[state])
    asked[np.arange(len(decided)), taken] = of_action_taken
    position, action = np.nonzero(asked)
    return decided[position], action


def _numbers(episodes: Episodes) -> Integers:
    """What tells episodes apart in a seed's series: their labels if these are integers, else their places."""
    if episodes.labels.kind == "integers":
        labels: Integers = episodes.labels.words.to_numpy()
        return labels
    return np.arange(episodes.n_episodes)


def _at(
    given: Any, name: str, shape: tuple[int, ...], step: Integers, state: Integers, action: Integers
) -> Floats | np.float64:
    """A number per question from one number, an array (n_states, n_actions) or (horizon, n_states, n_actions)."""
    values = as_floats(given, name)
    if not np.isfinite(values).all():
        raise OptionError(f"annotator: {name} is not finite.")
    if values.ndim == 0:
        return values[()]
    if values.shape == shape[1:]:
        return values[state, action]
    if values.shape == shape:
        return values[step, state, action]
    raise SchemaError(f"annotator: {name} is an array of shape {values.shape}; give a number, {shape[1:]} or {shape}.")


def _check(experts: list[Annotator]) -> None:
    names = [expert.name for expert in experts]
    if len(set(names)) < len(names):
        raise OptionError(f"annotators: {', '.join(names)}: give each annotator a name of its own.")
    stated = [expert.stated_std is not None for expert in experts]
    if any(stated) and not all(stated):
        raise OptionError("annotators: either all state their std, or none does.")
    for expert in experts:
        if expert.stated_std is not None and not expert.stated_std > 0:
            raise OptionError(f"annotator {expert.name!r}: stated_std is {expert.stated_std}, but must be above 0.")


def _check_range(name: str, std: Floats | np.float64, ratio: Floats | np.float64) -> None:
    if np.any(std < 0):
        raise OptionError(f"annotator {name!r}: std is {np.min(std):g}, but must not be negative.")
    if np.any((ratio < 0) | (ratio > 1)):
        raise OptionError(f"annotator {name!r}: ratio must lie between 0 and 1: it is the share of questions answered.")
