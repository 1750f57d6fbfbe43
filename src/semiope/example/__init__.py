"""Examples: a small bundled ward in `FOLDER`, for the documentation, and the demonstration on the sepsis world."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent
