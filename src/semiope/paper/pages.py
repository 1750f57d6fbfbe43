"""What an item of the paper becomes: rows of data, a figure, and a page of blocks, as Markdown and as HTML."""

from __future__ import annotations

import csv
import io
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Table(NamedTuple):
    """Cells of text; those of the columns behind the first `words` are numbers and stand to the right."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1


class Points(NamedTuple):
    """A list."""

    lines: Sequence[str]


class Heading(NamedTuple):
    """A heading inside a page."""

    text: str


class Spread(NamedTuple):
    """Mean and standard deviation over datasets; [mean, std] in JSON."""

    mean: float
    std: float


class Claim(NamedTuple):
    """Something that must show, and whether it does."""

    text: str
    holds: bool


Block = Table | Points | Heading | str


@dataclass(frozen=True, eq=False)
class Made:
    """One item: rows for JSON and CSV, a figure with what it shows in words, the page, and what was checked."""

    title: str
    rows: list[dict[str, Any]]
    blocks: Sequence[Block]
    claims: list[Claim] = field(default_factory=list)
    figure: Figure | None = None
    shows: str = ""

    def page(self) -> list[Block]:
        """All of the page but the title and the figure: what was checked comes first."""
        return [*([self.checks()] if self.claims else []), *self.blocks]

    def checks(self) -> Points:
        """What was checked, and what came of it."""
        return Points([f"{'Holds' if claim.holds else 'DOES NOT HOLD'}: {claim.text}" for claim in self.claims])


def markdown(name: str, made: Made, settings: Mapping[str, object]) -> str:
    """The page of an item; it ends with the settings that it was made with."""
    parts = [f"# {made.title}"]
    if made.figure is not None:
        parts.append(f"![{made.shows}]({name}.svg)")
    parts += [_markdown(block) for block in made.page()]
    parts.append("Made with " + ", ".join(f"{key} {value}" for key, value in settings.items()) + ".")
    return "\n\n".join(parts) + "\n"


def _markdown(block: Block) -> str:
    match block:
        case Table(headings, rows, words):
            rule = [":--" if i < words else "--:" for i in range(len(headings))]
            return "\n".join("| " + " | ".join(cells) + " |" for cells in (headings, rule, *rows))
        case Points(lines):
            return "\n".join(f"- {line}" for line in lines)
        case Heading(text):
            return f"## {text}"
        case str():
            return block


def html(name: str, made: Made, svg: bytes | None) -> str:
    """The same as a section of a web page; the figure lies within it."""
    parts = [f'<section id="{name}">', f"<h2>{escape(made.title)}</h2>"]
    if svg is not None:
        data = b64encode(svg).decode()
        parts.append(f'<img alt="{escape(made.shows)}" src="data:image/svg+xml;base64,{data}">')
    parts += [_html(block) for block in made.page()]
    return "\n".join([*parts, "</section>"])


def _html(block: Block) -> str:
    match block:
        case Table(headings, rows, words):
            head = "".join(f'<th scope="col">{_inline(cell)}</th>' for cell in headings)
            body = "\n".join(
                "<tr>" + "".join(_cell(cell, i < words) for i, cell in enumerate(row)) + "</tr>" for row in rows
            )
            return f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>'
        case Points(lines):
            return "<ul>" + "".join(f"<li>{_inline(line)}</li>" for line in lines) + "</ul>"
        case Heading(text):
            return f"<h3>{_inline(text)}</h3>"
        case str():
            return f"<p>{_inline(block)}</p>"


def _cell(text: str, is_word: bool) -> str:
    return f"<td>{_inline(text)}</td>" if is_word else f'<td class="number">{_inline(text)}</td>'


def _inline(text: str) -> str:
    """Text with the little Markdown that blocks use: `code` and **bold**."""
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))
    return re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", text)


_INDEX = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Reproduction of Tang and Wiens (2023)</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem;
        color: #1a1a1a; background: #fff; }}
nav li {{ margin-bottom: .2rem; }}
section {{ border-top: 1px solid #bbb; margin-top: 2.5rem; }}
img {{ max-width: 100%; height: auto; display: block; margin: 1rem auto; }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-size: .85rem; }}
th, td {{ padding: .2rem .6rem; border-bottom: 1px solid #ddd; text-align: left; white-space: nowrap; }}
.number {{ text-align: right; font-variant-numeric: tabular-nums; }}
</style>
</head>
<body>
<h1>Counterfactual-augmented importance sampling for semi-offline policy evaluation, reproduced</h1>
<p>Every table and figure of Tang and Wiens (NeurIPS 2023), computed anew and put beside what the paper prints.</p>
{settings}
<nav><ul>
{contents}
</ul></nav>
{sections}
</body>
</html>
"""


def verdict(made: Made) -> str:
    """How many of its checks hold, in words."""
    wrong = sum(not claim.holds for claim in made.claims)
    total = len(made.claims)
    if total == 1:
        return "its check DOES NOT HOLD" if wrong else "its check holds"
    return f"{wrong} of {total} checks DO NOT HOLD" if wrong else f"all {total} checks hold"


def summary(settings: Mapping[str, object], made: Mapping[str, Made]) -> str:
    """A Markdown page that leads to the others: settings, and what was checked."""
    listed = [f"[{one.title}]({name}.md): {verdict(one)}" for name, one in made.items()]
    table = Table(("setting", "value"), [(key, str(value)) for key, value in settings.items()], words=2)
    blocks: list[Block] = ["# What was checked", table, Points(listed)]
    for one in made.values():
        blocks += [Heading(one.title), one.checks()]
    return "\n\n".join(_markdown(block) for block in blocks) + "\n"


def index(settings: Mapping[str, object], made: Mapping[str, Made], figures: Mapping[str, bytes]) -> str:
    """One page with everything, which needs no other file."""
    contents = [f'<li><a href="#{name}">{escape(one.title)}</a>: {verdict(one)}</li>' for name, one in made.items()]
    return _INDEX.format(
        settings=_html(Table(("setting", "value"), [(key, str(value)) for key, value in settings.items()], words=2)),
        contents="\n".join(contents),
        sections="\n".join(html(name, one, figures.get(name)) for name, one in made.items()),
    )


def to_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as CSV: a mean and its std become two columns, a list one with its elements side by side."""
    flat = [_flat(row) for row in rows]
    columns = list(dict.fromkeys(column for row in flat for column in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue()


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, Mapping):
            found |= {f"{key}_{inner}": one for inner, one in _flat(value).items()}
        elif isinstance(value, Spread):
            found[key], found[f"{key}_std"] = value
        elif isinstance(value, list):
            found[key] = " ".join(f"{number:g}" for number in value)
        else:
            found[key] = value
    return found
