"""The JSON document of an evaluation, as contracts fix it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from semiope.pipeline import Results


def document(results: Mapping[str, Results], *, alpha: float = 0.05, ci: str = "t", seed: int = 0) -> dict[str, Any]:
    """Return the results of several policies as one document: settings, estimates, diagnostics, warnings."""
    first = next(iter(results.values()))
    settings = dict(first.settings)
    head = {key: settings.pop(key) for key in ("semiope", "gamma", "episodes", "steps")}
    settings |= {"alpha": alpha, "ci": ci, "seed": seed}
    notes = dict.fromkeys(note for one in results.values() for note in one.diagnostics["notes"])
    per_policy = {
        name: {
            **{key: value for key, value in one.diagnostics.items() if key != "notes"},
            "headline": one.headline,
            **_rehearsal(one),
        }
        for name, one in results.items()
    }
    warnings = dict.fromkeys(message for one in results.values() for message in one.warnings)
    return {
        **head,
        "estimates": [row for one in results.values() for row in one.rows(alpha, ci, seed)],
        "diagnostics": {"settings": settings, "notes": list(notes), "policies": per_policy},
        "warnings": list(warnings),
    }


def _rehearsal(results: Results) -> dict[str, Any]:
    kept = None if results.run is None else results.run.kept(f"rehearsal {results.headline}")
    return {} if kept is None else {"rehearsal": kept.to_dict()}


def to_json(content: Any) -> str:
    """Return JSON text; numbers that JSON cannot hold (NaN, infinities) become null."""
    return json.dumps(_without_nan(content), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _without_nan(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _without_nan(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_without_nan(value) for value in content]
    if isinstance(content, float) and not math.isfinite(content):
        return None
    return content
