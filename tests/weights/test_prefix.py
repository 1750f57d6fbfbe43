"""Prefix-weighted mean split weights: exact where questions depend on an episode's past, and as before where not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import semiope as so
from semiope.data.logbook import Logbook
from semiope.domains import sepsis
from semiope.policies.cells import cells_of
from tests.contract.worlds import random_logs
from tests.weights.population import (
    DETERMINISTIC,
    HORIZON,
    N_ACTIONS,
    N_STATES,
    RULES,
    STOCHASTIC,
    Population,
    Rule,
    by_state,
    first_departure,
    population,
    some_first_departures,
)

pytestmark = pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")

WEIGHTS = ["equal", "annotated", "column"]
BEHAVIORS = ["count", "given", "logged", "by row"]
POLICIES = {"deterministic": DETERMINISTIC, "stochastic": STOCHASTIC}


@pytest.fixture(
    scope="module",
    params=[(name, rule) for name in POLICIES for rule in RULES],
    ids=lambda case: f"{case[0]}-{case[1].__name__}",
)
def asked(request: pytest.FixtureRequest) -> Population:
    name, rule = request.param
    return population(POLICIES[name], rule)


@pytest.mark.parametrize("behavior", BEHAVIORS)
@pytest.mark.parametrize("weights", WEIGHTS)
def test_exact_where_questions_depend_on_the_past(asked: Population, weights: str, behavior: str) -> None:
    model = np.random.default_rng(1).normal(size=(HORIZON, N_STATES + 1, N_ACTIONS))
    found = asked.evaluate("c-pdis,c-pdwis,dm-is+", behavior=behavior, weights=weights, means="prefix", model=model)
    for name, estimate in found.items():
        assert estimate.value == pytest.approx(asked.value, abs=1e-12), name
        assert estimate.normalizers.mean() == pytest.approx(1.0, abs=1e-12), name


@pytest.mark.parametrize("weights", WEIGHTS)
def test_plain_means_are_biased_there(asked: Population, weights: str) -> None:
    for behavior in ("count", "given"):
        found = asked.evaluate("c-pdis", behavior=behavior, weights=weights, means="cell", cell="step,state")
        assert abs(found["c-pdis"].value - asked.value) > 3e-3


def test_plain_means_are_far_off_for_first_departures() -> None:
    asked = population(DETERMINISTIC, first_departure)
    assert asked.evaluate("c-pdis")["c-pdis"].value > asked.value + 0.3


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("behavior", BEHAVIORS)
@pytest.mark.parametrize("weights", WEIGHTS)
def test_means_agree_where_questions_depend_on_the_state(policy: Any, weights: str, behavior: str) -> None:
    asked = population(policy, by_state)
    found = [
        asked.evaluate("c-pdis,c-is", behavior=behavior, weights=weights, means=means, cell="step,state")
        for means in ("cell", "prefix")
    ]
    for name in ("c-pdis", "c-is"):
        assert found[1][name].values == pytest.approx(found[0][name].values, abs=1e-11)
        assert found[1][name].value == pytest.approx(asked.value, abs=1e-12)


def test_a_behaviour_that_depends_on_the_past_does_no_harm_if_it_is_counted() -> None:
    asked = population(STOCHASTIC, some_first_departures, habit=True)
    assert asked.evaluate("c-pdis", means="prefix")["c-pdis"].value == pytest.approx(asked.value, abs=1e-12)
    assert abs(asked.evaluate("pdis", cell="step,state")["pdis"].value - asked.value) > 0.01


@pytest.mark.parametrize("weights", ["equal", "annotated"])
@pytest.mark.parametrize("rule", [first_departure, some_first_departures])
def test_a_behaviour_that_depends_on_the_past_given_row_by_row(rule: Rule, weights: str) -> None:
    """Exact where weights of samples that arrive depend on cell and action alone, as for first departures."""
    asked = population(DETERMINISTIC, rule, habit=True)
    found = asked.evaluate("c-pdis,pdis", behavior="by row", weights=weights, means="prefix")
    assert found["pdis"].value == pytest.approx(asked.value, abs=1e-12)
    assert found["c-pdis"].value == pytest.approx(asked.value, abs=1e-12)
    assert found["c-pdis"].normalizers.mean() == pytest.approx(1.0, abs=1e-12)


def test_weights_of_whole_episodes_are_not_mended_and_a_warning_says_so() -> None:
    asked = population(STOCHASTIC, some_first_departures)
    found = asked.evaluate("c-is,c-wis,c-pdis", means="prefix")
    assert abs(found["c-is"].value - asked.value) > 0.01
    said = [warning for warning in found.warnings if "means='prefix'" in warning]
    assert len(said) == 1
    assert "c-is and c-wis weigh a reward by what the episode was asked about later" in said[0]
    assert not any("means=" in warning for warning in asked.evaluate("c-pdis", means="prefix").warnings)
    assert not any("means=" in warning for warning in asked.evaluate("c-is").warnings)


def first_departures(episodes: so.Episodes, policy: so.Policy, answers: so.Annotations) -> so.Annotations:
    """Of all answers, those about what a deterministic policy would do where an episode first does otherwise."""
    logbook = Logbook.of(episodes, answers, {"e": policy.actions})
    told, known = logbook.annotations, policy.bind(logbook, cells_of(episodes, "state"), "e")
    departs = known.taken(slice(0, episodes.n_steps)) == 0
    number = np.cumsum(departs)
    before = number - departs - np.repeat(np.append(0, number)[episodes.offsets[:-1]], episodes.lengths)
    keep = (departs & (before == 0))[told.row] & (known.annotated(slice(0, len(told.row))) > 0)
    row = told.row[keep]
    labels = np.array([episodes.labels[i] for i in range(episodes.n_episodes)])
    return so.Annotations.from_arrays(
        episode=np.repeat(labels, episodes.lengths)[row], step=episodes.step[row],
        action=np.array([logbook.actions[int(a)] for a in told.action[keep]]), value=told.value[keep],
    )  # fmt: skip


def assert_same_as_all_answers(
    episodes: so.Episodes, policy: so.Policy, answers: so.Annotations, behavior: Any, gamma: float
) -> None:
    few = first_departures(episodes, policy, answers)
    assert 0 < len(few.step) < len(answers.step)
    options: dict[str, Any] = {"behavior": behavior, "gamma": gamma}
    full = so.evaluate(episodes, policy, annotations=answers, estimators="c*-pdis", **options)["c*-pdis"]
    options |= {"weights": "annotated", "means": "prefix"}
    found = so.evaluate(episodes, policy, annotations=few, estimators="c-pdis,c-pdwis,c-is", **options)
    for estimate in found.values():
        assert estimate.values == pytest.approx(full.values, abs=1e-12)
        assert estimate.value == pytest.approx(full.value, abs=1e-12)
        assert estimate.normalizers == pytest.approx(np.ones(len(full.values)), abs=1e-12)


@given(seed=st.integers(0, 10**6), known=st.booleans())
@settings(max_examples=25)
def test_first_departures_are_enough_for_a_deterministic_policy(seed: int, known: bool) -> None:
    """In any data, in each episode: what c*-pdis gives with all answers."""
    logs = random_logs(seed, fully_annotated=True, every_pair=True)
    policy = so.Policy.deterministic(logs.evaluation.argmax(axis=1), logs.evaluation.shape[1])
    assert_same_as_all_answers(
        so.Episodes.from_arrays(**logs.episodes), policy, so.Annotations.from_arrays(**logs.annotations),
        so.Policy.from_table(logs.behavior) if known else "count", 0.9,
    )  # fmt: skip


@pytest.mark.parametrize("behavior", ["count", "given", "logged"])
def test_first_departures_are_enough_on_sepsis(behavior: str) -> None:
    world = sepsis.world()
    policy = world.policies["flip-50-seed-42"]
    episodes = world.sample(200, seed=3, propensities=True)
    answers = world.annotate(episodes, policy, annotators=so.Annotator(std=0.2), seed=4)
    known = {"count": "count", "given": world.behavior, "logged": None}[behavior]
    assert_same_as_all_answers(episodes, policy, answers, known, 0.99)


@pytest.mark.parametrize("behavior", ["count", "given"])
def test_estimates_on_sepsis_are_not_off_by_more_than_chance(behavior: str) -> None:
    """Means over eight datasets, with an error probability of 0.002 by Student's t; plain means are far outside."""
    world = sepsis.world()
    policy = world.policies["flip-50-seed-42"]
    found: dict[str, list[float]] = {"cell": [], "prefix": []}
    for number in range(8):
        episodes = world.sample(400, seed=5, first=400 * number)
        few = first_departures(episodes, policy, world.annotate(episodes, policy))
        known = "count" if behavior == "count" else world.behavior
        for means, values in found.items():
            options: dict[str, Any] = {"behavior": known, "cell": "step,state", "means": means, "gamma": 0.99}
            results = so.evaluate(episodes, policy, annotations=few, estimators="c-pdis", **options)
            values.append(results["c-pdis"].value)
    truth = world.mdp.value(policy)
    off = {means: abs(np.mean(values) - truth) / (np.std(values, ddof=1) / 8**0.5) for means, values in found.items()}
    assert off["prefix"] < 4.8
    assert np.mean(found["cell"]) > truth + 0.02


