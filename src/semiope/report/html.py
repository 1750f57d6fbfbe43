"""One self-contained page with the estimates, the settings and the warnings."""

from __future__ import annotations

from html import escape
from typing import Any

from semiope.report.format import level, number

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>semiope evaluation</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; width: 100%; }}
th, td {{ padding: .3rem .8rem; border-bottom: 1px solid #8886; text-align: right; white-space: nowrap; }}
th:nth-child(-n+2), td:nth-child(-n+2) {{ text-align: left; }}
li {{ margin-bottom: .4rem; }}
</style>
</head>
<body>
<main>
<h1>Policy evaluation</h1>
<p>{episodes:,} episodes, {steps:,} steps, discount factor {gamma:g}.</p>
{warnings}
<h2 id="estimates">Estimates</h2>
<div class="wide" role="region" aria-labelledby="estimates" tabindex="0"><table>
<thead><tr>{headings}</tr></thead>
<tbody>
{rows}
</tbody>
</table></div>
<h2>Settings</h2>
<ul>
{settings}
</ul>
<p>Made by semiope {semiope}.</p>
</main>
</body>
</html>
"""


def page(content: dict[str, Any]) -> str:
    """Return the document of an evaluation as HTML."""
    settings = content["diagnostics"]["settings"]
    headings = (
        "policy",
        "estimator",
        "value",
        f"{level(settings['alpha'])} from",
        "to",
        "standard error",
        "effective sample size",
    )
    warnings = [*content["diagnostics"]["notes"], *content["warnings"]]
    return _PAGE.format(
        **{key: content[key] for key in ("episodes", "steps", "gamma", "semiope")},
        headings="".join(f'<th scope="col">{escape(heading)}</th>' for heading in headings),
        rows="\n".join(_row(row) for row in content["estimates"]),
        settings="\n".join(f"<li>{escape(key)}: {escape(str(value))}</li>" for key, value in settings.items()),
        warnings=f"<h2>Please note</h2>\n<ul>\n{_items(warnings)}\n</ul>" if warnings else "",
    )


def _row(row: dict[str, Any]) -> str:
    labels = [row["policy"], row["estimator"]]
    numbers = [number(row[key]) for key in ("value", "ci_low", "ci_high", "std_error")] + [f"{row['ess']:,.1f}"]
    return "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in [*labels, *numbers]) + "</tr>"


def _items(lines: list[str]) -> str:
    return "\n".join(f"<li>{escape(line)}</li>" for line in lines)
