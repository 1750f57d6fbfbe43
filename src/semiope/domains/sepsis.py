"""The sepsis simulator of the paper's section 5.2 (after Oberst and Sontag, 2019), from its rules.

A patient has four vital signs, may be diabetic, and may be on antibiotics, vasopressors and ventilation. Each step the
team decides which of the three treatments to give next. Treatments act one after the other (antibiotics, ventilation,
vasopressors), then what no treatment has touched fluctuates. Three or more abnormal vitals mean death (-1), none
abnormal and no treatment discharge (+1), both paid on the step after.

States are numbered 0 ... 1439 by the eight variables of `Patient` in their order, the last varying fastest; 1440 stands
for dead and 1441 for discharged patients. Actions are numbered 4 antibiotics + 2 ventilation + vasopressors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np

from semiope._arrays import Booleans, Floats, Integers
from semiope.domains.world import World
from semiope.errors import OptionError
from semiope.models.tabular import TabularMDP

GAMMA, HORIZON = 0.99, 20
DIABETIC_SHARE = 0.2
# Behaviour: how often the vasopressor decision is the opposite of the optimal policy's.
EXPLORATION = 0.1
# Evaluation policies: in how many states, and by which seeds drawn, the vasopressor decision is flipped.
FLIPS = (50, 100, 200, 300, 400)
FLIP_SEEDS = (0, 42, 123, 424242, 10000)

VERY_LOW, LOW, NORMAL, HIGH, VERY_HIGH = -2, -1, 0, 1, 2


class Patient(NamedTuple):
    """Levels of vital signs relative to normal, and what the patient is given at the moment."""

    diabetic: bool
    heart_rate: int
    pressure: int
    oxygen: int
    glucose: int
    antibiotics: bool
    vasopressors: bool
    ventilation: bool


class Treatment(NamedTuple):
    """What is to be given next."""

    antibiotics: bool
    ventilation: bool
    vasopressors: bool


LEVELS = {
    "heart_rate": (LOW, NORMAL, HIGH),
    "pressure": (LOW, NORMAL, HIGH),
    "oxygen": (LOW, NORMAL),
    "glucose": (VERY_LOW, LOW, NORMAL, HIGH, VERY_HIGH),
}
OFF_ON = (False, True)
PATIENTS = tuple(Patient._make(values) for values in product(OFF_ON, *LEVELS.values(), OFF_ON, OFF_ON, OFF_ON))
TREATMENTS = tuple(Treatment(*given) for given in product(OFF_ON, repeat=3))
NUMBER = {patient: number for number, patient in enumerate(PATIENTS)}
DEAD, DISCHARGED = len(PATIENTS), len(PATIENTS) + 1
N_STATES, N_ACTIONS = len(PATIENTS) + 2, len(TREATMENTS)

# Rules ---------------------------------------------------------------------------------------------------------------


@dataclass
class Vital:
    """Where one vital sign will be: the probability of each level, and whether it may still fluctuate."""

    chances: dict[int, float]
    fluctuates: bool = True

    def move(self, moves: Mapping[tuple[int, int], float]) -> None:
        """Move from one level to another with the given probabilities; the vital no longer fluctuates at this step."""
        before, self.fluctuates = self.chances, False
        self.chances = dict(before)
        for (origin, target), chance in moves.items():
            moved = before.get(origin, 0.0) * chance
            self.chances[origin] = self.chances.get(origin, 0.0) - moved
            self.chances[target] = self.chances.get(target, 0.0) + moved


class Vitals(NamedTuple):
    """The four vital signs on their way to the next step; given the patient, they move independently."""

    heart_rate: Vital
    pressure: Vital
    oxygen: Vital
    glucose: Vital


def antibiotics(patient: Patient, on: bool, vitals: Vitals) -> None:
    """Given, they calm heart rate and pressure; withdrawn, both may rise again."""
    if on:
        vitals.heart_rate.move({(HIGH, NORMAL): 0.5})
        vitals.pressure.move({(HIGH, NORMAL): 0.5})
    elif patient.antibiotics:
        vitals.heart_rate.move({(NORMAL, HIGH): 0.1})
        vitals.pressure.move({(NORMAL, HIGH): 0.1})


def ventilation(patient: Patient, on: bool, vitals: Vitals) -> None:
    """Given, it restores oxygen; withdrawn, oxygen may fall again."""
    if on:
        vitals.oxygen.move({(LOW, NORMAL): 0.7})
    elif patient.ventilation:
        vitals.oxygen.move({(NORMAL, LOW): 0.1})


def vasopressors(patient: Patient, on: bool, vitals: Vitals) -> None:
    """Given, they raise pressure, and in diabetics glucose, which they hold in others; withdrawn, pressure may fall."""
    if on and patient.diabetic:
        vitals.pressure.move({(LOW, NORMAL): 0.5, (LOW, HIGH): 0.4, (NORMAL, HIGH): 0.9})
        vitals.glucose.move({(level, level + 1): 0.5 for level in LEVELS["glucose"][:-1]})
    elif on:
        vitals.pressure.move({(LOW, NORMAL): 0.7, (NORMAL, HIGH): 0.7})
        vitals.glucose.move({})
    elif patient.vasopressors:
        chance = 0.05 if patient.diabetic else 0.1
        vitals.pressure.move({(NORMAL, LOW): chance, (HIGH, NORMAL): chance})


def fluctuations(patient: Patient, vitals: Vitals) -> None:
    """What no treatment has touched moves a level down or up; glucose of diabetics more often."""
    for (name, levels), vital in zip(LEVELS.items(), vitals, strict=True):
        if vital.fluctuates:
            chance = 0.3 if name == "glucose" and patient.diabetic else 0.1
            steps = [*pairwise(levels)]
            vital.move({**dict.fromkeys(steps, chance), **{(high, low): chance for low, high in steps}})


def after(patient: Patient, treatment: Treatment) -> dict[Patient, float]:
    """Every patient that this one may be at the next step, with its probability."""
    vitals = Vitals(*(Vital({level: 1.0}) for level in patient[1:5]))
    antibiotics(patient, treatment.antibiotics, vitals)
    ventilation(patient, treatment.ventilation, vitals)
    vasopressors(patient, treatment.vasopressors, vitals)
    fluctuations(patient, vitals)
    given = treatment.antibiotics, treatment.vasopressors, treatment.ventilation
    following = {}
    for (h, p), (b, q), (o, r), (g, u) in product(*(vital.chances.items() for vital in vitals)):
        if chance := p * q * r * u:
            following[Patient(patient.diabetic, h, b, o, g, *given)] = chance
    return following


def is_dead(patient: Patient) -> bool:
    """Three or more abnormal vitals."""
    return sum(level != NORMAL for level in patient[1:5]) >= 3


def is_discharged(patient: Patient) -> bool:
    """No abnormal vital, no treatment."""
    return not any(patient[1:])


# Tables --------------------------------------------------------------------------------------------------------------


def world() -> World:
    """The simulator with its behaviour policy and the 26 evaluation policies."""
    built = _built()
    return replace(built, policies=dict(built.policies))  # adding to one's own changes nobody else's


@cache
def _built() -> World:
    mdp = model()
    best = np.argmax(mdp.optimal(infinite=True).probs, axis=1)
    chosen = np.eye(N_ACTIONS)
    behavior = (1 - EXPLORATION) * chosen[best] + EXPLORATION * chosen[best ^ 1]
    policies = {"optimal": mdp.policy(chosen[best])}
    for n, seed in product(FLIPS, FLIP_SEEDS):
        flipped = best.copy()
        flipped[np.random.default_rng(seed).choice(range(len(PATIENTS)), n, replace=False)] ^= 1
        policies[f"flip-{n}-seed-{seed}"] = mdp.policy(chosen[flipped])
    return World(
        name="sepsis",
        mdp=mdp,
        behavior=mdp.policy(behavior),
        policies=policies,
        askable=np.broadcast_to(_other_vasopressors(), (N_STATES, N_ACTIONS, N_ACTIONS)),
        state_words=tuple(describe(state) for state in range(N_STATES)),
        action_words=tuple(describe_treatment(action) for action in range(N_ACTIONS)),
    )


@cache
def model() -> TabularMDP:
    """The exact transition table, rewards and initial distribution."""
    dead, discharged = (np.array([test(patient) for patient in PATIENTS]) for test in (is_dead, is_discharged))
    ends = [(DEAD, DEAD), (DISCHARGED, DISCHARGED)]
    ends += [(int(state), DEAD) for state in np.flatnonzero(dead)]
    ends += [(int(state), DISCHARGED) for state in np.flatnonzero(discharged)]
    entries = [(state, action, target, 1.0) for state, target in ends for action in range(N_ACTIONS)]
    living = np.flatnonzero(~dead & ~discharged)
    for start, (number, treatment) in product(living.tolist(), enumerate(TREATMENTS)):
        following = after(PATIENTS[start], treatment)
        entries += [(start, number, NUMBER[patient], chance) for patient, chance in following.items()]
    state, action, next_state, prob = zip(*entries, strict=True)
    reward = np.zeros((N_STATES, N_ACTIONS))
    reward[:DEAD][dead], reward[:DEAD][discharged] = -1.0, 1.0
    return TabularMDP.from_sparse(
        state=state,
        action=action,
        next_state=next_state,
        prob=prob,
        reward=reward,
        initial=_initial(living),
        terminal=np.r_[dead | discharged, True, True],
        gamma=GAMMA,
        horizon=HORIZON,
        allow_unreachable=True,  # some deaths need more to go wrong at once than a step allows
    )


def _initial(living: Integers) -> Floats:
    """Uniform over the living of each group; diabetics are a fifth."""
    diabetic = np.array([PATIENTS[state].diabetic for state in living])
    initial = np.zeros(N_STATES)
    initial[living[diabetic]] = DIABETIC_SHARE / diabetic.sum()
    initial[living[~diabetic]] = (1 - DIABETIC_SHARE) / (~diabetic).sum()
    return initial


def _other_vasopressors() -> Booleans:
    """[action taken, action]: the same antibiotics and ventilation with the other decision on vasopressors."""
    actions = np.arange(N_ACTIONS)
    found: Booleans = np.equal(actions[:, None] ^ 1, actions)
    return found


# Words ---------------------------------------------------------------------------------------------------------------

LEVEL_WORDS = {VERY_LOW: "very low", LOW: "low", NORMAL: "normal", HIGH: "high", VERY_HIGH: "very high"}


def describe(state: int) -> str:
    """A state in words, such as 'diabetic; heart rate high, oxygen low; on antibiotics'."""
    if not 0 <= state < N_STATES:
        raise OptionError(f"state: {state} is not an id from 0 to {N_STATES - 1}.")
    if state in (DEAD, DISCHARGED):
        return "after death" if state == DEAD else "after discharge"
    patient = PATIENTS[state]
    vitals = [
        f"{name.replace('_', ' ')} {LEVEL_WORDS[level]}"
        for name, level in zip(LEVELS, patient[1:5], strict=True)
        if level != NORMAL
    ]
    on = [name for name in ("antibiotics", "vasopressors", "ventilation") if getattr(patient, name)]
    parts = ["diabetic" if patient.diabetic else "not diabetic", ", ".join(vitals) or "vitals normal"]
    parts.append("on " + ", ".join(on) if on else "no treatment")
    outcome = "dead: " if is_dead(patient) else "discharged: " if is_discharged(patient) else ""
    return outcome + "; ".join(parts)


def describe_treatment(action: int) -> str:
    """An action in words, such as 'antibiotics and vasopressors'."""
    if not 0 <= action < N_ACTIONS:
        raise OptionError(f"action: {action} is not an id from 0 to {N_ACTIONS - 1}.")
    given = [name for name, on in TREATMENTS[action]._asdict().items() if on]
    return " and ".join(given) or "no treatment"
