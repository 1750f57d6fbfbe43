"""Curves over noise and over the share annotated: three panels each, as in Figures 5, 11 and 12."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from semiope._arrays import Floats
from semiope.paper import figures
from semiope.paper.measures import COMPARE, VARY_NOISE, VARY_SHARE, gathered, measure
from semiope.paper.pages import Claim, Table
from semiope.paper.pieces import Pieces
from semiope.paper.setup import Setup
from semiope.paper.trials import LEVELS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Measure, label, range and ticks of each panel: those of the paper.
PANELS = (
    ("rmse", "RMSE", (0.0, 0.15), (0.0, 0.05, 0.1, 0.15)),
    ("spearman", "Spearman", (0.45, 1.05), (0.5, 0.75, 1.0)),
    ("accuracy", "Accuracy", (0.7, 1.05), (0.7, 0.8, 0.9, 1.0)),
)
NOISE, SHARE = "Annotation noise (std)", "Share annotated"


class Curve(NamedTuple):
    """Each measure per level and dataset."""

    name: str
    measures: dict[str, Floats]
    colour: str
    dashes: str
    marker: str

    def mean(self, metric: str) -> Floats:
        """Over datasets."""
        found: Floats = self.measures[metric].mean(axis=1)
        return found

    def std(self, metric: str) -> Floats:
        """Over datasets."""
        found: Floats = self.measures[metric].std(axis=1)
        return found


class Sweep(NamedTuple):
    """What varies, what is not varied beside it, and the curves."""

    varied: str
    baseline: Curve
    curves: list[Curve]


def over_noise(setup: Setup, found: Pieces, which: str) -> Sweep:
    """Noise in answers to `all` questions, or to a `tenth`."""
    levels = gathered(setup, found, VARY_NOISE)[which]
    bars = gathered(setup, found, COMPARE)["mean return"]
    return Sweep(NOISE, _baseline(setup, found), [_curve("C*-PDIS", levels, bars, figures.BLUE, "-", "o")])


def over_share(setup: Setup, found: Pieces, std: float) -> Sweep:
    """The share of questions answered with this much noise, as they are and imputed."""
    data = gathered(setup, found, VARY_SHARE)
    bars = gathered(setup, found, COMPARE)["mean return"]
    curves = [
        _curve("C*-PDIS", data[f"{std} plain"], bars, figures.BLUE, "-", "o"),
        _curve("C*-PDIS, imputed", data[f"{std} imputed"], bars, figures.RED, "--", "s"),
    ]
    return Sweep(SHARE, _baseline(setup, found), curves)


def _baseline(setup: Setup, found: Pieces) -> Curve:
    data = gathered(setup, found, COMPARE)
    levels = np.repeat(data["pdis"][:, None], len(LEVELS), axis=1)
    return _curve("PDIS (no annotations)", levels, data["mean return"], figures.GRAY, ":", "")


def _curve(name: str, levels: Floats, bars: Floats, colour: str, dashes: str, marker: str) -> Curve:
    """From estimates (datasets, levels, policies, 3)."""
    measured = [measure(levels[:, level], bars) for level in range(len(LEVELS))]
    kept = {metric: np.array([one[metric] for one in measured]) for metric, *_ in PANELS}
    kept["accuracy"] = kept["accuracy"] / 100
    return Curve(name, kept, colour, dashes, marker)


def draw(axes: list[Axes], sweep: Sweep, *, labels: bool = True) -> None:
    """Three panels one below the other: means, and bands of a standard deviation."""
    for one, (metric, label, limits, ticks) in zip(axes, PANELS, strict=True):
        for curve in (sweep.baseline, *sweep.curves):
            mean, std = curve.mean(metric), curve.std(metric)
            one.fill_between(LEVELS, mean - std, mean + std, color=curve.colour, alpha=0.18, lw=0)
            one.plot(LEVELS, mean, color=curve.colour, ls=curve.dashes, marker=curve.marker, ms=2.2, label=curve.name)
        one.set(xlim=(0, 1), ylim=limits, yticks=ticks, xticks=(0, 0.2, 0.4, 0.6, 0.8, 1.0))
        if labels:
            one.set_ylabel(label)
        one.tick_params(labelbottom=one is axes[-1])
    axes[-1].set_xlabel(sweep.varied)


def table(sweep: Sweep) -> Table:
    """RMSE, Spearman and accuracy by level."""
    curves = [sweep.baseline, *sweep.curves] if len(sweep.curves) > 1 else sweep.curves
    headings = [f"{label}, {curve.name}" for _, label, *_ in PANELS for curve in curves]
    body = []
    for i, level in enumerate(LEVELS):
        pairs = [(curve.mean(metric)[i], curve.std(metric)[i]) for metric, *_ in PANELS for curve in curves]
        body.append((f"{level:g}", *(f"{mean:.3f} ± {std:.3f}" for mean, std in pairs)))
    return Table((sweep.varied, *headings), body)


def rows(sweep: Sweep, **where: Any) -> list[dict[str, Any]]:
    """A row for each curve and level."""
    found = []
    for curve in (sweep.baseline, *sweep.curves):
        for i, level in enumerate(LEVELS):
            numbers = {
                key: float(values[i])
                for metric, *_ in PANELS
                for key, values in ((metric, curve.mean(metric)), (f"{metric} std", curve.std(metric)))
            }
            found.append({**where, "estimator": curve.name, "varied": sweep.varied, "level": level, **numbers})
    return found


def noise_claims(all_answered: Sweep) -> list[Claim]:
    """What the text says of noise, if all questions are answered."""
    [curve] = all_answered.curves
    rmse, baseline = curve.mean("rmse"), all_answered.baseline.mean("rmse")
    better = {
        metric: bool(np.all((curve.mean(metric) - all_answered.baseline.mean(metric)) * sign > 0))
        for metric, sign in (("rmse", -1), ("spearman", 1), ("accuracy", 1))
    }
    return [
        Claim(f"C*-PDIS at noise 1.0 is still better than PDIS (RMSE {rmse[-1]:.3f} against {baseline[-1]:.3f})",
              rmse[-1] < baseline[-1]),
        Claim("it is so at every level, in RMSE, rank correlation and accuracy", all(better.values())),
    ]  # fmt: skip


def share_claims(sweep: Sweep, std: float) -> list[Claim]:
    """What the text says of missing answers."""
    plain, imputed = sweep.curves
    inner, steps = slice(1, -1), np.diff(plain.mean("rmse"))
    gain = plain.mean("rmse")[inner] - imputed.mean("rmse")[inner]
    told = f"noise {std:g}: "
    return [
        Claim(f"{told}RMSE falls with every further tenth annotated (by at least {-steps.max():.4f})", steps.max() < 0),
        Claim(f"{told}rank correlation rises with every further tenth", np.diff(plain.mean("spearman")).min() > 0),
        Claim(f"{told}imputation is better in RMSE at every share from 0.1 to 0.9 (least gain {gain.min():.4f})",
              bool(np.all(gain > 0))),
        Claim(f"{told}with everything annotated C*-PDIS is better than PDIS",
              plain.mean("rmse")[-1] < sweep.baseline.mean("rmse")[-1]),
    ]  # fmt: skip


HEAVY_TAILS = (
    "PDIS has heavy tails: in some datasets a single estimate is off by 1 and more, which moves the mean of its RMSE "
    "and widens its band. The paper's 50 datasets hold none that far out; other seeds do or do not."
)
