"""`so.plot`: the figures of the report on their own, for notebooks and files.

Each takes what `so.evaluate` returns, for one policy or for several, and gives a `Picture`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from semiope.diagnostics.coverage import support_map
from semiope.diagnostics.overlap import NEGLIGIBLE, RARE, overlap_by_features
from semiope.diagnostics.weight import weights_by_step
from semiope.estimate.problem import Problem
from semiope.estimate.registry import ESTIMATORS, canonical
from semiope.pipeline.compare import compare
from semiope.pipeline.diagnosis import trust
from semiope.pipeline.results import Results, named, one_of
from semiope.reporting.files import write_page
from semiope.reporting.format import level, number
from semiope.reporting.svg import Axis, Line, box, drawing, lamp, lines, strip, text
from semiope.uncertainty.comparison import Comparison

__all__ = ["Picture", "ess", "forest", "ranking", "returns", "support", "weights"]
STATES = 15


@dataclass(frozen=True)
class Picture:
    """A figure as HTML with drawings in SVG; notebooks show it, `save` writes a page of its own."""

    title: str
    content: str

    def _repr_html_(self) -> str:
        return f'<div class="semiope"><style>{styles()}</style>{self.content}</div>'

    def save(self, path: str | Path) -> Path:
        """Write it as a page (.html)."""
        page = (
            f'<!doctype html><html lang="en" class="semiope"><meta charset="utf-8"><title>{escape(self.title)}</title>'
            f"<style>{styles()}\nhtml {{ background: var(--paper); color: var(--ink); font: 16px system-ui; }}</style>"
            f"<body><main><h1>{escape(self.title)}</h1>{self.content}</main></body></html>\n"
        )
        return write_page(path, page, "save")

    def __repr__(self) -> str:
        return f"Picture({self.title})"


@cache
def styles() -> str:
    """The style sheet of all figures."""
    return files("semiope.reporting").joinpath("style.css").read_text(encoding="utf-8")


def forest(
    results: Any, *, estimators: Sequence[str] | str | None = None, alpha: float = 0.05, ci: str = "t", seed: int = 0
) -> Picture:
    """Estimates with their intervals, one row each, beside what is achieved today.

    Markers tell by colour and shape whether an interval can be trusted: circle yes, triangle doubtful, square no.
    """
    several = named(results, "plot")
    chosen = _chosen(several, estimators)
    rows = [
        (policy, name, one[name].value, *one[name].interval(alpha, ci, seed=seed), trust(one, name))
        for policy, one in several.items()
        for name in chosen
        if name in one
    ]
    today = next(iter(several.values())).origin.observed.value
    axis = _range([row[2:5] for row in rows], today)
    body, previous = [], None
    for policy, name, value, low, high, light in rows:
        head = "" if policy == previous else f"<bdi>{escape(policy)}</bdi>"
        previous = policy
        what = f"{head}<br><small>{escape(name)}</small>" if head else f"<small>{escape(name)}</small>"
        told = f"{number(value)}<br><small>{number(low)} to {number(high)}</small>"
        body.append(
            f'<tr><th scope="row">{what}</th><td class="number">{told}</td>'
            f'<td class="across">{strip(axis, low, value, high, today, light)}</td>'
            f"<td>{lamp(light).replace('lamp', 'lamp brief', 1)}</td></tr>"
        )
    heads = f'<th scope="col">policy</th><th scope="col" class="number">value<br>{level(alpha)} interval</th>'
    content = (
        f"<p><small>Dashed: what is achieved today, {number(today)}.</small></p>"
        f'<table class="forest"><thead><tr>{heads}'
        f'<td class="across"><div class="scale" aria-hidden="true">{_scale(axis)}</div></td>'
        f'<th scope="col">trust</th></tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table>"
    )
    return Picture("Estimates and intervals", content)


def ranking(comparison: Any) -> Picture:
    """Policies by rank, with their difference to today's and its p-value; from `so.compare` or results."""
    found = comparison if isinstance(comparison, Comparison) else compare(comparison)
    body = []
    for one in found.values():
        gap = one.difference
        body.append(
            f'<tr><th scope="row"><bdi>{escape(one.policy)}</bdi></th><td>{found.call(one.policy)}</td>'
            f'<td class="number">{gap.value:+.3g}<br><small>{gap.interval.low:+.3g} to {gap.interval.high:+.3g}</small>'
            f'</td><td class="number">{one.rank} <small>({one.ranks.low:.0f} to {one.ranks.high:.0f})</small></td>'
            f'<td class="number">{one.best:.0%}</td><td class="number">{_p(gap.p_value)}</td></tr>'
        )
    caption = (
        f"By {escape(found.estimator)}, against {number(found.today.value)} achieved today; the same resamples for all "
        "policies. Calls hold if the interval can be trusted."
    )
    heads = (f"difference, {level(found.alpha)}", "rank", "first in resamples", "p, one-sided")
    head = "".join(f'<th scope="col" class="number">{one}</th>' for one in heads)
    content = (
        f"<p><small>{caption}</small></p>"
        '<div class="wide" tabindex="0" role="region" aria-label="Table of ranks"><table>'
        f'<thead><tr><th scope="col">policy</th><th scope="col">better than today\'s</th>{head}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )
    return Picture("Ranking", content)


def support(results: Any, *, estimator: str | None = None, most: int = STATES) -> Picture:
    """Where the policy would do what nobody did: by state, before and after annotations."""
    one = one_of(results, "plot")
    problem = one.chosen(estimator).problem
    if not problem.evidence.logbook.episodes.has_states:
        return Picture(f"Support of {one.policy}, by features", _regions(problem))
    found = support_map(problem)
    title = f"Support of {one.policy}, by state"
    worst = np.lexsort((-found.decisions, -found.logged * found.decisions))[:most]
    shown = [int(i) for i in worst if found.logged[i] > 0]
    if not shown:
        return Picture(title, "<p>Everything that the policy would do was done, in every state.</p>")
    height, parts = 22, []
    for place, i in enumerate(shown):
        y, before, after = place * height + 4, found.logged[i], found.augmented[i]
        label = str(found.state[i])
        parts += [
            text(96, y + 12, label if len(label) <= 14 else f"{label[:13]}…", "end"),
            box("bar", 104, y, 190, 16),
            box("lacking", 104, y, 190 * after, 16),
            box("outline", 104, y, 190 * before, 16),
            text(302, y + 12, f"{before:.0%} → {after:.0%}, n {found.decisions[i]:,}"),
        ]
    told = "; ".join(
        f"{found.state[i]}: {found.logged[i]:.0%} before, {found.augmented[i]:.0%} after" for i in shown[:5]
    )
    note = (
        "<p>The states in which the policy would do what nobody did. Red outline: share of its decisions on actions "
        "that were never taken there. Filled red: of these, what nobody answered for either. n: decisions logged.</p>"
    )
    return Picture(title, note + drawing(title, told, "".join(parts), height=len(shown) * height + 8))


def _regions(problem: Problem) -> str:
    """Where the policy does what was hardly ever done, as a table of regions of the feature space."""
    found = problem.once(overlap_by_features)
    if found is None:
        return "<p>It takes the behavior policy of all actions to tell, and that of actions taken alone is known.</p>"
    regions = [one for one in found.regions if one.rare > NEGLIGIBLE]
    if not regions:
        return "<p>The policy does nothing that was hardly ever done at decisions with such features.</p>"
    rows = "".join(
        f'<tr><th scope="row">{escape(one.where)}</th><td class="number">{one.share:.0%}</td>'
        f'<td class="number">{one.rare:.1%}</td><td>{escape(str(one.action))}</td>'
        f'<td class="number">{one.wanted:.0%}</td><td class="number">{one.taken:.0%}</td>'
        f'<td class="number">{one.annotated:,}</td></tr>'
        for one in regions
    )
    heads = ("where", "decisions", "hardly ever done", "most of it", "the policy takes it", "was taken", "annotations")
    return (
        f"<p>{found.rare:.1%} of the policy's decisions at the logged steps are actions that it takes more than "
        f"{1 / RARE:.0f} times as often as the behavior policy. A small tree of the features tells where.</p>"
        '<div class="wide" tabindex="0" role="region" aria-label="Support by features"><table><thead><tr>'
        + "".join(f'<th scope="col">{head}</th>' for head in heads)
        + f"</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def weights(results: Any, *, estimators: Sequence[str] | str | None = None) -> Picture:
    """How the weight is shared out: the heaviest episodes first, one line an estimator."""
    one = one_of(results, "plot")
    drawn = []
    for name in _weighted(one, estimators):
        heaviest = np.sort(one[name].normalizers)[::-1]
        share = np.cumsum(heaviest) / max(float(heaviest.sum()), 1e-300)
        at = np.unique(np.concatenate([np.geomspace(1, len(share), 60).astype(int), [len(share)]]))
        drawn.append(Line(name, np.append(0, at / len(share)), np.append(0, share[at - 1])))
    told = "; ".join(f"{line.name}: the heaviest tenth carries {np.interp(0.1, line.x, line.y):.0%}" for line in drawn)
    x, y = Axis("share of the episodes, heaviest first", 0, 1, True), Axis("share of the weight", 0, 1, True)
    return Picture(f"Weights of {one.policy}", lines(f"Weights of {one.policy}", told, x, y, drawn))


def ess(results: Any, *, estimators: Sequence[str] | str | None = None) -> Picture:
    """Effective sample size from step to step, one line an estimator."""
    one = one_of(results, "plot")
    n, drawn = one.origin.episodes.n_episodes, []
    for name in _weighted(one, estimators):
        kind = ESTIMATORS[name]
        found = weights_by_step(one.origin.weighed.seen_by(kind), kind.recipe).ess / n
        drawn.append(Line(name, np.arange(len(found), dtype=np.float64), found))
    longest = max((len(line.x) for line in drawn), default=1)
    told = "; ".join(f"{line.name}: {line.y[0]:.0%} at the first step, {line.y[-1]:.0%} at the last" for line in drawn)
    title = f"Effective sample size of {one.policy} over steps"
    x, y = Axis("step", 0, max(longest - 1, 1)), Axis("effective share of episodes", 0, 1, True)
    return Picture(title, lines(title, told, x, y, drawn))


def returns(results: Any, *, estimator: str | None = None) -> Picture:
    """How returns are distributed: under the policy, as estimated, and today."""
    one = one_of(results, "plot")
    found, today = one.distribution(estimator), np.sort(one.origin.observed.values)
    ends = float(min(found.returns[0], today[0])), float(max(found.returns[-1], today[-1]))
    at = np.linspace(*ends, 241) if ends[1] > ends[0] else np.array([ends[0]])
    drawn = [
        Line(one.policy, at, found.cdf(at)),
        Line("today, as observed", at, np.searchsorted(today, at, side="right") / len(today)),
    ]
    worst = found.cvar(0.1)
    lowest = "mean of the worst tenth" + (", at best" if found.share_answered else "")
    told = f"Mean of the worst tenth {worst:.3g}, below today's mean return with {found.cdf(float(today.mean())):.0%}"
    title = f"Returns under {one.policy}"
    chart = lines(title, told, Axis("return", *ends), Axis("share of at most that", 0, 1, True), drawn, stairs=True)
    table = "".join(
        f'<tr><th scope="row">{what}</th>'
        f'<td class="number">{number(new)}</td><td class="number">{number(old)}</td></tr>'
        for what, new, old in (
            ("mean", found.mean, float(today.mean())),
            ("median", found.quantile(0.5), float(np.quantile(today, 0.5, method="inverted_cdf"))),
            (
                lowest,
                worst,
                float(today[: max(1, round(0.1 * len(today)))].mean()),
            ),
        )
    )
    head = "".join(f'<th scope="col" class="number">{who}</th>' for who in ("policy", "today"))
    head = f'<th scope="col">of returns</th>{head}'
    content = f"{chart}<table><thead><tr>{head}</tr></thead><tbody>{table}</tbody></table>"
    return Picture(title, f"<p>{escape(found.note)}</p>{content}")


def _chosen(several: Mapping[str, Results], estimators: Sequence[str] | str | None) -> list[str]:
    if estimators is None:
        return list(dict.fromkeys(name for one in several.values() for name in one))
    wanted = estimators.split(",") if isinstance(estimators, str) else estimators
    return [canonical(name) for name in wanted]


def _weighted(results: Results, estimators: Sequence[str] | str | None) -> list[str]:
    """Estimators with weights of their own: one of each kind unless they are named."""
    if estimators is not None:
        return _chosen({results.policy: results}, estimators)
    found: dict[Any, str] = {}
    for name in results:
        kind = ESTIMATORS[name]
        if not kind.model_only and not kind.recipe.per_step and not kind.naive:
            found.setdefault(kind.recipe.factor, name)
    return list(found.values())


def _range(rows: Sequence[Sequence[float]], today: float) -> Axis:
    """An axis that holds all values, and of intervals as much as does not make the others illegible."""
    finite = [row for row in rows if all(math.isfinite(end) for end in row)]
    values = [today, *(row[0] for row in finite)]
    low, high = min(values), max(values)
    widths = sorted(row[2] - row[1] for row in finite)
    room = max(high - low, widths[len(widths) // 2] if widths else 0.0, 1e-3 * max(abs(low), abs(high), 1e-300))
    ends = [end for row in finite for end in row[1:]]
    low, high = max(low - room, min(ends, default=low)), min(high + room, max(ends, default=high))
    margin = 0.04 * (high - low) or room
    return Axis("", min(low, *values) - margin, max(high, *values) + margin)


def _scale(axis: Axis) -> str:
    """Numbers over the strips, in text that keeps its size."""
    ticks = [(4 + 92 * axis.share(tick), axis.text(tick)) for tick in axis.ticks()]
    return "".join(f'<span class="tick" style="left:{at:.1f}%">{escape(text)}</span>' for at, text in ticks)


def _p(value: float) -> str:
    return "&lt; 0.0001" if value < 1e-4 else f"{value:.2g}"
