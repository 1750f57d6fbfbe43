"""What answers have in common, and choosing repairs and weights by what they look like."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import semiope as so
from semiope.domains import sepsis, tree
from semiope.models.case import Case, Records
from semiope.models.level import Level, _leaving, common_bias
from semiope.repair.auto import _closeness_to_today
from tests.repair.measure import rmse

pytestmark = pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")


@pytest.fixture(scope="module")
def world() -> Any:
    return sepsis.world()


def reasons(result: so.Results) -> str:
    return " ".join(result.diagnostics["notes"])


@pytest.mark.parametrize("bias", [0.0, 0.3, -0.2])
def test_a_common_bias_is_found_without_outcomes_of_the_actions(world: Any, bias: float) -> None:
    """20 datasets: off by no more than chance, and the standard error says how much that is."""
    policy = world.policies["flip-100-seed-42"]
    off = []
    for k in range(20):
        episodes = world.sample(1000, seed=2, first=1000 * k)
        answers = world.annotate(episodes, policy, annotators=so.Annotator(bias=bias, std=0.2, ratio=0.3), seed=k)
        records = Records(episodes, tuple(episodes.actions.words.to_pylist()), 0.99)
        found = common_bias(Case(records, policy, "p"), *records.counterfactual(answers))
        off.append((found.bias - bias) / found.error)
    assert abs(np.mean(off)) < 1.0
    assert np.sqrt(np.mean(np.square(off))) < 1.6


def test_no_bias_can_be_found_where_no_pair_was_logged() -> None:
    episodes = so.Episodes.from_arrays(episode=[0, 1], step=[0, 0], state=["s", "s"], action=["a", "a"], reward=[0, 1])
    policy = so.Policy.from_arrow({"state": ["s"], "action": ["b"], "prob": [1.0]})
    answers = so.Annotations.from_arrays(episode=[0, 1], step=[0, 0], action=["b", "b"], value=[5.0, 5.0])
    records = Records(episodes, ("a", "b"), 1.0)
    found = common_bias(Case(records, policy, "p"), *records.counterfactual(answers))
    assert (found.bias, found.error, found.shrunk) == (0.0, np.inf, 0.0)


@pytest.mark.parametrize(
    ("annotator", "under", "steps", "weights"),
    [
        (so.Annotator(), "evaluation", [], "optimal"),
        (so.Annotator(std=0.2, ratio=0.1), "evaluation", ["model"], "optimal"),
        (so.Annotator(std=1.0), "evaluation", ["model"], "optimal"),
        (so.Annotator(bias=0.3), "evaluation", ["pool"], "optimal"),
        (so.Annotator(), "behavior", ["convert:state"], "optimal"),
        ([so.Annotator("a", 0.2, 0.1), so.Annotator("b", 0.0, 0.3)], "evaluation", ["pool", "model"], "optimal"),
    ],
)
def test_choices(world: Any, annotator: Any, under: str, steps: list[str], weights: str) -> None:
    policy = world.policies["flip-200-seed-42"]
    episodes = world.sample(1000, seed=5)
    answers = world.annotate(episodes, policy if under == "evaluation" else "behavior", annotators=annotator, seed=5)
    options: dict[str, Any] = {"cell": "step,state", "estimators": ["c-pdis"], "gamma": 0.99}
    found = so.evaluate(episodes, policy, annotations=answers, repair="auto", weights="auto", **options)
    assert found.settings["repair"] == steps, reasons(found)
    assert found.settings["weights"] == weights, reasons(found)
    assert f"repair: {steps[0] if steps else 'none'}, because" in reasons(found)
    assert f"weights: {weights}, because" in reasons(found)
    assert found["c-pdis"].value == pytest.approx(world.mdp.value(policy), abs=0.08)


def test_weights_that_would_trust_biased_answers_are_not_chosen(world: Any) -> None:
    policy = world.policies["flip-200-seed-42"]
    episodes = world.sample(1000, seed=5)
    answers = world.annotate(episodes, policy, annotators=so.Annotator(bias=0.3), seed=5)
    found = so.evaluate(episodes, policy, annotations=answers, weights="auto", estimators=["c-pdis"], gamma=0.99)
    assert found.settings["weights"] == "equal"
    assert "look biased (+0." in reasons(found)


def test_auto_is_hardly_ever_worse(world: Any) -> None:
    policies = {name: world.policies[name] for name in list(world.policies)[::5]}
    experts = (so.Annotator(), so.Annotator(std=1.0), so.Annotator(std=0.2, ratio=0.1), so.Annotator(bias=0.3))
    for expert in experts:
        errors: dict[str | None, list[float]] = {None: [], "auto": []}
        for k in range(2):
            episodes = world.sample(1000, seed=7, first=1000 * k)
            answers = world.annotate(episodes, policies, annotators=expert, seed=k)
            for repair, found in errors.items():
                weights = "auto" if repair else "equal"
                found.append(rmse(world, policies, episodes, answers, repair, weights=weights))
        assert np.mean(errors["auto"]) < 1.1 * np.mean(errors[None]), expert


def test_nothing_to_choose_from() -> None:
    world = tree.tree(3)
    episodes = world.sample(200, seed=1)
    policy = world.policies["uniform"]
    options: dict[str, Any] = {"estimators": ["c-pdis"], "weights": "auto"}
    assert "there are no annotations" in reasons(so.evaluate(episodes, policy, **options))
    few = world.sample(20, seed=1)
    answers = world.annotate(few, "uniform")
    assert "20 episodes are too few" in reasons(so.evaluate(few, policy, annotations=answers, **options))
    rows = np.flatnonzero(episodes.action >= 0)
    episode = np.searchsorted(episodes.offsets, rows, side="right") - 1
    by_row = so.RowPolicy.from_arrays(
        episode=np.repeat(episode, 2), step=np.repeat(episodes.step[rows], 2), action=np.tile(["x", "y"], len(rows)),
        prob=np.full(2 * len(rows), 0.5),
    )  # fmt: skip
    answers = world.annotate(episodes, "uniform")
    found = so.evaluate(episodes, by_row, annotations=answers, repair="auto", **options)
    assert "repair: none, because a policy given row by row" in reasons(found)
    with pytest.raises(so.OptionError, match="It stands alone"):
        so.evaluate(episodes, policy, annotations=answers, repair="auto,model")
    with pytest.raises(so.OptionError, match="no annotations to repair"):
        so.evaluate(episodes, policy, repair="auto")


def test_kinds_and_gaps_do_not_confuse_the_choice(world: Any) -> None:
    """Rewards are completed for the policy whose returns the other answers speak of; gaps leave annotators aside."""
    policy = world.policies["flip-200-seed-42"]
    episodes = world.sample(1000, seed=5)
    today = world.annotate(episodes, "behavior", seed=5)
    n = len(today)
    kinds = np.where(np.arange(n) % 5 == 0, "reward", "return")
    table = today.to_arrow().append_column("kind", [kinds])
    options: dict[str, Any] = {"estimators": ["c-pdis"], "gamma": 0.99, "repair": "auto"}
    found = so.evaluate(episodes, policy, annotations=so.Annotations.from_arrow(table), **options)
    assert "convert:state" in found.settings["repair"]
    only = so.Annotations.from_arrow(today.to_arrow().append_column("kind", [["reward"] * n]))
    assert "convert:state" not in so.evaluate(episodes, policy, annotations=only, **options).settings["repair"]
    who = pa.array(["ann", "bob", None] * n, pa.string()).slice(0, n)
    gaps = so.Annotations.from_arrow(today.to_arrow().drop_columns(["annotator"]).append_column("annotator", who))
    found = so.evaluate(episodes, policy, annotations=gaps, **options)
    assert "column 'annotator' has gaps" in reasons(found)
    assert "pool" not in found.settings["repair"]


def test_noise_in_few_states_is_no_reason_to_convert() -> None:
    """One, three and twelve states of pure noise, right answers: converting is chosen hardly ever."""
    for states in (1, 3, 12):
        chosen = 0
        for seed in range(10):
            rng = np.random.default_rng(seed)
            n = 120
            episodes = so.Episodes.from_arrays(
                episode=np.repeat(range(n), 2), step=[0, 1] * n, state=rng.integers(states, size=2 * n),
                action=rng.integers(2, size=2 * n), reward=rng.normal(size=2 * n),
            )  # fmt: skip
            policy = so.Policy.from_table(np.tile([0.1, 0.9], (states, 1)))
            rows = np.arange(2 * n)
            answers = so.Annotations.from_arrays(
                episode=rows // 2, step=rows % 2, action=1 - episodes.action, value=rng.normal(size=2 * n)
            )
            found = so.evaluate(episodes, policy, annotations=answers, repair="auto", estimators=["c-pdis"])
            chosen += "convert:state" in found.settings["repair"]
        assert chosen <= 2


@pytest.mark.parametrize("size", [1e-200, 1e150])
def test_auto_with_extreme_answers(size: float) -> None:
    world = tree.tree(4)
    episodes = world.sample(300, seed=1)
    answers = world.annotate(episodes, "uniform", annotators=so.Annotator(std=0.1, ratio=0.5), seed=1)
    table = answers.to_arrow().set_column(3, "value", [answers.value * size])
    found = so.evaluate(
        episodes, world.policies["uniform"], annotations=so.Annotations.from_arrow(table), repair="auto",
        weights="auto", estimators=["c-pdis", "dm+"],
    )  # fmt: skip
    assert all(np.isfinite(estimate.value) for estimate in found.values())


def test_answers_for_several_policies_are_noted_however_they_are_repaired() -> None:
    world = tree.tree(3)
    episodes = world.sample(200, seed=1)
    answers = world.annotate(episodes, "uniform", seed=1)
    policies = {"a": world.policies["uniform"], "b": world.policies["always-y"]}
    found = so.evaluate(episodes, policies, annotations=answers, repair="model", estimators=["c-pdis"])
    assert "the same annotations were used for several policies" in reasons(found["a"])
    assert "standard errors take the repaired answers as given" in reasons(found["a"])


def leaving_world(seed: int, bias_known: float, bias_unknown: float) -> tuple[Case, Any, Any]:
    """Two steps; after a or b, half of the paths go to states where the policy's action was never logged."""
    rng = np.random.default_rng(seed)
    n = 2000
    first, onward = rng.integers(2, size=n), rng.integers(20, size=n)
    # In states below 10 both actions are logged, above only action 0.
    second = np.where(onward < 10, rng.integers(2, size=n), 0)
    step_two = rng.normal(size=n) * 0.3 + np.where(second == 1, 2.0, 1.0)
    columns = {
        "episode": np.repeat(np.arange(n), 2), "step": np.tile([0, 1], n),
        "state": np.column_stack([np.full(n, 99), onward]).ravel(), "action": np.column_stack([first, second]).ravel(),
        "reward": np.column_stack([np.zeros(n), step_two]).ravel(),
    }  # fmt: skip
    episodes = so.Episodes.from_arrays(**columns)
    policy = so.Policy.from_arrow({"state": [*range(20), 99], "action": [1] * 21, "prob": [1.0] * 21})
    rows = np.flatnonzero(columns["action"] == 0)
    unknown = (columns["step"][rows] == 1) & (columns["state"][rows] >= 10)
    value = 2.0 + np.where(unknown, bias_unknown, bias_known)
    answers = so.Annotations.from_arrays(
        episode=columns["episode"][rows], step=columns["step"][rows], action=np.ones(len(rows), dtype=int), value=value
    )
    records = Records(episodes, (0, 1), 1.0)
    return Case(records, policy, "p"), *records.counterfactual(answers)


