"""Direct and doubly robust estimators: models given, counted and fitted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import semiope as so
from semiope.domains import sepsis, tree
from semiope.models.counted import Counted
from semiope.weights.split import SplitWeights
from tests.contract.worlds import Logs, random_logs
from tests.repair.measure import rmse

pytestmark = pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")

WITH_A_MODEL = ["dm", "dm+", "dr", "wdr", "dm+-is", "dm+-wis", "dm-is+", "dm+-is+"]


def test_a_model_that_is_right_leaves_nothing_to_correct() -> None:
    """A tree without chance: with its true returns, each episode is worth V of its first state, whatever was done."""
    world = tree.tree(3, slip=0.0)
    policy = world.policies["uniform"]
    episodes = world.sample(30, seed=1)
    answers = world.annotate(episodes, "uniform")
    returns = world.mdp.action_values(policy)
    step, state, action = (index.ravel() for index in np.indices(returns.shape))
    labels = (pa.array(world.mdp.states.decode(state)), pa.array(world.mdp.actions.decode(action)))
    known = ~np.isnan(returns.ravel())
    table = pa.table({"state": labels[0], "step": step, "action": labels[1], "value": returns.ravel()}).filter(known)
    found = so.evaluate(episodes, policy, annotations=answers, estimators=WITH_A_MODEL, model=table)
    for name in WITH_A_MODEL:
        assert found[name].values == pytest.approx(np.full(30, world.mdp.value(policy)), abs=1e-9), name


@pytest.mark.parametrize(
    ("plus", "plain"), [("dm+", "dm"), ("dm+-is", "dr"), ("dm+-wis", "wdr"), ("dm-is+", "dr"), ("dm+-is+", "dr")]
)
@pytest.mark.parametrize("seed", range(5))
def test_without_annotations_nothing_is_learned_from_them(plus: str, plain: str, seed: int) -> None:
    found = random_logs(seed, fully_annotated=False).without_annotations().evaluate([plus, plain])
    assert found[plus].values == pytest.approx(found[plain].values, rel=1e-12)


def test_a_model_of_nothing_is_no_model() -> None:
    logs = random_logs(3, fully_annotated=False)
    found = logs.evaluate(["pdis", "dr", "c-pdis", "dm-is+", "pdwis-step", "wdr"], model=np.zeros((3, 3)))
    for name, plain in (("dr", "pdis"), ("dm-is+", "c-pdis"), ("wdr", "pdwis-step")):
        assert found[name].value == pytest.approx(found[plain].value, rel=1e-12), name


def test_a_model_may_be_given_in_any_form() -> None:
    logs: Logs = random_logs(5, fully_annotated=True)
    q = np.random.default_rng(1).normal(size=(3, 3))
    longest = int(logs.episodes["step"].max()) + 1
    state, action = (index.ravel() for index in np.indices(q.shape))
    rows = len(logs.episodes["step"])
    by_row = {
        "episode": np.repeat(logs.episodes["episode"], 3),
        "step": np.repeat(logs.episodes["step"], 3),
        "action": np.tile(np.arange(3), rows),
        "value": q[logs.episodes["state"]].ravel(),
    }
    forms: list[Any] = [
        q.tolist(),
        np.broadcast_to(q, (longest, 3, 3)),
        {"state": state, "action": action, "value": q.ravel()},
        by_row,
    ]
    expected = logs.evaluate(WITH_A_MODEL, model=q)
    for form in forms:
        found = logs.evaluate(WITH_A_MODEL, model=form)
        for name in WITH_A_MODEL:
            assert found[name].values == pytest.approx(expected[name].values, rel=1e-12), name
    assert expected.settings["model"] == "given"


def test_several_policies_have_models_of_their_own() -> None:
    logs = random_logs(5, fully_annotated=False)
    episodes = so.Episodes.from_arrays(**logs.episodes)
    one, two = np.random.default_rng(1).normal(size=(2, 3, 3))
    policy = so.Policy.from_table(logs.evaluation)
    options: dict[str, Any] = {"behavior": so.Policy.from_table(logs.behavior), "estimators": ["dr"]}
    both = so.evaluate(episodes, {"a": policy, "b": policy}, model={"a": one, "b": two}, **options)
    assert both["a"]["dr"].value == so.evaluate(episodes, policy, model=one, **options)["dr"].value
    assert both["b"]["dr"].value == so.evaluate(episodes, policy, model=two, **options)["dr"].value
    with pytest.raises(so.OptionError, match="no model called 'b'"):
        so.evaluate(episodes, {"a": policy, "b": policy}, model={"a": one}, **options)
    with pytest.raises(so.OptionError, match="no policy called 'c'"):
        so.evaluate(episodes, {"a": policy}, model={"a": one, "c": two}, **options)


def test_episodes_that_begin_or_pause_without_a_decision() -> None:
    """What is paid before the first decision is as it was; between decisions it goes to the one before."""
    episodes = so.Episodes.from_arrays(
        episode=[0, 0, 0, 0, 1, 1, 1], step=[0, 1, 2, 3, 0, 1, 2], state=list("wxyxwxy"),
        action=[-1, 0, -1, 1, -1, 1, -1], reward=[8.0, 4.0, 2.0, 1.0, 8.0, 4.0, 2.0],
    )  # fmt: skip
    policy = so.Policy.from_arrow({"state": ["x", "x"], "action": [0, 1], "prob": [0.5, 0.5]})
    q = {"state": ["x", "x"], "action": [0, 1], "value": [3.0, 5.0]}
    found = so.evaluate(episodes, policy, estimators=["dm", "dr", "pdis"], model=q, gamma=0.5)
    assert found["dm"].values == pytest.approx([8 + 0.5 * 4, 8 + 0.5 * 4])
    # rho is 0.5 / (1/3) and 0.5 / (2/3); v of the last decision is 4 + rho (r - q).
    last = 4 + 0.75 * (1 - 5)
    first = 4 + 1.5 * (4 + 0.5 * (2 + 0.5 * last) - 3)
    assert found["dr"].values[0] == pytest.approx(8 + 0.5 * first)
    assert found["dr"].values[1] == pytest.approx(8 + 0.5 * (4 + 0.75 * (4 + 0.5 * 2 - 5)))
    with pytest.raises(so.SchemaError, match=r"episode 0 step 2 .* lies between decisions"):
        so.evaluate(episodes, policy, estimators=["dr"], model="empirical", gamma=0.5)
    assert np.isfinite(so.evaluate(episodes, policy, estimators=["dr"], gamma=0.5)["dr"].value)


def test_bias_that_annotations_share_does_no_harm_in_the_model() -> None:
    """Sepsis, a constant bias of 0.3: `dm+-wis` beats `c-pdis`; with good annotations, `c-pdis` beats `pdis`.

    The model itself trusts annotations: alone (`dm+`) it has their bias. `dm+-is` has none, but heavy tails: a few
    enormous ratios decide its mean error, and only its median is compared.
    """
    world = sepsis.world()
    policies = {name: world.policies[name] for name in list(world.policies)[::5]}
    found: dict[tuple[str, float], list[float]] = {}
    for k in range(3):
        episodes = world.sample(1000, seed=8, first=1000 * k)
        for bias in (0.0, 0.3):
            answers = world.annotate(episodes, policies, annotators=so.Annotator(bias=bias, std=0.1), seed=k)
            for name in ("pdis", "c-pdis", "dm+-is", "dm+-wis"):
                error = rmse(world, policies, episodes, answers, None, estimator=name)
                found.setdefault((name, bias), []).append(error)
    mean = {key: float(np.mean(errors)) for key, errors in found.items()}
    assert np.median(found["dm+-is", 0.3]) < np.median(found["c-pdis", 0.3])
    assert mean["dm+-wis", 0.3] < 0.5 * mean["c-pdis", 0.3]
    assert mean["c-pdis", 0.0] < 0.3 * mean["pdis", 0.0]


def test_cross_fitting_needs_two_episodes() -> None:
    world = tree.tree(2)
    policy = world.policies["uniform"]
    one = world.sample(1, seed=1)
    with pytest.raises(so.SupportError, match="at least two episodes"):
        so.evaluate(one, policy, estimators=["dr"])
    labels = {"state": np.repeat(world.mdp.states.words.to_pylist(), 2), "action": ["x", "y"] * world.mdp.n_states}
    given = so.evaluate(
        one, policy, estimators=["dm", "dm+"], model={**labels, "value": np.ones(2 * world.mdp.n_states)}
    )
    assert given["dm"].value == given["dm+"].value == pytest.approx(1.0)
    found = so.evaluate(world.sample(2, seed=1), policy, estimators=["dr"])
    assert np.isfinite(found["dr"].value)
    assert any("too few" in warning for warning in found.warnings)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("empiric", "Did you mean 'empirical'"),
        ("linear", "needs features"),
        (np.zeros(3), "give finite numbers"),
        (np.full((3, 3), np.nan), "give finite numbers"),
        (np.zeros((2, 3)), "no value is given for"),
        ({"state": [0], "action": [0], "value": [1.0]}, "no value is given for"),
        ({"state": ["0"], "action": [0], "value": [1.0]}, "its states are strings"),
        ({"state": [0, 0], "action": [0, 0], "value": [1.0, 2.0]}, "repeats an earlier row"),
        ({"state": [0], "action": [0]}, "column 'value' is missing"),
        ("nowhere.parquet", "nowhere.parquet"),
    ],
)
def test_bad_models(model: Any, message: str) -> None:
    with pytest.raises(so.SemiopeError, match=message):
        random_logs(5, fully_annotated=False).evaluate(["dr"], model=model)


def test_policies_given_row_by_row_need_another_model() -> None:
    logs = random_logs(5, fully_annotated=False)
    rows = len(logs.episodes["step"])
    by_row = so.RowPolicy.from_arrays(
        episode=np.repeat(logs.episodes["episode"], 3),
        step=np.repeat(logs.episodes["step"], 3),
        action=np.tile(np.arange(3), rows),
        prob=logs.evaluation[logs.episodes["state"]].ravel(),
    )
    episodes, behavior = so.Episodes.from_arrays(**logs.episodes), so.Policy.from_table(logs.behavior)
    with pytest.raises(so.OptionError, match="given row by row"):
        so.evaluate(episodes, by_row, behavior=behavior, estimators=["dr"], model="empirical")
    assert np.isfinite(so.evaluate(episodes, by_row, behavior=behavior, estimators=["dr"])["dr"].value)
    q = np.random.default_rng(1).normal(size=(3, 3))
    found = so.evaluate(episodes, by_row, behavior=behavior, estimators=["dr"], model=q, gamma=0.9)
    expected = logs.without_annotations().evaluate(["dr"], model=q)
    assert found["dr"].values == pytest.approx(expected["dr"].values)


def test_a_model_may_be_used_again_on_other_data() -> None:
    world = tree.tree(2, reward_std=0.0)
    policy, model = world.policies["uniform"], Counted()
    first, second = world.sample(200, seed=1), world.sample(100, seed=2)
    so.evaluate(first, policy, estimators=["dm"], model=model)
    again = so.evaluate(second, policy, estimators=["dm"], model=model)["dm"].value
    assert again == so.evaluate(second, policy, estimators=["dm"])["dm"].value


def test_support_is_judged_with_the_weights_that_were_used() -> None:
    """All weight on the annotations: what was only logged has no support."""
    logs = random_logs(5, fully_annotated=False)

    def told_only(logbook: Any) -> SplitWeights:
        return SplitWeights(np.zeros(logbook.episodes.n_steps), np.ones(len(logbook.annotations.row)))

    equal, told = (logs.evaluate(["c-pdis"], weights=weights) for weights in ("equal", told_only))
    assert told.diagnostics["unsupported_mass"]["augmented"] > equal.diagnostics["unsupported_mass"]["augmented"]


def test_values_that_cancel_are_no_underflow() -> None:
    episodes = so.Episodes.from_arrays(
        episode=np.arange(12),
        step=[0] * 12,
        state=["s"] * 12,
        action=list("abab") * 3,
        reward=[1.0, 1.0, -1.0, -1.0] * 3,
    )
    policy = so.Policy.from_arrow({"state": ["s", "s"], "action": ["a", "b"], "prob": [0.5, 0.5]})
    assert so.evaluate(episodes, policy, estimators=["pdis"]).warnings == []


def test_a_given_model_is_corrected_by_what_annotations_say() -> None:
    """Off by 3 everywhere, annotations exact: dm+ is right."""
    world = tree.tree(3, slip=0.0)
    policy = world.policies["uniform"]
    episodes = world.sample(300, seed=1)
    returns = world.mdp.action_values(policy)
    step, state, action = (index.ravel() for index in np.indices(returns.shape))
    labels = {"state": world.mdp.states.decode(state), "step": step, "action": world.mdp.actions.decode(action)}
    table = pa.table({**labels, "value": returns.ravel() + 3}).filter(~np.isnan(returns.ravel()))
    answers = world.annotate(episodes, "uniform")
    found = so.evaluate(episodes, policy, annotations=answers, estimators=["dm", "dm+"], model=table)
    assert found["dm"].value == pytest.approx(world.mdp.value(policy) + 3)
    assert found["dm+"].value == pytest.approx(world.mdp.value(policy), abs=0.05)


def test_a_state_that_no_other_fold_has_seen() -> None:
    """It is worth what others are at its step, not nothing."""
    n = 20
    episodes = so.Episodes.from_arrays(
        episode=range(n), step=[0] * n, state=["new", *["old"] * (n - 1)], action=["a"] * n, reward=[10.0] * n
    )
    policy = so.Policy.from_arrow({"state": ["new", "old"], "action": ["a", "a"], "prob": [1.0, 1.0]})
    assert so.evaluate(episodes, policy, estimators=["dm"])["dm"].values == pytest.approx(np.full(n, 10.0))


def test_what_final_rows_pay_is_discounted() -> None:
    episodes = so.Episodes.from_arrays(
        episode=np.repeat(range(10), 2), step=[0, 1] * 10, state=["s", "end"] * 10, action=[0, -1] * 10,
        reward=[1.0, 4.0] * 10,
    )  # fmt: skip
    policy = so.Policy.from_arrow({"state": ["s"], "action": [0], "prob": [1.0]})
    assert so.evaluate(episodes, policy, estimators=["dm"], gamma=0.5)["dm"].value == pytest.approx(3.0)


def test_a_policy_per_step_after_rows_without_a_decision() -> None:
    episodes = so.Episodes.from_arrays(
        episode=np.repeat(range(6), 2), step=[0, 1] * 6, state=["w", "s"] * 6, action=[-1, 0] * 6, reward=[0.0, 1.0] * 6
    )
    columns = {"state": ["s", "s"], "action": [0, 0], "prob": [1.0, 1.0], "step": [0, 1]}
    with pytest.raises(so.SchemaError, match="policy is given per step"):
        so.evaluate(episodes, so.Policy.from_arrow(columns), estimators=["dm"], model="empirical")
    assert so.evaluate(episodes, so.Policy.from_arrow(columns), estimators=["dm"])["dm"].value == pytest.approx(1.0)
