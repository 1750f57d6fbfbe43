"""README and documentation are true: code blocks run, commands work, tables name every estimator."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import semiope as so
from semiope.cli import main
from semiope.example import FOLDER

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.name)
def test_code_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {}
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), namespace)
    assert "so" in namespace or "Terms" in namespace


COMMANDS = [
    (page, line.removeprefix("$ "))
    for page in PAGES
    for block in blocks(page, "console")
    for line in block.splitlines()
    if line.startswith("$ ") and "semiope " in line
]


@pytest.mark.parametrize(("page", "command"), COMMANDS, ids=[command for _, command in COMMANDS])
def test_commands_work(page: Path, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for table in FOLDER.glob("*.csv"):
        shutil.copy(table, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", shlex.split(command[command.index("semiope ") :]))
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code


@pytest.mark.parametrize("page", ["README.md", "docs/estimators.md"])
def test_every_estimator_is_named(page: str) -> None:
    named = set(re.findall(r"`([a-z*+-]+)`", (ROOT / page).read_text()))
    assert named >= set(so.ESTIMATORS)
    if page == "README.md":
        assert named >= set(so.ALIASES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_waits_to_be_filled_in(page: Path) -> None:
    prose = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(), flags=re.DOTALL)
    assert not re.search(r"\b[A-Z]+_[A-Z]+\b|TBD|\?\?\?", prose)


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_readme_quotes_its_example_rightly() -> None:
    text = (ROOT / "README.md").read_text()
    with pytest.warns(so.StatisticalWarning):
        found = so.evaluate(FOLDER / "episodes.csv", FOLDER / "proposed.csv", annotations=FOLDER / "annotations.csv")
    low, high = found["c-pdis"].interval()
    assert f"`c-pdis` gives {found['c-pdis'].value:.2f}, with a 95% interval from {low:.2f} to {high:.2f}" in text
    assert f"{found['pdis'].value:.2f} (`pdis`) or {found['pdwis'].value:.2f} (`pdwis`)" in text
    assert f"400 patients, {found.diagnostics['annotations']:,} answers" in text