@pytest.mark.parametrize("weights", ["equal", "optimal"])
@given(seed=st.integers(0, 10**6), known=st.booleans(), full=st.booleans())
@settings(max_examples=15)
def test_means_agree_without_questions_and_with_all(weights: str, seed: int, known: bool, full: bool) -> None:
    logs = random_logs(seed, fully_annotated=True, every_pair=True)
    logs = logs if full else logs.without_annotations()
    options: dict[str, Any] = {} if known else {"behavior": "count"}
    options |= {"cell": "step,state", "weights": "equal" if full else weights}
    names = ["c-is", "c-wis", "c-pdis", "c-pdwis", "pdis"]
    cell, prefix = (logs.evaluate(names, means=means, **options) for means in ("cell", "prefix"))
    for name in names:
        assert prefix[name].values == pytest.approx(cell[name].values, abs=1e-12, rel=1e-12)
        assert prefix[name].normalizers == pytest.approx(cell[name].normalizers, abs=1e-12, rel=1e-12)
    same = logs.evaluate(["c*-pdis" if full else "pdis"], **options)
    assert prefix["c-pdis"].values == pytest.approx(next(iter(same.values())).values, abs=1e-12, rel=1e-12)


@pytest.mark.parametrize("known", [True, False])
def test_all_factual_weights_are_plain_importance_sampling(known: bool) -> None:
    logs = random_logs(5, fully_annotated=False)
    options: dict[str, Any] = {} if known else {"behavior": "count"}
    found = logs.evaluate(["c-pdis", "pdis"], weights="factual", means="prefix", **options)
    assert found["c-pdis"].values == pytest.approx(found["pdis"].values, rel=1e-14)
    assert found["pdis"].values.any()


