"""Prediction-powered estimators: by plain loops, by exact enumeration, and in their limits."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import semiope as so
from semiope.estimate.predicted import division
from semiope.models.study import Study
from tests.contract.test_unbiased import AnyModel, world
from tests.contract.worlds import N_ACTIONS, Enumeration, Logs, random_logs

pytestmark = pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")

GAMMA = 0.9
seeds = st.integers(0, 10**6)
shapes = st.sampled_from([(1, 3, 3), (2, 2, 3), (3, 2, 2)])


class Table:
    """A model of returns given as a table (n_states, n_actions), before and after annotations."""

    folds, told = None, "a table"

    def __init__(self, table: Any) -> None:
        self.table = table

    def fit(self, study: Study, fold: int) -> Any:
        states = np.array(study.episodes.states.words.to_pylist())[study.episodes.state]
        table = self.table[:, study.logbook.actions.words.to_pylist()]
        return np.where((study.episodes.action >= 0)[:, None], table[states], 0.0)

    def corrected(self, study: Study, fold: int, returns: Any) -> Any:
        return returns


def with_probabilities(logs: Logs, seed: int) -> tuple[Logs, Any]:
    """Inclusion probabilities by state, action taken and action asked about."""
    table = np.random.default_rng(seed).uniform(0.1, 1.0, size=(3, N_ACTIONS, N_ACTIONS))
    rows = {
        (e, t): (s, a)
        for e, t, s, a in zip(*(logs.episodes[name] for name in ("episode", "step", "state", "action")), strict=True)
    }
    asked = zip(*(logs.annotations[name] for name in ("episode", "step", "action")), strict=True)
    prob = np.array([table[(*rows[e, t], a)] for e, t, a in asked])
    return replace(logs, annotations={**logs.annotations, "inclusion_prob": prob}), table


@given(seed=seeds, full=st.booleans())
@settings(max_examples=30)
def test_by_plain_loops(seed: int, full: bool) -> None:
    """v = sum over a not taken of pi_e q + pi_e (r + gamma v) + sum over annotated of pi_e / p (g - q), and pp-dr."""
    logs, _ = with_probabilities(random_logs(seed, fully_annotated=full), seed)
    if not len(logs.annotations["step"]):
        return
    q = np.random.default_rng(seed).normal(size=logs.evaluation.shape)
    found = logs.evaluate(["pp-is", "pp-pdis", "pp-dr"], model=Table(q))
    preference = found.chosen("pp-dr").problem.once(division).preference
    answers: dict[tuple[int, int], list[tuple[int, float, float]]] = {}
    columns = (logs.annotations[name] for name in ("episode", "step", "action", "value", "inclusion_prob"))
    for e, t, a, g, p in zip(*columns, strict=True):
        answers.setdefault((e, t), []).append((a, g, p))

    def factor(s: int, a: int) -> float:
        e, b = logs.evaluation[s, a], logs.behavior[s, a]
        return min(1.0, e / (b + (1 - b) * preference)) if np.isfinite(preference) else 0.0

    n = int(logs.episodes["episode"].max()) + 1
    values: dict[str, list[float]] = {"pp-pdis": [], "pp-dr": []}
    for name, one in values.items():
        for episode in range(n):
            rows = np.flatnonzero(logs.episodes["episode"] == episode)
            v = 0.0
            for i in rows[::-1]:
                s, a, r = (logs.episodes[key][i] for key in ("state", "action", "reward"))
                if a < 0:
                    v = r + GAMMA * v
                    continue
                pi_e, pi_b = logs.evaluation[s], logs.behavior[s]
                f = pi_e[a] if name == "pp-pdis" else factor(s, a)
                total = float(pi_e @ q[s]) + f * (r + GAMMA * v - q[s, a])
                for x, g, p in answers.get((episode, int(logs.episodes["step"][i])), []):
                    h = pi_e[x] / p
                    if name == "pp-dr":
                        h = max(pi_e[x] - pi_b[x] * factor(s, x), 0.0) / ((1 - pi_b[x]) * p)
                    total += h * (g - q[s, x])
                v = total
            one.append(v)
        assert found[name].values == pytest.approx(one, rel=1e-9, abs=1e-9)
    assert found["pp-is"].values == pytest.approx(found["pp-pdis"].values, rel=1e-9, abs=1e-9)
    assert found["pp-is"].normalizers == pytest.approx(np.ones(n))


def drawn_with(mdp: Enumeration, table: Any) -> Enumeration:
    """Weigh the patterns of an enumeration so that each question is asked with its own probability."""
    logs = mdp.logs
    state, taken = logs.episodes["state"], logs.episodes["action"]
    steps = int(logs.episodes["step"].max()) + 1
    asked = set(zip(*(logs.annotations[name].tolist() for name in ("episode", "step", "action")), strict=True))
    weight = np.ones(len(mdp.probability))
    for row, (episode, step) in enumerate(zip(logs.episodes["episode"], logs.episodes["step"], strict=True)):
        for action in range(table.shape[2]):
            if action != taken[row]:
                p = table[state[row], taken[row], action]
                weight[episode] *= 2 * (p if (episode, step, action) in asked else 1 - p)
    assert steps >= 1
    at = logs.annotations["episode"] * steps + logs.annotations["step"]
    prob = table[state[at], taken[at], logs.annotations["action"]]
    return replace(
        mdp,
        logs=replace(logs, annotations={**logs.annotations, "inclusion_prob": prob}),
        probability=mdp.probability * weight,
    )


@given(seed=seeds, shape=shapes, gamma=st.sampled_from([0.0, 0.9, 1.0]), unsupported=st.booleans())
@settings(max_examples=25)
def test_unbiased_whatever_the_model_says(
    seed: int, shape: tuple[int, int, int], gamma: float, unsupported: bool
) -> None:
    """All trajectories and all patterns of questions, each question with its own known probability."""
    mdp = world(seed, shape, gamma, "each or not", unsupported)
    table = np.random.default_rng(seed + 1).uniform(0.05, 0.95, size=(shape[1], shape[2], shape[2]))
    mdp = drawn_with(mdp, table)
    assert mdp.probability.sum() == pytest.approx(1.0, abs=1e-12)
    found = mdp.logs.evaluate(["pp-is", "pp-pdis", "pp-dr"], gamma=gamma, model=AnyModel(shape, seed))
    for name, estimate in found.items():
        assert mdp.probability @ estimate.values == pytest.approx(mdp.value, abs=1e-10), name
        assert mdp.probability @ estimate.normalizers == pytest.approx(1.0, abs=1e-10), name


@given(seed=seeds, shape=shapes)
@settings(max_examples=10)
def test_a_wrong_probability_costs_the_model_its_correction(seed: int, shape: tuple[int, int, int]) -> None:
    """With p twice too large, half of the model's error stays: the enumeration can tell."""
    mdp = world(seed, shape, 0.9, "each or not", unsupported=False)
    table = np.full((shape[1], shape[2], shape[2]), 0.5)
    right = drawn_with(mdp, table)
    wrong = replace(right, logs=replace(right.logs, annotations={
        **right.logs.annotations, "inclusion_prob": np.ones(len(right.logs.annotations["step"]))
    }))  # fmt: skip
    model = AnyModel(shape, seed)
    found = [one.logs.evaluate(["pp-pdis"], model=model)["pp-pdis"] for one in (right, wrong)]
    biases = [right.probability @ one.values - right.value for one in found]
    assert abs(biases[0]) < 1e-10
    assert abs(biases[1]) > 1e-6


