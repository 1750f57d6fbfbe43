"""The sections of a report, each a fragment of HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from semiope.data.episodes import Episodes
from semiope.diagnostics.episodes import Step, Told, influential
from semiope.diagnostics.findings import AMBER, GREEN, ORDER, RED, worst
from semiope.estimate.registry import ESTIMATORS
from semiope.pipeline.diagnosis import Diagnosis, trust
from semiope.pipeline.results import Results
from semiope.reporting.format import level, number
from semiope.reporting.svg import lamp
from semiope.uncertainty.comparison import Comparison, Standing

FOLDED = 6
# Features listed of a step, of many.
FEATURES_SHOWN = 8


def decision(comparison: Comparison, focus: Standing, diagnosis: Diagnosis) -> str:
    """The headline: is the policy better than what is done today, and can that be relied on?"""
    gap, today, others = focus.difference, comparison.today.value, len(comparison) - 1
    light = worst([diagnosis.light, GREEN if focus.surely else AMBER])
    several = f" for all {others + 1} policies together" if others else ""
    call, sure = _call(f"<bdi>“{escape(focus.policy)}”</bdi>", focus, light, f"{100 * comparison.alpha:g}%{several}")
    detail = (
        f"Estimated value {number(focus.value)} ({level(comparison.alpha)} interval {number(focus.interval.low)} to "
        f"{number(focus.interval.high)}), against {number(today)} achieved today: a difference of {gap.value:+.3g} "
        f"({gap.interval.low:+.3g} to {gap.interval.high:+.3g})."
    )
    lamps = [
        f"<p>{colour.capitalize()}: {escape('; '.join(one.name for one in diagnosis if one.light == colour))}.</p>"
        for colour in (RED, AMBER)
        if any(one.light == colour for one in diagnosis)
    ]
    return (
        f'<div class="decision {light}"><p>{lamp(light)}</p><p class="call">{call}</p><p>{escape(detail)}</p>'
        f"<p>{escape(sure)}</p>{''.join(lamps) or '<p>All lights below are green.</p>'}</div>"
    )


def _call(name: str, focus: Standing, light: str, rate: str) -> tuple[str, str]:
    """The decision in a sentence, and on what it rests."""
    sure = f"It is called so at an error rate of {rate} (one-sided); p = {focus.difference.p_value:.2g} for it alone."
    if light == RED:
        call = f"Whether {name} is better than today's policy cannot be decided from these data."
        return call, "The numbers are shown, but cannot be relied on."
    if focus.surely and light == GREEN:
        return f"{name} is better than today's policy.", sure
    if focus.surely:
        return f"{name} looks better than today's policy, if the amber lights below are no objection.", sure
    if focus.together.high < 0:
        return f"{name} is worse than today's policy.", f"The difference is below 0 at an error rate of {rate}."
    call = f"It is not shown that {name} is better than today's policy."
    return call, f"That would take a clearer difference, at an error rate of {rate}."


def findings(diagnosis: Diagnosis) -> str:
    """A list of lights, the worst first."""
    entries = "".join(
        f"<li>{lamp(one.light)}<p><strong>{escape(one.name)}</strong><br><small>{escape(one.figure)}</small></p>"
        f'<p class="meaning">{escape(one.sentence)}{_way_out(one.way_out)}<br>'
        f"<small>{escape(one.rule)}</small></p></li>"
        for one in sorted(diagnosis, key=lambda one: -ORDER.index(one.light))
    )
    return f'<ul class="findings">{entries}</ul>'


def lights(results: Mapping[str, Results], estimators: Sequence[str]) -> str:
    """Whether the interval of each estimate can be trusted, for all policies."""
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in estimators)
    body = "".join(
        f'<tr><th scope="row">{escape(policy)}</th>'
        + "".join(f"<td>{lamp(trust(one, name)) if name in one else ''}</td>" for name in estimators)
        + "</tr>"
        for policy, one in results.items()
    )
    return (
        '<div class="wide" tabindex="0" role="region" aria-label="Trust in each interval"><table><thead><tr>'
        f'<th scope="col">policy</th>{heads}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def episodes(results: Results, estimator: str) -> str:
    """The most influential episodes, to be opened one by one."""
    _, estimate, problem = results.chosen(estimator)
    logs = problem.evidence.logbook.episodes
    return "".join(_episode(one, estimate.value, logs) for one in influential(problem, estimate))


def _episode(told: Told, value: float, logs: Episodes) -> str:
    states = _states(told, logs)
    rows = "".join(_step(one, state) for one, state in zip(told.steps, states, strict=True))
    heads = ("step", "state", "done", "the policy would do", "experts expect", "reward", "still on path")
    summary = (
        f"Episode {told.episode}: return {number(told.achieved)}, weight {told.weight:.2g} times the mean; without it "
        f"the estimate would be about {number(value - told.moves)}"
    )
    return (
        f'<details><summary>{escape(summary)}</summary><div class="wide" tabindex="0" role="region" '
        f'aria-label="Episode {escape(str(told.episode))}"><table><thead><tr>'
        + "".join(f'<th scope="col">{head}</th>' for head in heads)
        + f"</tr></thead><tbody>{rows}</tbody></table></div></details>"
    )


def _states(told: Told, logs: Episodes) -> list[str]:
    """The state at each step of an episode: its label, or the features as they were read."""
    if logs.has_states or logs.features is None or logs.extra is None:
        return [str(one.state) for one in told.steps]
    first = int(logs.offsets[logs.labels.words.index(told.episode).as_py()])
    there = [name for name in logs.features.columns if name in logs.extra.column_names]
    shown, more = there[:FEATURES_SHOWN], ", ..." if len(there) > FEATURES_SHOWN else ""
    columns = logs.extra.slice(first, len(told.steps)).select(shown).to_pydict()
    return [
        ", ".join(f"{name} {_measured(columns[name][k])}" for name in shown) + more if one.action is not None else "-"
        for k, one in enumerate(told.steps)
    ]


def _measured(value: Any) -> str:
    """A measurement in short; a gap that was filled is called missing."""
    if value is None or value != value:
        return "missing"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _step(one: Step, state: str) -> str:
    chosen = ", ".join(f"{escape(str(action))} {_share(prob)}" for action, prob in one.chosen) or "-"
    answers = ", ".join(f"{escape(str(action))}: {number(value)}" for action, value in one.answers) or "-"
    done = "-" if one.action is None else escape(str(one.action))
    agrees = one.action is None or any(action == one.action for action, _ in one.chosen)
    mark = done if agrees else f"{done} <small>(left)</small>"
    return (
        f'<tr><th scope="row">{one.step}</th><td>{escape(state)}</td><td>{mark}</td><td>{chosen}</td>'
        f'<td>{answers}</td><td class="number">{one.reward:g}</td><td class="number">{_share(one.follows)}</td></tr>'
    )


def _share(share: float) -> str:
    return f"{share:.0%}" if share >= 0.1 or share == 0 else f"{share:.1%}"


def methods(settings: Mapping[str, Any], estimators: Sequence[str]) -> str:
    """What was computed and how."""
    told = {
        key: ", ".join(map(str, value)) if isinstance(value, list) else str(value) for key, value in settings.items()
    }
    listed = "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in told.items() if value)
    meanings = "".join(f"<dt>{escape(name)}</dt><dd>{escape(ESTIMATORS[name].meaning)}</dd>" for name in estimators)
    return f"<h3>Settings</h3><dl>{listed}</dl><h3>Estimators</h3><dl>{meanings}</dl>"


def items(lines: Sequence[str]) -> str:
    """A list, folded if it is long."""
    listed = f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>" if lines else "<p>None.</p>"
    if len(lines) <= FOLDED:
        return listed
    return f"<details><summary>{len(lines)} notes and warnings</summary>{listed}</details>"


def _way_out(text: str) -> str:
    return f" <strong>{escape(text)}</strong>" if text else ""