@given(seed=st.integers(0, 10**6), known=st.booleans(), weights=st.sampled_from(["equal", "annotated", "optimal"]))
@settings(max_examples=15)
def test_order_and_labels_do_not_matter(seed: int, known: bool, weights: str) -> None:
    logs, rng = random_logs(seed, fully_annotated=False, every_pair=True), np.random.default_rng(seed)
    options: dict[str, Any] = {"weights": weights, "means": "prefix", **({} if known else {"behavior": "count"})}
    if weights == "optimal":  # folds are dealt in the order of labels
        new = np.arange(logs.episodes["episode"].max() + 1) + 7
    else:
        new = rng.permutation(logs.episodes["episode"].max() + 1)
    tables = []
    for table in (logs.episodes, logs.annotations):
        order = rng.permutation(len(table["step"]))
        shuffled = {name: column[order] for name, column in table.items()}
        tables.append({**shuffled, "episode": new[shuffled["episode"]]})
    one = logs.evaluate(["c-pdis", "c-pdwis"], **options)
    two = replace(logs, episodes=tables[0], annotations=tables[1]).evaluate(["c-pdis", "c-pdwis"], **options)
    for name, estimate in one.items():
        assert two[name].value == pytest.approx(estimate.value, rel=1e-10, abs=1e-12)


def test_one_cell_by_hand() -> None:
    """Two steps; who took 1 first is asked about 1 at the second step, and arrives with another weight than others."""
    columns = {"episode": [0, 0, 1, 1, 2, 2], "step": [0, 1] * 3, "state": [0, 1] * 3, "action": [0, 0, 0, 1, 1, 0]}
    answers = so.Annotations.from_arrays(episode=[2], step=[1], action=[1], value=[4.0])
    policy = so.Policy.from_table(np.array([[0.4, 0.6], [0.5, 0.5]]))
    results = so.evaluate(
        {**columns, "reward": [0.0, 1.0, 0.0, 2.0, 0.0, 3.0]}, policy, annotations=answers, estimators="c-pdis",
        behavior="count", means="prefix",
    )  # fmt: skip
    arrive = np.array([0.4 / (2 / 3), 0.4 / (2 / 3), 0.6 / (1 / 3)])
    below = np.array([arrive[0] + arrive[2] / 2, arrive[1] + arrive[2] / 2]) / arrive.sum()
    factor = 0.5 / below
    expected = arrive * [factor[0] * 1, factor[1] * 2, 0.5 * factor[0] * 3 + 0.5 * factor[1] * 4]
    assert results["c-pdis"].values == pytest.approx(expected, rel=1e-14)
    assert results["c-pdis"].normalizers.mean() == pytest.approx(1.0, rel=1e-14)


