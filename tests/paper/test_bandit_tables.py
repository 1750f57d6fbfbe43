"""All cells of the paper's bandit tables, exact and drawn, beside what 1000 draws gave the authors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from semiope.domains import bandit
from semiope.paper import bandits, table1, table3, table4
from semiope.paper.bandits import THEIR_DRAWS, cells, exact, mixture, moment, standard_errors, world_of
from semiope.paper.pieces import Pieces
from semiope.paper.settings import WITHIN, Settings
from tests.conftest import reference

TABLES = {"table1": "main_bandit_table", "table3": "two_state_bandit", "table4": "one_state_bandit"}


def golden(table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(reference("paper_tables.json").read_text())[TABLES[table]]
    return found


@pytest.mark.parametrize("table", TABLES)
def test_what_is_printed_is_copied_without_a_slip(table: str) -> None:
    keys = ("pi_b", "pi_e", "estimator", "bias", "std", "rmse")
    expected = [(row.get("reward_means", [1.0, 2.0]), *(row[key] for key in keys)) for row in golden(table)]
    ours = [(list(c.reward_means), list(c.pi_b), list(c.pi_e), c.estimator, *c.printed) for c in cells(table)]
    assert ours == expected


def test_all_387_triples_of_the_paper_are_here() -> None:
    assert sum(len(cells(table)) for table in TABLES) == 387


@pytest.mark.parametrize("table", TABLES)
def test_every_exact_cell_agrees(table: str) -> None:
    """Up to rounding and four standard errors of the authors' own draws."""
    outside = []
    for cell in cells(table):
        world = world_of(table, cell)
        evaluation = bandit.in_s1(cell.pi_e, n_states=world.mdp.n_states)
        spread = mixture(world, evaluation, cell.estimator)
        errors = standard_errors(spread, world.mdp.value(evaluation), THEIR_DRAWS)
        for number, printed, error in zip(exact(world, evaluation, cell.estimator), cell.printed, errors, strict=True):
            if abs(number - printed) > cell.rounding + WITHIN * error + 1e-12:
                outside.append((cell, number, error))
    assert outside == []


@pytest.mark.parametrize("estimator", ["is", "naive", "c*-is"])
def test_theory_equals_the_mixture(estimator: str) -> None:
    """The figures compared above do not only come from the functions under test."""
    for behavior in bandit.PAPER_POLICIES:
        world = bandit.two_state((-1.0, 1.0), behavior, other_mean=0.5)
        for probs in bandit.PAPER_POLICIES:
            evaluation = bandit.in_s1(probs, n_states=2)
            value, spread = world.mdp.value(evaluation), mixture(world, evaluation, estimator)
            mean = moment(spread, 0.0, 1)
            expected = (mean - value, moment(spread, mean, 2) ** 0.5, moment(spread, value, 2) ** 0.5)
            assert exact(world, evaluation, estimator) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("item", [table1, table3, table4])
def test_drawn_tables(item: Any, tmp_path: Path) -> None:
    """Drawn by the estimators themselves: near the exact figures, and the page says that the paper's are as near."""
    settings, found = Settings(quick=True, seed=11), Pieces(tmp_path)
    for piece in item.pieces(settings):
        found.compute(piece, settings)
    made = item.make(settings, found)
    assert [claim.holds for claim in made.claims] == [True]
    table = item.__name__.rpartition(".")[2]
    assert [row["estimator"] for row in made.rows] == [cell.estimator for cell in cells(table)]
    off = []
    for cell, row in zip(cells(table), made.rows, strict=True):
        world = world_of(table, cell)
        evaluation = bandit.in_s1(cell.pi_e, n_states=world.mdp.n_states)
        spread = mixture(world, evaluation, cell.estimator)
        errors = standard_errors(spread, world.mdp.value(evaluation), bandits.draws_of(settings))
        apart = [abs(row[name] - row["exact"][name]) for name in bandits.METRICS]
        off += [gap / error if error else gap for gap, error in zip(apart, errors, strict=True)]
    # Pooled samples of an episode depend on each other, so that a naive bias scatters a little more than its error.
    assert max(off) < 5.5
    assert np.mean(np.array(off) < 2) > 0.9
