"""Processes that share work, end with the one that started them, and let one run at a time use a folder."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from semiope.errors import OutputError

Call = TypeVar("Call")
Result = TypeVar("Result")


class Spread(Protocol):
    """Calls a function with each of some arguments, and gives these and the result as they are finished."""

    def __call__(self, function: Callable[[Call], Result], calls: Iterable[Call]) -> Iterator[tuple[Call, Result]]:
        """The function must be one of a module, or a `partial` of one."""


def cores() -> int:
    """How many processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not known on every system
        return os.cpu_count() or 1


@contextmanager
def workers(jobs: int) -> Iterator[Spread]:
    """What spreads work over this many processes; with one job, all is done here."""
    if jobs == 1:
        yield _here
        return
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), initializer=_end_with_parent)

    def there(function: Callable[[Call], Result], calls: Iterable[Call]) -> Iterator[tuple[Call, Result]]:
        with _deaf_to_interrupts():  # which processes that start now inherit
            futures = {pool.submit(function, call): call for call in calls}
        for future in as_completed(futures):
            yield futures[future], future.result()

    try:
        yield there
    except BrokenProcessPool:
        raise OutputError(
            "a process ended before its work was done, perhaps for want of memory. Finished pieces are kept: run the "
            "same command again, with fewer --jobs."
        ) from None
    except BaseException:
        for process in multiprocessing.active_children():
            process.terminate()  # what they were at is computed again another time
        raise
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _here(function: Callable[[Call], Result], calls: Iterable[Call]) -> Iterator[tuple[Call, Result]]:
    for call in calls:
        yield call, function(call)


def _end_with_parent() -> None:
    """Let a process end as soon as the one that started it is gone, killed or not."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def held(folder: Path, lock: Path) -> Iterator[None]:
    """Let nobody else work on a folder meanwhile, where the system has locks; they end with the process."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    try:
        handle = os.open(lock, os.O_CREAT | os.O_RDWR, 0o644)
    except OSError as error:
        raise OutputError(f"--out: cannot write to {folder}: {error.strerror}.") from None
    try:
        _lock(fcntl, handle, folder)
        yield
    finally:
        os.close(handle)


def _lock(fcntl: Any, handle: int, folder: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise OutputError(f"--out: another run is writing to {folder}. Wait for it, or name another folder.") from None
    except OSError:
        pass  # some network folders have no locks
