"""Error and time of semiope, d3rlpy and SCOPE-RL on the same logs with features, in one run.

    python benchmarks/peers_features.py --peers-python PYTHON [--datasets 5] [--families vitals,glucose,...]
                                        [--steps 10000] [--rates 0.0001] [--json FILE]

PYTHON is that of an environment of their own, never this one:

    python -m venv peers && peers/bin/pip install d3rlpy scope-rl

The worlds are those of the gauntlet with features and several steps, development seeds only. Each dataset has 2,000
episodes and the true probabilities of logged actions, which all libraries get. What is told apart:

- `pp-dr` sees annotations of 5% of the questions as well. There is no counterpart elsewhere.
- `dm`, `dr`, `wdr` and `pdis` see what the others see. `pdis` must come out the same as SCOPE-RL's.

The networks get standardized features and the step, because values depend on the time that is left; semiope takes the
table as it is. Each runs on one thread. Errors are in standard deviations of Q over the questions. Seconds are those of
the processor for a whole call from data in memory to the estimate, without imports and without compiling. A run that
was interrupted goes on from the lines in FILE.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

# One thread each, set before numpy is imported; the other environment inherits it.
os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
sys.path.insert(0, str(Path(__file__).parent / "gauntlet"))

import numpy as np
from datasets import Dataset, dataset

import semiope as so
from semiope.errors import quietly

# Worlds with features in which an episode has several decisions.
SEVERAL_STEPS = ("vitals", "glucose", "ventilation", "cartpole")
FIRST_SEED, HELD_OUT_SEEDS = 6000, 10_000
# SCOPE-RL trains in epochs of this many gradient steps, and not at all for fewer.
EPOCH = 10_000
RUNNER = Path(__file__).with_name("peers_runner.py")

# By method: a value and seconds.
Found = dict[str, dict[str, float]]


def by_semiope(data: Dataset) -> Found:
    """Each estimator by a call of its own; annotations go to `pp-dr` alone."""
    found: Found = {}
    for name in ("pp-dr", "dr", "wdr", "dm", "pdis"):
        annotations = data.annotations if name == "pp-dr" else None
        started = time.process_time()
        with quietly():
            results = so.evaluate(data.episodes, data.policy, annotations=annotations, estimators=name, **data.options)
        value = float(results[name].value)
        found[f"semiope {name}"] = {"value": value, "seconds": time.process_time() - started}
    return found


def write_log(data: Dataset, path: Path) -> None:
    """The same logs as arrays: standardized features and the step, actions by number, rewards, ends, probabilities."""
    episodes = data.episodes
    x, actions = episodes.features.matrix, list(data.policy.actions)
    numbers = np.array([actions.index(word) for word in episodes.actions.words.to_pylist()])
    length = np.diff(episodes.offsets)
    step = np.arange(len(x)) - np.repeat(episodes.offsets[:-1], length)
    end = np.zeros(len(x), dtype=bool)
    end[episodes.offsets[1:] - 1] = True
    seen = np.column_stack([x, step])
    spread = seen.std(axis=0)
    np.savez(
        path, observation=(seen - seen.mean(axis=0)) / np.where(spread > 0, spread, 1.0), end=end,
        action=numbers[episodes.action], reward=episodes.reward, pscore=episodes.behavior_prob,
        probs=data.policy.predict(x), gamma=data.options["gamma"], seed=data.seed,
    )  # fmt: skip


def by_peers(data: Dataset, python: Path, steps: int, rates: str) -> dict[str, Any]:
    """What the other libraries find, by their own interpreter."""
    with tempfile.TemporaryDirectory() as folder:
        log, found = Path(folder) / "log.npz", Path(folder) / "found.json"
        write_log(data, log)
        command = [str(python), str(RUNNER.resolve()), str(log), str(found), "--steps", str(steps), "--rates", rates]
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if ran.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{ran.stderr[-3000:]}")
        answer: dict[str, Any] = json.loads(found.read_text(encoding="utf-8"))
        return answer


def examine(family: str, seed: int, given: argparse.Namespace) -> dict[str, Any]:
    """One dataset: errors in standard deviations of Q, and seconds."""
    data = dataset(
        family, seed, kind="three", design="at random", n=2000, share=0.05, noise=(0.1, 0.2, 0.4), propensities=True
    )
    row: dict[str, Any] = {"family": family, "seed": seed, "rows": data.episodes.n_steps, "versions": {}, "missing": {}}
    found = by_semiope(data)
    if given.peers_python is None:
        row["missing"] = dict.fromkeys(("d3rlpy", "SCOPE-RL"), "no --peers-python was given")
    else:
        peers = by_peers(data, given.peers_python, given.steps, given.rates)
        row |= {"versions": peers["versions"], "missing": peers["missing"]}
        found |= peers["found"]
    if "SCOPE-RL pdis" in found:
        ours, theirs = found["semiope pdis"]["value"], found["SCOPE-RL pdis"]["value"]
        assert np.isclose(ours, theirs, rtol=1e-6, atol=1e-6 * data.unit), f"pdis differs: {ours}, {theirs}"
    row["methods"] = {
        name: {"error": (one["value"] - data.truth) / data.unit, "seconds": one["seconds"]}
        for name, one in found.items()
    }
    return row


def read(path: Path | None) -> list[dict[str, Any]]:
    """Datasets that were examined before."""
    if path is None or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def table(rows: list[dict[str, Any]]) -> str:
    """Root mean square error by world, over all datasets its median and largest absolute error, and median seconds."""
    families = list(dict.fromkeys(row["family"] for row in rows))
    errors: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    seconds: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        for name, one in row["methods"].items():
            errors[name][row["family"]].append(one["error"])
            seconds[name].append(one["seconds"])
    lines = [
        f"| method | {' | '.join(families)} | median | largest | seconds |",
        f"|---|{'---|' * len(families)}---|---|---|",
    ]
    for name, by_family in errors.items():
        every = np.abs(np.concatenate(list(by_family.values())))
        cells = [f"{np.sqrt(np.mean(np.square(by_family[family]))):.3f}" for family in families]
        cells += [f"{np.median(every):.3f}", f"{every.max():.3f}", f"{np.median(seconds[name]):.3g}"]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Run all datasets and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers-python", type=Path, help="interpreter of the environment with d3rlpy and SCOPE-RL")
    parser.add_argument("--families", default=",".join(SEVERAL_STEPS))
    parser.add_argument("--datasets", type=int, default=5, help="of each family")
    parser.add_argument("--steps", type=int, default=EPOCH, help="gradient steps, a multiple of 10,000")
    parser.add_argument("--rates", default="0.0001", help="learning rates, by commas; the default is theirs")
    parser.add_argument("--json", type=Path, help="write a line for each dataset here")
    given = parser.parse_args()
    if given.steps < EPOCH or given.steps % EPOCH:
        parser.error(f"--steps is {given.steps}. SCOPE-RL trains in epochs of 10,000 steps: give a multiple of it.")
    if not 0 < given.datasets <= HELD_OUT_SEEDS - FIRST_SEED:
        parser.error(f"--datasets is {given.datasets}. Give 1 to {HELD_OUT_SEEDS - FIRST_SEED}.")
    wanted = [(family, FIRST_SEED + k) for k in range(given.datasets) for family in given.families.split(",")]
    rows = read(given.json)
    known = {(row["family"], row["seed"]) for row in rows}
    examine(*wanted[0], argparse.Namespace(peers_python=None))  # compiled code is on disk after this
    for family, seed in wanted:
        if (family, seed) in known:
            continue
        rows.append(examine(family, seed, given))
        print(f"{family} {seed}: {len(rows)} of {len(wanted)}", file=sys.stderr, flush=True)
        if given.json is not None:
            given.json.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    print(table(rows))
    print(f"\n{len(rows)} datasets; {given.steps:,} gradient steps; {rows[-1]['versions']}")
    for peer, why in rows[-1]["missing"].items():
        print(f"missing: {peer} ({why})")


if __name__ == "__main__":
    main()
