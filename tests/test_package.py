"""The package as a whole: what it offers, and how cheaply it is imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

import semiope as so


def test_every_public_name_is_there_and_listed() -> None:
    assert set(so.__all__) == {*so._HOME, "__version__"}
    assert sorted(so.__all__) == dir(so)
    for name in so.__all__:
        assert getattr(so, name) is not None


def test_what_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'estimate_everything'"):
        so.estimate_everything  # noqa: B018


def test_importing_loads_nothing_heavy() -> None:
    code = "import sys, semiope; print([m for m in ('numba', 'pyarrow', 'scipy', 'rich') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
