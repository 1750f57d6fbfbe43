"""Tables of a gauntlet, as a page of the documentation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from datasets import UNBIASED

Row = dict[str, Any]
# Share of the questions asked that the Garnet family is judged at.
GARNET = 0.02, 0.5


def report(rows: list[Row]) -> str:
    """All tables of what was run."""
    parts: dict[str, list[Row]] = {}
    for row in rows:
        parts.setdefault(row["part"], []).append(row)
    sections = [
        _plain(parts.get("plain", []), parts.get("baselines", [])), _hidden(parts.get("plain", [])),
        _repairs([*parts.get("repairs", []), *_as_repairs(parts.get("converted", []))]),
        _equal(parts.get("equal", [])), _biases(parts),
        _planned(parts.get("planned", [])), _studies("Studies, questions drawn at random", parts.get("studies", [])),
        _studies("Studies, best questions", parts.get("best studies", [])), _features(parts.get("features", [])),
        _rehearsed(parts.get("rehearsed", []), parts.get("unbiased", [])), _errors(rows),
    ]  # fmt: skip
    return "\n\n".join(section for section in sections if section) + "\n"


def covered(row: Row, found: Row | None = None) -> bool:
    """Whether an interval holds the truth, as far as that is known."""
    found = row["found"] if found is None else found
    margin = 2 * row["truth_error"]
    return bool(found["low"] - margin <= row["truth"] <= found["high"] + margin)


def _off(row: Row, value: float) -> float:
    return (value - row["truth"]) / float(row["unit"])


def _rms(numbers: Iterable[float]) -> float:
    found = np.array([number for number in numbers if math.isfinite(number)])
    return float(np.sqrt(np.mean(found**2))) if len(found) else math.nan


def _share(flags: Sequence[bool]) -> str:
    return f"{np.mean(flags):.1%}" if len(flags) else "-"


def _groups(rows: list[Row], by: str) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row[by], []).append(row)
    return found


def table(headings: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    rows = ["| " + " | ".join(line) + " |" for line in (headings, ["---"] * len(headings), *lines)]
    return "\n".join(rows)


def _fine(rows: list[Row]) -> list[Row]:
    return [row for row in rows if "error" not in row["found"]]


def _plain(rows: list[Row], baselines: list[Row]) -> str:
    """The plain call: by family, by kind of annotators, by how questions came about."""
    exact = {(row["family"], row["seed"]): row["found"] for row in _fine(baselines)}
    shown = [row for row in _fine(rows) if not row["hidden"]]
    if not shown:
        return ""
    headings = (
        "", "datasets", "covered", "covered or red", "uncovered: red", "red", "green and off by 4 se", "median width",
        "error", "of exact", "of c-pdis", "of the paper's repair", "wrong better calls",
    )  # fmt: skip

    def line(name: str, those: list[Row]) -> list[str]:
        held = [covered(row) for row in those]
        red = [row["found"]["light"] == "red" for row in those]
        missed = [r for h, r in zip(held, red, strict=True) if not h]
        far = [
            row["found"]["light"] == "green"
            and abs(row["found"]["value"] - row["truth"]) > 4 * row["found"]["std_error"]
            for row in those
        ]
        width = np.median([(row["found"]["high"] - row["found"]["low"]) / row["unit"] for row in those])
        own = _rms(_off(row, row["found"]["value"]) for row in those)

        def beside(value: Callable[[Row], float]) -> str:
            known = [row for row in those if (row["family"], row["seed"]) in exact and math.isfinite(value(row))]
            if not known:
                return "-"
            mine = _rms(_off(row, row["found"]["value"]) for row in known)
            return f"{mine / _rms(_off(row, value(row)) for row in known):.2f}"

        worse = [row["found"]["better"] for row in those if row["truth"] <= row["truth_behavior"]]
        return [
            name, str(len(those)), _share(held), _share([h or r for h, r in zip(held, red, strict=True)]),
            f"{sum(missed)} of {len(missed)}", _share(red), f"{sum(far)}", f"{width:.2f}", f"{own:.3f}",
            beside(lambda row: exact[row["family"], row["seed"]]["exact"]),
            beside(lambda row: row["found"]["c-pdis"]["value"]),
            beside(lambda row: exact[row["family"], row["seed"]]["paper"] or math.nan),
            f"{sum(worse)} of {len(worse)}",
        ]  # fmt: skip

    lines = [line("**all**", shown)]
    lines += [line(name, those) for name, those in _groups(shown, "family").items()]
    low, high = GARNET
    some = [row for row in shown if row["family"] == "garnet" and low <= row["share"] <= high]
    right = [row for row in some if row["kind"] in UNBIASED]
    lines += [line("garnet, 2% to 50% asked, unbiased annotators", right)] if right else []
    text = ["## The plain call, by family\n\n" + table(headings, lines)]
    for by, title in (("kind", "annotators"), ("design", "how questions came about")):
        lines = [line(name, those) for name, those in sorted(_groups(shown, by).items())]
        text.append(f"## The plain call, by {title}\n\n" + table(headings, lines))
    return "\n\n".join(text)


def _hidden(rows: list[Row]) -> str:
    """Worlds in which annotators share a bias that the data cannot show."""
    shown = [row for row in _fine(rows) if row["hidden"]]
    if not shown:
        return ""
    lines = []
    for name, those in (("all", shown), *_groups(shown, "kind").items()):
        tips = [row["found"]["tipping"] for row in those if row["found"]["tipping"] is not None]
        said = [row["found"]["word taken"] for row in those]
        lines.append([
            name, str(len(those)), _share([covered(row) for row in those]), _share(said),
            _share([row["found"]["light"] == "red" for row in those]), f"{sum(tips)} of {len(tips)}",
        ])  # fmt: skip
    headings = "annotators", "datasets", "covered", "a finding says so", "red", "tipping point right within 20%"
    return "## Shared biases that the data cannot show\n\n" + table(headings, lines)


def _repairs(rows: list[Row]) -> str:
    """Coverage after each repair."""
    shown = [row for row in _fine(rows) if not (row["hidden"] and row["kind"] != "about behavior")]
    names = sorted({name for row in shown for name in row["found"]})
    lines = []
    for name in names:
        those = [row for row in shown if name in row["found"]]
        held = [covered(row, row["found"][name]) for row in those]
        red = [row["found"][name]["light"] == "red" for row in those]
        missed = [r for h, r in zip(held, red, strict=True) if not h]
        error = _rms(_off(row, row["found"][name]["value"]) for row in those)
        lines.append([
            name, str(len(those)), _share(held), _share([h or r for h, r in zip(held, red, strict=True)]),
            f"{sum(missed)} of {len(missed)}", f"{error:.3f}",
        ])  # fmt: skip
    headings = "repair, estimator", "datasets", "covered", "covered or red", "uncovered: red", "error"
    return "## Repairs\n\n" + table(headings, lines) if lines else ""


def _as_repairs(rows: list[Row]) -> list[Row]:
    """Datasets that were drawn to be converted, as the other repairs are."""
    found = []
    for row in _fine(rows):
        for name, one in row["found"].items():
            own = {"truth": one["truth"], "unit": one["unit"], "kind": "about behavior"}
            found.append({**row, **own, "found": {f"{name}, other datasets": one}})
    return found


def _studies(title: str, rows: list[Row]) -> str:
    """Decisions of whole studies, at all looks, and the estimate after them."""
    shown = [row for row in _fine(rows) if row["found"]]
    lines = []
    for family, those in (("**all**", shown), *_groups(shown, "family").items()) if shown else ():
        right, wrong, called = [], 0, 0
        for row in those:
            gain, looks = row["truth"] - row["truth_behavior"], row["found"]["looks"]
            margin = 3 * row["truth_error"]  # the errors of both values
            right.append(all(_holds(one, gain, margin) for one in looks))
            wrong += any(one["call"] == ("worse" if gain > 0 else "better") for one in looks)
            called += bool(looks) and looks[-1]["call"] != "open"
        lines.append([
            family, str(len(those)), _share(right), f"{wrong} of {len(those)}", f"{called} of {len(those)}",
            f"{np.mean([row['found']['used'] for row in those]):.0f}", _share([covered(row) for row in those]),
            f"{_rms(_off(row, row['found']['value']) for row in those):.3f}",
            str(sum(row["found"]["late"] for row in those)),
        ])  # fmt: skip
    headings = (
        "100 questions at most, in batches of 25", "studies", "bounds hold at all looks", "wrong calls", "called",
        "annotations used", "interval at the end holds", "error at the end", "asked after later steps",
    )  # fmt: skip
    return f"## {title}\n\n" + table(headings, lines) if lines else ""


def _holds(look: Row, gain: float, margin: float) -> bool:
    """Whether bounds hold the gain, as far as that is known."""
    low, high = (
        (-math.inf if look["low"] is None else look["low"]),
        (math.inf if look["high"] is None else look["high"]),
    )
    return bool(low - margin <= gain <= high + margin)


def _equal(rows: list[Row]) -> str:
    """How often each estimator calls the behavior policy better than itself at 5%."""
    shown = _fine(rows)
    families = list(_groups(shown, "family"))
    lines = []
    for name in dict.fromkeys(name for row in shown for name in row["found"]):
        those = {family: [row["found"][name] for row in shown if row["family"] == family and name in row["found"]]
                 for family in families}  # fmt: skip
        every = [called for calls in those.values() for called in calls]
        worst = max((calls for calls in those.values() if calls), key=lambda calls: float(np.mean(calls)))
        lines.append([
            f"`{name}`", f"{sum(every)} of {len(every)} ({np.mean(every):.1%})", f"{sum(worst)} of {len(worst)}"
        ])  # fmt: skip
    headings = "estimator", "called better", "worst family"
    return "## The behavior policy against itself, at 5%\n\n" + table(headings, lines) if lines else ""


def _biases(parts: dict[str, list[Row]]) -> str:
    """Mean error by family, where annotators were also asked about actions taken, and where they have own biases."""
    lines = []
    families = dict.fromkeys(row["family"] for part in ("taken", "own") for row in parts.get(part, []))
    for family in families:
        line = [family]
        for part in ("taken", "own"):
            those = [row["found"] for row in _fine(parts.get(part, [])) if row["family"] == family]
            off = np.array([(one["value"] - one["truth"]) / one["unit"] for one in those])
            error = float(off.std(ddof=1)) / math.sqrt(len(off)) if len(off) > 1 else math.nan
            line.append(f"{off.mean():+.3f} +- {error:.3f}" if len(off) else "-")
        lines.append(line)
    headings = "", "three unbiased, also asked about actions taken", "own biases of 0.05, 0.25, -0.15, a fifth shared"
    title = "## Bias in standard deviations of Q\n\n"
    return title + table(headings, lines) if lines else ""


def _planned(rows: list[Row]) -> str:
    """Coverage where a plan chose the questions."""
    lines = []
    for family, those in _groups([row for row in _fine(rows) if row["found"]], "family").items():
        held = [covered({**row, "truth_error": 0.0, "truth": row["found"]["truth"]}) for row in those]
        red = [row["found"]["light"] == "red" for row in those]
        error = _rms((row["found"]["value"] - row["found"]["truth"]) / row["found"]["unit"] for row in those)
        lines.append([family, str(len(those)), _share(held), _share([h or r for h, r in zip(held, red, strict=True)]),
                      f"{error:.3f}"])  # fmt: skip
    headings = "60 planned questions, one annotator", "datasets", "covered", "covered or red", "error"
    return "## Planned questions\n\n" + table(headings, lines) if lines else ""


def _features(rows: list[Row]) -> str:
    """The plain call where states are features and 5% of questions are annotated."""
    shown = [row for row in _fine(rows) if row["found"]]
    lines = []
    for family, those in (("**all**", shown), *_groups(shown, "family").items()) if shown else ():
        held = [covered(row) for row in those]
        red = [row["found"]["light"] == "red" for row in those]
        own, weighted = (
            _rms(_off(row, value(row["found"])) for row in those)
            for value in (lambda one: one["value"], lambda one: one["c-pdis"]["value"])
        )
        width = np.median([(row["found"]["high"] - row["found"]["low"]) / row["unit"] for row in those])
        lines.append([
            family, str(len(those)), _share(held), _share([h or r for h, r in zip(held, red, strict=True)]),
            _share(red), f"{width:.3f}", f"{own:.3f}", f"{weighted:.3f}", f"{own / weighted:.2f}",
        ])  # fmt: skip
    headings = (
        "2,000 episodes, 5% annotated", "datasets", "covered", "covered or red", "red", "median width", "error",
        "error of c-pdis", "ratio",
    )  # fmt: skip
    return "## States that are features\n\n" + table(headings, lines) if lines else ""


def _rehearsed(rows: list[Row], unbiased: list[Row]) -> str:
    """The coverage that rehearsals foretell beside the true one, by family; both of annotators without a bias."""
    true = _groups(_fine(unbiased), "family")
    shown = [row for row in _fine(rows) if row["family"] in true]
    lines = []
    for family, those in _groups(shown, "family").items():
        foretold = float(np.mean([row["found"]["coverage"] for row in those]))
        held = float(np.mean([covered({**row, **row["found"]}, row["found"]) for row in true[family]]))
        lines.append([family, str(len(those)), f"{foretold:.1%}", f"{held:.1%}", f"{100 * (foretold - held):+.1f}"])
    headings = "unbiased annotators", "datasets rehearsed", "foretold", "true, all datasets", "points apart"
    return "## Rehearsals\n\n" + table(headings, lines) if lines else ""


def _errors(rows: list[Row]) -> str:
    wrong = [row for row in rows if "error" in row["found"]]
    kinds = _groups([{**row, "text": row["found"]["error"][:100]} for row in wrong], "text")
    lines = [[those[0]["part"], text.replace("|", "/"), str(len(those))] for text, those in kinds.items()]
    return "## What ended in a message\n\n" + table(("part", "message", "datasets"), lines) if lines else ""
