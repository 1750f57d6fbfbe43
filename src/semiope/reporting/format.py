"""Numbers as people read them."""

from __future__ import annotations

import math


def number(value: float | None) -> str:
    """Return four decimals, or four digits for large and small numbers; a dash for what is no number."""
    if value is None or math.isnan(value):
        return "-"
    return f"{value:.4f}" if value == 0 or 0.001 <= abs(value) < 1000 else f"{value:.4g}"


def level(alpha: float) -> str:
    """Return the level of an interval, as in '95%'."""
    return f"{round(100 * (1 - alpha), 6):g}%"
