"""Shared fixtures. Golden data lie beside the project, under shared/; tests that need them skip where they are not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

from tests.cli.desk import Desk

REFERENCE = Path(__file__).resolve().parents[2] / "shared" / "reference"

# Compiled functions are slow on their first call only.
settings.register_profile("semiope", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("semiope")


def reference(name: str) -> Path:
    path = REFERENCE / name
    if not path.exists():
        pytest.skip(f"the golden file {name} is not at hand (it lies in ../shared/reference)")
    return path


@pytest.fixture(scope="session")
def peers() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(reference("peers/expected.json").read_text())
    return found


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Desk:
    return Desk(tmp_path, monkeypatch, capsys)
