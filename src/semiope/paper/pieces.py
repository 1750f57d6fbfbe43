"""Pieces of work: each is computed once, kept as a file that appears whole or not at all, and found again."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from semiope._files import write_whole
from semiope.paper.settings import Settings

Arrays = dict[str, npt.NDArray[Any]]
Work = Callable[[Settings, int], Mapping[str, Any]]


class Piece(NamedTuple):
    """A function of a module, called with the settings and a number, and roughly what it costs in seconds."""

    work: Work
    number: int = 0
    cost: float = 1.0

    @property
    def name(self) -> str:
        """What its file is called."""
        return f"{self.work.__module__.rpartition('.')[2]}-{self.work.__name__}-{self.number}"


class Pieces:
    """Finished pieces in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __contains__(self, piece: Piece) -> bool:
        """Whether it is there and whole: one that a failing disk has spoilt is computed again."""
        try:
            return bool(self[piece])
        except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile):
            return False

    def __getitem__(self, piece: Piece) -> Arrays:
        with self._path(piece).open("rb") as file, np.load(file, allow_pickle=False) as found:
            return {name: found[name] for name in found.files}

    def compute(self, piece: Piece, settings: Settings) -> None:
        """Do the work, and keep what came of it."""
        self.keep(piece, piece.work(settings, piece.number))

    def keep(self, piece: Piece, arrays: Mapping[str, Any]) -> None:
        """Write a piece."""
        write_whole({self._path(piece): partial(_save, arrays)})

    def sweep(self) -> None:
        """Remove what a killed run had half written."""
        for left in self.folder.glob(".*"):
            if left.is_file():
                left.unlink()

    def _path(self, piece: Piece) -> Path:
        return self.folder / f"{piece.name}.npz"


def _save(arrays: Mapping[str, Any], path: Path) -> None:
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)
