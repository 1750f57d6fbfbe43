"""The gauntlet: does semiope hold what it says, in worlds that nobody tuned for?

    python benchmarks/gauntlet --out FOLDER [--held-out] [--datasets 60] [--families garnet,ward] [--parts plain]
    python benchmarks/gauntlet --out FOLDER --report TABLE.md

Each family of worlds is run with so many datasets; a run that was interrupted goes on where it was. Development seeds
are for looking at; held-out seeds are run only to report.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from datasets import HELD_OUT
from report import report
from run import PARTS, read, run
from worlds import FAMILIES


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--held-out", action="store_true", help="run the seeds that are there to report")
    parser.add_argument("--datasets", type=int, default=60, help="of each family")
    parser.add_argument("--first", type=int, default=0, help="the first seed, counted from that of the set")
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--cache", type=Path, help="keeps what is true in worlds with features; default: OUT/truth")
    parser.add_argument("--report", type=Path, help="write the tables of what was run, and run nothing")
    given = parser.parse_args()
    path = given.out / "results.jsonl"
    if given.report is not None:
        given.report.write_text(report(read(path)), encoding="utf-8")
        return
    given.out.mkdir(parents=True, exist_ok=True)
    first = given.first + (HELD_OUT if given.held_out else 0)

    def progress(done: int, total: int) -> None:
        if done % 20 == 0 or done == total:
            print(f"{done} of {total}", file=sys.stderr, flush=True)

    wanted = [(family, seed) for seed in range(first, first + given.datasets) for family in given.families.split(",")]
    run(wanted, tuple(given.parts.split(",")), path, given.jobs, progress, given.cache or given.out / "truth")


if __name__ == "__main__":
    main()
