"""Fitted Q evaluation with scikit-learn regressors."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.tree import DecisionTreeRegressor

import semiope as so
from semiope.domains import tree

pytestmark = pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")


class Patients:
    """One decision for each of n patients with a feature x, never the same: reward x if treated, 1 - x if not."""

    def __init__(self, n: int, seed: int, noise: float = 0.1) -> None:
        rng = np.random.default_rng(seed)
        x, action = rng.random(n), (rng.random(n) < 0.3).astype(int)
        self.x, rows = x, np.arange(n)
        self.episodes = so.Episodes.from_arrow(
            {
                "episode": rows, "step": np.zeros(n, dtype=int), "state": rows, "action": action,
                "reward": np.where(action == 1, x, 1 - x) + noise * rng.normal(size=n),
                "behavior_prob": np.where(action == 1, 0.3, 0.7), "x": x, "word": ["a"] * n,
            }
        )  # fmt: skip
        # Treat those with a large x.
        self.policy = so.RowPolicy.from_arrays(
            episode=rows, step=np.zeros(n, dtype=int), action=(x > 0.5).astype(int), prob=np.ones(n)
        )
        self.value = float(np.mean(np.maximum(x, 1 - x)))
        both = np.column_stack([rows, rows])
        self.behavior = so.RowPolicy.from_arrays(
            episode=both.ravel(), step=np.zeros(2 * n, dtype=int), action=np.tile([0, 1], n),
            prob=np.tile([0.7, 0.3], n),
        )  # fmt: skip
        self.answers = so.Annotations.from_arrays(
            episode=rows, step=np.zeros(n, dtype=int), action=1 - action, value=np.where(action == 1, 1 - x, x)
        )


INTERACTING = make_pipeline(PolynomialFeatures(2), LinearRegression())


def test_one_step_by_features() -> None:
    patients = Patients(2000, seed=1)
    model = so.FittedQ(INTERACTING, ["x"])
    found = so.evaluate(patients.episodes, patients.policy, estimators=["dm", "dr", "is"], model=model)
    assert found["dm"].value == pytest.approx(patients.value, abs=0.02)
    assert found["dr"].value == pytest.approx(patients.value, abs=0.02)
    assert found["dr"].std_error < 0.3 * found["is"].std_error
    assert found.settings["model"] == "Pipeline on x, 5 folds"


def test_the_named_regressors() -> None:
    patients = Patients(400, seed=2)
    for name in ("linear", "forest", "boosting"):
        found = so.evaluate(patients.episodes, patients.policy, estimators=["dr"], model=name, features="x")
        assert found["dr"].value == pytest.approx(patients.value, abs=0.15), name


def test_several_steps_come_to_the_exact_returns() -> None:
    """One feature for each state and trees that can tell them apart: Q-hat is that of the world."""
    world = tree.tree(3, slip=0.2, reward_std=0.0)
    episodes = world.sample(4000, seed=1)
    numbers = world.mdp.states.positions_of(episodes.states)[episodes.state].astype(float)
    columns = {f"is{s}": (numbers == s).astype(float) for s in range(world.mdp.n_states)}
    table = episodes.to_arrow()
    for name, column in columns.items():
        table = table.append_column(name, pa.array(column))
    policy = world.policies["always-y"]
    model = so.FittedQ(DecisionTreeRegressor(), list(columns), folds=2)
    options: dict[str, Any] = {"estimators": ["dm", "dr"], "gamma": world.mdp.gamma}
    found = so.evaluate(so.Episodes.from_arrow(table), policy, model=model, **options)
    counted = so.evaluate(episodes, policy, **options)
    for name in ("dm", "dr"):
        assert found[name].value == pytest.approx(world.mdp.value(policy), abs=0.1)
        assert found[name].value == pytest.approx(counted[name].value, abs=0.05)


def test_the_annotation_model_by_regression() -> None:
    """A tenth annotated: annotations correct a regression that is off, and the regression completes them."""
    patients = Patients(2000, seed=3)
    some = np.flatnonzero(np.random.default_rng(1).random(2000) < 0.1)
    answers = so.Annotations.from_arrow(patients.answers.to_arrow().take(some))
    options: dict[str, Any] = {"behavior": patients.behavior, "model": so.FittedQ(INTERACTING, ["x"])}
    found = so.evaluate(
        patients.episodes, patients.policy, annotations=answers, estimators=["c-pdis", "pp-pdis", "pp-dr"], **options
    )
    assert found.settings["model"].startswith("Pipeline on x")
    for name in ("pp-pdis", "pp-dr"):
        low, high = found[name].interval()
        assert low < patients.value < high
        assert found[name].value == pytest.approx(patients.value, abs=0.03)
        assert found[name].std_error < 0.7 * found["c-pdis"].std_error
    plus = so.evaluate(patients.episodes, patients.policy, annotations=answers, estimators=["dm+"], **options)
    assert plus["dm+"].value == pytest.approx(patients.value, abs=0.02)
    with pytest.raises(so.OptionError, match="needs a policy over states that recur"):
        so.evaluate(patients.episodes, patients.policy, annotations=answers, repair="convert", **options)


class Failing(LinearRegression):  # type: ignore[misc]
    def fit(self, x: Any, y: Any) -> Any:
        raise RuntimeError("out of luck")


class NotANumber(LinearRegression):  # type: ignore[misc]
    def predict(self, x: Any) -> Any:
        return np.full(len(x), np.nan)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (so.FittedQ(Failing(), ["x"]), "failed: out of luck"),
        (so.FittedQ(NotANumber(), ["x"]), "predicts no numbers"),
        (so.FittedQ(LinearRegression(), ["z"]), "no column 'z'.*Further columns: x, word"),
        (so.FittedQ(LinearRegression(), []), "no features named"),
        (so.FittedQ(LinearRegression(), ["word"]), "features are numbers"),
    ],
)
def test_what_can_go_wrong(model: so.FittedQ, message: str) -> None:
    patients = Patients(50, seed=1)
    with pytest.raises(so.SemiopeError, match=message):
        so.evaluate(patients.episodes, patients.policy, estimators=["dr"], model=model)


def test_a_model_that_saw_what_it_predicts_is_refused() -> None:
    with pytest.raises(so.OptionError, match="folds"):
        so.FittedQ(LinearRegression(), ["x"], folds=1)


def test_gaps_in_features() -> None:
    patients = Patients(20, seed=1)
    table = patients.episodes.to_arrow()
    gaps = table.set_column(table.column_names.index("x"), "x", [pa.array([None, *patients.x[1:]])])
    with pytest.raises(so.SchemaError, match=r"column 'x' is missing or not finite in 1 row.*episode 0 step 0"):
        so.evaluate(
            so.Episodes.from_arrow(gaps), patients.policy, estimators=["dr"],
            model=so.FittedQ(HistGradientBoostingRegressor(), ["x"]),
        )  # fmt: skip


def test_features_make_up_the_state_whatever_the_model() -> None:
    patients = Patients(20, seed=1)
    plain = so.evaluate(patients.episodes, patients.policy, estimators=["is"])["is"].value
    assert so.evaluate(patients.episodes, patients.policy, estimators=["is"], features="x")["is"].value == plain


def test_without_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    kind, missing_extra = so.FittedQ, so.MissingExtraError

    def missing(module: str) -> Any:
        raise ModuleNotFoundError(name="sklearn")

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(missing_extra, match=r'sklearn: pip install "semiope\[models\]"'):
        kind(None, ["x"])


def test_discounts_over_pauses() -> None:
    """Decision, pause, decision paying x: gamma squared of it, and the pause's own reward once discounted."""
    n = 40
    x = np.linspace(0, 1, n)
    columns: dict[str, Any] = {
        "episode": np.repeat(np.arange(n), 3), "step": np.tile([0, 1, 2], n), "state": np.tile(["s", "p", "t"], n),
        "action": pa.array([0, None, 0] * n, pa.int64()), "x": np.repeat(x, 3),
        "reward": np.column_stack([np.zeros(n), np.full(n, 8.0), x]).ravel(),
    }  # fmt: skip
    policy = so.Policy.from_arrow({"state": ["s", "t"], "action": [0, 0], "prob": [1.0, 1.0]})
    model = so.FittedQ(INTERACTING, ["x"])
    found = so.evaluate(so.Episodes.from_arrow(columns), policy, estimators=["dm"], model=model, gamma=0.5)
    assert found["dm"].values == pytest.approx(0.5 * 8 + 0.25 * x, abs=1e-6)
