"""The application: one entry for all commands, and errors as single messages."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from io import TextIOWrapper
from typing import Annotated, NoReturn

import typer

from semiope._version import __version__
from semiope.errors import SemiopeError

app = typer.Typer(
    help="Semi-offline policy evaluation: what would a new policy be worth, from logs and expert annotations?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # labels may be beyond what the terminal can show
    with contextlib.suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGTERM, _terminated)
    try:
        app()
    except SemiopeError as error:
        _refuse(str(error))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains again at its end
        raise SystemExit(1) from None
    except OSError as error:
        _refuse(f"cannot write the results: {error.strerror or error}.")


def _terminated(number: int, _: object) -> NoReturn:
    """End as an exception does, so that temporary files and folders are removed."""
    raise SystemExit(128 + number)


def _refuse(message: str) -> NoReturn:
    printable = "".join(c if c.isprintable() else repr(c)[1:-1] for c in message)
    print(f"error: {printable}", file=sys.stderr)
    raise SystemExit(2) from None


def _version(wanted: bool) -> None:
    if wanted:
        print(f"semiope {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass
