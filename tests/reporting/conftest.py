"""A browser for the tests of this folder, and a report to open in it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from semiope.cli import main
from semiope.example import FOLDER
from tests.reporting.browser import Medium, Opened, Opener, Scheme, launched, window


# Launched once, and closed after this folder: while it is open, no other test could run an event loop.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with launched() as found:
        yield found


@pytest.fixture
def opened(browser: Browser) -> Iterator[Opener]:
    with ExitStack() as windows:

        def open_page(page_path: Path, width: int, scheme: Scheme = "light", medium: Medium = "screen") -> Opened:
            page = windows.enter_context(window(browser, width, scheme)).new_page()
            page.emulate_media(media=medium)
            return Opened(page, page_path)

        yield open_page


@pytest.fixture(scope="package")
def example_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report on the bundled example, as the command line writes it."""
    path = tmp_path_factory.mktemp("report") / "example.html"
    policies = [word for name in ("today", "proposed") for word in ("--policy", str(FOLDER / f"{name}.csv"))]
    answers = ["--annotations", str(FOLDER / "annotations.csv")]
    command = ["semiope", "evaluate", str(FOLDER / "episodes.csv"), *policies, *answers, "--report", str(path)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", command)
        with pytest.raises(SystemExit) as stop:
            main()
    assert not stop.value.code
    return path
