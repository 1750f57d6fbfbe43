"""Results: the estimates of one policy, and all that belongs to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from semiope._extras import need
from semiope._tables import as_table
from semiope.data.annotations import Annotations
from semiope.data.episodes import Episodes
from semiope.diagnostics.support import NEGLIGIBLE
from semiope.errors import NotEstimatedError, OptionError, SchemaError, SupportError, nearest
from semiope.estimate.problem import Problem
from semiope.estimate.registry import ALIASES, ESTIMATORS, canonical, headline
from semiope.estimate.result import EpisodeValues, Estimate
from semiope.estimate.weighing import Weighed
from semiope.policies.policy import AnyPolicy

if TYPE_CHECKING:
    from semiope.uncertainty.distribution import Distribution


@dataclass(frozen=True, eq=False)
class Run:
    """What results come from: data and options as they were given, and the problem that was solved.

    `weighed` knows the annotations as they were repaired, and the weights that were chosen.
    """

    episodes: Episodes
    policy: AnyPolicy
    annotations: Annotations | None
    options: dict[str, Any]
    weighed: Weighed
    _kept: dict[str, Any] = field(default_factory=dict)

    def once(self, key: str, build: Callable[[], Any]) -> Any:
        """What is asked for again and again, computed on first use."""
        if key not in self._kept:
            self._kept[key] = build()
        return self._kept[key]

    def keep(self, key: str, value: Any) -> None:
        """Keep what was found, for those who read these results later."""
        self._kept[key] = value

    def kept(self, key: str) -> Any:
        """What was kept; None if there is nothing."""
        return self._kept.get(key)

    @cached_property
    def observed(self) -> Estimate:
        """What is achieved today: the mean return of the logged episodes, as an estimate like others."""
        returns = self.episodes.returns(self.weighed.problem.gamma)
        values = EpisodeValues(returns, np.ones(len(returns)))
        return Estimate("today", "observed", values, labels=self.episodes.labels)


class Chosen(NamedTuple):
    """An estimator, its estimate, and the problem as it sees it."""

    estimator: str
    estimate: Estimate
    problem: Problem


@dataclass(frozen=True, eq=False)
class Results(Mapping[str, Estimate]):
    """Estimates of one policy by estimator name (or alias), with diagnostics and warnings."""

    policy: str
    estimates: dict[str, Estimate]
    settings: dict[str, Any]
    diagnostics: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    run: Run | None = None

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

    @property
    def origin(self) -> Run:
        """What these results come from."""
        if self.run is None:
            raise OptionError("these results do not know their data. Take those that so.evaluate returns.")
        return self.run

    def chosen(self, estimator: str | None = None) -> Chosen:
        """An estimator by name or alias, its estimate, and the problem as it sees it; by default the headline's."""
        name = self.headline if estimator is None else canonical(estimator)
        return Chosen(name, self[name], self.origin.weighed.seen_by(ESTIMATORS[name]))

    @property
    def headline(self) -> str:
        """The estimate that speaks for the policy, if nobody says which."""
        return headline(self.estimates)

    def lower_bound(
        self, estimator: str | None = None, *, returns: tuple[float, float] | None = None,
        rewards: tuple[float, float] | None = None, alpha: float = 0.05, method: str = "bernstein",
    ) -> float:  # fmt: skip
        """What the value is above, but for a probability of at most alpha, whatever the distribution.

        State the range of an episode's return, or of a reward; that of the estimator's values is derived from it.
        """
        from semiope.uncertainty.bounds import lower_bound
        from semiope.uncertainty.intervals import check_alpha
        from semiope.uncertainty.ranges import value_range

        check_alpha(alpha)
        name, estimate, problem = self.chosen(estimator)
        lacking = self.unsupported(name)
        if lacking > NEGLIGIBLE:
            raise SupportError(
                f"lower_bound: {lacking:.1%} of the policy's decisions are actions that {name} knows nothing of, and "
                "what they bring has no bound. Annotate them, or take an estimator that listens to answers."
            )
        if estimate.per_episode.value_exponent:
            raise SchemaError(f"lower_bound: values of {name} leave the range of numbers. Use annotations.")
        low, high = value_range(problem, name, returns=returns, rewards=rewards)
        return lower_bound(estimate.values, low, high, alpha=alpha, method=method)

    def unsupported(self, estimator: str) -> float:
        """The share of the policy's decisions, at the logged steps, that an estimator knows nothing of."""
        found: float = self.diagnostics.get("unsupported_mass", {}).get(ESTIMATORS[estimator].support, 0.0)
        return found

    def distribution(self, estimator: str | None = None) -> Distribution:
        """The distribution of returns under the policy, from the weights of an estimator.

        By default of the first in rank that weighs whole returns.
        """
        from semiope.uncertainty.distribution import returns_distribution

        name = self._weighing if estimator is None else canonical(estimator)
        return returns_distribution(self.origin.weighed.seen_by(ESTIMATORS[name]), name)

    @property
    def _weighing(self) -> str:
        """The estimator whose weights stand for the policy: the first in rank that weighs whole returns."""
        from semiope.uncertainty.branches import weighs_returns

        fits = [name for name in self.estimates if weighs_returns(ESTIMATORS[name].recipe)]
        return headline(fits) if fits else "c-wis" if len(self.origin.weighed.problem.annotations.row) else "wis"

    def to_dict(self, alpha: float = 0.05, ci: str = "t", seed: int = 0) -> dict[str, Any]:
        """Return settings, estimates, diagnostics and warnings as plain Python objects."""
        return {
            "policy": self.policy, "settings": dict(self.settings), "estimates": self.rows(alpha, ci, seed),
            "diagnostics": dict(self.diagnostics), "warnings": list(self.warnings),
        }  # fmt: skip

    def to_frame(self, alpha: float = 0.05, ci: str = "t", seed: int = 0) -> Any:
        """Return the estimates as a data frame (pandas)."""
        return frame(self.rows(alpha, ci, seed))

    def rows(self, alpha: float = 0.05, ci: str = "t", seed: int | np.random.Generator = 0) -> list[dict[str, Any]]:
        """Return one row an estimator, as in the command line's JSON."""
        rows = []
        for name, estimate in self.estimates.items():
            low, high = estimate.interval(alpha, ci, seed=seed)
            numbers = {"value": estimate.value, "std_error": estimate.std_error, "ci_low": low, "ci_high": high}
            rows.append({"policy": self.policy, "estimator": name, **numbers, "ess": estimate.ess})
        return rows

    def _repr_html_(self) -> str:
        notes = [*self.diagnostics.get("notes", []), *self.warnings]
        listed = "".join(f"<li>{escape(note)}</li>" for note in notes)
        return as_table(self.rows(), f"policy {self.policy}") + (f"<ul>{listed}</ul>" if listed else "")

    def __repr__(self) -> str:
        lines = [f"{'estimator':<22}{'value':>12}{'std error':>12}{'ess':>12}"]
        for name, estimate in self.estimates.items():
            lines.append(f"{name:<22}{estimate.value:>12.6g}{estimate.std_error:>12.4g}{estimate.ess:>12.1f}")
        lines += [f"note: {note}" for note in self.diagnostics.get("notes", [])]
        lines += [f"warning: {warning}" for warning in self.warnings]
        return "\n".join(lines)


def named(results: Any, who: str) -> dict[str, Results]:
    """Results by policy, from those of one or of several; `who` asks for them."""
    several = {results.policy: results} if isinstance(results, Results) else results
    if not isinstance(several, Mapping) or not several or not all(isinstance(one, Results) for one in several.values()):
        raise OptionError(f"{who}: give what so.evaluate returns, for one policy or for several by name.")
    return {str(name): one for name, one in several.items()}


def one_of(results: Any, who: str) -> Results:
    """The results of one policy."""
    several = named(results, who)
    if len(several) > 1:
        raise OptionError(
            f"{who}: this is about one policy: give results[name], name one of {', '.join(list(several)[:10])}."
        )
    return next(iter(several.values()))


def frame(rows: list[dict[str, Any]]) -> Any:
    """Rows as a pandas data frame."""
    return need("pandas", "pandas", "a data frame").DataFrame(rows)