@pytest.mark.parametrize("seed", [1, 2])
def test_cross_fitting_keeps_it_unbiased(seed: int) -> None:
    """Every dataset of two episodes, inclusion probabilities known: each is corrected with the other one's model."""
    mdp = world(seed, (1, 2, 2), 0.9, "each or not", unsupported=False)
    mdp = drawn_with(mdp, np.random.default_rng(seed).uniform(0.2, 0.8, size=(2, 2, 2)))
    some = [mdp.logs.of(episode) for episode in range(len(mdp.probability))]
    total = 0.0
    for (i, first), (j, second) in itertools.product(enumerate(some), enumerate(some)):
        both = first.beside(second)
        if len(both.annotations["step"]):
            found = both.evaluate(["pp-pdis"])["pp-pdis"].unshrunk
        else:  # nothing corrects the model, which completes all the same: v = V-hat + pi_e (r - Q-hat)
            problem = both.evaluate(["dr"]).chosen("dr").problem
            critic, rows = problem.modelled.annotated_critic, slice(0, len(both.episodes["step"]))
            found = float(np.mean(critic.start + problem.evaluation.taken(rows) * critic.reward))
        total += mdp.probability[i] * mdp.probability[j] * found
    assert total == pytest.approx(mdp.value, abs=1e-10)


