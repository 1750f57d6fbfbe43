from __future__ import annotations

from pathlib import Path

import pytest

import semiope as so
from semiope.example import FOLDER
from semiope.example.demo import run
from semiope.example.make import make, write


def test_the_bundled_tables_are_what_the_script_makes(tmp_path: Path) -> None:
    write(tmp_path)
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (FOLDER / path.name).read_bytes(), path.name
    assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")
def test_the_truth_lies_where_it_should() -> None:
    """Annotations bring the estimate to the truth; the logs alone do not (more than ten standard errors for pdwis)."""
    example = make()
    found = so.evaluate(example.episodes, example.proposed, annotations=example.annotations)
    truth = example.value_proposed
    assert abs(found["c-pdis"].value - truth) < 3 * found["c-pdis"].std_error
    assert abs(found["pdwis"].value - truth) > 5 * found["pdwis"].std_error


def test_demo_tells_the_whole_story(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    run(tmp_path / "story.html", patients=300)
    found = capsys.readouterr()
    for word in ("Logs.", "From the logs alone", "Annotators", "Beside the truth", "story.html"):
        assert word in found.out
    assert not found.err
    page = (tmp_path / "story.html").read_text()
    assert "better than today" in page
    assert "flip-400-seed-0" in page
