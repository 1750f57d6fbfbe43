"""The sepsis world against its golden tables and known values, and in words."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from semiope.domains import sepsis
from semiope.domains.sepsis import HIGH, LOW, NORMAL, VERY_LOW, Patient, Treatment
from tests.conftest import reference
from tests.models.test_tabular import dense


@cache
def golden() -> dict[str, NDArray[Any]]:
    with np.load(reference("sepsis/mdp.npz")) as found:
        return {name: found[name] for name in found}


def test_the_tables_are_the_golden_ones() -> None:
    mdp, g = sepsis.model(), golden()
    expected = np.zeros((1442, 8, 1442))
    expected[g["s"], g["a"], g["s_next"]] = g["p"]
    assert np.abs(dense(mdp) - expected).max() <= 1e-12
    assert len(mdp.transitions.prob) == len(g["p"])
    assert np.abs(mdp.reward - g["R"]).max() <= 1e-12
    assert np.abs(mdp.initial - g["isd"]).max() <= 1e-12
    assert (mdp.gamma, mdp.horizon) == (float(g["gamma"]), int(g["horizon"]))


def test_the_policies_are_the_golden_ones() -> None:
    world, g = sepsis.world(), golden()
    assert len(world.policies) == 26
    actions = np.array([policy.probs.argmax(axis=1) for policy in world.policies.values()])
    assert np.array_equal(actions, g["pol_actions"])
    assert np.array_equal(actions[0], g["pi_star"])
    names = [f"flip-{n}-seed-{s}" for n, s in zip(g["pol_flip_num"], g["pol_flip_seed"], strict=True)]
    assert list(world.policies)[1:] == names[1:]


def test_the_policies_values_are_the_golden_ones() -> None:
    world, g = sepsis.world(), golden()
    policies = world.policies.values()
    assert [world.mdp.value(p) for p in policies] == pytest.approx(g["pol_value"].tolist(), rel=0, abs=1e-12)
    assert [world.mdp.initial_std(p) for p in policies] == pytest.approx(g["pol_init_std"].tolist(), rel=0, abs=1e-12)


def test_known_values() -> None:
    """Figures of the reference: they hold without the golden files."""
    world = sepsis.world()
    mdp, behavior, best = world.mdp, world.behavior, world.policies["optimal"]
    assert mdp.value(best) == pytest.approx(0.4087717930, abs=1e-9)
    assert mdp.value(behavior) == pytest.approx(0.2503835479, abs=1e-9)
    stds = [mdp.initial_std(policy) for policy in world.policies.values()]
    assert np.mean(stds) == pytest.approx(0.31153, abs=5e-6)
    assert sum(mdp.value(policy) >= mdp.value(behavior) for policy in world.policies.values()) == 15
    # The infinite horizon, by solving for the value of the policy rather than by iterating.
    from scipy.sparse import csr_array, eye_array
    from scipy.sparse.linalg import spsolve

    rows, chosen = np.arange(1442), best.probs.argmax(axis=1)
    following = csr_array(dense(mdp)[rows, chosen])
    forever = spsolve((eye_array(1442) - 0.99 * following).tocsc(), mdp.reward[rows, chosen])
    assert mdp.initial @ forever == pytest.approx(0.6775418119, abs=1e-9)


def test_groups() -> None:
    living = [p for p in sepsis.PATIENTS if not sepsis.is_dead(p) and not sepsis.is_discharged(p)]
    assert len(sepsis.PATIENTS) == 1440
    assert [sum(p.diabetic == d for p in living) for d in (False, True)] == [303, 303]


CALM = Patient(False, NORMAL, NORMAL, NORMAL, NORMAL, False, False, False)
NOTHING = Treatment(False, False, False)


def chances(patient: Patient, treatment: Treatment, vital: str) -> dict[int, float]:
    found: dict[int, float] = {}
    for following, chance in sepsis.after(patient, treatment).items():
        level = getattr(following, vital)
        found[level] = found.get(level, 0.0) + chance
    return {level: round(chance, 12) for level, chance in found.items()}


@pytest.mark.parametrize(
    ("patient", "treatment", "vital", "expected"),
    [
        (CALM, NOTHING, "heart_rate", {LOW: 0.1, NORMAL: 0.8, HIGH: 0.1}),
        (CALM, NOTHING, "oxygen", {LOW: 0.1, NORMAL: 0.9}),
        (CALM._replace(diabetic=True, glucose=VERY_LOW), NOTHING, "glucose", {VERY_LOW: 0.7, LOW: 0.3}),
        (CALM._replace(heart_rate=HIGH), NOTHING._replace(antibiotics=True), "heart_rate", {NORMAL: 0.5, HIGH: 0.5}),
        (CALM._replace(antibiotics=True), NOTHING, "pressure", {NORMAL: 0.9, HIGH: 0.1}),
        (CALM._replace(oxygen=LOW), NOTHING._replace(ventilation=True), "oxygen", {LOW: 0.3, NORMAL: 0.7}),
        (CALM._replace(pressure=LOW), NOTHING._replace(vasopressors=True), "pressure", {LOW: 0.3, NORMAL: 0.7}),
        (
            CALM._replace(diabetic=True, pressure=LOW),
            NOTHING._replace(vasopressors=True),
            "pressure",
            {LOW: 0.1, NORMAL: 0.5, HIGH: 0.4},
        ),
        (CALM._replace(vasopressors=True, diabetic=True), NOTHING, "pressure", {NORMAL: 0.95, LOW: 0.05}),
        # Antibiotics act before vasopressors: half of the high pressures come down, and 0.7 of those go up again.
        (
            CALM._replace(pressure=HIGH),
            Treatment(antibiotics=True, ventilation=False, vasopressors=True),
            "pressure",
            {NORMAL: 0.15, HIGH: 0.85},
        ),
    ],
)
def test_rules(patient: Patient, treatment: Treatment, vital: str, expected: dict[int, float]) -> None:
    assert chances(patient, treatment, vital) == expected


def test_what_is_given_is_on_at_the_next_step() -> None:
    treatment = Treatment(antibiotics=True, ventilation=False, vasopressors=True)
    for following in sepsis.after(CALM, treatment):
        assert (following.antibiotics, following.ventilation, following.vasopressors) == (True, False, True)


def test_words() -> None:
    number = sepsis.NUMBER[Patient(True, HIGH, NORMAL, LOW, NORMAL, True, False, True)]
    assert sepsis.describe(number) == "diabetic; heart rate high, oxygen low; on antibiotics, ventilation"
    assert sepsis.describe(sepsis.NUMBER[CALM]) == "discharged: not diabetic; vitals normal; no treatment"
    assert sepsis.describe(0).startswith("dead: not diabetic; heart rate low, pressure low")
    assert (sepsis.describe(1440), sepsis.describe(1441)) == ("after death", "after discharge")
    assert sepsis.describe_treatment(5) == "antibiotics and vasopressors"
    assert sepsis.describe_treatment(0) == "no treatment"
    assert len(set(sepsis.world().state_words)) == 1442


def test_a_trajectory_can_be_read() -> None:
    world = sepsis.world()
    episodes = world.sample(50, seed=1)
    ended = next(i for i in range(50) if episodes.action[episodes.offsets[i + 1] - 1] < 0)
    lines = world.tell(episodes, ended).splitlines()
    assert lines[0] == f"episode {ended}"
    assert len(lines) == 1 + episodes.lengths[ended]
    assert lines[-1].endswith(("(+1)", "(-1)"))
    assert " -> " in lines[1]


def test_only_the_other_vasopressor_decision_can_be_asked_for() -> None:
    askable = sepsis.world().askable
    for taken in range(8):
        assert np.flatnonzero(askable[0, taken]).tolist() == [taken ^ 1]
