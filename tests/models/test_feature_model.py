"""Q-hat for states that are features."""

from __future__ import annotations

import numpy as np
import pytest

import semiope as so
from semiope.data.logbook import Logbook
from semiope.models.feature_model import FeatureModel
from semiope.models.folds import deal
from semiope.models.study import Study, returns_at
from semiope.policies.array import FeaturePolicy
from semiope.policies.cells import cells_of
from semiope.policies.lookup import everything

HORIZON, GAMMA = 4, 0.9


def probs_of(x: np.ndarray) -> np.ndarray:
    p = 1 / (1 + np.exp(-x[:, 0]))
    return np.column_stack([1 - p, p])


def world(n: int, seed: int = 0, noise: float = 0.1) -> so.Episodes:
    """x' = 0.8 x + a - 0.5 + noise; a reward of x a."""
    rng = np.random.default_rng(seed)
    rows = []
    x = rng.normal(size=n)
    for t in range(HORIZON):
        a = (rng.random(n) < 0.5).astype(int)
        rows.append((np.arange(n), np.full(n, t), x, a, x * a + noise * rng.normal(size=n)))
        x = 0.8 * x + a - 0.5 + noise * rng.normal(size=n)
    episode, step, x, action, reward = (np.concatenate(column) for column in zip(*rows, strict=True))
    return so.Episodes.from_arrays(episode=episode, step=step, action=action, reward=reward, features={"x": x})


def measured(episodes: so.Episodes) -> np.ndarray:
    assert episodes.features is not None
    return np.asarray(episodes.features.matrix[:, 0])


def study_of(episodes: so.Episodes, annotations: so.Annotations | None = None, *, folds: bool = True) -> Study:
    policy = FeaturePolicy(probs_of).at(episodes)
    logbook = Logbook.of(episodes, annotations, {"policy": policy.actions})
    bound = policy.bind(logbook, cells_of(episodes, "state"), "policy")
    fold = deal(episodes.n_episodes) if folds else None
    return Study(logbook, policy, everything(bound, logbook), GAMMA, "policy", fold)


def fitted(model: FeatureModel, study: Study, fold: int = 0) -> np.ndarray:
    """Q-hat of every action in every row."""
    return model.fit(study, fold).at(np.arange(study.episodes.n_steps))


def true_returns(x: np.ndarray, action: np.ndarray, left: int, n: int = 4000) -> np.ndarray:
    """Returns after an action under the policy, by rollouts."""
    rng = np.random.default_rng(9)
    x, action = np.repeat(x, n), np.repeat(action, n)
    total, discount = np.zeros(len(x)), 1.0
    for k in range(left):
        a = action if k == 0 else (rng.random(len(x)) < probs_of(x[:, None])[:, 1]).astype(int)
        total += discount * x * a
        x = 0.8 * x + a - 0.5 + 0.1 * rng.normal(size=len(x))
        discount *= GAMMA
    return np.asarray(total.reshape(-1, n).mean(axis=1))


def test_returns_of_the_policy_are_found_from_logs_of_another() -> None:
    episodes = world(3000)
    study = study_of(episodes)
    found = fitted(FeatureModel(), study)
    for t in range(1, HORIZON):
        rows = np.flatnonzero((study.fold_of_row == 0) & (episodes.step == t))[:30]
        x = measured(episodes)[rows]
        for a in range(2):
            truth = true_returns(x, np.full(len(x), a), HORIZON - t)
            assert np.sqrt(np.mean((found[rows, a] - truth) ** 2)) < 0.05


