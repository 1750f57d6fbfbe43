"""`semiope reproduce`: find out what is still to be done, share it among processes, and write the pages."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

from semiope._files import exists, write_whole
from semiope._options import Progress, check_count
from semiope.errors import OptionError, OutputError, SchemaError, nearest
from semiope.paper import figures
from semiope.paper.pages import Made, index, markdown, summary, to_csv
from semiope.paper.pieces import Piece, Pieces
from semiope.paper.setup import Setup
from semiope.report.document import to_json

# In the order of the index; a file of this room each.
ITEMS = (
    "intuition", "table1", "table2", "fig5", "table3", "table4", "fig7", "fig8", "fig9", "table5", "fig10", "fig11",
    "fig12",
)  # fmt: skip
ALL = "all"
# Of making a page, beside the costs of pieces.
PAGE_COST = 1.5
WITHOUT_FIGURE = tuple(name for name in ITEMS if name.startswith("table"))


class Item(Protocol):
    """What each of the files has."""

    def pieces(self, setup: Setup) -> list[Piece]:
        """The work that it is made from."""

    def make(self, setup: Setup, found: Pieces) -> Made:
        """The item, once all of that is done."""


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
        if name not in (*ITEMS, ALL):
            known = ", ".join((*ITEMS, ALL))
            raise OptionError(
                f"{name!r} is no table or figure of the paper.{nearest(name, (*ITEMS, ALL))} Known: {known}."
            )
    return [name for name in ITEMS if not names or ALL in names or name in names]


def reproduce(
    names: Sequence[str], setup: Setup, folder: Path, *, jobs: int | None = None, progress: Progress | None = None
) -> Reproduced:
    """Compute what is missing of these items, and write them to a folder; finished pieces are kept in `.pieces` there.

    Files appear once everything is computed. The result does not depend on `jobs`, the number of processes.
    """
    wanted = chosen(names)
    jobs = len(os.sched_getaffinity(0)) if jobs is None else check_count(jobs, "--jobs")
    if any(name not in WITHOUT_FIGURE for name in wanted):
        figures.need_matplotlib()
    setup = with_episodes(setup)
    with _held(folder) as kept, _workers(jobs) as submit:
        found = Pieces(kept / setup.fingerprint())
        _make_folder(found.folder)
        found.sweep()
        needed = dict.fromkeys(piece for name in wanted for piece in _item(name).pieces(setup))
        # One of each kind first: on a machine where nothing is compiled yet, processes then compile different things.
        missing = sorted((piece for piece in needed if piece not in found), key=lambda one: (one.number, -one.cost))
        tell = _Teller(progress, sum(piece.cost for piece in missing) + PAGE_COST * len(wanted))
        work = {submit(_keep, found, piece, setup): piece.cost for piece in missing}
        for future in as_completed(work):
            future.result()
            tell(work[future])
        drawn = {name: submit(_draw, name, setup, found) for name in wanted}
        for future in as_completed(drawn.values()):
            future.result()
            tell(PAGE_COST)
        pages = {name: future.result() for name, future in drawn.items()}
        files = _write(pages, setup, folder, whole=len(wanted) == len(ITEMS))
    return Reproduced({name: page.made for name, page in pages.items()}, files)


def _item(name: str) -> Item:
    return cast(Item, import_module(f"semiope.paper.{name}"))


def with_episodes(setup: Setup) -> Setup:
    """The setup with the digest of its file of episodes, which must hold enough sepsis datasets."""
    if setup.episodes is None:
        return setup
    import pyarrow.compute as pc

    from semiope.domains import sepsis
    from semiope.models.places import places_of_rows
    from semiope.paper.trials import Dataset, table_of

    path = Path(setup.episodes)
    setup = replace(setup, digest=_digest(path) if exists(path) else "")
    table = table_of(setup.episodes, setup.digest)
    if "run" not in table.column_names:
        raise SchemaError(
            "--episodes: there is no column 'run', which says to which dataset an episode belongs (0, 1, 2 ...). "
            f"Columns: {', '.join(table.column_names)}."
        )
    if table["run"].null_count:
        raise SchemaError("--episodes: column 'run' has empty cells. Say to which dataset each episode belongs.")
    runs = len(pc.unique(table["run"]))
    if runs < setup.datasets:
        raise SchemaError(
            f"--episodes: {setup.episodes} holds {runs} datasets (column 'run'), and {setup.datasets} are asked for. "
            f"Use --datasets {runs}, or a file with more."
        )
    for number in range(setup.datasets):
        try:
            episodes = Dataset.of(setup, number).episodes
            places_of_rows(sepsis.world().mdp, episodes)
        except SchemaError as error:
            raise SchemaError(f"--episodes: dataset {number}: {error}") from None
    return setup


def _digest(path: Path) -> str:
    """Of the bytes of a file, or of all files of a folder."""
    found = hashlib.sha256()
    for part in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if part.is_file():
            found.update(part.read_bytes())
    return found.hexdigest()


class _Teller:
    """Tells whoever wants to show progress."""

    def __init__(self, progress: Progress | None, total: float) -> None:
        self.progress, self.total, self.done = progress, total, 0.0

    def __call__(self, cost: float) -> None:
        self.done += cost
        if self.progress:
            self.progress(round(1000 * self.done), round(1000 * self.total))


def _keep(found: Pieces, piece: Piece, setup: Setup) -> None:
    found.keep(piece, piece.compute(setup))


def _draw(name: str, setup: Setup, found: Pieces) -> Page:
    made = _item(name).make(setup, found)
    contents = {
        "json": to_json(made.rows).encode(), "csv": to_csv(made.rows).encode(), "md": markdown(name, made).encode(),
    }  # fmt: skip
    if made.figure is not None:
        contents |= {suffix: figures.written(made.figure, suffix) for suffix in ("svg", "png")}
    return Page(replace(made, figure=None), contents)


@contextmanager
def _workers(jobs: int) -> Iterator[Callable[..., Future[Any]]]:
    """What gives work to this many processes; one job is done here and now."""
    if jobs == 1:
        yield _now
        return
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), initializer=_end_with_parent)
    try:
        yield pool.submit
    except BrokenProcessPool:
        raise OutputError(
            "a process ended before its work was done, perhaps for want of memory. Finished pieces are kept: run the "
            "same command again, with fewer --jobs."
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _now(function: Callable[..., Any], *arguments: Any) -> Future[Any]:
    done: Future[Any] = Future()
    done.set_result(function(*arguments))
    return done


def _end_with_parent() -> None:
    """Let a process end as soon as the one that started it is gone, killed or not; Ctrl-C is for that one alone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _write(pages: Mapping[str, Page], setup: Setup, folder: Path, *, whole: bool) -> list[Path]:
    """All files, or none: data, figures, pages, and the index if all items are there."""
    contents = {
        f"{name}.{suffix}": content for name, page in pages.items() for suffix, content in page.contents.items()
    }
    if whole:
        drawn = {name: page.contents["svg"] for name, page in pages.items() if "svg" in page.contents}
        made = {name: page.made for name, page in pages.items()}
        contents["index.html"] = index(setup.told(), made, drawn).encode()
        contents["index.md"] = summary(setup.told(), made).encode()
        contents["settings.json"] = to_json(setup.told()).encode()
    writers: dict[Path, Callable[[Path], Any]] = {
        folder / name: partial(Path.write_bytes, data=content) for name, content in contents.items()
    }
    write_whole(writers)
    return list(writers)


@contextmanager
def _held(folder: Path) -> Iterator[Path]:
    """The folder's own `.pieces`, which one run at a time may use."""
    if exists(folder) and not folder.is_dir():
        raise OutputError(f"--out: {folder} is a file. Name a folder.")
    kept = folder / ".pieces"
    _make_folder(kept)
    try:
        import fcntl
    except ImportError:  # where there are no such locks
        yield kept
        return
    try:
        lock = os.open(kept / "lock", os.O_CREAT | os.O_RDWR, 0o644)
    except OSError as error:
        raise OutputError(f"--out: cannot write to {folder}: {error.strerror}.") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise OutputError(f"--out: another run is writing to {folder}. Wait for it, or name another folder.") from None
    else:
        yield kept
    finally:
        os.close(lock)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise OutputError(f"--out: cannot write to {folder}: {getattr(error, 'strerror', None) or error}.") from None
