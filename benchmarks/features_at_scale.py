"""Time and memory of `so.evaluate` where states are features, beside scikit-learn's own fits of the same data.

    python benchmarks/features_at_scale.py [--rows 1000000] [--threads 1]

Episodes have ten steps, 20 features and 8 actions; 1% of the questions about actions not taken are annotated. Each side
runs in a process of its own, after a run on little data, so that nothing is compiled or imported while the clock runs.
Time is that of the processor, so that others on the machine do not count. Memory is the peak of the process while it
works, beyond what it held before: features and tables stay out.

scikit-learn's own: in the same five folds, a logistic regression of the action on standardized features and the step, a
ridge regression of the return on features, step and action (one-hot), and what both predict of every action in the rows
of the fold. semiope does besides: calibration, fitted Q evaluation with curves and interactions, the regression of
annotations, inclusion probabilities, estimates and findings.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

FEATURES, ACTIONS, STEPS, FOLDS = 20, 8, 10, 5
SHARE = 0.01
MOST_MEMORY, MOST_TIME = 1.3, 3.0


def policy(x: Any) -> Any:
    """Probabilities of the candidate: a softmax of some of the features."""
    import numpy as np

    weights = np.random.default_rng(2).normal(size=(x.shape[1], ACTIONS)) / 4
    scores = x @ weights
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def make(rows: int) -> tuple[Any, Any]:
    """Episodes and annotations."""
    import numpy as np

    import semiope as so

    rng = np.random.default_rng(0)
    n = rows // STEPS
    x = rng.normal(size=(n * STEPS, FEATURES))
    weights = rng.normal(size=(FEATURES, ACTIONS)) / 3
    action = (x @ weights + rng.gumbel(size=(len(x), ACTIONS))).argmax(axis=1)
    effects = rng.normal(size=(FEATURES, ACTIONS)) / 5
    mean = x @ effects
    reward = mean[np.arange(len(x)), action] + 0.2 * x[:, 0] ** 2 + rng.normal(size=len(x))
    episode, step = np.repeat(np.arange(n), STEPS), np.tile(np.arange(STEPS), n)
    episodes = so.Episodes.from_arrays(episode=episode, step=step, action=action, reward=reward, features=x)
    asked = rng.random((len(x), ACTIONS)) < SHARE
    asked[np.arange(len(x)), action] = False
    row, other = np.nonzero(asked)
    value = mean[row, other] + 0.3 * (STEPS - 1 - step[row]) + rng.normal(size=len(row)) / 2
    annotations = so.Annotations.from_arrays(
        episode=episode[row], step=step[row], action=other, value=value, annotator=np.array(["ana", "ben"])[row % 2]
    )
    return episodes, annotations


def ours(episodes: Any, annotations: Any) -> list[float]:
    """The plain call; returns the estimates."""
    import semiope as so

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = so.evaluate(episodes, policy, annotations=annotations, behavior="logistic")
    return [number for one in results.estimates.values() for number in (one.value, one.std_error)]


def theirs(episodes: Any, annotations: Any) -> list[float]:
    """scikit-learn's own fits and predictions, in the same folds."""
    import numpy as np
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from semiope.models.folds import deal

    x = np.column_stack([episodes.features.matrix, episodes.step])
    action, returns = episodes.action.astype(np.int64), episodes.returns_to_go(1.0)
    fold, one_hot = np.repeat(deal(episodes.n_episodes, FOLDS), episodes.lengths), np.eye(ACTIONS)
    probs, values = np.empty((len(x), ACTIONS)), np.empty((len(x), ACTIONS))
    for k in range(FOLDS):
        own, train = fold == k, fold != k
        classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(x[train], action[train])
        probs[own] = classifier.predict_proba(x[own])
        ridge = Ridge().fit(np.hstack([x[train], one_hot[action[train]]]), returns[train])
        for a in range(ACTIONS):
            which = np.tile(one_hot[a], (int(own.sum()), 1))
            values[own, a] = ridge.predict(np.hstack([x[own], which]))
    return [float(probs[np.arange(len(x)), action].mean()), float(values.mean())]


SIDES: dict[str, Callable[[Any, Any], list[float]]] = {"ours": ours, "theirs": theirs}


def peak() -> float:
    """The most memory this process has held since it last forgot, in bytes."""
    found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found is not None
    return 1024.0 * int(found.group(1))


def measure(side: str, rows: int) -> dict[str, Any]:
    """Run one side in this process."""
    SIDES[side](*make(2_000))
    episodes, annotations = make(rows)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak
    before, start = peak(), time.process_time()
    numbers = SIDES[side](episodes, annotations)
    seconds = time.process_time() - start
    beyond = (peak() - before) / episodes.features.matrix.nbytes
    return {"seconds": seconds, "memory": beyond, "numbers": numbers}


def main() -> None:
    """Measure both sides and print ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--threads", type=int, default=1, help="of linear algebra, the same for both sides")
    parser.add_argument("--side", choices=SIDES, help="run this side alone, and print what was measured as JSON")
    given = parser.parse_args()
    if given.side:
        print(json.dumps(measure(given.side, given.rows)))
        return
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(given.threads))
    found = {}
    for side in SIDES:
        call = [sys.executable, __file__, "--rows", str(given.rows), "--side", side]
        done = subprocess.run(call, env={**os.environ, **threads}, stdout=subprocess.PIPE, check=True, text=True)
        found[side] = json.loads(done.stdout)
        print(f"{side:>7}: {found[side]['seconds']:8.2f} s, memory {found[side]['memory']:6.2f} times the features")
    ratio = found["ours"]["seconds"] / found["theirs"]["seconds"]
    print(f"time {ratio:.2f} times scikit-learn's own, at most {MOST_TIME:g}: {_met(ratio <= MOST_TIME)}")
    memory = found["ours"]["memory"]
    print(f"memory {memory:.2f} times the features, at most {MOST_MEMORY:g}: {_met(memory <= MOST_MEMORY)}")


def _met(so: bool) -> str:
    return "met" if so else "NOT MET"


if __name__ == "__main__":
    main()
