"""The studies of the documentation, reduced."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest


def study(name: str) -> ModuleType:
    path = Path(__file__).parents[1] / "benchmarks" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("world", "datasets"), [("sepsis-250", 60), ("bandit-100", 150)])
def test_default_intervals_cover_and_lights_are_red_where_they_do_not(world: str, datasets: int) -> None:
    coverage = study("coverage")
    shares = sum(coverage.covered(world, ("t",), number).astype(float) for number in range(datasets)) / datasets
    by_name = dict(zip(coverage.ESTIMATORS, shares.transpose(1, 0, 2), strict=True))
    # Policies of one dataset share its luck: the mean over them is about as sure as one of them.
    margin = 3 * math.sqrt(0.95 * 0.05 / datasets)
    for name in ("c*-pdis", "c-pdis", "c-wis"):
        assert abs(by_name[name][:, 0].mean() - 0.95) < margin
        # Some lights turn red by chance, as any test at three standard errors does.
        assert by_name[name][:, 1].max() <= 0.05
    for name in ("pdis", "pdwis"):
        failing = by_name[name][:, 0] < 0.9
        assert failing.any() == (world == "sepsis-250")
        assert np.all(by_name[name][failing, 1] > 0.95)


@pytest.mark.parametrize("about", ["policy", "behavior"])
def test_studies_that_stop_by_their_own_rule_seldom_decide_wrongly(about: str) -> None:
    stopping = study("stopping")
    options = {"episodes": 400, "noise": 0.2, "budget": 200, "batch": 20, "alpha": 0.05, "about": about}
    found = [stopping.conducted(number, **options) for number in range(16)]
    assert {one.reason for one in found} <= {"settled", "budget", "gain"}
    wrong = [one.call == "better" and not one.better for one in found]
    assert np.mean(wrong) <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / len(found))
    assert sum(one.reason == "settled" for one in found) > 4
    assert all(one.call != "open" for one in found if one.reason == "settled")
    assert all(one.questions <= 200 for one in found)
    assert np.mean([one.questions for one in found]) < 150
