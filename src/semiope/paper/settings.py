"""What a reproduction depends on, and nothing of the machine: settings, and their fingerprint."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import semiope
from semiope._options import check_count
from semiope._random import generator
from semiope._version import __version__
from semiope.errors import OptionError

DATASETS, QUICK_DATASETS = 50, 1
EPISODES = 1000
MOST_DATASETS = 100_000
# Levels of noise, shares annotated, and weights go from 0 to 1 in tenths.
TENTHS = tuple(round(0.1 * i, 1) for i in range(11))
# Standard errors that ours may be from the paper's.
WITHIN = 4.0


@dataclass(frozen=True)
class Settings:
    """How many sepsis datasets, from which seed; or from a file, known by the digest of its content.

    `quick` tries everything out with fewer draws.
    """

    datasets: int = DATASETS
    seed: int = 0
    episodes: str | None = None
    digest: str = ""
    quick: bool = False

    def __post_init__(self) -> None:
        if check_count(self.datasets, "--datasets") > MOST_DATASETS:
            raise OptionError(f"--datasets: {self.datasets:,} are too many; at most {MOST_DATASETS:,}.")
        generator(self.seed)

    def listed(self) -> dict[str, object]:
        """The settings as pages and the index show them: the same on every machine."""
        return {
            "semiope": __version__,
            "seed": self.seed,
            "sepsis datasets": self.datasets,
            "sepsis episodes from": f"a file (sha256 {self.digest[:16]})" if self.episodes else "our simulator",
            "quick": "yes: fewer draws, to try it out, not to judge by" if self.quick else "no",
        }

    def fingerprint(self) -> str:
        """What finished pieces are kept under: settings and code, but not how many datasets are asked for."""
        found = hashlib.sha256(json.dumps([self.seed, self.quick, self.digest]).encode())
        root = Path(semiope.__file__).parent
        for path in sorted((*root.rglob("*.py"), *(root / "paper" / "printed").glob("*.csv"))):
            found.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
        return found.hexdigest()[:16]
