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


@pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")
def test_the_page_on_features_quotes_its_figures_rightly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run it, and look for each sentence with the figures that came out; what is missing is shown as it should read."""
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs" / "features.md"
    text = " ".join(page.read_text().split())
    seen: dict[str, Any] = {}
    plain = None
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), seen)
        plain = plain or seen.get("results")  # the first call; a later one has annotations of actions taken as well
    assert plain is not None
    headline, checked, gap = plain["pp-dr"], seen["results"]["pp-dr"], so.compare(seen["results"])["policy"].difference
    logistic, boosting, returns = seen["logistic"], seen["boosting"], seen["returns"]
    last = logistic.reliability.predicted[-1], logistic.reliability.observed[-1]
    truth = seen["vitals"].value(seen["classifier"]), seen["vitals"].value(seen["vitals"].practice)

    def span(interval: Any) -> str:
        return f"from {interval[0]:.3f} to {interval[1]:.3f}"

    quotes = [
        f"{returns.mean():.3f}, with a standard error of {returns.sem():.3f}",
        f"{plain.diagnostics['annotations']} annotations of 8,000 possible ones",
        f"The headline is `pp-dr`: {headline.value:.3f}, with a 95% interval {span(headline.interval())}",
        f"says {plain['pdis'].value:.3f}. But its standard error is {plain['pdis'].std_error:.3f}",
        f"That of the headline is {headline.std_error:.3f}",
        f"it goes {span(checked.interval())}",
        f"Logistic regression has {logistic.log_loss:.3f}, boosting {boosting.log_loss:.3f}",
        f"the bare shares of the three actions {logistic.log_loss_of_shares:.3f}",
        f"the model says {last[0]:.0%}, and {last[1]:.0%} were taken",
        f"moves from {plain['c-pdis'].value:.3f} to {seen['other']['c-pdis'].value:.3f}",
        f"would gain {gap.value:.3f}, with a 95% interval {span(gap.interval)}",
        f"The classifier is worth {truth[0]:.3f}, current practice {truth[1]:.3f}.",
        f"The gain is {truth[0] - truth[1]:.3f}.",
    ]
    assert not [quote for quote in quotes if quote not in text]
    lights = {one.name: one.light for one in so.diagnose(plain, refute=False)}
    for name, light in re.findall(r"^\| ([a-z ]+) \| (green|amber|red) \|", page.read_text(), flags=re.MULTILINE):
        assert lights[name] == light
    lights = {one.name: one.light for one in so.diagnose(seen["results"], refute=False)}
    assert lights.pop("annotations against logs") == "amber"
    assert "red" not in lights.values()
    assert so.diagnose(seen["other"], refute=False)["behavior policy by features"].light == "amber"