def test_a_sample_of_rows_holds_all_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every so many rows of equally long episodes would be the same step of each."""
    monkeypatch.setattr("semiope.models.feature_model.MOST_LOOKED_AT", 300)
    episodes = world(3000)
    study = study_of(episodes)
    found = fitted(FeatureModel(), study)
    rows = np.flatnonzero((study.fold_of_row == 0) & (episodes.step == HORIZON - 1))
    assert np.sqrt(np.mean((found[rows, 1] - measured(episodes)[rows]) ** 2)) < 0.05


def test_rounds_are_how_many_rewards_ahead_returns_go() -> None:
    episodes = world(2000)
    one = fitted(FeatureModel(folds=None, rounds=1), study_of(episodes, folds=False))
    x = measured(episodes)
    assert np.abs(one[:, 0]).max() < 0.05
    assert np.sqrt(np.mean((one[:, 1] - x) ** 2)) < 0.05


def test_a_model_does_not_depend_on_the_fold_it_is_used_for() -> None:
    episodes, other = world(200), world(200)
    study = study_of(episodes)
    reward = other.reward.copy()
    reward[study.fold_of_row == 0] += 100.0
    changed = so.Episodes.from_arrays(
        episode=np.repeat(np.arange(200), HORIZON), step=other.step, action=other.action, reward=reward,
        features={"x": measured(other)},
    )  # fmt: skip
    before, after = fitted(FeatureModel(), study), fitted(FeatureModel(), study_of(changed))
    assert np.array_equal(before, after)
    assert not np.allclose(fitted(FeatureModel(), study, 1), fitted(FeatureModel(), study_of(changed), 1))


def annotated(
    episodes: so.Episodes, seed: int, offsets: tuple[float, ...], noises: tuple[float, ...]
) -> so.Annotations:
    """Annotations of the action not taken at the last step, where the return is x a."""
    rng = np.random.default_rng(seed)
    rows = rng.choice(np.flatnonzero(episodes.step == HORIZON - 1), 600, replace=False)
    who = rng.integers(len(offsets), size=len(rows))
    action = 1 - episodes.action[rows]
    value = measured(episodes)[rows] * action + np.array(offsets)[who]
    value = value + np.array(noises)[who] * rng.normal(size=len(rows))
    return so.Annotations.from_arrays(
        episode=episodes.episode_of(rows), step=episodes.step[rows], action=action, value=value,
        annotator=[f"a{k}" for k in who],
    )  # fmt: skip


def test_offsets_and_noise_of_annotators_are_found() -> None:
    episodes = world(1500)
    annotations = annotated(episodes, 1, (0.3, -0.1, -0.2), (0.05, 0.2, 0.5))
    study = study_of(episodes, annotations)
    model = FeatureModel()
    found = model.corrected(study, 0, model.fit(study, 0))
    assert found.offsets == pytest.approx([0.3, -0.1, -0.2], abs=0.08)
    assert found.noise[:3] == pytest.approx([0.05, 0.2, 0.5], rel=0.25)
    assert found.between == pytest.approx(np.std([0.3, -0.1, -0.2], ddof=1), rel=0.6)
    assert found.std > 0.05  # nothing was asked about first steps


def test_annotations_correct_a_model_that_logs_cannot_tell() -> None:
    """Action 1 is never logged where x > 0: only annotations say what it brings there."""
    rng = np.random.default_rng(3)
    n = 3000
    x = rng.normal(size=n)
    action = np.where(x > 0, 0, (rng.random(n) < 0.5)).astype(int)
    reward = np.where(x > 0, 2.0, 0.0) * action + 0.1 * rng.normal(size=n)
    episodes = so.Episodes.from_arrays(
        episode=np.arange(n), step=np.zeros(n, int), action=action, reward=reward, features={"x": x}
    )
    rows = np.sort(rng.choice(np.flatnonzero(x > 0), 300, replace=False))
    value = 2.0 + 0.1 * rng.normal(size=len(rows))
    annotations = so.Annotations.from_arrays(
        episode=rows, step=np.zeros(len(rows), int), action=np.ones(len(rows), int), value=value
    )
    study, model = study_of(episodes, annotations), FeatureModel()
    returns = model.fit(study, 0)
    found = model.corrected(study, 0, returns).returns
    place = np.flatnonzero((x > 0.2) & (study.fold_of_row == 0))
    assert np.abs(returns_at(returns, place)[:, 1] - 2).mean() > 0.8
    assert np.abs(returns_at(found, place)[:, 1] - 2).mean() < 0.2


def test_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    episodes = world(150)
    whole = fitted(FeatureModel(), study_of(episodes))
    monkeypatch.setattr("semiope.models.feature_model.ROWS_AT_ONCE", 37)
    monkeypatch.setattr("semiope.models.basis.ROWS_AT_ONCE", 37)
    assert np.abs(fitted(FeatureModel(), study_of(episodes)) - whole).max() < 1e-8


def test_many_annotations_count_as_all_of_them_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Annotations of one annotator and fold are rotated into as few rows as there are columns."""
    episodes = world(1500)
    annotations = annotated(episodes, 1, (0.3, -0.1), (0.05, 0.5))
    found = []
    for most in (None, 0):
        if most is not None:
            monkeypatch.setattr("semiope.models.feature_model.MOST_PER_COLUMN", most)
        study, model = study_of(episodes, annotations), FeatureModel()
        one = model.corrected(study, 0, model.fit(study, 0))
        found.append((returns_at(one.returns, np.arange(episodes.n_steps)), one.offsets, one.noise, one.std))
    for plain, rotated in zip(*found, strict=True):
        assert plain == pytest.approx(rotated, rel=1e-7, abs=1e-9)


