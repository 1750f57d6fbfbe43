"""`semiope simulate`: tables ready for `semiope evaluate`, or one clear message and nothing written."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import semiope as so
from semiope.cli import main
from semiope.domains import bandit, simulate
from semiope.models.places import places_of_answers


def run(*words: str) -> int:
    argv, sys.argv = sys.argv, ["semiope", *words]
    try:
        with pytest.raises(SystemExit) as stop:
            main()
    finally:
        sys.argv = argv
    return int(stop.value.code or 0)


@pytest.mark.parametrize("domain", simulate.DOMAINS)
def test_written_tables_can_be_evaluated(domain: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "data"
    assert run("simulate", domain, "--episodes", "400", "--seed", "3", "--out", str(out)) == 0
    assert "semiope evaluate" in capsys.readouterr().out
    world = simulate.world_of(domain)
    truth = {row["policy"]: row["value"] for row in pq.read_table(out / "truth.parquet").to_pylist()}
    assert truth == {name: world.mdp.value(world.policy(name)) for name in ("behavior", *world.policies)}
    name = list(world.policies)[1]
    results = tmp_path / "results.json"
    command = ["evaluate", str(out / "episodes.parquet"), "--policy", str(out / "policies" / f"{name}.parquet")]
    command += [
        "--annotations",
        str(out / "annotations" / f"{name}.parquet"),
        "--behavior",
        str(out / "behavior.parquet"),
    ]
    assert run(*command, "--gamma", str(world.mdp.gamma), "--estimators", "c*-pdis", "--json", str(results)) == 0
    (found,) = json.loads(results.read_text())["estimates"]
    assert abs(found["value"] - truth[name]) < 4 * found["std_error"]
    glossary = pq.read_table(out / "states.parquet").to_pylist()
    about = json.loads((out / "about.json").read_text())
    assert (about["world"], about["seed"], about["gamma"]) == (world.name, 3, world.mdp.gamma)
    assert about["annotators"] == [{"name": "expert", "bias": 0.0, "std": 0.0, "ratio": 1.0}]
    assert glossary[0] == {"state": world.mdp.states[0], "meaning": world.state_words[0]}
    behavior = so.read_policy(out / "behavior.parquet")
    assert isinstance(behavior, so.Policy)
    assert np.array_equal(world.mdp.probs(behavior), world.mdp.probs(world.behavior))


def test_the_same_seed_gives_the_same_tables(tmp_path: Path) -> None:
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        assert run("simulate", "tree", "--episodes", "50", "--seed", seed, "--out", str(tmp_path / name)) == 0
    read = {name: (tmp_path / name / "episodes.parquet").read_bytes() for name in "abc"}
    assert read["a"] == read["b"] != read["c"]


def test_options(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "er"
    words = ["--policy", "uniform", "--policy", "optimal", "--annotator", "ann,bias=1", "--annotator", "bob,ratio=0.5"]
    words += ["--annotate", "behavior", "--propensities", "--format", "csv"]
    assert run("simulate", "tree", "--episodes", "200", "--out", str(out), *words) == 0
    assert sorted(path.name for path in (out / "annotations").iterdir()) == ["optimal.csv", "uniform.csv"]
    annotations = so.read_annotations(out / "annotations" / "uniform.csv")
    assert annotations.annotator is not None
    who = np.array(annotations.annotator.to_pylist())
    assert set(who) == {"ann", "bob"}
    assert (who == "bob").sum() < 0.7 * (who == "ann").sum()
    # With the behaviour policy in mind, the answers are the same whatever policy is evaluated.
    other = so.read_annotations(out / "annotations" / "optimal.csv")
    assert np.array_equal(annotations.value, other.value)
    assert so.read_episodes(out / "episodes.csv").behavior_prob is not None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["spsis"], "no domain. Did you mean 'sepsis'?"),
        (["tree", "--episodes", "0"], "--episodes: 0"),
        (["tree", "--episodes", "-5"], "--episodes: -5"),
        (["tree", "--seed", "-1"], "seed: -1"),
        (["tree", "--policy", "best"], "none called 'best'"),
        (["tree", "--annotator", "a,std=-1"], "std is -1"),
        (["tree", "--annotator", "a,ratio=2"], "ratio must lie"),
        (["tree", "--annotator", "a", "--annotator", "a"], "name of its own"),
        (["tree", "--annotate", "nobody"], "neither"),
        (["tree", "--format", "xlsx"], "format: 'xlsx'"),
        (["tree", "--episodes", "1000000000000"], "GiB"),
        (["tree", "--episodes", "1" + 40 * "0"], "beyond all counting"),
    ],
)
def test_bad_input_writes_nothing(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("simulate", *words, "--out", str(tmp_path / "data")) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert message in said
    assert said.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    assert run("simulate", "tree", "--out", str(tmp_path)) == 2
    assert "holds files already" in capsys.readouterr().err
    assert run("simulate", "tree", "--out", str(tmp_path / "mine.txt")) == 2
    assert "is a file" in capsys.readouterr().err
    assert run("simulate", "tree", "--out", str(tmp_path / "mine.txt" / "below")) == 2
    assert "cannot write" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    (tmp_path / "empty").mkdir()
    assert run("simulate", "tree", "--out", str(tmp_path / "empty")) == 0
    assert (tmp_path / "empty" / "episodes.parquet").exists()


def test_links_and_the_folder_one_is_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert run("simulate", "tree", "--out", str(tmp_path / "link")) == 0
    assert (tmp_path / "real" / "episodes.parquet").exists()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert run("simulate", "tree", "--out", ".") == 0
    assert Path("policies", "optimal.parquet").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "link", "real"]


def test_a_generator_gives_every_policy_the_same_noise(tmp_path: Path) -> None:
    expert = so.Annotator(std=1.0)
    world = simulate.world_of("tree")
    rng = np.random.default_rng(0)
    simulate.simulate(world, tmp_path / "data", 20, seed=rng, annotators=[expert], policies=["uniform", "mostly-y"])
    episodes = so.read_episodes(tmp_path / "data" / "episodes.parquet")
    noise = []
    for name in ("uniform", "mostly-y"):
        found = so.read_annotations(tmp_path / "data" / "annotations" / f"{name}.parquet")
        places = places_of_answers(world.mdp, episodes, found)
        noise.append(found.value - places.read(world.mdp.action_values(world.policies[name])))
    assert noise[0] == pytest.approx(noise[1], abs=1e-12)


def test_todays_policy_is_listed_once(tmp_path: Path) -> None:
    assert run("simulate", "tree", "--policy", "behavior", "--out", str(tmp_path / "data")) == 0
    assert pq.read_table(tmp_path / "data" / "truth.parquet")["policy"].to_pylist() == ["behavior"]


def test_names_that_no_file_can_have(tmp_path: Path) -> None:
    world = bandit.bandit([[0.0, 1.0]], 0.1, policies={"../escaped": [[1.0, 0.0]]})
    with pytest.raises(so.OptionError, match="no file can have"):
        simulate.simulate(world, tmp_path / "a" / "b", 5)
    assert not list(tmp_path.iterdir())


def test_a_folder_with_brackets_is_printed_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("simulate", "tree", "--episodes", "5", "--out", str(tmp_path / "m[bold]x[")) == 0
    assert "m[bold]x[" in capsys.readouterr().out


def test_a_failure_leaves_no_folders_above(tmp_path: Path) -> None:
    assert run("simulate", "tree", "--annotator", "a,ratio=0", "--out", str(tmp_path / "deep" / "er")) == 2
    assert not list(tmp_path.iterdir())


def test_a_failure_in_the_middle_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from semiope.domains.world import World

    def fail(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(World, "annotate", fail)
    with pytest.raises(KeyboardInterrupt):
        simulate.simulate(simulate.world_of("tree"), tmp_path / "data", 20)
    assert not list(tmp_path.iterdir())
