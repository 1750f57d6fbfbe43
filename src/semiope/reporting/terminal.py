"""Results on the terminal, and a progress bar for what takes longer than a second."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from semiope.errors import count
from semiope.reporting.format import level, number

if TYPE_CHECKING:
    from semiope.planning.result import Plan

DELAY = 1.0
SHOWN_DECISIONS = 8


def console(*, error: bool = False) -> Console:
    """Return a console; output that goes to a file or pipe is not folded at 80 columns."""
    found = Console(stderr=error, highlight=False, emoji=False)
    return found if found.is_terminal else Console(stderr=error, highlight=False, emoji=False, width=120)


def print_document(content: dict[str, Any]) -> None:
    """Print the estimates as a table on standard output, notes and warnings on standard error."""
    table = Table(title=f"{content['episodes']:,} episodes, {content['steps']:,} steps, gamma {content['gamma']:g}")
    for heading, side in (("policy", "left"), ("estimator", "left"), ("value", "right")):
        table.add_column(
            heading, justify="left" if side == "left" else "right", no_wrap=heading != "policy", overflow="fold"
        )
    for heading in (f"{level(content['diagnostics']['settings']['alpha'])} interval", "std error", "ess"):
        table.add_column(heading, justify="right", no_wrap=True)
    previous = None
    for row in content["estimates"]:
        if previous not in (None, row["policy"]):
            table.add_section()
        name = "" if row["policy"] == previous else escape(row["policy"])
        previous = row["policy"]
        interval = f"{number(row['ci_low'])} to {number(row['ci_high'])}"
        table.add_row(
            name, row["estimator"], number(row["value"]), interval, number(row["std_error"]), f"{row['ess']:,.1f}"
        )
    console().print(table)
    errors = console(error=True)
    for note in content["diagnostics"]["notes"]:
        errors.print(f"note: {escape(note)}", soft_wrap=True)
    for warning in content["warnings"]:
        errors.print(f"[yellow]warning:[/] {escape(warning)}", soft_wrap=True)


def print_reproduced(
    items: Mapping[str, Sequence[tuple[str, bool]]], files: Sequence[Path], folder: str, *, quick: bool
) -> None:
    """Print what was checked of each item, and where its files are."""
    table = Table()
    for heading in ("", "checks", "holds"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "holds")
    for name, claims in items.items():
        for text, holds in claims:
            table.add_row(name, escape(text), "yes" if holds else "[red]NO[/]")
            name = ""
        table.add_section()
    printed = console()
    printed.print(table)
    index = next((path for path in files if path.name == "index.html"), None)
    if quick:
        printed.print("Quick: from so few data some checks fail by chance. Judge by a full run.", soft_wrap=True)
    told = f"{len(files)} files in {folder}" + (f"; open {index}" if index else "")
    printed.print(told, soft_wrap=True, markup=False)


class DelayedProgress:
    """A progress bar on standard error that appears only if the work is still going on after a second."""

    def __init__(self, doing: str = "evaluating") -> None:
        self._progress = Progress(
            TextColumn(doing), BarColumn(), TimeRemainingColumn(), console=console(error=True), transient=True
        )
        self._task = self._progress.add_task(doing, total=None)
        self._timer = threading.Timer(DELAY, self._progress.start)
        self._timer.daemon = True

    def __enter__(self) -> DelayedProgress:
        if self._progress.console.is_terminal:
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        if self._progress.live.is_started:
            self._progress.stop()

    def __call__(self, done: int, total: int) -> None:
        """Tell how far the work has come."""
        self._progress.update(self._task, completed=done, total=total)


def print_plan(plan: Plan) -> None:
    """What is asked, what it is expected to bring, how decisions stand, and why to stop, if there is a reason."""
    printed = console()
    asked = ", ".join(f"{table.num_rows} for {name}" for name, table in plan.questions.items())
    used = f"{plan.used:g} of a budget of {plan.budget:g} used"
    if plan.stop is None:
        lines = [f"{count(plan.n_needed, 'question')} to ask ({used}); with decoys {asked}."]
        lines.append(f"Expected error of a policy's value: now {plan.error[0]:.3g}, after these {plan.error[1]:.3g}.")
    else:
        lines = [f"Stop ({plan.stop.reason}): {plan.stop.sentence} ({used}) No questions were written."]
        lines.append(f"Expected error of a policy's value: {plan.error[0]:.3g}.")
    lines += [str(one) for one in plan.decisions[:SHOWN_DECISIONS]]
    if len(plan.decisions) > SHOWN_DECISIONS:
        lines.append(f"... and {len(plan.decisions) - SHOWN_DECISIONS} more (--json has all).")
    for line in [*lines, *(f"note: {note}" for note in plan.notes)]:
        printed.print(line, soft_wrap=True, markup=False)
