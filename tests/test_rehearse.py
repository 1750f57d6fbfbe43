"""Rehearsals: the world is like the data, the truth in it is known, and coverage is foretold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import semiope as so
from semiope.domains import tree
from semiope.errors import quietly
from semiope.pipeline.rehearse import Rehearsal
from semiope.pipeline.simulated import SimulatedWorld

ANNOTATORS = [so.Annotator("a", 0.0, 0.1, ratio=0.3), so.Annotator("b", 0.0, 0.5, ratio=0.3)]


def results(*, annotators: Any = ANNOTATORS, episodes: int = 400, **options: Any) -> so.Results:
    world = tree.tree(3, slip=0.2, reward_std=0.5, behavior=(0.6, 0.4))
    logs = world.sample(episodes, seed=1)
    annotations = world.annotate(logs, "uniform", annotators=annotators, seed=2)
    with quietly():
        found: so.Results = so.evaluate(logs, world.policies["uniform"], annotations=annotations, **options)
    return found


def test_datasets_are_like_the_data() -> None:
    given = results()
    world = SimulatedWorld.like(given)
    rng = np.random.default_rng(0)
    drawn = [world.draw(rng) for _ in range(20)]
    run = given.origin
    assert run.annotations is not None
    assert {one.episodes.n_episodes for one in drawn} == {run.episodes.n_episodes}
    assert np.mean([len(one.annotations) for one in drawn]) == pytest.approx(len(run.annotations), rel=0.1)
    assert np.mean([one.episodes.returns(1.0).mean() for one in drawn]) == pytest.approx(
        run.episodes.returns(1.0).mean(), abs=0.1
    )
    assert np.std([one.episodes.reward.std() for one in drawn]) < 0.2
    # What is not known differs from draw to draw, around what is known.
    truths = np.array([one.truth for one in drawn])
    assert truths.std() > 0
    headline = given[given.headline]
    assert truths.mean() == pytest.approx(headline.value, abs=4 * headline.std_error)


def test_the_truth_of_a_draw_is_that_of_its_episodes() -> None:
    """Monte Carlo: the policy itself acting in the drawn world returns what is called the truth (4 standard errors)."""
    world = SimulatedWorld.like(results())
    rng = np.random.default_rng(1)
    errors = np.where(world.mdp.terminal[:, None], 0.0, world.fitted.draw(np.random.default_rng(5)))
    mdp = replace(world.mdp, reward=world.mdp.reward + errors)
    policy = np.where(world.mdp.terminal[:, None], 1 / world.mdp.n_actions, world.evaluation.policy[0])
    returns = mdp.sample(policy, 20_000, seed=3).returns(mdp.gamma)
    _, truth = mdp.solved(world.evaluation.policy)
    assert returns.mean() == pytest.approx(truth, abs=4 * returns.std() / np.sqrt(len(returns)))
    assert world.draw(rng).truth != truth


def test_coverage_is_foretold() -> None:
    """Good annotators: nearly all intervals hold. The same seed, the same rehearsal; it is kept with the results."""
    given = results()
    found = so.rehearse(given, datasets=40, seed=1)
    assert found.coverage >= 0.85
    assert found.finding.light != "red"
    assert (so.rehearse(given, datasets=40, seed=1).low == found.low).all()
    assert so.diagnose(given, refute=False)["rehearsal"].figure == found.finding.figure
    assert found.to_dict()["datasets"] == len(found.low)


def test_intervals_that_are_too_narrow_are_found_out() -> None:
    """Annotations in one of two states, added as episodes: intervals miss, and the finding says by how much."""
    rng = np.random.default_rng(0)
    n = 400
    state, action = rng.integers(2, size=n), rng.integers(2, size=n)
    rows = {
        "episode": np.arange(n), "step": np.zeros(n, int), "state": state, "action": action,
        "reward": 3.0 * state + rng.normal(size=n),
    }  # fmt: skip
    asked = np.flatnonzero(state == 1)
    annotations = {
        "episode": asked, "step": 0 * asked, "action": 1 - action[asked], "value": 3 + rng.normal(size=len(asked))
    }  # fmt: skip
    policy = so.Policy.from_table(np.full((2, 2), 0.5))
    with quietly():
        given = so.evaluate(rows, policy, annotations=annotations, estimators=["naive-unweighted", "pp-dr"])
    found = so.rehearse(given, estimator="naive-unweighted", datasets=30)
    assert so.rehearse(given, datasets=30).finding.light == "green"
    assert found.finding.light == "red"
    assert found.wider > 1.2
    assert f"{found.wider:.1f} times as wide" in found.finding.sentence


def test_whole_episodes_are_asked_about_as_a_whole() -> None:
    given = results()
    run = given.origin
    assert run.annotations is not None
    some = np.flatnonzero(run.annotations.episode % 5 == 0)
    with quietly():
        exact = tree.tree(3, slip=0.2, reward_std=0.5, behavior=(0.6, 0.4)).annotate(run.episodes, "uniform")
        whole = exact.some(np.flatnonzero(np.isin(exact.episode, run.annotations.episode[some])))
        given = so.evaluate(run.episodes, run.policy, annotations=whole)
    assert SimulatedWorld.like(given).asking.correlation > 0.8
    assert SimulatedWorld.like(results()).asking.correlation < 0.1


def test_wider_is_the_factor_that_restores_coverage() -> None:
    rng = np.random.default_rng(0)
    truth = np.zeros(2000)
    value = rng.normal(size=2000)
    half = 0.98  # half of what 95% takes
    found = Rehearsal("p", "e", 0.05, value - half, value + half, value, truth)
    assert found.wider == pytest.approx(2.0, rel=0.07)
    assert found.finding.light == "red"
    right = Rehearsal("p", "e", 0.05, value - 1.96, value + 1.96, value, truth)
    assert right.finding.light == "green"
    assert right.std_error == pytest.approx(np.sqrt(0.05 * 0.95 / 2000), rel=0.1)


def test_bad_input() -> None:
    given = results(episodes=60)
    with pytest.raises(so.OptionError, match="at least 20"):
        so.rehearse(given, datasets=3)
    with pytest.raises(so.OptionError, match="not between 0 and 1"):
        so.rehearse(given, alpha=2)
    with quietly():
        run = given.origin
        plain = so.evaluate(run.episodes, run.policy)
        with pytest.raises(so.OptionError, match="nothing to rehearse"):
            so.rehearse(plain)
        rows = {
            "episode": np.arange(30), "step": np.zeros(30, int), "state": np.arange(30), "action": np.arange(30) % 2,
            "reward": np.ones(30),
        }  # fmt: skip
        annotations = {"episode": [0, 1], "step": [0, 0], "action": [1, 0], "value": [1.0, 2.0]}
        unique = so.evaluate(rows, so.Policy.from_table(np.full((30, 2), 0.5)), annotations=annotations)
    with pytest.raises(so.OptionError, match="states that recur"):
        so.rehearse(unique)
