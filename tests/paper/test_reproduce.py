"""`semiope reproduce` as a user runs it: files, bytes, interruptions, and what goes wrong."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from semiope.paper.run import ITEMS, chosen
from semiope.paper.settings import Settings
from tests.cli.desk import Desk, assert_refused

METRICS = {"rmse", "ess", "spearman", "accuracy", "fpr", "fnr"}


def contents(folder: Path) -> dict[str, bytes]:
    """All files of a folder but the lock."""
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name != "lock"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "semiope", "reproduce", *arguments]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything, from one dataset."""
    folder = tmp_path_factory.mktemp("whole")
    done = subprocess.run(
        command("all", "--quick", "--datasets", "1", "--jobs", "2", "--out", str(folder)),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert f"open {folder / 'index.html'}" in done.stdout
    return folder


def test_every_item_has_its_files(whole: Path) -> None:
    for name in ITEMS:
        suffixes = {path.suffix for path in whole.glob(f"{name}.*")}
        assert suffixes == {".json", ".csv", ".md"} | (set() if name.startswith("table") else {".svg", ".png"})
        assert json.loads((whole / f"{name}.json").read_text())
    page = (whole / "index.html").read_text()
    assert all(f'<section id="{name}">' in page for name in ITEMS)
    assert str(whole) not in page
    assert json.loads((whole / "settings.json").read_text())["sepsis datasets"] == 1


def test_tables_have_the_shape_that_is_promised(whole: Path) -> None:
    for name in ("table2", "table5"):
        rows = json.loads((whole / f"{name}.json").read_text())
        for row in rows:
            assert set(row) >= METRICS | {"estimator", "row_of", "note", "paper"}
            assert all(len(row[metric]) == 2 for metric in METRICS)
    names = [row["estimator"] for row in json.loads((whole / "table2.json").read_text())]
    assert names[:6] == [
        "pdis", "naive-unweighted (G=Qe)", "naive-weighted (G=Qe)", "c*-pdis (G=Qe)", "c*-pdis (G=Qb)",
        "c*-pdis (G=Qb->Qe)",
    ]  # fmt: skip
    assert {"naive-unweighted (G=Qe, as meant)", "naive-weighted (G=Qe, as meant)", "floor"} < set(names)
    cell = json.loads((whole / "table1.json").read_text())[0]
    assert set(cell) == {"reward_means", "pi_b", "pi_e", "estimator", "bias", "std", "rmse", "exact", "paper"}


def test_bytes_do_not_depend_on_jobs_or_on_an_interruption(whole: Path, tmp_path: Path) -> None:
    """Killed outright in the middle, then finished by one process where there had been three."""
    names = ["table1", "table2", "table3", "fig8"]
    arguments = [*names, "--quick", "--datasets", "1", "--out", str(tmp_path)]
    running = subprocess.Popen(command(*arguments, "--jobs", "3"), start_new_session=True)
    deadline = time.monotonic() + 120
    while len(list(tmp_path.glob(".pieces/*/*.npz"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    running.kill()
    running.wait()
    assert not (tmp_path / "table1.json").exists()
    while _alive(running.pid) and time.monotonic() < deadline:  # its processes end by themselves
        time.sleep(0.05)
    assert not _alive(running.pid)
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob(".pieces/*/*.npz")}
    assert kept
    (next(iter(kept)).parent / ".half-written").write_bytes(b"x")
    (tmp_path / ".table1.json.abcd1234").write_bytes(b"x")
    done = subprocess.run(command(*arguments, "--jobs", "1"), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    found, expected = contents(tmp_path), contents(whole)
    assert found == {name: expected[name] for name in found}
    assert {f"{name}.json" for name in names} < set(found)


def _alive(group: int) -> bool:
    """Whether a process of a group is still there."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, own, *_ = path.read_text().rpartition(")")[2].split()
            if state != "Z" and int(own) == group:
                return True
    return False


def test_a_spoilt_piece_is_computed_again(tmp_path: Path) -> None:
    from semiope.paper.bandits import draw
    from semiope.paper.pieces import Piece, Pieces

    found, piece, settings = Pieces(tmp_path), Piece(draw, 1), Settings(quick=True)
    assert piece not in found
    found.compute(piece, settings)
    assert piece in found
    path = tmp_path / f"{piece.name}.npz"
    whole = path.read_bytes()
    for spoilt in (b"", whole[:100], b"x" * 100):
        path.write_bytes(spoilt)
        assert piece not in found
    found.compute(piece, settings)
    assert path.read_bytes() == whole


DOCS = Path(__file__).parents[2] / "docs" / "reproduction"


@pytest.mark.parametrize("name", ["intuition", "fig9"])
def test_pages_in_the_docs_are_those_of_this_code(name: str, tmp_path: Path) -> None:
    """Of those that are exact; the others need a full run."""
    from semiope.paper.pages import markdown
    from semiope.paper.pieces import Pieces

    made = ITEMS[name].make(Settings(), Pieces(tmp_path))
    assert [claim.text for claim in made.claims if not claim.holds] == []
    assert markdown(name, made, Settings().listed()) == (DOCS / f"{name}.md").read_text()


def test_pages_in_the_docs_are_from_a_full_run_in_which_everything_holds() -> None:
    assert json.loads((DOCS / "settings.json").read_text()) == Settings().listed()
    pages = {path.stem for path in DOCS.glob("*.md")}
    assert pages == {*ITEMS, "index"}
    for path in DOCS.glob("*.md"):
        assert "DOES NOT HOLD" not in path.read_text()
        assert "Holds: " in path.read_text()


def test_pieces_know_settings_but_not_how_many_datasets_there_are() -> None:
    assert Settings(datasets=3).fingerprint() == Settings(datasets=50).fingerprint()
    others = [Settings(seed=1), Settings(quick=True), Settings(episodes="a.parquet", digest="x")]
    assert len({one.fingerprint() for one in (Settings(), *others)}) == 4
    elsewhere = Settings(episodes="b/a.parquet", digest="x")
    assert elsewhere.fingerprint() == others[-1].fingerprint()
    assert elsewhere.listed() == others[-1].listed()


def test_items_come_in_the_order_of_the_index() -> None:
    assert chosen(["fig9", "table1"]) == ["table1", "fig9"]
    assert chosen([]) == chosen(["all"]) == list(ITEMS)


def table_of(**columns: object) -> pa.Table:
    rows = {"run": [0, 0], "episode": [0, 1], "step": [0, 0], "state": [56, 57], "action": [2, 3], "reward": [0.0, 0.0]}
    return pa.table({name: values for name, values in (rows | columns).items() if values is not None})


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["tabel2"], "'tabel2' is no table or figure of the paper. Did you mean 'table2'?"),
        (["fig6"], "'fig6' is no table or figure of the paper."),
        (["--jobs", "0"], "--jobs: 0 is not a whole number of at least 1."),
        (["--datasets", "1000000000000"], "--datasets: 1,000,000,000,000 are too many; at most 100,000."),
        (["fig6"], "(Figures 1 to 4 and 6 are diagrams)"),
        (["--datasets", "0"], "--datasets: 0 is not a whole number of at least 1."),
        (["--seed", "-1"], "seed: -1 is not one of 0, 1, 2 ..."),
        (["--out", ""], "--out: name a folder."),
        (["--episodes", "nowhere.parquet"], "nowhere.parquet"),
    ],
)
def test_options_that_cannot_be(arguments: list[str], told: str, desk: Desk) -> None:
    result = desk.run("reproduce", *arguments)
    assert_refused(result, told)
    assert not list(desk.folder.glob("reproduction/*.json"))


@pytest.mark.parametrize(
    ("table", "told"),
    [
        (table_of(run=None), "--episodes: there is no column 'run'"),
        (table_of(run=[0, None]), "--episodes: column 'run' has empty cells"),
        (table_of(run=[0.5, 1.5]), "--episodes: column 'run' holds double. Number the datasets"),
        (
            table_of(run=[0, 1], reward=[0.5, 0.0]),
            "dataset 0: these are not episodes of the sepsis world: a reward that",
        ),
        (table_of(run=[0, 1], action=[7, 2]), "dataset 0: these are not episodes of the sepsis world: an action that"),
        (table_of(run=[0, 1]), "--episodes: dataset 0: there are 1 episodes, and at least 100 are needed."),
        (table_of(), "holds 1 datasets (column 'run'), and 2 are asked for. Use --datasets 1"),
        (table_of(run=[0, 1], reward=None), "--episodes: dataset 0: episodes: "),
        (table_of(run=[0, 1], state=[2000, 57]), "--episodes: dataset 0: episodes: the model has no state 2000"),
        (table_of(run=[0, 1], action=[9, 2]), "--episodes: dataset 0: episodes: the model has no action 9"),
    ],
)
def test_episodes_of_the_wrong_shape(table: pa.Table, told: str, desk: Desk) -> None:
    pyarrow.csv.write_csv(table, desk.folder / "episodes.csv")
    result = desk.run("reproduce", "table2", "--episodes", "episodes.csv", "--datasets", "2")
    assert_refused(result, told)


@pytest.mark.parametrize("kind", [pa.int8(), pa.string(), pa.large_string()])
def test_runs_may_be_numbered_or_named(kind: pa.DataType, desk: Desk) -> None:
    """However a data frame writes them: what is wrong here comes after."""
    table = table_of(run=pa.array([0, 1]).cast(kind))
    pq.write_table(table, desk.folder / "episodes.parquet")
    result = desk.run("reproduce", "table2", "--episodes", "episodes.parquet", "--datasets", "2")
    assert_refused(result, "--episodes: dataset 0: there are 1 episodes, and at least 100 are needed.")


def test_folders_that_cannot_be_written(desk: Desk) -> None:
    (desk.folder / "file").write_text("here first")
    for out in ("file", "file/below", "a\0b"):
        assert_refused(desk.run("reproduce", "fig9", "--out", out), "--out: ")
    assert (desk.folder / "file").read_text() == "here first"


def test_single_items_are_not_put_among_those_of_other_settings(desk: Desk) -> None:
    (desk.folder / "out").mkdir()
    (desk.folder / "out" / "settings.json").write_text(json.dumps(Settings(seed=3).listed()))
    result = desk.run("reproduce", "fig9", "--out", "out", "--jobs", "1")
    assert_refused(result, "--out: out holds a reproduction with other settings (semiope 0.1.0, seed 3, ")
    assert desk.run("reproduce", "fig9", "--out", "out", "--jobs", "1", "--seed", "3").status == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_it_at_once_with_one_line(number: signal.Signals, tmp_path: Path) -> None:
    running = subprocess.Popen(
        command("table2", "--out", str(tmp_path), "--jobs", "2"),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob(".pieces/*/*.npz")) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(running.pid, number)
    before = time.monotonic()
    _, told = running.communicate(timeout=60)
    assert time.monotonic() - before < 10
    assert running.returncode == 130
    assert told == "interrupted: finished pieces are kept, and the same command goes on from there.\n"
    assert not (tmp_path / "table2.json").exists()


def test_one_run_at_a_time(desk: Desk) -> None:
    import fcntl

    (desk.folder / "out" / ".pieces").mkdir(parents=True)
    with (desk.folder / "out" / ".pieces" / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        result = desk.run("reproduce", "fig9", "--out", "out")
    assert_refused(result, "another run is writing to out")


def test_a_full_disk_leaves_earlier_results_alone(tmp_path: Path) -> None:
    """No file may grow beyond 20,000 bytes, which the figure does."""
    earlier = subprocess.run(command("fig9", "--out", str(tmp_path), "--jobs", "1"), capture_output=True, text=True)
    assert earlier.returncode == 0, earlier.stderr
    before = contents(tmp_path)

    def small_disk() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    done = subprocess.run(
        command("fig9", "intuition", "--out", str(tmp_path), "--jobs", "1"), capture_output=True, text=True,
        preexec_fn=small_disk,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("error: cannot write ")
    assert done.stderr.count("\n") == 1
    assert contents(tmp_path) == before


def test_without_matplotlib_tables_work_and_figures_say_how_to_get_it(tmp_path: Path) -> None:
    code = "import sys; sys.modules['matplotlib'] = None; from semiope.cli import main; main()"

    def run(*names: str) -> subprocess.CompletedProcess[str]:
        arguments = ["reproduce", *names, "--quick", "--out", str(tmp_path), "--jobs", "1"]
        return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)

    assert run("table1").returncode == 0
    refused = run("fig9")
    assert refused.returncode == 2
    assert 'pip install "semiope[paper]"' in refused.stderr
