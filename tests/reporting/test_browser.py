"""The report as a browser shows it: silent, self-contained, accessible, and within its window."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reporting.browser import NAMES, Medium, Opener, Scheme, assert_sound, executable, give_up

PHONE, DESK, PAPER = 390, 1440, 718  # paper: A4 less margins of a centimetre


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESK])
def test_nothing_is_wrong_on_a_screen(opened: Opener, example_page: Path, width: int, scheme: Scheme) -> None:
    assert_sound(opened(example_page, width, scheme))


def test_nothing_is_wrong_on_paper(opened: Opener, example_page: Path) -> None:
    assert_sound(opened(example_page, PAPER, medium="print"))


# Negative controls: each check can fail.

SOUND = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>A page</title>
<style>
:root { color-scheme: light dark; }
HEAD
</style>
</head>
<body><main><h1>A page</h1><p>With a text.</p>
BODY
</main></body>
</html>
"""
DOT = "data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw=="


@pytest.fixture
def page_path(tmp_path: Path) -> Path:
    return tmp_path / "a page.html"


def put(path: Path, body: str = "", style: str = "") -> Path:
    path.write_text(SOUND.replace("HEAD", style).replace("BODY", body), encoding="utf-8")
    return path


@pytest.mark.parametrize("body", ["", f'<img src="{DOT}" alt="a dot">', "<script>document.title += '!'</script>"])
def test_a_sound_page_has_no_faults(opened: Opener, page_path: Path, body: str) -> None:
    assert_sound(opened(put(page_path, body), PHONE))


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("<script>console.error('alas')</script>", "console error: alas"),
        ("<script>console.debug('well')</script>", "console debug: well"),
        ("<script>throw new Error('alas')</script>", "page error: alas"),
        ("<script>Promise.reject(new Error('later'))</script>", "page error: later"),
        ("<script>new WebSocket('wss://example.org/a')</script>", "console error: WebSocket connection"),
        (f'<img src="{DOT}">', f'axe image-alt: <img src="{DOT}">'),
        ('<p style="color: #777; background: #888">Grey</p>', 'axe color-contrast: <p style="color: #777; '),
        ("<h4>Too deep</h4>", "axe heading-order: <h4>"),
        (
            "<style>button { width: 9px; height: 9px; padding: 0; border: 0; float: left }</style>"
            '<button aria-label="a"></button><button aria-label="b"></button>',
            "axe target-size: <button",
        ),
        ('<div style="width: 2000px">Wide</div>', "sideways: 20"),
    ],
)
def test_a_fault_is_found_and_no_other(opened: Opener, page_path: Path, body: str, fault: str) -> None:
    found = opened(put(page_path, body), PHONE).faults()
    assert found
    assert {line[: len(fault)] for line in found} == {fault}


@pytest.mark.parametrize(
    ("body", "url"),
    [
        ('<img src="https://example.org/a.png" alt="a">', "https://example.org/a.png"),
        ('<script src="https://example.org/a.js"></script>', "https://example.org/a.js"),
        ('<link rel="stylesheet" href="https://example.org/a.css">', "https://example.org/a.css"),
        ("<script>fetch('https://example.org/a').catch(() => {})</script>", "https://example.org/a"),
    ],
)
def test_a_request_is_found(opened: Opener, page_path: Path, body: str, url: str) -> None:
    assert f"request: {url}" in opened(put(page_path, body), PHONE).faults()


def test_a_neighbouring_file_is_a_request(opened: Opener, page_path: Path) -> None:
    neighbour = page_path.with_name("a.css")
    neighbour.write_text("")
    faults = opened(put(page_path, '<link rel="stylesheet" href="a.css">'), PHONE).faults()
    assert f"request: {neighbour.as_uri()}" in faults


@pytest.mark.parametrize(("scheme", "medium"), [("dark", "screen"), ("light", "print")])
def test_scheme_and_medium_reach_the_page(opened: Opener, page_path: Path, scheme: Scheme, medium: Medium) -> None:
    """A text that cannot be read in one scheme or medium is found there, and only there."""
    query = "(prefers-color-scheme: dark)" if scheme == "dark" else "print"
    put(page_path, style=f"@media {query} {{ p {{ color: #777; background: #888; }} }}")
    assert_sound(opened(page_path, DESK))
    assert opened(page_path, DESK, scheme, medium).faults() == ["axe color-contrast: <p>With a text.</p>"]


# Finding a browser.


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine whose PATH is one empty folder."""
    monkeypatch.delenv("SEMIOPE_CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_the_browser_named_comes_before_those_on_the_path(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert executable() is None
    for name in reversed(NAMES):
        (bare / name).touch(mode=0o755)
        assert executable() == str(bare / name)
    monkeypatch.setenv("SEMIOPE_CHROMIUM", "another")
    assert executable() == "another"


def test_without_a_browser_tests_skip_but_not_in_the_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="SEMIOPE_CHROMIUM"):
        give_up()
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="install the package chromium"):
        give_up()
