"""What a reproduction depends on, and nothing of the machine: settings, and their fingerprint."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import semiope
from semiope._options import check_count
from semiope._random import generator
from semiope._version import __version__

DATASETS, QUICK_DATASETS = 50, 2
EPISODES = 1000


@dataclass(frozen=True)
class Setup:
    """How many sepsis datasets, from which seed; or from a file, known by the digest of its content.

    `quick` tries everything out with fewer draws.
    """

    datasets: int = DATASETS
    seed: int = 0
    episodes: str | None = None
    digest: str = ""
    quick: bool = False

    def __post_init__(self) -> None:
        check_count(self.datasets, "--datasets")
        generator(self.seed)

    def told(self) -> dict[str, object]:
        """The settings as pages and the index show them: the same on every machine."""
        source = f"{Path(self.episodes).name} (sha256 {self.digest[:16]})" if self.episodes else "our simulator"
        return {
            "semiope": __version__,
            "seed": self.seed,
            "sepsis datasets": self.datasets,
            "episodes a dataset": EPISODES if not self.episodes else "as in the file",
            "sepsis episodes from": source,
            "quick": "yes: fewer draws, to try it out, not to judge by" if self.quick else "no",
        }

    def fingerprint(self) -> str:
        """What finished pieces are kept under: settings and code, but not how many datasets are asked for."""
        parts = asdict(self) | {"datasets": None, "episodes": self.episodes is not None, "semiope": __version__}
        found = hashlib.sha256(json.dumps(parts, sort_keys=True).encode())
        root = Path(semiope.__file__).parent
        for path in sorted(root.rglob("*.py")):
            found.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
        return found.hexdigest()[:16]
