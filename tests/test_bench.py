"""The benchmark measures what it says; its figures are for `semiope bench`, not for a unit test."""

from __future__ import annotations

import json
import sys

import pytest

from semiope.bench.data import synthetic
from semiope.bench.measure import Measurement, best
from semiope.cli import main


def test_synthetic_data_have_the_shape_that_is_promised() -> None:
    data = synthetic(50)
    assert (data.episodes.n_episodes, data.episodes.n_steps) == (50, 1000)
    assert len(data.annotations) == 500
    assert len(data.policies) == 26


def test_a_bar_that_is_not_kept_is_not_met() -> None:
    assert Measurement("x", 3.9, 4, "y").met
    assert not Measurement("x", 4.1, 4, "y").met


def test_jobs_take_turns() -> None:
    turns: list[str] = []
    best({"a": lambda: turns.append("a"), "b": lambda: turns.append("b")}, repeats=2)
    assert turns == ["a", "b"] * 3


def test_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["semiope", "bench", "--quick", "--json", "-"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 24
    assert all(row["measured"] > 0 and row["bar"] > 0 for row in rows)
