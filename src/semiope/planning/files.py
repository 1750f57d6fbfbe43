"""Plans as folders: a batch is a folder of its own, questions by expert beside what stays sealed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from semiope._files import write_folder
from semiope.data.asked import SEALED
from semiope.data.tables import write_table
from semiope.errors import OutputError
from semiope.planning.result import Plan

SUMMARY = "plan.json"


def save(plan: Plan, folder: str | Path) -> Path:
    """Write the plan as the next batch in a folder, whole or not at all; return the batch's folder."""
    target = Path(folder) / f"batch-{batches(Path(folder)) + 1:03d}"
    writers: dict[str, Callable[[Path], object]] = {
        f"questions-{name}.csv": partial(write_table, table) for name, table in plan.questions.items() if table.num_rows
    }
    writers[SEALED] = partial(write_table, plan.sealed)
    writers[SUMMARY] = partial(Path.write_text, data=json.dumps(plan.to_dict(), indent=1) + "\n")
    write_folder(target, writers)
    return target


def check_same(plan: Plan, folder: Path) -> None:
    """Fail if a folder holds batches of another plan: by policies, whose returns are asked for, discount, or logs."""
    now = _marks(plan.to_dict())
    for path in sorted(folder.glob(f"batch-*/{SUMMARY}")):
        try:
            then = _marks(json.loads(path.read_text()))
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise OutputError(f"{path} is not the summary of a plan. Name a new or empty folder.") from error
        other = [f"{name} {then[name]} there, {now[name]} here" for name in now if then[name] != now[name]]
        if other:
            raise OutputError(f"{path.parent} is of another plan: {'; '.join(other)}. Name a new or empty folder.")


def _marks(summary: dict[str, Any]) -> dict[str, str]:
    """What all batches of a plan have in common."""
    settings = summary["settings"]
    return {
        "policies": ", ".join(map(str, summary["policies"])),
        "answers about": str(settings["about"]),
        "gamma": f"{settings['gamma']:g}",
        "logs and policies": str(summary["digest"]),
    }


def batches(folder: Path) -> int:
    """The number of the last batch in a folder, 0 if there is none; fail if it holds something else."""
    if not folder.exists():
        return 0
    if not folder.is_dir():
        raise OutputError(f"{folder} is a file. Name a folder.")
    found = [re.fullmatch(r"batch-(\d+)", path.name) for path in folder.iterdir() if not path.name.startswith(".")]
    if not all(found):
        raise OutputError(f"{folder} holds files that are no batches of a plan. Name a new or empty folder.")
    return max((int(one.group(1)) for one in found if one), default=0)
