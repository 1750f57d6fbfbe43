"""`so.report`: one self-contained page to put before a committee."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from semiope._version import __version__
from semiope.diagnostics.episodes import MOST
from semiope.errors import OptionError, SchemaError, SemiopeError, nearest
from semiope.models.counted import Counted
from semiope.pipeline.compare import common_estimator, compare
from semiope.pipeline.diagnosis import diagnose
from semiope.pipeline.results import Results, named
from semiope.reporting import plot, sections
from semiope.reporting.files import checked, write_page
from semiope.reporting.format import level
from semiope.reporting.models import state_and_models
from semiope.uncertainty.bootstrap import RESAMPLES
from semiope.uncertainty.comparison import Comparison, is_comparable
from semiope.uncertainty.intervals import check_alpha, check_method

# Options of `so.evaluate` that are said again if they are not these.
USUAL = {
    "behavior": None, "cell": "state", "estimators": None, "weights": "equal", "repair": None, "model": None,
    "means": "cell", "gamma": 1.0,
}  # fmt: skip


@dataclass(frozen=True)
class Report:
    """A page; notebooks show it, `save` writes it."""

    html: str
    path: str = ""

    def save(self, path: str | Path) -> Path:
        """Write the page to a file that ends in .html."""
        return write_page(path, self.html, "report")

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{escape(self.html)}" title="report" style="width:100%;height:40rem"></iframe>'

    def __repr__(self) -> str:
        return f"Report({self.path or 'not saved'}, {len(self.html) / 1000:,.0f} kB)"


def report(
    results: Any,
    path: str | Path | None = None,
    *,
    estimator: str | None = None,
    focus: str | None = None,
    alpha: float = 0.05,
    ci: str = "t",
    seed: int = 0,
    title: str = "Policy evaluation",
    command: str | None = None,
) -> Report:
    """Write what was found, whether it can be trusted and how, as one page without anything from outside.

    Parameters
    ----------
    results
        What `so.evaluate` returns, for one policy or for several.
    path
        File to write, ending in .html; None: only return the report.
    estimator
        By which policies are compared and judged. Default: as for `so.compare`.
    focus
        The policy that diagnostics, support, weights and episodes are shown of. Default: the one that ranks first.
    alpha, ci, seed
        As for intervals; alpha is also the error rate of decisions.
    title
        Heading of the page.
    command
        How to run it again, if not by Python.
    """
    check_alpha(alpha)
    check_method(ci)
    several = named(results, "report")
    if path is not None:
        checked(path, "report")
    first = next(iter(several.values()))
    if first.origin.episodes.n_episodes < 2:
        raise SchemaError("report: there is only one episode, and an interval needs at least two.")
    if focus is not None and focus not in several:
        raise OptionError(f"report: there is no policy {focus!r}.{nearest(str(focus), several)}")
    by = common_estimator(several, estimator)
    left_out = [name for name, one in several.items() if not is_comparable(one[by])]
    several = {name: one for name, one in several.items() if name not in left_out} or several
    comparison = compare(several, estimator=by, alpha=float(alpha), seed=seed)
    if focus is None:
        focus = next((name for name in comparison if comparison.supported(name)), next(iter(comparison)))
    elif focus in left_out:
        raise OptionError(f"report: the estimate of {focus!r} is no number that can be compared. Leave it out.")
    page = _page(several, focus, comparison, left_out, title=str(title), ci=ci, seed=seed, command=command)
    made = Report(page, "" if path is None else str(path))
    if path is not None:
        made.save(path)
    return made


def _page(
    several: Mapping[str, Results], focus: str, comparison: Comparison, left_out: list[str], *, title: str, ci: str,
    seed: int, command: str | None,
) -> str:  # fmt: skip
    by, chosen = comparison.estimator, several[focus]
    diagnosis = diagnose(chosen, estimator=by, seed=seed)
    estimators = list(dict.fromkeys(name for one in several.values() for name in one))
    alpha, name = comparison.alpha, f"<bdi>{escape(focus)}</bdi>"
    ordered = {policy: several[policy] for policy in comparison}
    options: dict[str, Any] = {"alpha": alpha, "ci": ci, "seed": seed}
    settings = {key: value for key, value in chosen.settings.items() if key != "semiope"}
    about = f"{settings['episodes']:,} episodes, {settings['steps']:,} steps, discount factor {settings['gamma']:g}"
    notes = dict.fromkeys(note for one in several.values() for note in one.diagnostics["notes"])
    warned = dict.fromkeys(message for one in several.values() for message in one.warnings)
    every = plot.forest(ordered, **options).content
    many = len(several) * len(estimators) > 12
    figures = [picture.content for picture in (plot.weights(chosen), plot.ess(chosen))]
    blocks = {
        "Decision": sections.decision(comparison, comparison[focus], diagnosis),
        "Estimates": f"<h3>By {by}</h3>"
        + plot.forest(ordered, estimators=[by], **options).content
        + _folded("All estimators", every, fold=many),
        "Ranking": plot.ranking(comparison).content,
        "Diagnostics": f"<p>Of {name} by {by}; the worst light is {diagnosis.light}.</p>"
        + sections.findings(diagnosis)
        + f"<h3>Which intervals to trust</h3>{sections.lights(ordered, estimators)}",
        "State and models": f"<p>As they were fitted for {name}.</p>" + state_and_models(chosen),
        "Support": plot.support(chosen, estimator=by).content,
        "Weights": f'<div class="figures"><div><h3>How the weight is shared out</h3>{figures[0]}</div>'
        f"<div><h3>Effective sample size over steps</h3>{figures[1]}</div></div>",
        "Returns": _returns(chosen, by),
        "Episodes": f"<p>The {MOST} that move the estimate of {name} most.</p>" + sections.episodes(chosen, by),
        "Methods": _methods(settings, options) + sections.methods(settings | options, estimators),
        "Warnings": sections.items([*_missing(left_out), *notes, *warned]),
        "Run it again": f"<pre>{escape(command or _python(chosen, focus, comparison, ci))}</pre>",
    }
    links = "".join(f'<li><a href="#{_anchor(head)}">{head}</a></li>' for head in blocks)
    body = "".join(
        f'<section id="{_anchor(head)}" aria-labelledby="{_anchor(head)}-head">'
        f'<h2 id="{_anchor(head)}-head">{head}</h2>{block}</section>'
        for head, block in blocks.items()
    )
    css = plot.styles() + files("semiope.reporting").joinpath("page.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en" class="semiope"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{escape(title)}</title><link rel="icon" href="data:,"><style>{css}</style></head><body>'
        f'<header><h1>{escape(title)}</h1><p class="sub">{about}; {len(several)} '
        f"{'policy' if len(several) == 1 else 'policies'}.</p></header>"
        f'<nav aria-label="Sections"><ul>{links}</ul></nav><main>{body}</main>'
        f"<footer>Made by semiope {__version__}.</footer></body></html>\n"
    )


def _folded(head: str, content: str, *, fold: bool) -> str:
    return f"<details><summary>{head}</summary>{content}</details>" if fold else f"<h3>{head}</h3>{content}"


def _missing(left_out: list[str]) -> list[str]:
    if not left_out:
        return []
    return [f"Left out, because their estimates are no numbers that can be compared: {', '.join(left_out[:10])}."]


def _returns(results: Results, estimator: str) -> str:
    try:
        return plot.returns(results, estimator=estimator).content
    except SemiopeError as error:
        return f"<p>{escape(str(error))}</p>"


def _methods(settings: Mapping[str, Any], options: Mapping[str, Any]) -> str:
    known = {"counted": "counted from the logs", "given": "as given", "fitted": "fitted to the features"}
    origin = settings["behavior"]
    behavior = known.get(origin, f"taken from the {origin}")
    unknown = {
        "counted": "; that the behaviour policy was counted is known in differences, not in intervals of values",
        "fitted": "; that the behaviour policy was fitted is not in those of estimators that divide by it",
    }.get(origin, "")
    return (
        "<p>Values are estimated from logged episodes by weighting what happened, and what experts expect, by how "
        f"much more or less often the new policy would have done it. The behaviour policy is {behavior}. "
        f"{level(options['alpha'])} intervals ({options['ci']}) are over episodes, by ratios of sums; differences are "
        f"paired by episode; statements for all policies at once come from {RESAMPLES} resamples of episodes. What is "
        "achieved today is the mean return of the logged episodes. Intervals contain what was fitted, repaired or "
        f"weighed on the way{unknown}.</p>"
    )


def _python(results: Results, focus: str, comparison: Comparison, ci: str) -> str:
    """The calls that made it; what cannot be written down is named."""
    options = results.origin.options
    given = ["episodes", "policies"]
    given += ["annotations=annotations"] if results.origin.annotations is not None else []
    for name, usual in USUAL.items():
        value = options[name]
        if isinstance(value, str | float | list):
            given += [] if value == usual else [f"{name}={value!r}"]
        elif value is not None and getattr(value, "told", "") != Counted().told:
            given.append(f"{name}={name}")
    return (
        f"import semiope as so\n\n{_reading(results)}results = so.evaluate({', '.join(given)})\n"
        f'so.report(results, "report.html", estimator={comparison.estimator!r}, focus={focus!r}, '
        f"alpha={comparison.alpha!r}, ci={ci!r}, seed={comparison.seed})"
    )


def _reading(results: Results) -> str:
    """How episodes with features were read."""
    features = results.origin.episodes.features
    if features is None:
        return ""
    imputed = ', missing="impute"' if features.imputed else ""
    return f"episodes = so.read_episodes(episodes, features={list(features.columns)!r}{imputed})\n"


def _anchor(head: str) -> str:
    return head.lower().replace(" ", "-")