class OfOthers:
    """A model that is off by 10 about pairs that other folds did not log: it depends on which actions were taken."""

    folds, told = 5, "of others"

    def fit(self, study: Study, fold: int) -> Any:
        episodes = study.episodes
        others = study.train(fold)
        logged = np.zeros((len(episodes.states), len(study.logbook.actions)), dtype=bool)
        logged[episodes.state[others], episodes.action[others]] = True
        return np.where(logged, 0.0, -10.0)[episodes.state]

    def corrected(self, study: Study, fold: int, returns: Any) -> Any:
        return returns


@pytest.mark.parametrize("propensities", [False, True])
def test_a_model_that_depends_on_what_others_did_does_not_matter(propensities: bool) -> None:
    """One step, no noise, all asked: actions counted within folds weigh pi_e each, whatever the model says of them."""
    rng = np.random.default_rng(0)
    n, returns = 300, rng.normal(size=(20, 4))
    probs = rng.dirichlet(np.ones(4), size=20)
    state = rng.integers(20, size=n)
    action = np.array([rng.choice(4, p=probs[s]) for s in state])
    rows = {
        "episode": np.arange(n), "step": np.zeros(n, int), "state": state, "action": action,
        "reward": returns[state, action],
    }  # fmt: skip
    if propensities:
        rows["behavior_prob"] = probs[state, action]
    episode, other = (column.ravel() for column in np.meshgrid(np.arange(n), np.arange(4), indexing="ij"))
    episode, other = (column[other != action[episode]] for column in (episode, other))
    annotations = so.Annotations.from_arrays(
        episode=episode, step=0 * episode, action=other, value=returns[state[episode], other]
    )
    found = so.evaluate(
        rows, so.Policy.from_table(probs), annotations=annotations, estimators=["pp-dr"], model=OfOthers()
    )["pp-dr"]
    assert found.unshrunk == pytest.approx(np.mean(np.sum(probs * returns, axis=1)[state]), abs=1e-10)


def test_all_annotated_is_the_closed_form() -> None:
    logs = random_logs(3, fully_annotated=True)
    found = logs.evaluate(["c*-pdis", "pp-pdis", "pp-is", "c*-is"])
    for name in ("pp-pdis", "pp-is", "c*-is"):
        assert found[name].values == pytest.approx(found["c*-pdis"].values, rel=1e-9, abs=1e-9)


def test_without_annotations_pp_dr_is_dr() -> None:
    logs = random_logs(4, fully_annotated=False).without_annotations()
    found = logs.evaluate(["dr", "pp-dr"])
    assert found["pp-dr"].values == pytest.approx(found["dr"].values)
    assert found["pp-dr"].value == pytest.approx(found["dr"].value)
    with pytest.raises(so.SupportError, match="there are none of actions not taken"):
        logs.evaluate(["pp-pdis"])


