"""The command line as a process: output streams, files, help."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.cli.desk import Desk, assert_refused


def test_nothing_is_written_unless_all_is(desk: Desk) -> None:
    assert_refused(desk.evaluate("--report", "out.html", "--json", "/proc/nowhere.json"), "cannot write")
    assert not (desk.folder / "out.html").exists()


def test_pipes_links_and_permissions_are_respected(desk: Desk) -> None:
    (desk.folder / "real.json").write_text("old")
    (desk.folder / "real.json").chmod(0o600)
    (desk.folder / "link.json").symlink_to("real.json")
    assert desk.evaluate("--json", "link.json").status == 0
    assert (desk.folder / "link.json").is_symlink()
    assert json.loads((desk.folder / "real.json").read_text())["episodes"] == 3
    assert (desk.folder / "real.json").stat().st_mode & 0o777 == 0o600
    os.mkfifo(desk.folder / "pipe")
    with ThreadPoolExecutor() as pool:
        reader = pool.submit((desk.folder / "pipe").read_text)
        assert desk.evaluate("--json", "pipe").status == 0
        assert json.loads(reader.result(timeout=10))["episodes"] == 3
    assert (desk.folder / "pipe").is_fifo()


def test_labels_beyond_the_terminal_and_its_markup(desk: Desk) -> None:
    found = desk.evaluate("--policy", "[red]日本[/]<b>:smile:=policy.parquet", "--report", "out.html")
    assert found.status == 0
    assert "[red]日本[/]<b>:smile:" in found.out
    assert "[red]日本[/]&lt;b&gt;:smile:" in (desk.folder / "out.html").read_text()


def test_names_that_cannot_be_shown_are_refused(desk: Desk) -> None:
    found = desk.run("evaluate", "episodes.parquet", "--policy", "a\x1b[31m=policy.parquet")
    assert_refused(found, "holds characters that cannot be shown")
    assert "\x1b" not in found.err


def test_messages_stay_short(desk: Desk) -> None:
    desk.change("annotations", action=["b", "a", "b " * 100_000])
    found = desk.evaluate()
    assert_refused(found, "characters left out")
    assert len(found.err) < 5000


def test_few_episodes_are_warned_of(desk: Desk) -> None:
    assert "there are only 3 episodes: intervals from so few mean little" in desk.evaluate().err


def test_a_report_that_fails_leaves_the_estimates(desk: Desk) -> None:
    desk.put("elsewhere", {"state": ["s", "t"], "action": ["c", "c"], "prob": [1.0, 1.0]})
    command = ("evaluate", "episodes.parquet", "--policy", "elsewhere.parquet", "--estimators", "wis")
    found = desk.run(*command, "--report", "out.html", "--json", "out.json")
    assert found.status == 2
    assert found.err.splitlines()[-1].startswith("error: compare: the estimate of policy 'elsewhere' is no number")
    assert json.loads((desk.folder / "out.json").read_text())["episodes"] == 3
    assert not (desk.folder / "out.html").exists()


def test_termination_leaves_no_temporary_files(desk: Desk) -> None:
    code = """
import os, signal, pathlib
import sys, semiope.cli
cli = sys.modules["semiope.cli.app"]
from semiope._files import write_folder
stop = lambda path: os.kill(os.getpid(), signal.SIGTERM)
cli.app = lambda: write_folder(pathlib.Path("made"), {"part": stop})
cli.main()
"""
    before = sorted(desk.folder.iterdir())
    assert subprocess.run([sys.executable, "-c", code], cwd=desk.folder, check=False).returncode == 143
    assert sorted(desk.folder.iterdir()) == before


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["evaluate", "--help"]])
def test_help(arguments: list[str], desk: Desk) -> None:
    found = desk.run(*arguments)
    assert found.status == 0
    assert "semiope" in found.out


@pytest.mark.parametrize("arguments", [["evaluate"], ["nonsense"], ["evaluate", "x.csv", "--gamma", "much"]])
def test_usage_errors(arguments: list[str], desk: Desk) -> None:
    found = desk.run(*arguments)
    assert found.status == 2
    assert "Traceback" not in found.err


@pytest.mark.parametrize("redirection", ["> /dev/full", "--json - > /dev/full", "--json - >&-"])
def test_standard_output_that_cannot_be_written(redirection: str, desk: Desk) -> None:
    command = f"{sys.executable} -m semiope evaluate episodes.parquet --policy policy.parquet {redirection}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "error: " in done.stderr


def test_a_reader_that_stops_early_is_no_error(desk: Desk) -> None:
    command = f"{sys.executable} -m semiope evaluate episodes.parquet --policy policy.parquet | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr


def test_nowhere_to_keep_compiled_code(desk: Desk) -> None:
    code = "import numba.core.caching as c; c.CacheImpl._locator_classes = [];from semiope.cli import main; main()"
    command = [sys.executable, "-c", code, "evaluate", "episodes.parquet", "--policy", "policy.parquet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "pdwis" in done.stdout


def test_from_a_shell(desk: Desk) -> None:
    """A process of its own."""
    command = [sys.executable, "-m", "semiope", "evaluate", "episodes.parquet"]
    done = subprocess.run([*command, "--policy", "policy.parquet"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "pdwis" in done.stdout
    failed = subprocess.run([*command, "--policy", "nowhere.csv"], capture_output=True, text=True, check=False)
    assert failed.returncode == 2
    assert failed.stderr.startswith("error: policy 'nowhere': nowhere.csv does not exist.")
