"""Resamples of whole datasets, and what is counted anew in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import stdtrit

import semiope as so
from semiope.domains import bandit, sepsis
from semiope.errors import quietly
from tests.resample import repeated


@pytest.fixture(scope="module")
def ward() -> tuple[so.Episodes, so.Annotations]:
    world = sepsis.world()
    episodes = world.sample(60, seed=3)
    return episodes, world.annotate(episodes, "optimal", annotators=so.Annotator(std=0.2), seed=4)


def test_copies_are_what_a_table_with_copied_rows_gives(ward: tuple[so.Episodes, so.Annotations]) -> None:
    episodes, annotations = ward
    times = np.random.default_rng(0).poisson(1.0, episodes.n_episodes)
    copies, answers = repeated(episodes, annotations, times)
    logs, said = episodes.to_arrow().to_pandas(), annotations.to_arrow().to_pandas()
    labels = [label for label, n in zip(episodes.labels.words.to_pylist(), times, strict=True) for _ in range(n)]
    by_hand = [logs[logs.episode == label].assign(episode=i) for i, label in enumerate(labels)]
    answered = [said[said.episode == label].assign(episode=i) for i, label in enumerate(labels)]
    expected = so.read_episodes(pd.concat(by_hand).reset_index(drop=True))
    assert copies.to_arrow().equals(expected.to_arrow())
    assert answers is not None
    columns = ["episode", "step", "action", "value"]
    found = answers.to_arrow().to_pandas()[columns].sort_values(columns[:3]).reset_index(drop=True)
    wanted = pd.concat(answered)[columns].sort_values(columns[:3]).reset_index(drop=True)
    assert found.equals(wanted.astype(found.dtypes))


def test_once_each_changes_nothing(ward: tuple[so.Episodes, so.Annotations]) -> None:
    episodes, annotations = ward
    policy = sepsis.world().policies["optimal"]
    copies, answers = repeated(episodes, annotations, np.ones(episodes.n_episodes, dtype=np.int64))
    with quietly():
        before = so.evaluate(episodes, policy, annotations=annotations, gamma=0.99)
        after = so.evaluate(copies, policy, annotations=answers, gamma=0.99)
    assert [one.value for one in before.values()] == [one.value for one in after.values()]


def test_logs_alone_have_no_answers(ward: tuple[so.Episodes, so.Annotations]) -> None:
    assert repeated(ward[0], None, np.ones(60, dtype=np.int64))[1] is None


def test_counting_anew_makes_pdis_surer() -> None:
    """A counted behaviour policy makes pdis scatter less than its standard error knows; refitting finds out."""
    world = bandit.two_state((1.0, 2.0), (0.5, 0.5))
    policy = next(iter(world.policies.values()))
    values, plain, anew = [], [], []
    for number in range(40):
        episodes = world.sample(100, seed=6, first=100 * number)
        results = so.evaluate(episodes, policy, estimators="pdis")
        values.append(results["pdis"].value)
        if number < 8:
            plain.append(results["pdis"].std_error)
            anew.append(so.refitted(results, resamples=60, seed=1).std_error)
    scatter = np.std(values, ddof=1)
    assert np.mean(plain) > 1.25 * scatter
    assert np.mean(anew) == pytest.approx(scatter, rel=0.35)
    assert np.mean(anew) < 0.9 * np.mean(plain)


def test_resamples_depend_on_seed_and_labels_alone(ward: tuple[so.Episodes, so.Annotations]) -> None:
    episodes, annotations = ward
    policy = sepsis.world().policies["optimal"]
    with quietly():
        results = so.evaluate(episodes, policy, annotations=annotations, estimators="c-pdis", gamma=0.99)
        table = episodes.to_arrow().to_pandas().sample(frac=1, random_state=1)
        mixed = so.evaluate(table, policy, annotations=annotations, estimators="c-pdis", gamma=0.99)
    first = so.refitted(results, resamples=20, seed=5)
    assert first.values == pytest.approx(so.refitted(mixed, resamples=20, seed=5).values)
    assert not np.allclose(first.values, so.refitted(results, resamples=20, seed=6).values)
    half = stdtrit(59, 0.975) * first.std_error
    assert first.interval == pytest.approx((results["c-pdis"].value - half, results["c-pdis"].value + half))
    assert first.std_error == pytest.approx(np.std(first.values, ddof=1))


def test_what_is_refused(ward: tuple[so.Episodes, so.Annotations]) -> None:
    episodes, _ = ward
    with quietly():
        results = so.evaluate(episodes, sepsis.world().policies["optimal"], estimators="pdis")
    with pytest.raises(so.OptionError, match="resamples: 5 are too few"):
        so.refitted(results, resamples=5)
    with pytest.raises(so.OptionError, match="alpha: 2"):
        so.refitted(results, alpha=2)


def test_policies_given_row_by_row_are_resampled_with_their_episodes(
    ward: tuple[so.Episodes, so.Annotations],
) -> None:
    episodes, annotations = ward
    policy = sepsis.world().policies["flip-100-seed-42"]
    rows = np.flatnonzero(episodes.action >= 0)
    table = sepsis.world().mdp.probs(policy)[0][sepsis.world().mdp.states.positions_of(episodes.states)]
    place, action = np.nonzero(table[episodes.state[rows]])
    by_row = so.RowPolicy.from_arrays(
        episode=np.asarray(episodes.labels.words)[episodes.episode_of(rows[place])], step=episodes.step[rows[place]],
        action=action, prob=table[episodes.state[rows]][place, action],
    )  # fmt: skip
    options: dict[str, Any] = {"annotations": annotations, "estimators": ["pdis", "c-pdis"], "gamma": 0.99}
    with quietly():
        over_states, listed = (so.evaluate(episodes, one, **options) for one in (policy, by_row))
    for name in ("pdis", "c-pdis"):
        found = [so.refitted(one, name, resamples=20, seed=1).values for one in (over_states, listed)]
        assert found[0] == pytest.approx(found[1])
