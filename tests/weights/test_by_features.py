"""The augmented behavior policy where states are features: mean split weights that depend on them, row by row."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import semiope as so
from semiope.errors import quietly
from semiope.estimate.problem import Problem
from semiope.weights import by_features
from semiope.weights.by_features import ACTIONS, POLICY, WORDS


def practice(x: Any) -> Any:
    """The behavior policy: the second of two actions is rare."""
    one = 1 / (1 + np.exp(1.5 - 0.5 * x[:, 0]))
    return np.column_stack([1 - one, one])


def proposed(x: Any) -> Any:
    """The policy to evaluate."""
    one = 1 / (1 + np.exp(-1 - x[:, 1]))
    return np.column_stack([1 - one, one])


def returns(x: Any) -> Any:
    """Q of both actions."""
    return np.column_stack([x[:, 0], 1 + 2 * x[:, 1]])


def by_second(x: Any) -> Any:
    """Questions are likelier where the second feature is large."""
    return 1 / (1 + np.exp(1 - 1.5 * x[:, 1]))


class World(NamedTuple):
    """Bandits with two features, and questions about the action not taken."""

    rows: dict[str, Any]
    annotations: so.Annotations
    x: Any
    chance: Any

    @property
    def truth(self) -> float:
        """The value of the policy for exactly these contexts."""
        return float(np.mean(np.sum(proposed(self.x) * returns(self.x), axis=1)))

    def evaluate(self, policy: Any = proposed, behavior: Any = practice, **options: Any) -> so.Results:
        episodes = so.read_episodes(self.rows, features=["u", "v"])
        given = None if behavior is None else so.FeaturePolicy(behavior, actions=[0, 1])
        options = {"behavior": given, "annotations": self.annotations, "estimators": ["c-pdis"], **options}
        with quietly():
            return so.evaluate(episodes, so.FeaturePolicy(policy, actions=[0, 1]), **options)


def drawn(n: int, seed: int, chance: Any = by_second, *, by_outcome: bool = False) -> World:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    action = (rng.random(n) < practice(x)[:, 1]).astype(int)
    reward = returns(x)[np.arange(n), action] + rng.normal(size=n)
    prob = np.broadcast_to(chance(x), n)
    if by_outcome:
        prob = np.where(reward > returns(x)[np.arange(n), action], 0.9, 0.1)
    asked = np.flatnonzero(rng.random(n) < prob)
    said = returns(x)[asked, 1 - action[asked]] + 0.5 * rng.normal(size=len(asked))
    rows = {
        "episode": np.arange(n),
        "step": np.zeros(n, int),
        "action": action,
        "reward": reward,
        "u": x[:, 0],
        "v": x[:, 1],
    }
    answers = so.Annotations.from_arrays(episode=asked, step=0 * asked, action=1 - action[asked], value=said)
    return World(rows, answers, x, prob)


def at_random(x: Any) -> Any:
    return np.full(len(x), 0.3)


def problem_of(results: so.Results, name: str = "c-pdis") -> Problem:
    return results.chosen(name).problem


def only_actions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Means by actions alone, as in a single cell."""
    monkeypatch.setattr(by_features, "WORDS", {ACTIONS: WORDS[ACTIONS]})


def test_questions_drawn_by_features_are_weighed_by_them() -> None:
    """With two actions and equal weights, W(a|x, a') = p(x) / 2: pi_b+ is known exactly."""
    world = drawn(4000, seed=1)
    found = problem_of(world.evaluate()).by_features
    p, pi_b = world.chance, practice(world.x)
    action = world.rows["action"]
    every = np.arange(len(action))
    exact = pi_b[every, action] * (1 - p / 2) + pi_b[every, 1 - action] * p / 2
    assert found.chosen not in (ACTIONS, POLICY)
    assert np.sqrt(np.mean((found.lookup.of_taken / exact - 1) ** 2)) < 0.03


def test_discrete_features_give_what_states_give() -> None:
    """A category of three words as a feature, and the same as a state: c-pdis is about the same, not one cell's."""
    rng = np.random.default_rng(2)
    n = 6000
    word = rng.integers(3, size=n)
    probs = np.array([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.3, 0.2, 0.5]])
    target = np.roll(probs, 1, axis=0)
    q = np.array([[0.0, 1.0, 3.0], [2.0, 2.0, 0.0], [-1.0, 0.0, 5.0]])
    chance = np.array([0.05, 0.3, 0.8])
    action = (rng.random(n)[:, None] > np.cumsum(probs[word], axis=1)).sum(axis=1)
    rows = {
        "episode": np.arange(n),
        "step": np.zeros(n, int),
        "action": action,
        "reward": q[word, action] + rng.normal(size=n),
    }
    episode, other = (one.ravel() for one in np.meshgrid(np.arange(n), np.arange(3), indexing="ij"))
    asked = (rng.random(3 * n) < chance[word][episode]) & (other != action[episode])
    answers = so.Annotations.from_arrays(
        episode=episode[asked],
        step=0 * episode[asked],
        action=other[asked],
        value=q[word[episode[asked]], other[asked]],
    )
    options: dict[str, Any] = {"annotations": answers, "estimators": ["c-pdis"]}
    with quietly():
        tabular = so.evaluate(
            {**rows, "state": word}, so.Policy.from_table(target), behavior=so.Policy.from_table(probs), **options
        )["c-pdis"]
        features = so.evaluate(
            so.read_episodes({**rows, "word": np.array(["a", "b", "c"])[word]}, features=["word"]),
            so.FeaturePolicy(lambda x: x @ target, actions=[0, 1, 2]),
            behavior=so.FeaturePolicy(lambda x: x @ probs, actions=[0, 1, 2]), **options,
        )  # fmt: skip
    found = features["c-pdis"]
    assert abs(found.value - tabular.value) < 0.1 * tabular.std_error + 0.01
    assert found.std_error == pytest.approx(tabular.std_error, rel=0.05)


