"""The study of which questions to ask: curves by way, and what the page says of them."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from semiope._arrays import Floats
from semiope.domains import sepsis
from semiope.paper import asking, questions
from semiope.paper.pieces import Piece, Pieces
from semiope.paper.settings import Settings

SETTINGS = Settings(seed=5, datasets=2)
BUDGETS = asking.BUDGETS


def test_all_ways_end_where_everything_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    policies = {"optimal": sepsis.world().policies["optimal"]}
    monkeypatch.setattr(asking, "every_third", lambda _: policies)
    monkeypatch.setattr(asking, "BUDGETS", (10, 50, 20_000))
    monkeypatch.setattr(asking, "NOISES", (0.0,))
    for ask in (asking.ask_for_today, asking.ask_softened):
        monkeypatch.setattr(asking, "softened", lambda: policies)
        found = ask(SETTINGS, 0)
        assert set(found) == {f"0.0 {way}" for way in (*asking.WAYS, "all")}
        for way in asking.WAYS:
            assert found[f"0.0 {way}"].shape == (3, 1)
        np.testing.assert_allclose(found["0.0 random"][-1], found["0.0 all"], atol=1e-9)
        few, more = (abs(found["0.0 planned"][i] - found["0.0 all"])[0] for i in (0, -1))
        assert more < few
        assert len({tuple(found[f"0.0 {way}"][0]) for way in asking.WAYS}) == 4


def test_planned_questions_bring_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "BUDGETS", (25,))
    monkeypatch.setattr(asking, "NOISES", (0.0,))
    monkeypatch.setattr(asking, "WAYS", ("random", "planned"))
    off: dict[str, list[Floats]] = {}
    for number in range(2):
        found = asking.ask_alone(SETTINGS, number)
        assert found["0.0 all"].shape == (len(sepsis.world().policies),)
        for way in asking.WAYS:
            off.setdefault(way, []).append(found[f"0.0 {way}"][0] - found["0.0 all"])
    far = {way: float(np.sqrt(np.mean(np.square(found)))) for way, found in off.items()}
    assert far["planned"] < 0.7 * far["random"]


def test_a_few_noisy_answers_about_usual_care_help(monkeypatch: pytest.MonkeyPatch) -> None:
    """They turn others many steps ahead: taken too seriously, their noise adds up."""
    monkeypatch.setattr(asking, "BUDGETS", (0, 20))
    monkeypatch.setattr(asking, "NOISES", (0.2,))
    monkeypatch.setattr(asking, "WAYS", ("planned",))
    truth = np.array([sepsis.world().mdp.value(policy) for policy in sepsis.world().policies.values()])
    off = [asking.ask_together(Settings(seed=6), number)["0.2 planned"] - truth for number in range(4)]
    none, some = np.sqrt(np.mean(np.square(off), axis=(0, 2)))
    assert some < 0.8 * none


def made_up(folder: Path, planned: float, random: float) -> Pieces:
    """Pieces in which all estimates are off by as much: by 1 / sqrt(questions), in units of what ways are given."""
    off = {"planned": planned, "random": random, "mattering": random, "deviations": random, "all": 0.0}
    found = Pieces(folder)
    for part in questions.PARTS.values():
        truth = np.array([sepsis.world().mdp.value(policy) for policy in part.policies().values()])
        sign = np.where(np.arange(len(truth)) % 2, 1.0, -1.0)
        data = {}
        for noise in asking.NOISES:
            for way, unit in off.items():
                by_budget = 0.01 + unit / np.sqrt(np.array(asking.BUDGETS))[:, None]
                data[f"{noise} {way}"] = truth + sign * (by_budget if way != "all" else 0.01)
        for number in range(SETTINGS.datasets):
            found.keep(part.piece._replace(number=number), data)
    small = np.array([[0.2, 0.2], [0.11, 0.1]])
    found.keep(Piece(questions.small), {"bandit": small, "tree": small})
    return found


def test_the_page_tells_what_was_seen(tmp_path: Path) -> None:
    made = questions.make(SETTINGS, made_up(tmp_path, 0.05, 0.2))
    claims = {claim.text: claim.holds for claim in made.claims}
    assert len(claims) == 9
    by_start = {text.split(" (")[0]: holds for text, holds in claims.items()}
    # 0.01 + 0.05 / sqrt(n) reaches 0.02 at n = 25, and 0.01 + 0.2 / sqrt(n) at 400: 16 times as many.
    assert by_start["noise 0: to reach an RMSE of 0.02, random questions are at least 8 times as many"]
    assert not by_start["exact answers, 400 questions: RMSE at most 1.05 of that of all"]  # 1.25
    assert by_start["noise 0.2, 400 questions: RMSE at most 0.017"]
    assert by_start["on a bandit and a tree, plans are within 10% of the best for every budget"]
    close = questions.make(SETTINGS, made_up(tmp_path, 0.05, 0.1))
    assert not any(claim.holds for claim in close.claims if "8 times" in claim.text)


def test_how_many_questions_it_takes() -> None:
    budgets = np.array(BUDGETS, dtype=float)
    falling = 0.02 + 0.01 * (np.log(50) - np.log(budgets))[None]
    assert questions.reached(falling) == pytest.approx(50)
    between = 0.02 + 0.01 * (np.log(70) - np.log(budgets))[None]
    assert questions.reached(between) == pytest.approx(70)
    assert questions.reached(falling - 1) == BUDGETS[0]
    assert math.isinf(questions.reached(falling + 1))
