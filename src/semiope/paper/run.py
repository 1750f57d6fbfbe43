"""`semiope reproduce`: find out what is still to be done, share it among processes, and write the pages."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semiope._files import exists, write_whole
from semiope._options import Progress, check_count
from semiope.data.episodes import Episodes
from semiope.data.labels import ABSENT
from semiope.domains import sepsis
from semiope.errors import OptionError, OutputError, SchemaError, nearest
from semiope.models.places import places_of_rows
from semiope.paper import (
    fig5,
    fig7,
    fig8,
    fig9,
    fig10,
    fig11,
    fig12,
    figures,
    intuition,
    questions,
    table1,
    table2,
    table3,
    table4,
    table5,
)  # fmt: skip
from semiope.paper.pages import Made, index, markdown, summary, to_csv
from semiope.paper.pieces import Piece, Pieces
from semiope.paper.settings import Settings
from semiope.paper.trials import Dataset, table_of
from semiope.paper.workers import cores, held, workers
from semiope.reporting.document import to_json


class Item(Protocol):
    """What each of the files has."""

    @property
    def TITLE(self) -> str:  # noqa: N802
        """Its name in the paper."""

    @property
    def pieces(self) -> Callable[[Settings], list[Piece]]:
        """The work that it is made from."""

    @property
    def make(self) -> Callable[[Settings, Pieces], Made]:
        """The item, once all of that is done."""


# In the order of the index; a file of this room each.
ITEMS: dict[str, Item] = {
    "intuition": intuition, "table1": table1, "table2": table2, "fig5": fig5, "table3": table3, "table4": table4,
    "fig7": fig7, "fig8": fig8, "fig9": fig9, "table5": table5, "fig10": fig10, "fig11": fig11, "fig12": fig12,
}  # fmt: skip
# Studies beyond the paper: made if they are named.
BEYOND: dict[str, Item] = {"questions": questions}
KNOWN = {**ITEMS, **BEYOND}
ALL = "all"
# Of making a page, beside the costs of pieces.
PAGE_COST = 1.5
LEAST_EPISODES = 100


class Page(NamedTuple):
    """An item, without its figure, and the content of its files by suffix."""

    made: Made
    contents: dict[str, bytes]


class Reproduced(NamedTuple):
    """What came of it, and the files."""

    made: dict[str, Made]
    files: list[Path]


def chosen(names: Sequence[str]) -> list[str]:
    """Items by name, in the order of the index; all without any name."""
    for name in names:
        known = (*ITEMS, ALL, *BEYOND)
        if name not in known:
            raise OptionError(
                f"{name!r} is no table or figure of the paper.{nearest(name, known)} Known: {', '.join(known)} "
                "(Figures 1 to 4 and 6 are diagrams)."
            )
    return [
        *(name for name in ITEMS if not names or ALL in names or name in names),
        *(name for name in BEYOND if name in names),
    ]


def reproduce(
    names: Sequence[str], settings: Settings, folder: Path, *, jobs: int | None = None, progress: Progress | None = None
) -> Reproduced:
    """Compute what is missing of these items, and write them to a folder; finished pieces are kept in `.pieces` there.

    Files appear once everything is computed. The result does not depend on `jobs`, the number of processes.
    """
    wanted = chosen(names)
    jobs = cores() if jobs is None else check_count(jobs, "--jobs")
    if any(not name.startswith("table") for name in wanted):
        figures.need_matplotlib()
    settings = with_episodes(settings)
    if exists(folder) and not folder.is_dir():
        raise OutputError(f"--out: {folder} is a file. Name a folder.")
    if not set(ITEMS) <= set(wanted):
        _refuse_other_settings(settings, folder)
    found = Pieces(folder / ".pieces" / settings.fingerprint())
    _make_folder(found.folder, folder)
    done, total = 0.0, 0.0

    def finished(cost: float) -> None:
        nonlocal done
        done += cost
        if progress:
            progress(round(1000 * done), round(1000 * total))

    with held(folder, found.folder.parent / "lock"):
        _sweep(found, folder, wanted)
        needed = {piece.name: piece for name in wanted for piece in KNOWN[name].pieces(settings)}
        # One of each kind first: on a machine where nothing is compiled yet, processes then compile different things.
        missing = [piece for piece in needed.values() if piece not in found]
        missing.sort(key=lambda piece: (piece.number, -piece.cost))
        total = sum(piece.cost for piece in missing) + PAGE_COST * len(wanted)
        with workers(min(jobs, max(len(missing), len(wanted)))) as spread:
            for piece, _ in spread(partial(_compute, found, settings), missing):
                finished(piece.cost)
            pages = {}
            # Figures take longest, and come first.
            slowest = sorted(wanted, key=lambda name: not name.startswith("fig"))
            for name, page in spread(partial(_page, found, settings), slowest):
                pages[name] = page
                finished(PAGE_COST)
        files = _write({name: pages[name] for name in wanted}, settings, folder)
    return Reproduced({name: pages[name].made for name in wanted}, files)


def _compute(found: Pieces, settings: Settings, piece: Piece) -> None:
    found.compute(piece, settings)


def _page(found: Pieces, settings: Settings, name: str) -> Page:
    made = KNOWN[name].make(settings, found)
    contents = {
        "json": to_json(made.rows).encode(),
        "csv": to_csv(made.rows).encode(),
        "md": markdown(name, made, settings.listed()).encode(),
    }
    if made.figure is not None:
        contents |= {suffix: figures.written(made.figure, suffix) for suffix in ("svg", "png")}
    return Page(replace(made, figure=None), contents)


def with_episodes(settings: Settings) -> Settings:
    """The settings with the digest of its file of episodes, which must hold enough sepsis datasets."""
    if settings.episodes is None:
        return settings
    settings = replace(settings, digest=_digest(Path(settings.episodes)))
    table = table_of(settings.episodes, settings.digest)
    if "run" not in table.column_names:
        raise SchemaError(
            "--episodes: there is no column 'run', which says to which dataset an episode belongs (0, 1, 2 ...). "
            f"Columns: {', '.join(table.column_names)}."
        )
    runs_of = table["run"].combine_chunks()
    known = (pa.types.is_integer, pa.types.is_string, pa.types.is_large_string)
    if not any(is_known(runs_of.type) for is_known in known):
        raise SchemaError(f"--episodes: column 'run' holds {runs_of.type}. Number the datasets: 0, 1, 2 ...")
    if runs_of.null_count:
        raise SchemaError("--episodes: column 'run' has empty cells. Say to which dataset each episode belongs.")
    if not len(runs_of):
        raise SchemaError("--episodes: the table has no rows.")
    runs = len(pc.unique(runs_of))
    if runs < settings.datasets:
        raise SchemaError(
            f"--episodes: {settings.episodes} holds {runs} datasets (column 'run'), and {settings.datasets} are "
            f"asked for. Use --datasets {runs}, or a file with more."
        )
    for number in range(settings.datasets):
        try:
            _check(Dataset.of(settings, number).episodes)
        except SchemaError as error:
            raise SchemaError(f"--episodes: dataset {number}: {error}") from None
    return settings


def _check(episodes: Episodes) -> None:
    """Fail unless these can be episodes of the sepsis world under its behaviour policy."""
    world = sepsis.world()
    rows = places_of_rows(world.mdp, episodes)
    decided = rows.action != ABSENT
    off = episodes.reward != world.mdp.reward[rows.state, np.where(decided, rows.action, 0)]
    never = decided & (world.behavior.probs[rows.state, rows.action] == 0)
    for wrong, what in (
        (off, "a reward that this state does not pay"),
        (never, "an action that the behaviour never takes"),
    ):
        if wrong.any():
            where = episodes.describe_row(int(np.argmax(wrong)))
            raise SchemaError(f"these are not episodes of the sepsis world: {what}, first in {where}.")
    if episodes.n_episodes < LEAST_EPISODES:
        raise SchemaError(f"there are {episodes.n_episodes} episodes, and at least {LEAST_EPISODES} are needed.")


def _digest(path: Path) -> str:
    """Of the bytes of a file, or of all files of a folder; nothing where there is none."""
    found = hashlib.sha256()
    try:
        for part in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if part.is_file():
                found.update(part.read_bytes())
    except (OSError, ValueError) as error:
        raise SchemaError(f"--episodes: cannot read {path}: {getattr(error, 'strerror', None) or error}.") from None
    return found.hexdigest()


def _write(pages: Mapping[str, Page], settings: Settings, folder: Path) -> list[Path]:
    """All files, or none: data, figures, pages, and the index if all items are there."""
    contents = {
        f"{name}.{suffix}": content for name, page in pages.items() for suffix, content in page.contents.items()
    }
    if set(ITEMS) <= set(pages):
        drawn = {name: page.contents["svg"] for name, page in pages.items() if "svg" in page.contents}
        made = {name: page.made for name, page in pages.items()}
        contents["index.html"] = index(settings.listed(), made, drawn).encode()
        contents["index.md"] = summary(settings.listed(), made).encode()
        contents["settings.json"] = to_json(settings.listed()).encode()
    writers: dict[Path, Callable[[Path], Any]] = {
        folder / name: partial(Path.write_bytes, data=content) for name, content in contents.items()
    }
    write_whole(writers)
    return list(writers)


def _sweep(found: Pieces, folder: Path, names: Sequence[str]) -> None:
    """Remove what a killed run had half written, here and among the pieces."""
    found.sweep()
    for name in (*names, "index", "settings"):
        for left in folder.glob(f".{name}.*.????????"):
            left.unlink()


def _refuse_other_settings(settings: Settings, folder: Path) -> None:
    """Fail if some items would be put among all of a reproduction with other settings."""
    try:
        found = json.loads((folder / "settings.json").read_text())
    except (OSError, ValueError):
        return
    if found != settings.listed():
        raise OutputError(
            f"--out: {folder} holds a reproduction with other settings "
            f"({', '.join(f'{k} {v}' for k, v in found.items())}). Name another folder."
        )


def _make_folder(kept: Path, folder: Path) -> None:
    try:
        kept.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise OutputError(f"--out: cannot write to {folder}: {getattr(error, 'strerror', None) or error}.") from None
