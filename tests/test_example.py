from __future__ import annotations

from pathlib import Path

import pytest

import semiope as so
from semiope.example import FOLDER, run
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


def test_demo_tells_the_whole_story(capsys: pytest.CaptureFixture[str]) -> None:
    run()
    found = capsys.readouterr()
    assert "proposed 0.63" in found.out
    assert "c-pdwis" in found.out
    assert "actions without support" in found.err
