from __future__ import annotations

import sys
from pathlib import Path

import pytest

import semiope as so
from semiope.example import FOLDER, vitals
from semiope.example.demo import by_features, run
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


def test_the_second_act_goes_from_vitals_to_a_decision(capsys: pytest.CaptureFixture[str]) -> None:
    by_features(patients=300, seed=0)
    found = capsys.readouterr()
    text = " ".join(found.out.split())
    for word in ("heart_rate, pressure, oxygen, lactate", "A classifier: logistic", "Three annotators"):
        assert word in text
    for word in ("by a logistic regression", "Log loss", "Regression on features", "pp-dr", "Decision.", "In truth"):
        assert word in text
    assert not found.err


def test_the_second_act_needs_no_scikit_learn(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("linear_model", "preprocessing", "pipeline", "tree", "ensemble", "base"):
        monkeypatch.setitem(sys.modules, f"sklearn.{name}", None)
    by_features(patients=200, seed=0)
    text = " ".join(capsys.readouterr().out.split())
    assert "A function of the vitals" in text
    assert 'pip install "semiope[models]"' in text
    assert "Behavior policy As given." in text


def test_vitals_are_the_same_each_time_and_questions_are_what_was_asked_for() -> None:
    table = vitals.logs(50, seed=7)
    assert table == vitals.logs(50, seed=7)
    assert len(table["episode"]) == 50 * (vitals.DECISIONS + 1)
    rows = zip(zip(table["episode"], table["step"], strict=True), table["action"], strict=True)
    done = dict(rows)
    for taken in (False, True):
        asked = vitals.ask(table, vitals.senior, 0.5, taken=taken)
        places = zip(asked["episode"], asked["step"], strict=True)
        about = [done[place] == action for place, action in zip(places, asked["action"], strict=True)]
        assert about
        assert all(same == taken for same in about)


def test_the_senior_team_does_better_than_practice() -> None:
    """By 0.12; each value has a standard error below 0.002."""
    assert vitals.value(vitals.senior, 50_000) - vitals.value(vitals.practice, 50_000) > 0.1
