"""Results: the estimates of one policy, and all that belongs to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from semiope.errors import NotEstimatedError, nearest
from semiope.estimate.registry import ALIASES
from semiope.estimate.result import Estimate


@dataclass(frozen=True, eq=False)
class Results(Mapping[str, Estimate]):
    """Estimates of one policy by estimator name (or alias), with diagnostics and warnings."""

    policy: str
    estimates: dict[str, Estimate]
    settings: dict[str, Any]
    diagnostics: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def __getitem__(self, name: str) -> Estimate:
        plain = ALIASES.get(name, name)
        if plain not in self.estimates:
            raise NotEstimatedError(
                f"no estimate {name!r} here, only {', '.join(self.estimates)}."
                f"{nearest(str(name), self.estimates)} Ask for others with estimators=[...]."
            )
        return self.estimates[plain]

    def __iter__(self) -> Iterator[str]:
        return iter(self.estimates)

    def __len__(self) -> int:
        return len(self.estimates)

    def rows(self, alpha: float = 0.05, ci: str = "t", seed: int | np.random.Generator = 0) -> list[dict[str, Any]]:
        """Return one row an estimator, as in the command line's JSON."""
        rows = []
        for name, estimate in self.estimates.items():
            low, high = estimate.interval(alpha, ci, seed=seed)
            numbers = {"value": estimate.value, "std_error": estimate.std_error, "ci_low": low, "ci_high": high}
            rows.append({"policy": self.policy, "estimator": name, **numbers, "ess": estimate.ess})
        return rows

    def __repr__(self) -> str:
        lines = [f"{'estimator':<22}{'value':>12}{'std error':>12}{'ess':>12}"]
        for name, estimate in self.estimates.items():
            lines.append(f"{name:<22}{estimate.value:>12.6g}{estimate.std_error:>12.4g}{estimate.ess:>12.1f}")
        lines += [f"note: {note}" for note in self.diagnostics.get("notes", [])]
        lines += [f"warning: {warning}" for warning in self.warnings]
        return "\n".join(lines)
