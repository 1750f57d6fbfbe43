"""Every estimator once more, from the paper's formulas: sums over steps and branches, plain dicts and loops."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import semiope as so
from tests.contract.worlds import N_ACTIONS, Logs, random_logs

pytestmark = pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")

GAMMA = 0.9
Step = dict[str, Any]  # cell, state, action (-1: none), reward, answers {action: value}, weights {action: weight}


class Oracle:
    """The data as lists of steps, and every quantity of sections 2 and 3 by definition."""

    def __init__(self, logs: Logs, weights: str, cell: str, known: bool) -> None:
        self.e, self.known = logs.evaluation, known
        self.episodes: list[list[Step]] = [[] for _ in range(int(logs.episodes["episode"].max()) + 1)]
        for i, (episode, step) in enumerate(zip(logs.episodes["episode"], logs.episodes["step"], strict=True)):
            state, action = int(logs.episodes["state"][i]), int(logs.episodes["action"][i])
            where = (step, state) if cell == "step,state" else state
            row = {"cell": where, "state": state, "action": action, "reward": logs.episodes["reward"][i]}
            self.episodes[episode].append({**row, "answers": {}, "column": {}})
        for i, (episode, step) in enumerate(zip(logs.annotations["episode"], logs.annotations["step"], strict=True)):
            action = int(logs.annotations["action"][i])
            self.episodes[episode][step]["answers"][action] = logs.annotations["value"][i]
            self.episodes[episode][step]["column"][action] = logs.annotations["weight"][i]
        steps = [s for episode in self.episodes for s in episode if s["action"] >= 0]
        for s in steps:
            equal = 1 / (1 + len(s["answers"]))
            share = {"equal": dict.fromkeys(s["answers"], equal), "column": s["column"], "factual": {}}[weights]
            s["weights"] = {**share, s["action"]: 1 - sum(share.values())}
        self.b = self._behavior(steps, logs)
        self.augmented = self._augmented(steps)

    def _behavior(self, steps: list[Step], logs: Logs) -> dict[Any, list[float]]:
        if self.known:
            return {s["cell"]: list(logs.behavior[s["state"]]) for s in steps}
        taken = defaultdict(list)
        for s in steps:
            taken[s["cell"]].append(s["action"])
        return {cell: [actions.count(a) / len(actions) for a in range(N_ACTIONS)] for cell, actions in taken.items()}

    def _augmented(self, steps: list[Step]) -> dict[Any, list[float]]:
        """Definition 1."""
        found = {}
        for cell, b in self.b.items():
            total = [0.0] * N_ACTIONS
            for taken in range(N_ACTIONS):
                here = [s["weights"] for s in steps if s["cell"] == cell and s["action"] == taken]
                for a in range(N_ACTIONS):
                    samples = here or [s["weights"] for s in steps if s["action"] == taken]
                    mean = sum(w.get(a, 0.0) for w in samples) / len(samples) if samples else float(a == taken)
                    total[a] += mean * b[taken]
            found[cell] = total
        return found

    def factors(self, s: Step, family: str) -> tuple[float, dict[int, float]]:
        """The factor of the action taken, and the shares of the annotated ones."""
        if s["action"] < 0:
            return 1.0, {}
        e, a = self.e[s["state"]].tolist(), s["action"]
        if family == "c*":
            return e[a], {x: e[x] for x in s["answers"]}
        if family == "c-":
            plus = self.augmented[s["cell"]]
            ratio = {x: e[x] / plus[x] if plus[x] else 0.0 for x in s["weights"]}
            return s["weights"][a] * ratio[a], {x: s["weights"].get(x, 0.0) * ratio.get(x, 0.0) for x in s["answers"]}
        return e[a] / self.b[s["cell"]][a], {}

    def branches(self, episode: list[Step], family: str) -> list[tuple[float, float]]:
        """The logged path and, for each annotation, the path that leaves it there: weight and return."""
        found, weight, so_far = [], 1.0, 0.0
        for t, s in enumerate(episode):
            f, shares = self.factors(s, family)
            found += [(weight * share, so_far + GAMMA**t * s["answers"][x]) for x, share in shares.items()]
            weight, so_far = weight * f, so_far + GAMMA**t * s["reward"]
        return [*found, (weight, so_far)]

    def per_decision(self, episode: list[Step], family: str) -> float:
        """Each reward times the product of the factors up to its step, each annotation times those before it."""
        total, product = 0.0, 1.0
        for t, s in enumerate(episode):
            f, shares = self.factors(s, family)
            total += sum(GAMMA**t * product * share * s["answers"][x] for x, share in shares.items())
            product *= f
            total += GAMMA**t * product * s["reward"]
        return total

    def controlled(self, episode: list[Step], family: str, model: Any) -> float:
        """The per-decision value with the model as control variate: for each factor on a return, what it expects."""
        total, product = self.per_decision(episode, family), 1.0
        for t, s in enumerate(episode):
            f, shares = self.factors(s, family)
            if s["action"] >= 0:
                q = model[s["state"]]
                weighed = f * q[s["action"]] + sum(share * q[x] for x, share in shares.items())
                total += GAMMA**t * product * (float(self.e[s["state"]] @ q) - weighed)
            product *= f
        return total

    def direct(self, episode: list[Step], model: Any) -> float:
        """What was paid before the first decision, and what the model expects there."""
        total = 0.0
        for t, s in enumerate(episode):
            if s["action"] >= 0:
                return total + GAMMA**t * float(self.e[s["state"]] @ model[s["state"]])
            total += GAMMA**t * s["reward"]
        return total

    def naive(self, weighted: bool) -> list[list[tuple[float, float]]]:
        """Literally: each annotation becomes an episode of its own; count pi_b; importance sampling of all."""
        samples: list[list[tuple[float, list[Step]]]] = []
        for episode in self.episodes:
            paths = [episode]
            for t, s in enumerate(episode):
                ends = [{**s, "action": a, "reward": value} for a, value in s["answers"].items()]
                paths += [[*episode[:t], end] for end in ends]
            samples.append([(1 / len(paths) if weighted else 1.0, path) for path in paths])
        counts: dict[Any, list[float]] = defaultdict(lambda: [0.0] * N_ACTIONS)
        for weight, path in (sample for own in samples for sample in own):
            for s in path:
                if s["action"] >= 0:
                    counts[s["cell"]][s["action"]] += weight

        def ratio(s: Step) -> float:
            n = counts[s["cell"]]
            return float(self.e[s["state"], s["action"]]) / (n[s["action"]] / sum(n)) if s["action"] >= 0 else 1.0

        def worth(path: list[Step]) -> float:
            return float(sum(GAMMA**t * s["reward"] for t, s in enumerate(path)))

        return [[(weight * math.prod(map(ratio, path)), worth(path)) for weight, path in own] for own in samples]


def expected(oracle: Oracle, name: str, model: Any) -> tuple[float, float, float]:
    """Value, standard error and effective sample size."""
    if name == "dm":
        n, v = len(oracle.episodes), np.array([oracle.direct(episode, model) for episode in oracle.episodes])
        return float(v.mean()), float(v.std(ddof=1)) / math.sqrt(n), float(n)
    if name.startswith("naive"):
        branches = oracle.naive("unweighted" not in name)
        samples = [float(len(paths)) for paths in branches]
        squares = sum(w * w for paths in branches for w, _ in paths)
    else:
        family = "c-" if name == "dm-is+" else name[:2] if name[:2] in ("c-", "c*") else ""
        branches = [oracle.branches(episode, family) for episode in oracle.episodes]
        samples = [1.0] * len(branches)
        squares = sum(sum(w for w, _ in paths) ** 2 for paths in branches)
    m = np.array([sum(w for w, _ in paths) for paths in branches])
    v = np.array([sum(w * g for w, g in paths) for paths in branches])
    if "pd" in name:
        v = np.array([oracle.per_decision(episode, family) for episode in oracle.episodes])
    elif name in ("dr", "dm-is+"):
        v = np.array([oracle.controlled(episode, family, model) for episode in oracle.episodes])
    below = m if name.endswith("wis") else np.array(samples if "unweighted" in name else [1.0] * len(m))
    if not below.sum():
        return math.nan, math.nan, 0.0
    value = v.sum() / below.sum()
    n = len(v)
    influence = (v - value * below) / below.mean()
    error = math.sqrt((influence**2).sum() / (n * (n - 1)))
    return value, error, m.sum() ** 2 / squares if squares else 0.0


# By hand elsewhere: those normalized per step, and those whose model learns from annotations.
NAMES = [name for name, one in so.ESTIMATORS.items() if not one.recipe.per_step and one.recipe.critic != "annotated"]


@pytest.mark.parametrize("weights", ["equal", "column", "factual"])
@pytest.mark.parametrize("cell", ["state", "step,state"])
@given(seed=st.integers(0, 10**6), known=st.booleans(), full=st.booleans())
@settings(max_examples=30)
def test_all(weights: str, cell: str, seed: int, known: bool, full: bool) -> None:
    logs = random_logs(seed, fully_annotated=full)
    names = [name for name in NAMES if full or so.ESTIMATORS[name].requires is None]
    options: dict[str, Any] = {} if known else {"behavior": "count"}
    if not len(logs.annotations["step"]):
        weights = "factual"
    model = np.random.default_rng(seed).normal(size=logs.evaluation.shape)
    found = logs.evaluate(names, weights=weights, cell=cell, model=model, **options)
    oracle = Oracle(logs, weights, cell, known)
    for name in names:
        figures = found[name].value, found[name].over_episodes, found[name].ess
        assert figures == pytest.approx(expected(oracle, name, model), rel=1e-9, abs=1e-9, nan_ok=True), name
