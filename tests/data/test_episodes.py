from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import semiope as so
from semiope.data.labels import encode


def arrays(**changes: Any) -> dict[str, Any]:
    columns = {"episode": [0, 0, 1], "step": [0, 1, 0], "state": [5, 7, 5], "action": [1, 0, 1], "reward": [0, 1, 2]}
    return {name: np.array(values) for name, values in (columns | changes).items()}


def test_minus_one_and_masked_actions_mean_no_decision() -> None:
    masked = np.ma.masked_array([1, 9, 1], mask=[False, True, False])
    series = pd.Series([1, -1, 1])
    for action in (
        np.array([1, -1, 1]),
        masked,
        [1, -1, 1],
        series,
        pa.array([1, None, 1]),
        [1, None, 1],
        [1.0, -1, 1],
    ):
        episodes = so.Episodes.from_arrays(**arrays() | {"action": action})
        assert episodes.action.tolist() == [0, -1, 0]
        assert episodes.actions.words.to_pylist() == [1]


def test_ids_take_the_smallest_type_that_fits() -> None:
    n = 40_000
    episodes = so.Episodes.from_arrays(
        episode=np.arange(n), step=np.zeros(n, int), state=np.arange(n), action=np.arange(n) % 100, reward=np.zeros(n)
    )
    assert episodes.state.dtype == np.int32
    assert episodes.action.dtype == np.int16


def test_nothing_can_be_changed() -> None:
    episodes = so.Episodes.from_arrays(**arrays())
    for name in ("state", "action", "reward", "offsets", "step", "lengths"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(episodes, name)[0] = 1
    with pytest.raises(AttributeError):
        episodes.reward = np.zeros(3)  # type: ignore[misc]


def test_what_the_user_does_with_an_array_afterwards_changes_nothing() -> None:
    columns = arrays(reward=[0.0, 0.0, 0.0], state=[0, 1, 0], action=[0, 1, 0])
    probs = np.full((2, 2), 0.5)
    frame = pd.DataFrame(columns)
    logs, from_frame, policy = so.Episodes.from_arrays(**columns), so.read_episodes(frame), so.Policy.from_table(probs)
    for column in columns.values():
        column[:] = 9
    frame.loc[:, :] = 9
    probs[:] = 9
    for episodes in (logs, from_frame):
        assert episodes.reward.tolist() == [0, 0, 0]
        assert episodes.state.tolist() == [0, 1, 0]
        assert episodes.action.tolist() == [0, 1, 0]
    assert policy.probs.tolist() == [[0.5, 0.5], [0.5, 0.5]]


@given(st.lists(st.one_of(st.none(), st.integers(-(2**62), 2**62)), min_size=1, max_size=30))
def test_encoding_integers_can_be_undone(labels: list[int | None]) -> None:
    ids, vocabulary = encode(pa.array(labels, pa.int64()))
    assert [None if i < 0 else vocabulary[i] for i in ids] == labels
    assert vocabulary.words.to_pylist() == sorted({label for label in labels if label is not None})


@given(st.lists(st.one_of(st.none(), st.text(max_size=3)), min_size=1, max_size=30))
def test_encoding_strings_can_be_undone(labels: list[str | None]) -> None:
    ids, vocabulary = encode(pa.array(labels, pa.string()))
    assert [None if i < 0 else vocabulary[i] for i in ids] == labels
    assert len(vocabulary) == len({label for label in labels if label is not None})


def test_sentinels_among_objects() -> None:
    columns = arrays(episode=[0] * 4, step=[0, 1, 2, 3], state=[0] * 4, reward=[0] * 4, action=[0] * 4)
    for action in (
        [1, -1, None, 0],
        np.array([1, -1, None, 0], dtype=object),
        pd.Series([1, -1, None, 0], dtype=object),
    ):
        assert so.Episodes.from_arrays(**columns | {"action": action}).action.tolist() == [1, -1, -1, 0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"state": [2**70, 1, 2]}, "column 'state'"),
        ({"action": [[1, 2], [3], 4]}, "column 'action'"),
        ({"reward": [1, 2]}, "differ in length"),
        ({"step": [0, 1, 2**62]}, "'step' is too large"),
    ],
)
def test_what_cannot_be_a_column(change: dict[str, Any], message: str) -> None:
    with pytest.raises(so.SchemaError, match=message):
        so.Episodes.from_arrays(**arrays() | change)


def test_large_whole_numbers_are_numbers() -> None:
    episodes = so.Episodes.from_arrays(**arrays(reward=[2**60 + 1, 0, 0]))
    assert episodes.reward[0] == 2.0**60


def test_no_parts_to_merge() -> None:
    with pytest.raises(so.SchemaError, match="no parts"):
        so.Episodes.concat([])
    words = so.Episodes.from_arrays(**arrays(episode=[7, 7, 8]) | {"state": ["a", "b", "c"]})
    with pytest.raises(so.SchemaError, match="do not fit together"):
        so.Episodes.concat([so.Episodes.from_arrays(**arrays()), words])


def test_parts_with_the_same_episode_do_not_merge_silently() -> None:
    part = so.Episodes.from_arrays(**arrays())
    with pytest.raises(so.SchemaError, match="repeats an episode's step"):
        so.Episodes.concat([part, part])
