"""Features: encoded once, checked, and carried along with the episodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import semiope as so
from semiope.data.repeat import Resample

COLUMNS: dict[str, list[Any]] = {
    "episode": [0, 0, 1, 1],
    "step": [0, 1, 0, 1],
    "action": ["treat", "wait", "treat", None],
    "reward": [0.0, 1.0, 2.0, 3.0],
}


def read(x: Any, missing: str = "refuse", **others: Any) -> so.Episodes:
    return so.read_episodes({**COLUMNS, "x": x, **others}, features=["x", *others], missing=missing)


def encoded(episodes: so.Episodes) -> dict[str, list[float]]:
    assert episodes.features is not None
    return dict(zip(episodes.features.names, episodes.features.matrix.T.tolist(), strict=True))


def test_no_state_is_needed() -> None:
    episodes = read([80, 95, 70, 60])
    assert not episodes.has_states
    assert repr(episodes) == "Episodes(2 episodes, 4 steps, 1 features, 2 actions)"
    with_state = so.read_episodes({**COLUMNS, "x": [1, 2, 3, 4], "state": list("stst")}, features="x")
    assert with_state.has_states
    assert "2 states, 1 features" in repr(with_state)


@pytest.mark.parametrize(
    "x",
    [
        [80, 95, 70, 60],
        [80.0, 95.0, 70.0, np.nan],
        np.array([80, 95, 70, 60], dtype=np.float32),
        np.array([80, 95, 70, 60], dtype=np.uint8),
        pa.array([80, 95, 70, None], pa.decimal128(5, 2)),
        pd.array([80, 95, 70, None], dtype="Int64"),
    ],
)
def test_numbers_of_any_kind(x: Any) -> None:
    """The last row has no decision: it needs no features, and its own are not used."""
    assert encoded(read(x)) == {"x": [80.0, 95.0, 70.0, 0.0]}


def test_booleans_are_numbers() -> None:
    assert encoded(read([True, False, True, None])) == {"x": [1.0, 0.0, 1.0, 0.0]}


CATEGORIES = {"x=icu": [1.0, 0.0, 1.0, 0.0], "x=ward": [0.0, 1.0, 0.0, 0.0]}


@pytest.mark.parametrize(
    "frame",
    [
        pa.table({**COLUMNS, "x": ["icu", "ward", "icu", "ward"]}),
        pa.table({**COLUMNS, "x": pa.array(["icu", "ward", "icu", "home"], pa.large_string())}),
        pa.table({**COLUMNS, "x": pa.array(["icu", "ward", "icu", None]).dictionary_encode()}),
        pd.DataFrame({**COLUMNS, "x": pd.Categorical(["icu", "ward", "icu", None], categories=["ward", "icu", "new"])}),
        pl.DataFrame({**COLUMNS, "x": ["icu", "ward", "icu", None]}),
        pl.DataFrame({**COLUMNS, "x": pl.Series(["icu", "ward", "icu", None], dtype=pl.Categorical)}),
        pl.DataFrame({**COLUMNS, "x": pl.Series(["icu", "ward", "icu", None], dtype=pl.Enum(["ward", "icu"]))}),
    ],
    ids=["arrow", "large strings", "dictionary", "pandas", "strings of polars", "polars", "enum of polars"],
)
def test_words_are_categories_of_rows_with_a_decision(frame: Any) -> None:
    episodes = so.read_episodes(frame, features=["x"])
    assert encoded(episodes) == CATEGORIES
    assert episodes.features is not None
    assert episodes.features.categories == ("x",)


def test_what_is_declared_as_categories_is_taken_so() -> None:
    """Numbers and codes as well, where the frame says that they are categories."""
    for codes in ([1, 2, 1, 2], ["1", "2", "1", "2"]):
        frame = pd.DataFrame({**COLUMNS, "x": pd.Categorical(codes)})
        assert list(encoded(so.read_episodes(frame, features=["x"]))) == ["x=1", "x=2"]


def test_gaps_are_filled_on_request_and_flagged() -> None:
    assert encoded(read([80, None, 70, None], "impute")) == {"x": [80, 75, 70, 0], "x missing": [0, 1, 0, 0]}
    assert encoded(read([True, None, False, None], "impute"))["x"] == [1, 0.5, 0, 0]
    words = encoded(read(["icu", None, "icu", None], "impute"))
    assert words == {"x missing": [0, 1, 0, 0], "x=icu": [1, 0, 1, 0]}
    whole = read([80, 95, 70, None], "impute")
    assert list(encoded(whole)) == ["x"]
    assert whole.features is not None
    assert not whole.features.imputed


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ([5.0] * 4, "column 'x' is 5 in every row with a decision: it tells nothing. Leave it out"),
        ([5.0, 5.0, 5.0, 7.0], "column 'x' is 5 in every row with a decision"),
        (["icu"] * 4, "column 'x' is 'icu' in every row with a decision: it tells nothing"),
        ([1.0, np.inf, -np.inf, 0.0], r"column 'x' is infinite in 2 rows. First: row 1 \(episode 0, step 1, .*Correct"),
        ([1.0, None, np.nan, 0.0], r"'x' is missing in 2 rows. First: row 1 \(episode 0, step 1.*missing='impute'"),
        (["a", "", None, "b"], r"'x' is missing in 2 rows. First: row 1 \(episode 0, step 1.*\(--impute\)"),
        ([None] * 4, "column 'x' is empty in every row with a decision. Leave it out"),
        (pa.array([None, None, None, "a"]), "column 'x' is empty in every row with a decision"),
        (["1", "2.5", "3", "4"], r"column 'x' holds numbers written as text \(first: '1'\). Convert it to numbers"),
        (["1", "2.5", "low", "4"], r"numbers written as text, and words among them \(first: 'low'\)"),
        ([[1], [2], [3], [4]], r"column 'x' is list<item: int64> \(first: \[1\]\).*each of its elements a column"),
        ([{"a": 1}] * 4, "column 'x' is struct<.*each of its elements a column"),
        (pd.to_datetime(["2020-01-01"] * 4), "column 'x' is timestamp.*hours since the episode began"),
        (pd.to_timedelta([1, 2, 3, 4]), "column 'x' is duration.*hours since the episode began"),
        ([b"a", b"b", b"a", b"b"], "column 'x' is binary"),
        ([1, "a", 2.0, 3], "column 'x' mixes types"),
    ],
)
def test_what_is_no_feature(x: Any, message: str) -> None:
    with pytest.raises(so.SchemaError, match=message):
        read(x)


def test_too_many_words() -> None:
    n = 101
    columns = {"episode": range(n), "step": [0] * n, "action": [0, 1] * 50 + [0], "reward": [0.0] * n}
    with pytest.raises(so.SchemaError, match=r"'name' holds 101 different words \(first: 'patient 0'\).*at most 100"):
        so.read_episodes({**columns, "name": [f"patient {i}" for i in range(n)]}, features=["name"])


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ([None] * 4, "column 'x' is empty in every row with a decision"),
        ([5.0, None, 5.0, 7.0], "column 'x' is 5 wherever it is not missing"),
        ([1.0, None, np.inf, 0.0], "column 'x' is infinite in 1 row"),
    ],
)
def test_what_cannot_be_filled(x: Any, message: str) -> None:
    with pytest.raises(so.SchemaError, match=message):
        read(x, "impute")


@pytest.mark.parametrize(
    ("features", "error", "message"),
    [
        ([], so.OptionError, "features: name at least one column"),
        ("", so.OptionError, "features: name at least one column"),
        ("x,,y", so.OptionError, "no empty ones"),
        (["x", "x"], so.OptionError, "features: column 'x' is named twice"),
        (["action"], so.OptionError, "features: 'action' is no measurement of the state before a decision"),
        (["reward", "x"], so.OptionError, "features: 'reward' is no measurement"),
        (["behavior_prob"], so.OptionError, "features: 'behavior_prob' is no measurement"),
        (["pluse"], so.SchemaError, "there is no column 'pluse' for a feature. Did you mean 'pulse'?.*step, x, pulse"),
        (5, so.OptionError, "features: 5 is no list of columns"),
        ([5], so.OptionError, "features: 5 is not the name of a column"),
        (np.zeros((2, 2)), so.OptionError, "is not the name of a column"),
    ],
)
def test_names_of_features(features: Any, error: type[Exception], message: str) -> None:
    columns = {**COLUMNS, "x": [1, 2, 3, 4], "pulse": [4, 3, 2, 1]}
    with pytest.raises(error, match=message.replace("?", r"\?")):
        so.read_episodes(columns, features=features)


def test_ways_to_say_missing() -> None:
    with pytest.raises(so.OptionError, match=r"missing: 'inpute' is not known. Did you mean 'impute'\?"):
        read([1, 2, 3, 4], "inpute")


def test_two_features_of_one_name() -> None:
    columns = {**COLUMNS, "x": ["a", "b", "a", "b"], "x=a": [1, 2, 3, 4]}
    with pytest.raises(so.SchemaError, match=r"two features would be called 'x=a'. Rename"):
        so.read_episodes(columns, features=["x", "x=a"])


def test_a_table_with_measurements_and_no_state() -> None:
    with pytest.raises(so.SchemaError, match=r"'state' is missing. If measurements .* features=\['x'\] \(--features\)"):
        so.read_episodes({**COLUMNS, "x": [1, 2, 3, 4]})


def test_features_as_arrays() -> None:
    own = {name: COLUMNS[name] for name in ("episode", "step", "reward")} | {"action": [1, 0, 1, -1]}
    x = np.array([[1.0, 5.0], [2.0, 6.0], [3.0, 8.0], [np.nan, 0.0]])
    by_array = so.Episodes.from_arrays(**own, features=x)
    assert encoded(by_array) == {"x0": [1, 2, 3, 0], "x1": [5, 6, 8, 0]}
    by_name = so.Episodes.from_arrays(**own, features={"a": x[:, 0], "b": ["u", "v", "u", None]})
    by_frame = so.Episodes.from_arrays(**own, features=pd.DataFrame({"a": x[:, 0], "b": ["u", "v", "u", None]}))
    assert encoded(by_name) == encoded(by_frame) == {"a": [1, 2, 3, 0], "b=u": [1, 0, 1, 0], "b=v": [0, 1, 0, 0]}
    filled = so.Episodes.from_arrays(**own, features={"a": [1.0, None, 3.0, 4.0]}, missing="impute")
    assert encoded(filled) == {"a": [1, 2, 3, 0], "a missing": [0, 1, 0, 0]}


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (np.zeros(4), r"features: an array of shape \(4,\); give \(n_steps, n_features\)"),
        (np.zeros((4, 2, 2)), r"an array of shape \(4, 2, 2\)"),
        (np.zeros((4, 0)), "name at least one column"),
        ({}, "name at least one column"),
        ({"a": [1, 2]}, "the columns differ in length"),
        ({"reward": [1, 2, 3, 4]}, "features: 'reward' is an argument of its own"),
        ({"state": [1, 2, 3, 4]}, "features: 'state' is an argument of its own"),
        ({0: [1, 2, 3, 4]}, "features: 0 is not the name of a column"),
    ],
)
def test_what_are_no_features_as_arrays(features: Any, message: str) -> None:
    own = {name: COLUMNS[name] for name in ("episode", "step", "action", "reward")}
    with pytest.raises(so.SemiopeError, match=message):
        so.Episodes.from_arrays(**own, features=features)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (
            [0.5, 0.25, 1.0, None],
            r"'action' is a number with a fraction in 2 rows. First: row 0 .*not supported: group",
        ),
        ([[0.5, 1.0]] * 4, "Actions that are vectors are not supported"),
    ],
)
def test_continuous_actions(action: Any, message: str) -> None:
    own = {name: COLUMNS[name] for name in ("episode", "step", "reward")}
    with pytest.raises(so.SchemaError, match=message):
        so.Episodes.from_arrays(**own, action=action, features={"x": [1, 2, 3, 4]})


def test_continuous_actions_in_text(tmp_path: Path) -> None:
    path = tmp_path / "episodes.csv"
    rows = "episode,step,action,reward,x\n0,0,{},1,1\n0,1,0.25,1,2\n1,0,1.0,1,3\n"
    path.write_text(rows.format("0.5"))
    with pytest.raises(so.SchemaError, match=r"'action' is a number with a fraction in 2 rows.*Continuous actions"):
        so.read_episodes(path, features="x")
    path.write_text(rows.format("low"))  # labels, then
    assert len(so.read_episodes(path, features="x").actions) == 3


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".feather"])
def test_there_and_back(suffix: str, tmp_path: Path) -> None:
    episodes = read([80, None, 70.5, None], "impute", ward=["icu", "ward", "icu", None], calm=[True, False, True, None])
    path = tmp_path / f"episodes{suffix}"
    episodes.write(path)
    again = so.read_episodes(path, features="x, ward, calm", missing="impute")
    assert encoded(again) == encoded(episodes)
    assert not again.has_states
    assert "state" not in episodes.to_arrow().column_names
    fewer = so.read_episodes(episodes, features=["x"], missing="impute")
    assert encoded(fewer) == {name: encoded(episodes)[name] for name in ("x", "x missing")}


def test_parts_are_merged_and_encoded_together() -> None:
    one = read([80, None, 70, 60], "impute", ward=["icu", "ward", "icu", None])
    columns = {**COLUMNS, "episode": [2, 2, 3, 3], "x": [0, 1, 2, 3], "ward": ["home", "ward", "home", "home"]}
    other = so.read_episodes(columns, features=["x", "ward"])
    merged = so.Episodes.concat([one, other])
    assert merged.features is not None
    assert merged.features.names == ("x", "x missing", "ward=home", "ward=icu", "ward=ward")
    assert encoded(merged)["x"] == [80, 2, 70, 0, 0, 1, 2, 0]
    with pytest.raises(so.SchemaError, match="their features differ"):
        so.Episodes.concat([one, so.read_episodes(columns, features=["x"])])


def test_named_later() -> None:
    columns = {**COLUMNS, "state": list("stst"), "x": [1, 2, 3, 4], "y": [4, 3, None, 1]}
    plain = so.read_episodes(columns)
    assert plain.features is None
    assert encoded(plain.with_features("x")) == {"x": [1, 2, 3, 0]}
    assert encoded(plain.with_features(["y", "x"], missing="impute"))["y missing"] == [0, 0, 1, 0]
    with pytest.raises(so.SchemaError, match="there is no column 'z' for a feature"):
        plain.with_features(["z"])


@given(st.permutations(range(6)))
def test_rows_in_any_order(order: list[int]) -> None:
    columns: dict[str, list[Any]] = {
        "episode": [0, 0, 0, 1, 1, 2], "step": [0, 1, 2, 0, 1, 0], "action": [0, 1, 0, 1, None, 1],
        "reward": [0.0, 1, 2, 3, 4, 5], "x": [3.0, 1, 4, 1, 5, 9], "ward": ["a", "b", "a", "c", "z", "a"],
    }  # fmt: skip
    shuffled = {name: [values[i] for i in order] for name, values in columns.items()}
    expected, found = (so.read_episodes(table, features=["x", "ward"]) for table in (columns, shuffled))
    assert encoded(found) == encoded(expected)
    assert (found.order is None) == (list(order) == sorted(order))


def test_resamples_take_features_along() -> None:
    episodes = read([80, 95, 70, 60], ward=["icu", "ward", "icu", None])
    resampled = Resample(episodes, np.array([0, 2])).episodes
    assert encoded(resampled) == {"x": [70, 0, 70, 0], "ward=icu": [1, 0, 1, 0], "ward=ward": [0, 0, 0, 0]}
    assert resampled.is_resample
    assert not resampled.has_states


def test_features_cannot_be_changed() -> None:
    x = np.array([80.0, 95.0, 70.0, 60.0])
    episodes = read(x)
    x[:] = 0
    assert encoded(episodes) == {"x": [80, 95, 70, 0]}
    assert episodes.features is not None
    with pytest.raises(ValueError, match="read-only"):
        episodes.features.matrix[0, 0] = 1


def test_a_single_decision_and_none() -> None:
    one = {name: values[:1] for name, values in COLUMNS.items()} | {"x": [1.0], "ward": ["icu"]}
    assert encoded(so.read_episodes(one, features=["x", "ward"])) == {"x": [1], "ward=icu": [1]}
    none = one | {"action": pa.array([None], pa.string())}
    assert encoded(so.read_episodes(none, features=["x", "ward"])) == {"x": [0], "ward=icu": [0]}