def test_the_behavior_policy_needs_no_annotation() -> None:
    """Of a policy that is the one counted from the logs, the logs say it all: lambda 0 leaves plain returns."""
    rng = np.random.default_rng(0)
    n = 400
    rows = {
        "episode": np.arange(n), "step": np.zeros(n, int), "state": rng.integers(3, size=n),
        "action": rng.integers(2, size=n), "reward": rng.normal(size=n),
    }  # fmt: skip
    policy = so.estimate_behavior(rows)
    asked = rng.random(n) < 0.3
    # Annotations that are nothing but noise: all that is to be said is said by the logs.
    noise = so.Annotations.from_arrays(
        episode=np.flatnonzero(asked), step=np.zeros(asked.sum(), int), action=1 - rows["action"][asked],
        value=1e6 * rng.normal(size=asked.sum()),
    )  # fmt: skip
    found = so.evaluate(rows, policy, annotations=noise, estimators=["pp-dr"])["pp-dr"]
    assert found.value == pytest.approx(np.mean(rows["reward"]), abs=0.01)


def test_ratios_are_clipped_at_one_and_annotations_give_the_rest() -> None:
    logs = random_logs(11, fully_annotated=True)
    found = logs.evaluate(["pp-dr"])
    divided = found.chosen("pp-dr").problem.once(division)
    assert divided.factor.max() <= 1
    assert (divided.shares >= 0).all()


def test_where_nothing_was_asked_the_logs_tell() -> None:
    """Questions in one of two states only: in the other, ratios are not clipped, and pp-pdis says what it rests on."""
    rng = np.random.default_rng(1)
    n = 4000
    state, action = rng.integers(2, size=n), rng.integers(2, size=n)
    reward = np.where(action == 1, 2.0 + state, 0.0) + rng.normal(size=n)
    rows = {"episode": np.arange(n), "step": np.zeros(n, int), "state": state, "action": action, "reward": reward}
    policy = so.Policy.from_table([[0.0, 1.0], [0.0, 1.0]])
    asked = np.flatnonzero((state == 0) & (action == 0) & (rng.random(n) < 0.5))
    annotations = so.Annotations.from_arrays(
        episode=asked, step=0 * asked, action=0 * asked + 1, value=np.full(len(asked), 2.0)
    )
    found = so.evaluate(rows, policy, annotations=annotations, estimators=["pp-dr", "pp-pdis"])
    assert found["pp-dr"].value == pytest.approx(2.5, abs=4 * found["pp-dr"].std_error)
    factor = found.chosen("pp-dr").problem.once(division).factor
    assert factor[(state == 1) & (action == 1)] == pytest.approx(1 / np.mean(action[state == 1]))
    assert any("without support for pp-pdis" in warning for warning in found.warnings)
    assert not any("without support for pp-dr" in warning for warning in found.warnings)


@pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")
def test_with_a_fitted_behavior_policy_logs_speak_where_nothing_was_asked() -> None:
    """Without annotations pp-dr is dr; of an action that nobody was asked about, the logs have to tell."""
    rng = np.random.default_rng(0)
    n = 400
    x, action = rng.normal(size=n), rng.integers(3, size=n)
    episodes = so.Episodes.from_arrays(
        episode=np.arange(n), step=np.zeros(n, int), action=action, reward=action + x, features={"x": x}
    )
    policy = np.tile([0.2, 0.3, 0.5], (n, 1))
    plain = so.evaluate(episodes, policy, estimators=["dr", "pp-dr"])
    assert plain["pp-dr"].values == pytest.approx(plain["dr"].values, abs=1e-12)
    rows = np.flatnonzero(action == 2)[::2]
    about = rng.integers(2, size=len(rows))  # never about action 2
    annotations = so.Annotations.from_arrays(
        episode=rows, step=np.zeros(len(rows), int), action=about, value=about + x[rows]
    )
    found = so.evaluate(episodes, policy, annotations=annotations, estimators="pp-dr")["pp-dr"]
    low, high = found.interval()
    assert low < 1.3 < high
