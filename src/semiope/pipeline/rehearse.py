"""`so.rehearse`: how often do intervals like this one hold the truth, in worlds like these data?"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from semiope._arrays import Booleans, Floats
from semiope._options import Progress, check_count
from semiope._random import Seed, generator
from semiope.diagnostics.findings import AMBER, GREEN, RED, Finding
from semiope.errors import OptionError, SchemaError, SupportError, quietly
from semiope.pipeline.evaluate import again
from semiope.pipeline.results import one_of
from semiope.pipeline.simulated import SimulatedWorld
from semiope.uncertainty.intervals import check_alpha

DATASETS = 100
FEWEST = 20
# Were intervals right, so few would hold the truth with this probability at most: red, amber.
RED_LEVEL, AMBER_LEVEL = 0.01, 0.1


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """Intervals of one estimator in datasets drawn from worlds like the data, beside the truth in each.

    `low`, `high`, `value` and `truth` have one entry a dataset; datasets in which the estimator could not be computed
    are left out.
    """

    policy: str
    estimator: str
    alpha: float
    low: Floats
    high: Floats
    value: Floats
    truth: Floats

    @property
    def held(self) -> Booleans:
        """Whether each interval holds the truth."""
        found: Booleans = (self.low <= self.truth) & (self.truth <= self.high)
        return found

    @property
    def coverage(self) -> float:
        """The share of intervals that hold the truth."""
        return float(np.mean(self.held))

    @property
    def std_error(self) -> float:
        """The standard error of the coverage."""
        return math.sqrt(self.coverage * (1 - self.coverage) / len(self.low))

    @property
    def wider(self) -> float:
        """How many times as wide intervals would have to be to hold the truth as often as they say; at least 1."""
        half = (self.high - self.low) / 2
        off = np.abs(self.truth - (self.low + self.high) / 2)
        ratios = np.divide(off, half, out=np.where(off > 0, np.inf, 0.0), where=half > 0)
        return max(1.0, float(np.quantile(ratios, 1 - self.alpha, method="higher")))

    @property
    def finding(self) -> Finding:
        """Red if so few intervals hold the truth that it is no chance."""
        from scipy.special import bdtr

        n, held = len(self.low), int(self.held.sum())
        chance = float(bdtr(held, n, 1 - self.alpha))
        light = RED if chance < RED_LEVEL else AMBER if chance < AMBER_LEVEL else GREEN
        sentence = (
            f"In {n} datasets drawn from worlds like these data, {held} of the {1 - self.alpha:.0%} intervals hold the "
            "truth"
        )
        if light == GREEN:
            sentence += ", as they should. Annotators who all share a bias are not rehearsed."
        else:
            sentence += f". Take intervals to be {self.wider:.1f} times as wide."
        way_out = "" if light == GREEN else "Ask more questions, or collect more episodes."
        rule = f"red if intervals that are right held so seldom in at most {RED_LEVEL:.0%} of rehearsals, amber: "
        return Finding("rehearsal", light, f"{held} of {n}", f"{rule}{AMBER_LEVEL:.0%}", sentence, way_out)

    def to_dict(self) -> dict[str, Any]:
        """As plain Python objects."""
        return {
            "policy": self.policy, "estimator": self.estimator, "datasets": len(self.low), "nominal": 1 - self.alpha,
            "coverage": self.coverage, "std_error": self.std_error, "wider": self.wider, "light": self.finding.light,
        }  # fmt: skip

    def __repr__(self) -> str:
        return f"{self.policy}, {self.estimator}: {self.finding.sentence}"


def rehearse(
    results: Any, *, estimator: str | None = None, datasets: int = DATASETS, alpha: float = 0.05, seed: Seed = 0,
    progress: Progress | None = None,
) -> Rehearsal:  # fmt: skip
    """Evaluate datasets drawn from worlds like the data by the same call, and see how often intervals hold the truth.

    Nobody knows the truth behind the data, but worlds like theirs can be drawn: from a model of logs and annotations
    with all that is not known of it (`SimulatedWorld`). Logs, questions and annotators are simulated as they were, and
    evaluated by exactly the same call. What was found is kept with the results: `so.diagnose` and `so.report` show it.

    Parameters
    ----------
    results
        What `so.evaluate` returns, of one policy with annotations.
    estimator
        Whose intervals are rehearsed. Default: the headline's.
    datasets
        How many are drawn; at least 20.
    alpha
        Intervals have the nominal coverage 1 - alpha.
    seed
        Of all that is drawn.
    progress
        Called with the number of datasets done and the number in all.
    """
    check_alpha(alpha)
    rng = generator(seed)
    if check_count(datasets, "datasets") < FEWEST:
        raise OptionError(f"datasets: {datasets} tell no coverage. Use at least {FEWEST}.")
    results = one_of(results, "rehearse")
    name, _, _ = results.chosen(estimator)
    with quietly():
        world = SimulatedWorld.like(results)
    found = np.full((datasets, 4), math.nan)
    for i in range(datasets):
        drawn = world.draw(rng)
        with suppress(SupportError, SchemaError):  # left out below
            estimate = again(results, episodes=drawn.episodes, annotations=drawn.annotations, estimators=[name])[name]
            found[i] = (*estimate.interval(alpha), estimate.value, drawn.truth)
        if progress:
            progress(i + 1, datasets)
    kept = found[np.isfinite(found).all(axis=1)]
    if len(kept) < datasets / 2:
        raise SupportError(f"rehearse: {name} could be computed in {len(kept)} of {datasets} datasets only.")
    rehearsal = Rehearsal(results.policy, name, alpha, *kept.T)
    results.origin.keep(f"rehearsal {name}", rehearsal)
    return rehearsal
