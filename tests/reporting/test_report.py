"""Reports and figures: what they hold, what they escape, and what is refused."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import semiope as so
from semiope.domains import sepsis
from semiope.errors import quietly
from semiope.reporting.format import number
from semiope.reporting.svg import Axis
from tests.reporting.browser import Opener, assert_sound

NAMES = ("optimal", "flip-100-seed-42", "flip-400-seed-0")
ALL = "is,wis,pdis,pdwis,c-is,c-wis,c-pdis,c-pdwis,dm,dr"


def evaluated(names: tuple[str, ...] = NAMES, estimators: str | None = None, n: int = 300) -> dict[str, so.Results]:
    world = sepsis.world()
    episodes = world.sample(n, seed=0)
    policies = {name: world.policies[name] for name in names}
    expert = so.Annotator(std=0.2)
    with quietly():
        return so.evaluate(
            episodes, policies,
            annotations=world.annotate(episodes, policies, annotators=expert, of_action_taken=True, seed=1),
            estimators=estimators, cell="step,state", gamma=0.99,
        )  # fmt: skip


@pytest.fixture(scope="module")
def results() -> dict[str, so.Results]:
    return evaluated()


@pytest.fixture(scope="module")
def page(results: dict[str, so.Results]) -> str:
    return so.report(results, title="A ward").html


def text_of(page: str) -> str:
    """What is read, without tags."""
    found: list[str] = []

    class Reader(HTMLParser):
        def handle_data(self, data: str) -> None:
            found.append(data)

    Reader().feed(page)
    return re.sub(r"\s+", " ", " ".join(found))


def test_every_section_is_there_and_linked(page: str) -> None:
    heads = re.findall(r'<h2 id="([a-z-]+)-head">', page)
    links = re.findall(r'<a href="#([a-z-]+)">', page)
    assert heads == links
    for head in ("decision", "estimates", "ranking", "diagnostics", "support", "weights", "returns", "episodes"):
        assert head in heads
    assert {"methods", "warnings", "run-it-again"} <= set(heads)


def test_numbers_are_those_of_the_results(results: dict[str, so.Results], page: str) -> None:
    text = text_of(page)
    comparison = so.compare(results)
    for name, one in results.items():
        low, high = one["pp-dr"].interval()
        assert f"{number(one['pp-dr'].value)} {number(low)} to {number(high)}" in text
        gap = comparison[name].difference
        assert f"{gap.value:+.3g} {gap.interval.low:+.3g} to {gap.interval.high:+.3g}" in text
    assert "“optimal” looks better than today's policy, if the amber lights below are no objection." in text
    assert f"against {comparison.today.value:.4f} achieved today" in text


def test_nothing_comes_from_outside(page: str) -> None:
    assert not re.search(r"(?:src|href)=\"(?!#|data:)", page)
    assert "<script" not in page
    assert "@import" not in page
    assert "url(" not in page


def test_the_focus_can_be_chosen(results: dict[str, so.Results]) -> None:
    text = text_of(so.report(results, focus="flip-400-seed-0").html)
    assert "“flip-400-seed-0” is worse than today's policy." in text
    assert "The 10 that move the estimate of flip-400-seed-0 most" in text


def test_a_red_light_leaves_it_undecided() -> None:
    """From the logs alone nothing can be decided here, whatever the numbers say."""
    world = sepsis.world()
    with quietly():
        results = so.evaluate(world.sample(300, seed=0), world.policies["optimal"], gamma=0.99)
    text = text_of(so.report(results).html)
    assert "cannot be decided from these data" in text
    assert "Red: effective sample size" in text


def test_labels_are_escaped() -> None:
    nasty = "<b>&\"x'"
    rows = {
        "episode": ["<i>1", "<i>2", "<i>3"], "step": [0, 0, 0], "state": ["<u>s", "<u>s", "<u>s"],
        "action": [nasty, "b", nasty], "reward": [1.0, 0.0, 0.5],
    }  # fmt: skip
    policy = so.read_policy({"state": ["<u>s", "<u>s"], "action": [nasty, "b"], "prob": [0.9, 0.1]})
    with quietly():
        page = so.report(so.evaluate(rows, {nasty: policy}), command="semiope <x>").html
    for raw in ("<b>", "<i>1", "<u>", "<x>"):
        assert raw not in page
    assert "&lt;b&gt;" in page


def test_a_report_of_everything_stays_small(tmp_path: Path, opened: Opener) -> None:
    """26 policies by 10 estimators below 2 MB, and sound in a browser, with all that folds opened."""
    world = sepsis.world()
    path = tmp_path / "all.html"
    so.report(evaluated(tuple(world.policies), ALL), path)
    assert path.stat().st_size < 2_000_000
    found = opened(path, 390)
    found.page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
    assert_sound(found)


def test_figures_on_their_own(results: dict[str, so.Results], tmp_path: Path, opened: Opener) -> None:
    one = results["optimal"]
    pictures = [so.plot.forest(results), so.plot.ranking(results)]
    pictures += [draw(one) for draw in (so.plot.support, so.plot.weights, so.plot.ess, so.plot.returns)]
    for i, picture in enumerate(pictures):
        assert "<svg" in picture._repr_html_() or "<table" in picture._repr_html_()
        picture.save(tmp_path / f"{i}.html")
        assert_sound(opened(tmp_path / f"{i}.html", 1440))


def test_results_show_themselves(results: dict[str, so.Results]) -> None:
    one = results["optimal"]
    frame = one.to_frame()
    assert list(frame.estimator) == list(one)
    assert frame.value[0] == one["is"].value
    assert one.to_dict()["estimates"][0]["value"] == one["is"].value
    for shown in (one, so.compare(results), so.diagnose(one, refute=False)):
        assert shown._repr_html_().startswith("<table>")
    assert "srcdoc" in so.report(one)._repr_html_()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": "page.txt"}, "must end in .html"),
        ({"alpha": 0}, "alpha: 0"),
        ({"ci": "x"}, "ci: 'x'"),
        ({"focus": "optimall"}, "no policy 'optimall'. Did you mean 'optimal'"),
    ],
)
def test_what_is_refused(results: dict[str, so.Results], options: dict[str, object], message: str) -> None:
    with pytest.raises(so.OptionError, match=re.escape(message)):
        so.report(results, **options)  # type: ignore[arg-type]


def test_a_folder_is_no_file(results: dict[str, so.Results], tmp_path: Path) -> None:
    (tmp_path / "x.html").mkdir()
    with pytest.raises(so.OptionError, match="is a folder"):
        so.report(results, tmp_path / "x.html")
    with pytest.raises(so.OptionError, match="this is about one policy"):
        so.plot.weights(results)
    with pytest.raises(so.OptionError, match=r"give what so\.evaluate returns"):
        so.plot.forest({"a": 1})


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]), (-0.3, 0.45, [-0.2, 0, 0.2, 0.4]), (3, 3, [3]), (0, 1e6, None)],
)
def test_ticks_are_round(low: float, high: float, expected: list[float] | None) -> None:
    ticks = Axis("", low, high).ticks()
    assert expected is None or ticks == pytest.approx(expected)
    assert all(low - 1e-9 <= tick <= high + 1e-9 for tick in ticks)
    assert 1 <= len(ticks) <= 6
    assert np.allclose(np.diff(ticks, n=2), 0)
