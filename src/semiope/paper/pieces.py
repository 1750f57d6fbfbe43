"""Pieces of work: each is computed once, kept as a file that appears whole or not at all, and found again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from semiope._files import write_whole
from semiope.paper.setup import Setup

Arrays = Mapping[str, npt.NDArray[Any]]


class Piece(NamedTuple):
    """A function of a module of this room, called with the setup and a number, and roughly what it costs in seconds."""

    module: str
    function: str
    number: int = 0
    cost: float = 1.0

    @property
    def name(self) -> str:
        """What its file is called."""
        return f"{self.module}-{self.function}-{self.number}"

    def compute(self, setup: Setup) -> Arrays:
        """Do the work."""
        work: Callable[[Setup, int], Arrays] = getattr(import_module(f"semiope.paper.{self.module}"), self.function)
        return work(setup, self.number)


class Pieces:
    """Finished pieces in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __contains__(self, piece: Piece) -> bool:
        return self._path(piece).exists()

    def __getitem__(self, piece: Piece) -> dict[str, npt.NDArray[Any]]:
        with np.load(self._path(piece), allow_pickle=False) as found:
            return {name: found[name] for name in found.files}

    def keep(self, piece: Piece, arrays: Arrays) -> None:
        """Write a piece."""
        write_whole({self._path(piece): partial(_save, arrays)})

    def sweep(self) -> None:
        """Remove what a killed run had half written."""
        for left in self.folder.glob(".*"):
            if left.is_file():
                left.unlink()

    def _path(self, piece: Piece) -> Path:
        return self.folder / f"{piece.name}.npz"


def _save(arrays: Arrays, path: Path) -> None:
    with path.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)