def test_the_plain_call_holds_the_truth_and_needs_no_behavior_policy() -> None:
    """With a fitted behavior policy the headline is the same whatever was fitted."""
    episodes = world(400)
    rows = np.random.default_rng(5).choice(episodes.n_steps, 300, replace=False)
    x, step, action = measured(episodes)[rows], episodes.step[rows], 1 - episodes.action[rows]
    value = np.concatenate([true_returns(x[step == t], action[step == t], HORIZON - t, 400) for t in range(HORIZON)])
    rows = np.concatenate([rows[step == t] for t in range(HORIZON)])
    annotations = so.Annotations.from_arrays(
        episode=episodes.episode_of(rows), step=episodes.step[rows], action=1 - episodes.action[rows], value=value
    )
    start = np.random.default_rng(0).normal(size=4000)
    first = (np.random.default_rng(1).random(4000) < probs_of(start[:, None])[:, 1]).astype(int)
    truth = float(true_returns(start, first, HORIZON, 20).mean())
    found = [
        so.evaluate(episodes, probs_of, annotations=annotations, gamma=GAMMA, behavior=behavior)
        for behavior in (None, "boosting")
    ]
    low, high = found[0]["pp-dr"].interval()
    assert low < truth < high
    assert high - low < 0.5
    assert found[0].headline == "pp-dr"
    assert found[0]["pp-dr"].unshrunk == pytest.approx(found[1]["pp-dr"].unshrunk, abs=1e-12)


@pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")
def test_binned_states_leave_out_what_features_tell() -> None:
    """Two bins of x are no state; fine bins are. At 5%, chance makes the second one amber in 1 of 20 datasets."""
    lights = {}
    for n_bins in (2, 40):
        episodes = world(800, seed=11)
        x = measured(episodes)
        bins = np.searchsorted(np.quantile(x, np.linspace(0, 1, n_bins + 1)[1:-1]), x)
        binned = so.Episodes.from_arrays(
            episode=np.repeat(np.arange(800), HORIZON), step=episodes.step, action=episodes.action,
            reward=episodes.reward, state=bins, features={"x": x},
        )  # fmt: skip
        policy = so.Policy.from_table(np.full((n_bins, 2), 0.5))
        rows = np.arange(0, episodes.n_steps, 7)
        annotations = so.Annotations.from_arrays(
            episode=episodes.episode_of(rows), step=episodes.step[rows], action=1 - episodes.action[rows],
            value=np.zeros(len(rows)),
        )  # fmt: skip
        results = so.evaluate(binned, policy, annotations=annotations, gamma=GAMMA)
        finding = so.diagnose(results, refute=False)["what states leave out"]
        lights[n_bins] = finding.light, "features" in finding.sentence
    assert lights == {2: ("amber", True), 40: ("green", False)}