def test_paths_that_leave_the_logs_are_allowed_for() -> None:
    """kappa is 1/2 at the first step: the same bias everywhere is found whole, not diluted by what answers said."""
    case, at, value = leaving_world(1, 0.5, 0.5)
    kappa = _leaving(case)
    first = int(np.flatnonzero(case.records.episodes.states.words.to_numpy() == 99)[0])
    assert kappa[0, first, 1] == pytest.approx(0.5, abs=0.05)
    assert common_bias(case, at, value).bias == pytest.approx(0.5, abs=0.05)
    # One that only answers about pairs never logged have comes out with the other sign, but not larger.
    odd = common_bias(*leaving_world(1, 0.0, 0.5))
    assert -0.5 < odd.bias < 0.0


def test_the_error_of_the_level_in_one_state() -> None:
    """A rare action: the logs know it by 20 returns, and the standard error says so; no bias is found where none is."""
    z, wrong = [], 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n = 200
        action = (rng.random(n) < 0.1).astype(int)
        episodes = so.Episodes.from_arrays(
            episode=range(n), step=[0] * n, state=[0] * n, action=action, reward=rng.normal(size=n)
        )
        answers = so.Annotations.from_arrays(episode=range(n), step=[0] * n, action=1 - action, value=np.zeros(n))
        records = Records(episodes, (0, 1), 1.0)
        policy = so.Policy.from_table([[0.1, 0.9]])
        found = common_bias(Case(records, policy, "p"), *records.counterfactual(answers))
        z.append(found.bias / found.error)
        wrong += found.shrunk != 0
    assert 0.6 < np.sqrt(np.mean(np.square(z))) < 1.4
    assert wrong <= 9


@pytest.mark.parametrize(("bias", "shrunk"), [(0.0, 0.0), (0.1, 0.0), (-0.19, 0.0), (0.4, 0.3), (-1.0, -0.96)])
def test_a_bias_within_two_standard_errors_is_none(bias: float, shrunk: float) -> None:
    assert Level(bias, 0.1).shrunk == pytest.approx(shrunk)


def test_whose_returns_answers_are_does_not_depend_on_their_level(world: Any) -> None:
    policy = world.policies["flip-200-seed-42"]
    episodes = world.sample(1000, seed=5)
    records = Records(episodes, tuple(episodes.actions.words.to_pylist()), 0.99)
    found = []
    for bias in (0.0, 5.0):
        answers = world.annotate(episodes, policy, annotators=so.Annotator(bias=bias), seed=5)
        found.append(_closeness_to_today(Case(records, policy, "p"), *records.counterfactual(answers)))
    assert found[0] == pytest.approx(found[1])
    assert found[0] < 0
