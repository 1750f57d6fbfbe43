"""A page as a reader's browser shows it, and everything that browser would find fault with."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NoReturn, Protocol

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Error, Page, Playwright, sync_playwright

Scheme = Literal["light", "dark"]
Medium = Literal["screen", "print"]

NAMES = ("chromium", "chromium-browser", "google-chrome")
# Named, since some rules (the size of targets, for one) run only when their tag is asked for.
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
HEIGHT = 900


class Opened:
    """An open page, and what the browser noticed since it began to load."""

    def __init__(self, page: Page, path: Path) -> None:
        self.page, self.url = page, path.resolve().as_uri()
        self.noticed: list[str] = []
        page.on("console", lambda message: self.noticed.append(f"console {message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.noticed.append(f"page error: {error.message}"))
        page.on("request", lambda request: self._ask(request.url))
        page.goto(self.url)

    def _ask(self, url: str) -> None:
        if url != self.url and not url.startswith(("data:", "blob:")):
            self.noticed.append(f"request: {url}")

    def violations(self) -> list[str]:
        """What axe-core finds on the page as it now is, one line an element."""
        options = {"runOnly": {"type": "tag", "values": RULES}, "resultTypes": ["violations"]}
        found: list[dict[str, Any]] = Axe().run(self.page, options=options).response["violations"]
        return [f"axe {rule['id']}: {node['html']}" for rule in found for node in rule["nodes"]]

    def overflow(self) -> list[str]:
        """Whether the page as a whole scrolls sideways."""
        root = "document.documentElement"
        wide, room = self.page.evaluate(f"[{root}.scrollWidth, {root}.clientWidth]")
        return [f"sideways: {wide} pixels in {room}"] if wide > room else []

    def faults(self) -> list[str]:
        """Everything wrong with the page: messages, errors, requests, barriers, scrolling sideways."""
        found = self.violations() + self.overflow()
        return self.noticed + found


def assert_sound(found: Opened) -> None:
    faults = found.faults()
    assert not faults, "\n".join(faults)


class Opener(Protocol):
    """The fixture `opened`: opens a file in a window of that width."""

    def __call__(self, page_path: Path, width: int, scheme: Scheme = "light", medium: Medium = "screen") -> Opened: ...


def window(browser: Browser, width: int, scheme: Scheme) -> BrowserContext:
    """A fresh window without a network, in which nothing is caught halfway through a transition."""
    return browser.new_context(
        viewport={"width": width, "height": HEIGHT}, color_scheme=scheme, reduced_motion="reduce", offline=True
    )


def executable() -> str | None:
    """The browser that SEMIOPE_CHROMIUM names, else the first on the PATH; None stands for playwright's own."""
    named = os.environ.get("SEMIOPE_CHROMIUM")
    return named or next((found for name in NAMES if (found := shutil.which(name))), None)


@contextmanager
def launched() -> Iterator[Browser]:
    """Chromium without its sandbox, which root cannot have; the pages opened are our own."""
    with sync_playwright() as playwright:
        browser = _launch(playwright, executable())
        yield browser
        browser.close()


def _launch(playwright: Playwright, path: str | None) -> Browser:
    try:
        return playwright.chromium.launch(executable_path=path, chromium_sandbox=False)
    except Error as error:
        if path is not None or "Executable doesn't exist" not in error.message:
            raise
    return give_up()


def give_up() -> NoReturn:
    """Skip for want of a browser; under CI, where one must be there, fail."""
    reason = (
        "no Chromium at hand: install the package chromium, give the path of one in SEMIOPE_CHROMIUM, "
        "or run `playwright install chromium`"
    )
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
