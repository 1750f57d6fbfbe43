"""The authors' estimates on their own sepsis data, for datasets 0 to 4 and all 26 policies, to 1e-9."""

from __future__ import annotations

import csv
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import semiope as so
from semiope.domains import sepsis
from tests.conftest import reference

pytestmark = pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")


@cache
def golden() -> dict[tuple[str, int, int, int], tuple[float, float, float]]:
    with reference("sepsis/estimates_runs_0_to_4.csv").open() as file:
        return {
            (row["experiment"], int(row["flip_num"]), int(row["flip_seed"]), int(row["run"])): (
                float(row["ordinary"]),
                float(row["weighted"]),
                float(row["ess"]),
            )
            for row in csv.DictReader(file)
            if row["weighted"]
        }


@cache
def dataset(run: int) -> so.Episodes:
    table = pq.read_table(reference("sepsis/episodes.parquet"))
    return so.read_episodes(table.filter(pc.equal(table["run"], run)))


def policy_of(number: int) -> so.Policy:
    """Of 26; number 0 is the optimal one. Their tables are held against the golden ones elsewhere."""
    return list(sepsis.world().policies.values())[number]


def annotate(episodes: so.Episodes, policy: so.Policy) -> so.Annotations:
    """Annotate the other vasopressor choice at every decision but one at a truncated step 19."""
    before_last = so.Annotator(ratio=np.arange(20)[:, None, None] < 19 * np.ones((20, 1442, 8)))
    return sepsis.world().annotate(episodes, policy, annotators=before_last)


def assert_golden(experiment: str, number: int, run: int, ordinary: so.Estimate, weighted: so.Estimate) -> None:
    flips, seed = [(0, 0), *product(sepsis.FLIPS, sepsis.FLIP_SEEDS)][number]
    expected = golden()[experiment, flips, seed, run]
    assert (ordinary.value, weighted.value, ordinary.ess) == pytest.approx(expected, rel=0, abs=1e-9)


@pytest.mark.parametrize("run", range(5))
@pytest.mark.parametrize("kind", ["Qe", "Qb", "0"])
def test_pdis_and_c_pdis(kind: str, run: int) -> None:
    episodes = dataset(run)
    for number in range(26):
        policy = policy_of(number)
        annotations = annotate(episodes, sepsis.world().behavior if kind == "Qb" else policy)
        if kind == "0":
            annotations = replace(annotations, value=np.zeros(len(annotations)))
        names = ["pdis", "pdwis", "c-pdis", "c-pdwis"]
        found = so.evaluate(episodes, policy, annotations=annotations, cell="step,state", estimators=names, gamma=0.99)
        assert_golden("pdis", number, run, found["pdis"], found["pdwis"])
        assert_golden(f"c-pdis (G={kind})", number, run, found["c-pdis"], found["c-pdwis"])


@pytest.mark.parametrize("run", range(5))
@pytest.mark.parametrize("kind", ["Qe", "Q*"])
def test_naive(kind: str, run: int) -> None:
    """Softened policies, a stationary behaviour policy counted in the augmented data: the authors' conventions."""
    episodes = dataset(run)
    for number in range(26):
        policy = policy_of(number).soften(0.01)
        annotations = annotate(episodes, policy_of(number if kind == "Qe" else 0))
        names = [f"naive-{form}{end}" for form in ("unweighted", "weighted") for end in ("", "-wis")]
        found = so.evaluate(episodes, policy, annotations=annotations, estimators=names, gamma=0.99)
        for form in ("unweighted", "weighted"):
            name = f"naive-{form}"
            assert_golden(f"{name} (G={kind})", number, run, found[name], found[f"{name}-wis"])
