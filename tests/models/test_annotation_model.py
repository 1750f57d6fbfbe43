"""The annotation model: Bellman errors as random effects, by dense linear algebra and in its limits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.linalg import block_diag

import semiope as so
from semiope.domains import sepsis, tree
from semiope.errors import quietly
from semiope.models.annotation_model import Annotated, AnnotationModel, fit
from semiope.models.bellman import BellmanModel
from semiope.models.counted import bellman_model
from semiope.models.records import Records


def counted(seed: int, n: int = 40, per_step: bool = True) -> BellmanModel:
    """Few states, an action that nobody took, final rows without an action, a policy that changes over time."""
    rng = np.random.default_rng(seed)
    rows: dict[str, list[Any]] = {name: [] for name in ("episode", "step", "state", "action", "reward")}
    for episode in range(n):
        length = int(rng.integers(1, 5))
        for step in range(length + 1):
            last = step == length
            state, action = ("end", -1) if last else (str(rng.integers(3)), int(rng.integers(2)))
            for column, entry in zip(rows.values(), (episode, step, state, action, rng.normal()), strict=True):
                column.append(entry)
    episodes = so.Episodes.from_arrays(**rows)
    records = Records(episodes, (0, 1, 2), 0.8)
    mdp = records.empirical.mdp
    probs = rng.dirichlet(np.ones(3), size=(mdp.horizon, mdp.n_states) if per_step else mdp.n_states)
    return bellman_model(records, mdp.policy(probs), "p")


def dense(model: BellmanModel) -> Any:
    """The map from Bellman errors to Q as a matrix, column by column."""
    n = int(np.prod(model.shape[1:]))
    return np.column_stack([model.changes(one.reshape(model.shape[1:])).ravel() for one in np.eye(n)])


@pytest.mark.parametrize("seed", range(4))
def test_values_by_plain_loops(seed: int) -> None:
    """Backward over the steps; a pair never logged is worth what its state's logged pairs are, by the behavior."""
    model = counted(seed)
    mdp, counts = model.empirical
    errors = np.random.default_rng(seed).normal(size=counts.shape)
    following = np.zeros((mdp.n_states, mdp.n_actions, mdp.n_states))
    t = mdp.transitions
    for pair in range(mdp.n_states * mdp.n_actions):
        for i in range(t.offsets[pair], t.offsets[pair + 1]):
            if t.following[i] >= 0:
                following[pair // mdp.n_actions, pair % mdp.n_actions, t.following[i]] += t.prob[i]
    worth, expected = np.zeros(mdp.n_states), np.zeros(model.shape)
    for step in range(mdp.horizon - 1, -1, -1):
        now = np.zeros(mdp.n_states)
        for s in range(mdp.n_states):
            if mdp.terminal[s]:
                now[s] = expected[step, s] = mdp.reward[s, 0]
                now[s] = mdp.reward[s, 0]
                continue
            own = mdp.reward[s] + mdp.gamma * following[s] @ worth
            usual = sum(counts[s, a] / counts[s].sum() * own[a] for a in range(3) if counts[s, a])
            expected[step, s] = [(own[a] if counts[s, a] else usual) + errors[s, a] for a in range(3)]
            now[s] = model.policy[step, s] @ expected[step, s]
        worth = now
    assert model.returns(errors) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_changes_are_linear_and_attributed_is_their_transpose(seed: int) -> None:
    model, rng = counted(seed), np.random.default_rng(seed)
    errors, weights = rng.normal(size=model.shape[1:]), rng.normal(size=model.shape)
    change = model.returns(errors) - model.returns()
    assert model.changes(errors) == pytest.approx(change, abs=1e-12)
    assert np.sum(weights * change) == pytest.approx(np.sum(model.attributed(weights) * errors), abs=1e-10)


def annotated(model: BellmanModel, n: int, seed: int, annotators: int = 1, truth: Any = None) -> Annotated:
    rng = np.random.default_rng(seed)
    at = rng.integers(model.shape[0], size=n), rng.integers(1, model.shape[1], size=n), rng.integers(3, size=n)
    states = np.flatnonzero(~model.empirical.mdp.terminal)
    at = (at[0], states[rng.integers(len(states), size=n)], at[2])
    value = (model.returns() if truth is None else truth)[at] + rng.normal(size=n)
    who = rng.integers(annotators, size=n)
    return Annotated(*at, value, who, rng.uniform(0.5, 2.0, size=n), rng.choice((-1.0, 1.0), size=(n, 2)))


def posterior(found: AnnotationModel, given: Annotated, n_annotators: int) -> tuple[Any, Any]:
    """Mean and covariance of Bellman errors and offsets by one dense solve, for the variances that were found.

    Errors of pairs never logged have a mean of their own, of a variance of its own.
    """
    model, known = found.model, found.variances
    counts = model.empirical.counts
    prior = np.where(counts > 0, (model.spread.within / known.unit) ** 2 / np.maximum(counts, 1), known.unlogged)
    cell = np.ravel_multi_index((given.step, given.state, given.action), model.shape)
    design = dense(model)[cell]
    unlogged = (counts == 0).ravel().astype(float)
    prior = np.diag(prior.ravel()) + known.mean * np.outer(unlogged, unlogged)
    if n_annotators > 1:
        design = np.hstack([design, np.eye(n_annotators)[given.annotator]])
        prior = block_diag(prior, known.offsets * np.eye(n_annotators))
    noise = known.noise[given.annotator] * given.scale
    left = (given.value - model.returns().ravel()[cell]) / known.unit
    covariance = design @ prior @ design.T + np.diag(noise)
    mean = prior @ design.T @ np.linalg.solve(covariance, left)
    spread = prior - prior @ design.T @ np.linalg.solve(covariance, design @ prior)
    return mean * known.unit, spread * known.unit**2


@pytest.mark.parametrize("annotators", [1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_effects_are_conditional_means(seed: int, annotators: int) -> None:
    model = counted(seed)
    given = annotated(model, 60, seed, annotators)
    found = fit(model, given, annotators)
    mean, spread = posterior(found, given, annotators)
    n = found.errors.size
    assert found.errors.ravel() == pytest.approx(mean[:n], abs=1e-7)
    if annotators > 1 and found.variances.offsets > 0:
        assert found.offsets == pytest.approx(mean[n:] - mean[n:].mean(), abs=1e-7)
    assert found.offsets.sum() == pytest.approx(0.0, abs=1e-9)
    weights = model.at_start(np.random.default_rng(seed).dirichlet(np.ones(model.shape[1])))
    part = model.attributed(weights).ravel()
    assert found.std_of(weights) == pytest.approx(np.sqrt(part @ spread[:n, :n] @ part), rel=1e-3)
    # 3000 draws: their covariances are off by 4 standard errors at most.
    rng = np.random.default_rng(seed)
    drawn = np.array([found.draw(rng).ravel() for _ in range(3000)])
    assert drawn.mean(axis=0) == pytest.approx(mean[:n], abs=4 * np.sqrt(np.diag(spread)[:n].max() / 3000))
    error = np.sqrt((np.outer(np.diag(spread)[:n], np.diag(spread)[:n]) + spread[:n, :n] ** 2) / 3000)
    assert (np.abs(np.cov(drawn.T) - spread[:n, :n]) < 5 * error + 1e-12).all()


def test_annotations_of_some_pairs_tell_of_others_never_logged() -> None:
    """Where annotated pairs never logged are all better than their state, so are those that nobody annotated."""
    model = counted(3, n=200)
    never = np.argwhere(~model.logged & ~model.empirical.mdp.terminal[:, None])
    truth = model.returns(np.where(model.logged, 0.0, 2.0))
    about = np.repeat(never[:-1], 20, axis=0)
    step = np.zeros(len(about), dtype=np.int64)
    given = annotated(model, len(about), 0)._replace(
        step=step, state=about[:, 0], action=about[:, 1], value=truth[step, about[:, 0], about[:, 1]],
        scale=np.ones(len(about)),
    )  # fmt: skip
    found = fit(model, given, 1)
    left_out = found.errors[tuple(never[-1])]
    assert found.errors[tuple(never[0])] == pytest.approx(2.0, abs=0.1)
    assert 0.5 < left_out < 2.0


def test_noise_and_offsets_are_found() -> None:
    world = sepsis.world()
    policy = world.policies["flip-100-seed-42"]
    episodes = world.sample(500, seed=1)
    model = bellman_model(Records(episodes, tuple(range(8)), 0.99), policy, "p")
    rng = np.random.default_rng(0)
    exact = world.annotate(episodes, policy)
    rows = episodes.rows_of(exact.labels, exact.episode, exact.step, "annotations")
    ids = model.empirical.mdp.actions.positions_of(exact.actions)[exact.action]
    some = rng.random(len(rows)) < 0.5
    who = rng.integers(3, size=some.sum())
    noise, offset = np.array([0.1, 0.3, 1.0]), np.array([0.3, 0.0, -0.3])
    value = exact.value[some] + offset[who] + noise[who] * rng.normal(size=some.sum())
    given = Annotated(
        episodes.step[rows[some]], episodes.state[rows[some]].astype(np.int64), ids[some], value, who,
        np.ones(some.sum()), rng.choice((-1.0, 1.0), size=(some.sum(), 2)),
    )  # fmt: skip
    found = fit(model, given, 3)
    assert found.offsets == pytest.approx(offset, abs=0.05)
    assert np.sqrt(found.variances.noise[:3]) * found.variances.unit == pytest.approx(noise, rel=0.25)


def test_without_annotations_it_is_the_model_of_the_logs() -> None:
    model = counted(5)
    nothing = np.zeros(0)
    ids = nothing.astype(np.int64)
    found = fit(model, Annotated(ids, ids, ids, nothing, ids, nothing, np.zeros((0, 2))), 0)
    assert (found.errors == 0).all()
    # A pair never logged may be off by itself, and with all others of its kind.
    prior = np.where(model.logged, model.spread.within**2 / np.maximum(model.empirical.counts, 1),
                     2 * model.spread.between**2)  # fmt: skip
    rng = np.random.default_rng(0)
    drawn = np.array([found.draw(rng) for _ in range(2000)])
    assert drawn.std(axis=0) == pytest.approx(np.sqrt(prior), rel=5 / math.sqrt(2 * 2000))


def test_units_do_not_matter() -> None:
    model = counted(2)
    given = annotated(model, 50, 3)
    found = fit(model, given, 1)
    scaled = []
    for factor in (1e-120, 1e120):
        rows = model.episodes
        episodes = so.Episodes.from_arrays(
            episode=rows.episode_of(np.arange(rows.n_steps)), step=rows.step,
            state=np.array(rows.states.words.to_pylist())[rows.state], action=rows.action, reward=rows.reward * factor,
        )  # fmt: skip
        records = Records(episodes, (0, 1, 2), 0.8)
        larger = BellmanModel.of(episodes, records.rows, records.empirical, records.behavior, model.policy)
        scaled.append(fit(larger, given._replace(value=given.value * factor), 1).errors / factor)
    assert scaled[0] == pytest.approx(found.errors, rel=1e-6)
    assert scaled[1] == pytest.approx(found.errors, rel=1e-6)


def test_a_world_without_chance_is_known() -> None:
    """No scatter, every pair logged: nothing is left for annotations to tell, however loud they are."""
    world = tree.tree(3, slip=0.0, behavior=(0.5, 0.5))
    episodes = world.sample(300, seed=1)
    noisy = world.annotate(episodes, "uniform", annotators=so.Annotator(std=5.0), seed=1)
    with quietly():
        found = so.evaluate(episodes, world.policies["uniform"], annotations=noisy, estimators=["dm+"])
    assert found["dm+"].value == pytest.approx(world.mdp.value(world.policies["uniform"]), abs=1e-9)