def test_products_beyond_the_range_of_numbers() -> None:
    """Ratios of two over 1500 steps: those of the last steps are as they must be."""
    steps, asked_at = 1500, 1400
    action = np.zeros((3, steps), dtype=int)
    action[2, 0] = 1
    rows = {"episode": np.repeat([0, 1, 2], steps), "step": np.tile(np.arange(steps), 3)}
    rows |= {"state": np.zeros(3 * steps, dtype=int), "action": action.ravel(), "reward": np.ones(3 * steps)}
    half, first = so.Policy.from_table(np.array([[0.5, 0.5]])), so.Policy.from_table(np.array([[1.0, 0.0]]))
    answers = so.Annotations.from_arrays(episode=[0], step=[asked_at], action=[1], value=[1.0])
    results = so.evaluate(rows, first, annotations=answers, behavior=half, estimators="c-pdwis", means="prefix")
    below = results.origin.weighed.problem.prefix.lookup.of_taken.reshape(3, steps)[:2]
    assert below[:, asked_at] == pytest.approx(0.5 * 0.75)
    assert np.delete(below, asked_at, axis=1) == pytest.approx(0.5)
    assert np.isfinite(results["c-pdwis"].value)


def test_support_is_what_samples_that_arrive_know_of() -> None:
    """The answer about 1 is at a step that its episode reaches without weight; nobody else knows of 1 there."""
    columns = {"episode": [0, 0, 1, 1], "step": [0, 1, 0, 1], "state": [0, 1, 0, 1], "action": [1, 0, 0, 0]}
    answers = so.Annotations.from_arrays(episode=[0], step=[1], action=[1], value=[4.0])
    policy = so.Policy.from_table(np.array([[1.0, 0.0], [0.5, 0.5]]))
    options: dict[str, Any] = {"annotations": answers, "estimators": "c-pdis", "cell": "step,state"}
    rows = {**columns, "reward": [0.0] * 4}
    mass = {
        means: so.evaluate(rows, policy, means=means, **options).diagnostics["unsupported_mass"]["augmented"]
        for means in ("cell", "prefix")
    }
    assert mass == {"cell": 0.0, "prefix": 0.25}


def test_cells_are_of_step_and_state_and_settings_say_so() -> None:
    logs = random_logs(1, fully_annotated=False)
    plain, prefix = (logs.evaluate(["c-pdis"], means=means) for means in (None, "prefix"))
    assert (plain.settings["cell"], plain.settings["means"]) == ("state", "cell")
    assert (prefix.settings["cell"], prefix.settings["means"]) == ("step,state", "prefix")


def test_what_goes_on_from_results_goes_on_with_prefixes() -> None:
    """Intervals, comparison, resamples, refutations and the report."""
    asked = population(DETERMINISTIC, first_departure)
    keep = np.random.default_rng(0).choice(8192, 150, replace=False)
    tables = [
        {name: column[np.isin(table["episode"], keep)] for name, column in table.items()}
        for table in (asked.episodes, asked.annotations)
    ]
    results = replace(asked, episodes=tables[0], annotations=tables[1]).evaluate("c-pdis,pdis", means="prefix")
    low, high = results["c-pdis"].interval()
    assert low < results["c-pdis"].value < high
    resampled = so.refitted(results, "c-pdis", resamples=20)
    assert 0 < resampled.std_error < 3 * results["c-pdis"].std_error
    assert so.compare(results)["policy"].difference.std_error > 0
    assert so.diagnose(results).light in ("green", "amber", "red")
    page = so.report(results).html
    assert "<dt>means</dt><dd>prefix</dd>" in page
    assert "means=&#x27;prefix&#x27;" in page


@pytest.mark.parametrize(
    ("means", "message"),
    [("prefixes", "means: 'prefixes' is not known. Did you mean 'prefix'?"), (3, "means: 3 is not known.")],
)
def test_unknown_means_are_refused(means: Any, message: str) -> None:
    with pytest.raises(so.OptionError, match=message.replace("?", r"\?")):
        random_logs(1, fully_annotated=False).evaluate(["c-pdis"], means=means)
