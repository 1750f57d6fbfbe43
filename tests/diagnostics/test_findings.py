"""Every diagnostic has data on which it must be red, and data on which it must be green."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import semiope as so
from semiope.diagnostics.findings import AMBER, GREEN, RED, Rule, judge_average, judge_weights, worst
from semiope.domains import bandit
from semiope.errors import quietly
from semiope.estimate.result import EpisodeValues, Estimate
from semiope.pipeline.diagnosis import Diagnosis, trust
from tests.diagnostics.cases import diagnosed, drawn, evaluated, everywhere, one_step

LOGS, ALL = "decisions without support by the logs alone", "decisions without support by logs and answers"
PLACEBO = "placebo: today's policy"


def test_rules_have_two_sides() -> None:
    falling, rising = Rule(amber=0.5, red=0.2), Rule(amber=1, red=2, form="{:.0f}")
    assert [falling.light(x) for x in (0.6, 0.5, 0.4, 0.2, 0.1)] == [GREEN, GREEN, AMBER, AMBER, RED]
    assert [rising.light(x) for x in (0.0, 1.0, 1.5, 2.0, 3.0, math.inf)] == [GREEN, GREEN, AMBER, AMBER, RED, RED]
    assert rising.light(math.nan) == AMBER
    assert str(falling) == "amber below 50%, red below 20%"
    assert str(rising) == "amber above 1, red above 2"
    assert worst([GREEN, RED, AMBER]) == RED
    assert worst([]) == GREEN


def answered(episodes: so.Episodes, value: Callable[[Any, Any], Any], annotators: int = 1) -> so.Annotations:
    """The other action of two is asked about at every decision; `value` of (state, action) plus a little noise."""
    rng = np.random.default_rng(3)
    other = 1 - episodes.action
    n = len(other)
    return so.Annotations.from_arrays(
        episode=np.repeat(np.arange(episodes.n_episodes), episodes.lengths), step=np.asarray(episodes.step),
        action=other, value=value(episodes.state, other) + 0.01 * rng.normal(size=n),
        annotator=[f"expert {i % annotators}" for i in range(n)],
    )  # fmt: skip


def two_states(n: int = 400, seed: int = 0) -> so.Episodes:
    rng = np.random.default_rng(seed)
    state = rng.integers(2, size=n)
    action = rng.integers(2, size=n)
    return one_step(action, by_question(state, action) + rng.normal(size=n), state)


def heard(value: Callable[[Any, Any], Any], annotators: int = 1) -> Diagnosis:
    logs = two_states()
    answers = answered(logs, value, annotators)
    return diagnosed(logs, everywhere(0.2, 0.8, n_states=2), "c-pdis", annotations=answers)


def noise(state: Any, action: Any) -> Any:
    return np.random.default_rng(7).normal(size=len(state))


def by_question(state: Any, action: Any) -> Any:
    return 2.0 * state + action


def one_expert_off(state: Any, action: Any) -> Any:
    return by_question(state, action) + 3.0 * (np.arange(len(state)) % 4 == 0)


def unlike_today() -> Diagnosis:
    """Twelve steps of a policy that does mostly what is seldom done."""
    return diagnosed(drawn(300, 12, (0.7, 0.3)), everywhere(0.2, 0.8))


def like_today() -> Diagnosis:
    return diagnosed(drawn(300, 12, (0.5, 0.5)), everywhere(0.49, 0.51))


def bandit_with(behavior: tuple[float, float], acted: tuple[float, float] = (0.9, 0.1)) -> Diagnosis:
    """A thousand decisions by `acted`, evaluated with another behaviour policy stated."""
    world = bandit.one_state(behavior=acted)
    stated = world.mdp.policy(np.array([behavior]))
    return diagnosed(world.sample(1000, seed=1), world.mdp.policy(np.array([[0.8, 0.2]])), behavior=stated)


def heavy_tail() -> Diagnosis:
    """Propensities so small now and then that the second moment of the ratios does not exist."""
    rng = np.random.default_rng(0)
    prob = rng.random(2000) ** 2
    return diagnosed(one_step(np.zeros(2000, int), rng.normal(size=2000), behavior_prob=prob), everywhere(1.0))


def unsupported(share: float, **options: Any) -> Diagnosis:
    """The second of three actions was never taken."""
    return diagnosed(one_step([0, 2] * 100), everywhere(0.5, share, 0.5 - share), **options)


def partly_answered(action: int) -> Diagnosis:
    """Nobody took action 1 or 2, which the policy prefers; one of them was answered for."""
    answers = so.Annotations.from_arrays(
        episode=np.arange(100), step=np.zeros(100, int), action=np.full(100, action), value=np.ones(100)
    )
    return diagnosed(one_step([0] * 100), everywhere(0.2, 0.8, 0.0), "c-pdis", annotations=answers)


def sparse_states(visits: int) -> Diagnosis:
    state = np.repeat(np.arange(60), visits)
    return diagnosed(one_step([0] * len(state), state=state), everywhere(1.0, n_states=60))


def opposite() -> Diagnosis:
    """Six steps of a policy that always does what is seldom done."""
    return diagnosed(drawn(200, 6, (0.95, 0.05)), everywhere(0.0, 1.0))


CASES: list[tuple[str, Callable[[], Diagnosis], Callable[[], Diagnosis]]] = [
    ("effective sample size", unlike_today, like_today),
    ("weight of the heaviest 1%", unlike_today, like_today),
    ("tail of the weights", heavy_tail, like_today),
    ("mean of the ratios", lambda: unsupported(0.4), like_today),
    ("effective sample size over steps", unlike_today, like_today),
    ("steps on the logged path", opposite, like_today),
    (LOGS, lambda: unsupported(0.4), like_today),
    (ALL, lambda: partly_answered(2), lambda: partly_answered(1)),
    ("decisions on thin evidence", lambda: sparse_states(2), lambda: sparse_states(5)),
    ("calibration of the behaviour policy", lambda: bandit_with((0.5, 0.5)), lambda: bandit_with((0.9, 0.1))),
    (PLACEBO, lambda: bandit_with((0.5, 0.5)), lambda: bandit_with((0.9, 0.1))),
    ("shuffled answers", lambda: heard(noise), lambda: heard(by_question)),
    ("leaving out one annotator", lambda: heard(one_expert_off, 4), lambda: heard(by_question, 4)),
]


@pytest.mark.parametrize(("name", "bad", "good"), CASES, ids=[name for name, _, _ in CASES])
def test_red_and_green(name: str, bad: Callable[[], Diagnosis], good: Callable[[], Diagnosis]) -> None:
    found = bad()
    red, green = found[name], good()[name]
    assert red.light == RED, red
    assert red.way_out, "a red light without a way out"
    assert found.light == RED
    assert green.light == GREEN, green
    assert not green.way_out
    assert red.rule == green.rule or name in (LOGS, ALL)
    for one in found:
        assert one.sentence.endswith((".", "?"))
        assert "nan" not in one.sentence


def test_nothing_but_green_for_harmless_data() -> None:
    found = like_today()
    assert found.light == GREEN, found
    assert len(found) == 10


def test_small_amounts_are_amber() -> None:
    assert unsupported(0.01)[LOGS].light == AMBER
    assert sparse_states(4)["decisions on thin evidence"].light == RED


def test_evenly_weighted_episodes_are_not_heavy_however_few() -> None:
    for n in (2, 8, 50, 101, 1000):
        found = judge_weights(Estimate("p", "is", EpisodeValues(np.linspace(0, 1, n), np.ones(n))))[1]
        assert found.light == GREEN
        assert f"if all counted the same, it would be {math.ceil(n / 100) / n:.0%}" in found.sentence


def test_what_a_finding_on_weights_says() -> None:
    weights = np.repeat([1.0, 99.0], [990, 10])
    ess, top, _ = judge_weights(Estimate("p", "is", EpisodeValues(weights, weights)))
    assert ess.figure == f"{(990 + 990) ** 2 / (990 + 10 * 99**2):,.0f} of 1,000"
    assert ess.light == RED
    assert top.figure == "50%"
    assert top.light == RED
    assert top.sentence.startswith("50% of the weight lies on the 10 episodes that weigh most")


def test_weights_beyond_the_range_of_numbers() -> None:
    """Ratios of 2**1100 have a mean that no number holds; those of 2**800 squares that none does."""
    rng = np.random.default_rng(0)
    share = rng.random(50)
    for exponent in (1100, 800, -1100):
        for normalized in (False, True):
            values = EpisodeValues(share, share, exponent, exponent)
            one = Estimate("p", "wis", values, normalized)
            lights = [found.light for found in (*judge_weights(one), judge_average(one, counted=False))]
            assert lights == [AMBER, GREEN, GREEN, RED]
    large = share * 2.0**890
    assert judge_average(Estimate("p", "is", EpisodeValues(large, large)), counted=False).light == RED


def test_no_weight_at_all() -> None:
    for normalized in (False, True):
        one = Estimate("p", "is", EpisodeValues(np.zeros(40), np.zeros(40)), normalized)
        ess, top, tail = judge_weights(one)
        assert ess.light == RED
        assert top.sentence == "No episode has any weight."
        assert top.figure == "-"
        assert tail.figure == "none"
        assert judge_average(one, counted=True).light == RED


def test_weights_in_two_crowds_have_no_heavy_tail() -> None:
    """And nothing beyond: a Pareto tail fits the gap between them, but there is none."""
    rng = np.random.default_rng(2)
    weights = np.where(rng.random(1000) < 0.97, 0.8 + 0.001 * rng.random(1000), 2.0).astype(np.float64)
    assert judge_weights(Estimate("p", "is", EpisodeValues(weights, weights)))[2].light == GREEN


def test_trust_follows_weights_support_and_kind() -> None:
    """What the tables of results show beside an estimate."""
    logs = drawn(300, 2, (0.5, 0.5))
    names = ["pdis", "dm", "naive-weighted"]
    good = evaluated(logs, everywhere(0.5, 0.5), estimators=names)
    assert [trust(good, name) for name in names] == [GREEN, AMBER, RED]
    assert trust(evaluated(logs, everywhere(0.4, 0.4, 0.2), estimators=names), "pdis") == RED
    assert trust(evaluated(one_step([0] * 40), everywhere(0.0, 1.0), estimators="wis"), "wis") == RED


@pytest.mark.parametrize("estimator", so.ESTIMATORS)
def test_every_estimator_can_be_diagnosed(estimator: str) -> None:
    logs = two_states(60)
    answers = answered(logs, by_question, 3)
    found = diagnosed(logs, everywhere(0.3, 0.7, n_states=2), estimator, annotations=answers)
    kind, names = so.ESTIMATORS[estimator], [one.name for one in found]
    assert (found.findings[0].name == "estimator") == (kind.naive or kind.model_only)
    assert found.light == RED if kind.naive else found.light in (GREEN, AMBER, RED)
    for name in ("shuffled answers", "annotations against logs", "tipping point"):
        assert (name in names) == kind.trusts
    assert ("effective sample size" in names) == (not kind.model_only and not kind.completes)
    assert ("how questions were chosen" in names) == kind.completes
    assert "nan" not in repr(found)


@pytest.mark.parametrize("reward", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("estimator", ["pdis", "pdwis", "pdwis-step", "c-pdis"])
def test_constant_rewards(reward: float, estimator: str) -> None:
    logs = one_step([0, 1] * 60, np.full(120, reward))
    answers = so.Annotations.from_arrays(
        episode=np.arange(120), step=np.zeros(120, int), action=[1, 0] * 60, value=np.full(120, reward),
        annotator=["a", "a", "b", "b"] * 30,
    )  # fmt: skip
    found = diagnosed(logs, everywhere(0.4, 0.6), estimator, annotations=answers)
    assert all(one.light == GREEN for one in found if one.name != "shuffled answers"), found
    if estimator == "c-pdis":
        assert found["shuffled answers"].light == AMBER
        assert "All answers are the same" in found["shuffled answers"].sentence


def test_rows_without_decisions_single_episodes_and_no_discount() -> None:
    logs: dict[str, list[Any]] = {
        "episode": [0, 0, 1, 1, 1, 2], "step": [0, 1, 0, 1, 2, 0], "state": [0] * 6,
        "action": [0, None, 1, 0, None, None], "reward": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    }  # fmt: skip
    nobody = {**logs, "action": [None] * 6}
    for given in (logs, {name: column[:2] for name, column in logs.items()}):
        for gamma in (0.0, 1.0):
            found = diagnosed(given, everywhere(0.5, 0.5), gamma=gamma)
            assert found.light == RED
    with quietly():
        results = so.evaluate(nobody, so.read_policy({"state": [0], "action": [0], "prob": [1.0]}), estimators="pdis")
    assert so.diagnose(results)["steps on the logged path"].light == GREEN
    assert results.origin.observed.value == pytest.approx(7.0)


def test_a_diagnosis_is_a_sequence_of_findings() -> None:
    found = like_today()
    assert found[0].name == "effective sample size"
    assert found["effective sample size"] == found[0]
    assert found.to_dict()["findings"][0]["light"] == GREEN
    assert found.to_dict()["light"] == GREEN
    assert list(found.to_frame()["name"]) == [one.name for one in found]
    assert repr(found).startswith("policy, pdis: green")
    assert found._repr_html_().count("<tr>") == len(found) + 1
    with pytest.raises(so.NotEstimatedError, match='Did you mean "placebo: today\'s policy"'):
        found["placebo: todays policy"]


def test_several_policies_are_diagnosed_by_name() -> None:
    logs = drawn(60, 2, (0.5, 0.5))
    with quietly():
        results = so.evaluate(logs, {"a": everywhere(0.5, 0.5), "b": everywhere(0.0, 1.0)})
    found = so.diagnose(results, estimator="TIS", refute=False)
    assert {name: one.policy for name, one in found.items()} == {"a": "a", "b": "b"}
    assert found["a"].estimator == "is"
    assert PLACEBO not in [one.name for one in found["a"]]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"estimator": "pdiss"}, so.OptionError, "Did you mean 'pdis'"),
        ({"estimator": "c-pdis"}, so.NotEstimatedError, "no estimate 'c-pdis'"),
    ],
)
def test_unknown_estimators(options: dict[str, Any], error: type[Exception], message: str) -> None:
    results = evaluated(drawn(20, 2, (0.5, 0.5)), everywhere(0.5, 0.5))
    with pytest.raises(error, match=message):
        so.diagnose(results, **options)


def test_what_else_is_refused() -> None:
    results = evaluated(two_states(20), everywhere(0.5, 0.5, n_states=2), estimators="is")
    with pytest.raises(so.OptionError, match=r"give what so\.evaluate returns"):
        so.diagnose(3)
    with pytest.raises(so.OptionError, match="do not know their data"):
        so.diagnose(so.Results("p", results.estimates, {}))
    logs = two_states(20)
    heard_of = evaluated(logs, everywhere(0.5, 0.5, n_states=2), annotations=answered(logs, by_question))
    with pytest.raises(so.OptionError, match="seed"):
        so.diagnose(heard_of, seed=-1)


@pytest.mark.parametrize("cell", ["state", "step,state"])
@pytest.mark.parametrize("given", ["rows", "rows as behaviour", "propensities", "rewards", "preferences", "repaired"])
def test_everything_that_may_be_given_is_diagnosed(given: str, cell: str) -> None:
    logs = two_states(60)
    columns, n = logs.to_arrow().to_pydict(), logs.n_steps
    answers = answered(logs, by_question, 3).to_arrow().to_pydict()
    rows = {"episode": np.repeat(columns["episode"], 2), "step": [0] * 2 * n, "action": [0, 1] * n}
    policy: Any = everywhere(0.3, 0.7, n_states=2)
    options: dict[str, Any] = {"repair": "pool"} if given == "repaired" else {}
    if given.startswith("rows"):
        policy = so.read_policy({**rows, "prob": [0.3, 0.7] * n})
    if given == "rows as behaviour":
        options["behavior"] = so.read_policy({**rows, "prob": [0.5, 0.5] * n})
    if given == "propensities":
        columns["behavior_prob"] = np.random.default_rng(0).uniform(0.3, 0.7, size=n)
    if given in ("rewards", "preferences"):
        answers["kind"] = ["return", given[:-1]] * (n // 2)
        answers["value"] = [value if i % 2 == 0 else 0.75 for i, value in enumerate(answers["value"])]
    found = diagnosed(columns, policy, "c-pdis", annotations=answers, cell=cell, **options)
    assert len(found) >= 12
    assert "nan" not in repr(found)
    assert so.compare(evaluated(columns, policy, annotations=answers, cell=cell, **options))["policy"].rank == 1