def test_questions_drawn_at_random_keep_their_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    """Means by actions are chosen as a rule, and then c-pdis is theirs; over all, errors are not larger."""
    worlds = [drawn(400, seed, at_random) for seed in range(30)]
    results = [world.evaluate() for world in worlds]
    only_actions(monkeypatch)
    errors = []
    same = [problem_of(one).by_features.chosen == ACTIONS for one in results]
    for one, world, kept in zip(results, worlds, same, strict=True):
        values = one["c-pdis"].value, world.evaluate()["c-pdis"].value
        errors.append([value - world.truth for value in values])
        assert not kept or values[0] == pytest.approx(values[1], abs=1e-12)
    after, before = np.sqrt(np.mean(np.square(errors), axis=0))
    assert sum(same) > len(same) / 2
    assert after < 1.05 * before


def test_the_bias_of_questions_drawn_by_features_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean error over 40 datasets is within 3.3 standard errors (error probability 0.001), and was far outside."""
    worlds = [drawn(600, seed) for seed in range(40)]

    def z() -> float:
        off = np.array([world.evaluate()["c-pdis"].value - world.truth for world in worlds])
        return float(abs(off.mean()) / (off.std(ddof=1) / len(off) ** 0.5))

    assert z() < 3.3
    only_actions(monkeypatch)
    assert z() > 10


def test_questions_about_what_the_policy_would_do_alone() -> None:
    """By actions alone, means over all decisions would be too small: ratios would average far above 1."""

    def decided(x: Any) -> Any:
        return np.eye(2)[(x[:, 1] > 0).astype(int)]

    world = drawn(2000, 3, at_random)
    kept = (
        decided(world.x)[
            world.annotations.to_arrow()["episode"].to_numpy(), world.annotations.to_arrow()["action"].to_numpy()
        ]
        > 0
    )
    few = so.read_annotations(world.annotations.to_arrow().filter(kept))
    results = world.evaluate(policy=decided, annotations=few)
    assert problem_of(results).by_features.chosen != ACTIONS
    assert results["c-pdis"].normalizers.mean() == pytest.approx(1, abs=0.03)


def test_logged_propensities_of_two_actions_say_all() -> None:
    world = drawn(800, 4)
    given = world.evaluate()["c-pdis"]
    own = practice(world.x)[np.arange(800), world.rows["action"]]
    logged = world._replace(rows={**world.rows, "behavior_prob": own}).evaluate(behavior=None)
    assert logged["c-pdis"].value == pytest.approx(given.value, abs=1e-9)
    assert any("behavior_prob" in note for note in logged.diagnostics["notes"])
    assert not any("propensities differ" in one for one in logged.warnings)


def test_weights_by_variance_need_not_sum_to_one() -> None:
    results = drawn(1500, 5).evaluate(weights="optimal")
    assert results["c-pdis"].normalizers.mean() == pytest.approx(1, abs=0.05)


def test_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    world = drawn(300, 6)
    whole = world.evaluate()["c-pdis"].values
    monkeypatch.setattr(by_features, "ENTRIES", 40)
    assert np.allclose(world.evaluate()["c-pdis"].values, whole, rtol=0, atol=1e-12)


def test_an_episode_does_not_make_its_own_questions_likely() -> None:
    """Without the questions of one episode, its own mean weights are the same."""
    world = drawn(1000, 7)
    one = int(world.annotations.to_arrow()["episode"][0].as_py())
    table = world.annotations.to_arrow()
    fewer = so.read_annotations(table.filter(table["episode"].to_numpy() != one))
    found = [problem_of(world.evaluate(annotations=one)).by_features for one in (world.annotations, fewer)]
    assert found[0].chosen == found[1].chosen != ACTIONS
    assert found[0].expected[one] == pytest.approx(found[1].expected[one], rel=1e-6)


@pytest.mark.parametrize(("by_outcome", "light"), [(False, "green"), (True, "red")])
def test_what_is_said_of_mean_weights(by_outcome: bool, light: str) -> None:
    results = drawn(2000, 8, by_outcome=by_outcome).evaluate()
    finding = so.diagnose(results, estimator="c-pdis", refute=False)["mean split weights"]
    assert finding.light == light
    assert "the features" in finding.sentence or by_outcome


def test_ratios_that_do_not_average_one_are_said_to_be_off() -> None:
    """A behavior policy that is not the one that acted: the warning names it, and speaks of no states."""

    def wrong(x: Any) -> Any:
        return practice(4 * x)

    said = [one for one in drawn(3000, 9).evaluate(behavior=wrong).warnings if "average" in one]
    assert said
    assert "behavior policy is off" in said[0]
    assert "state" not in said[0]
