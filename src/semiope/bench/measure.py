"""The measurements themselves."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from semiope.bench.data import Synthetic, synthetic
from semiope.data.episodes import Episodes
from semiope.domains.world import World
from semiope.errors import MissingExtraError, quietly
from semiope.estimate.evidence import gather
from semiope.estimate.passes import episode_values
from semiope.estimate.problem import Problem
from semiope.estimate.registry import ESTIMATORS
from semiope.models.counted import Counted
from semiope.pipeline import evaluate
from semiope.planning.result import Plan

EPISODES = 100_000
STEPPED = 300
BOTH = ["pdis", "pdwis", "c-pdis", "c-pdwis"]
Job = Callable[[], object]


class Measurement(NamedTuple):
    """`measured` must stay under `bar`; both in units of `relative_to`. `seconds` are given where others' are known."""

    name: str
    measured: float
    bar: float
    relative_to: str
    seconds: float | None = None

    @property
    def met(self) -> bool:
        """Whether the bar was kept."""
        return self.measured <= self.bar


def measure(*, quick: bool = False) -> list[Measurement]:
    """Measure everything; `quick` takes a tenth of the data."""
    n_episodes = EPISODES // 10 if quick else EPISODES
    data = synthetic(n_episodes)
    with quietly():
        found = [
            *_in_memory(data),
            _memory(data),
            _from_disk(data),
            _resampling(data.episodes.n_episodes),
            *_start_up(),
        ]
    return [*found, *_sepsis(n_episodes), *_planning(n_episodes), *_paper(repeats=1 if quick else 3)]


def print_measurements(measurements: list[Measurement], *, verdicts: bool) -> None:
    """Print a table; verdicts only where the data were large enough to judge by."""
    from rich.table import Table

    from semiope.reporting.terminal import console

    table = Table(title="semiope bench")
    for heading in ("what", "measured", "bar", "in units of", "seconds", ""):
        table.add_column(heading, justify="right" if heading in ("measured", "bar", "seconds") else "left")
    for one in measurements:
        verdict = ("met" if one.met else "[red]NOT MET[/]") if verdicts else ""
        seconds = "" if one.seconds is None else f"{one.seconds:.2g}"
        table.add_row(one.name, f"{one.measured:.3g}", f"{one.bar:g}", one.relative_to, seconds, verdict)
    console().print(table)


def _in_memory(data: Synthetic) -> list[Measurement]:
    episodes, annotations = data.episodes, data.annotations
    policy = data.policies["p0"]
    logged = [episodes.state, episodes.action, episodes.reward]
    answered = [annotations.episode, annotations.step, annotations.action, annotations.value]
    evidence = gather(episodes, annotations, {"p0": policy}, behavior=None, cell="state", weights="equal")
    problem = Problem.of("p0", policy, evidence, 0.99, Counted())
    seconds = best(
        {
            "floor": lambda: [column.sum() for column in logged],
            "floor with annotations": lambda: [column.sum() for column in (*logged, *answered)],
            "pdis": lambda: episode_values(problem, ESTIMATORS["pdis"].recipe),
            "c-pdis": lambda: episode_values(problem, ESTIMATORS["c-pdis"].recipe),
            # The model is fitted, and inclusion probabilities are found, in a first run that does not count.
            "pp-pdis": lambda: episode_values(problem, ESTIMATORS["pp-pdis"].recipe),
            "evaluate": lambda: _whole(episodes, policy, annotations),
        },
        repeats=15,
    )
    policies = best(
        {
            "one": lambda: _whole(episodes, {"p0": policy}, annotations),
            "all": lambda: _whole(episodes, data.policies, annotations),
        },
        repeats=3,
    )
    floor = "numpy sums of the columns read"
    return [
        Measurement("recursion with ratio look-ups, pdis", seconds["pdis"] / seconds["floor"], 4, floor),
        Measurement(
            "recursion with ratio look-ups, c-pdis",
            seconds["c-pdis"] / seconds["floor with annotations"],
            8,
            floor,
        ),
        Measurement("pp-pdis, its model fitted", seconds["pp-pdis"] / seconds["c-pdis"], 3, "c-pdis of the same data"),
        Measurement(
            "whole evaluate call, pdis and c-pdis",
            seconds["evaluate"] / seconds["floor with annotations"],
            25,
            floor,
        ),
        Measurement(f"{len(data.policies)} policies", policies["all"] / policies["one"], 20, "one policy"),
    ]


def _whole(episodes: Any, policy: Any, annotations: Any) -> list[Any]:
    """One call with all that a user reads off the results."""
    found = evaluate(episodes, policy, annotations=annotations, estimators=BOTH, gamma=0.99)
    several = found.values() if isinstance(found, dict) else [found]
    return [(e.value, e.std_error, e.ess) for results in several for e in results.values()]


def _memory(data: Synthetic) -> Measurement:
    """Peak of what evaluate allocates, beside what it reads."""
    episodes, annotations = data.episodes, data.annotations
    columns = [episodes.state, episodes.action, episodes.reward, episodes.offsets]
    columns += [annotations.episode, annotations.step, annotations.action, annotations.value]
    extra = peak(lambda: _whole(episodes, data.policies["p0"], annotations))
    return Measurement("extra peak memory of evaluate", extra / sum(c.nbytes for c in columns), 1.5, "input columns")


def _resampling(n: int) -> Measurement:
    """1000 resamples of a ratio of sums, beside drawing as many index vectors in numpy and averaging what they pick."""
    import numpy as np

    from semiope.uncertainty.bootstrap import RESAMPLES, resampled

    rng = np.random.default_rng(0)
    ratio = rng.lognormal(0, 0.5, size=n)
    values, keys = ratio * rng.normal(size=n), np.arange(n)
    seconds = best(
        {
            "ours": lambda: resampled(values, ratio, keys),
            "numpy": lambda: [values[rng.integers(n, size=n)].mean() for _ in range(RESAMPLES)],
        },
        repeats=3,
    )
    unit = "numpy drawing as many indices and averaging"
    return Measurement(f"1000 resamples of {n:,} episodes", seconds["ours"] / seconds["numpy"], 1, unit)


def _from_disk(data: Synthetic) -> Measurement:
    import pyarrow.parquet

    from semiope.data.annotations import read_annotations
    from semiope.data.episodes import read_episodes

    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / "episodes.parquet", Path(folder) / "annotations.parquet"]
        data.episodes.write(paths[0])
        data.annotations.write(paths[1])
        seconds = best(
            {
                "pyarrow": lambda: [pyarrow.parquet.read_table(path) for path in paths],
                "semiope": lambda: _whole(read_episodes(paths[0]), data.policies["p0"], read_annotations(paths[1])),
            },
            repeats=7,
        )
    return Measurement("evaluate from Parquet", seconds["semiope"] / seconds["pyarrow"], 6, "pyarrow reading the files")


def _start_up() -> list[Measurement]:
    def python(code: str) -> Job:
        return lambda: subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)

    seconds = best(
        {
            "python": python("pass"),
            "numpy, pyarrow": python("import numpy, pyarrow"),
            "semiope": python("import semiope"),
            "help": python("import sys; sys.argv = ['semiope', '--help']; from semiope.cli import main; main()"),
        },
        repeats=5,
    )
    bare = seconds["python"]
    return [
        Measurement(
            "import semiope",
            (seconds["semiope"] - bare) / (seconds["numpy, pyarrow"] - bare),
            2,
            "import numpy, pyarrow",
        ),
        Measurement("semiope --help", seconds["help"], 0.6, "seconds"),
    ]


def _sepsis(n_episodes: int) -> list[Measurement]:
    """The sepsis world: built, its 26 policies' exact values, and drawing episodes beside stepping through them."""
    from semiope.domains import sepsis

    def build() -> None:
        sepsis.model.cache_clear()
        sepsis._built.cache_clear()
        sepsis.world()

    world = sepsis.world()
    jobs: dict[str, Job] = {"built": build, "values": lambda: world.mdp.action_values(world.policies)}
    jobs["drawn"] = lambda: world.sample(n_episodes)
    jobs["completed"], jobs["weighed"] = _completing(world)
    try:
        jobs["stepped"] = _stepping(world)
    except MissingExtraError as error:
        print(f"note: stepping through episodes is not measured. {error}", file=sys.stderr)
    seconds = best(jobs, repeats=3)
    found = [
        Measurement("sepsis world built from its rules", seconds["built"], 2, "seconds"),
        Measurement("exact values of its 26 policies", seconds["values"], 2, "seconds"),
        Measurement("1,000 episodes, 26 policies, pp-dr", seconds["completed"], 5, "seconds"),
        Measurement("the same, c-pdis with optimal weights", seconds["weighed"], 5, "seconds"),
    ]
    if "stepped" in seconds:
        ratio = (seconds["drawn"] / n_episodes) / (seconds["stepped"] / STEPPED)
        unit = "stepping the Gymnasium environment"
        found.append(Measurement(f"drawing {n_episodes:,} sepsis episodes", ratio, 0.01, unit))
    return found


def _planning(n_episodes: int) -> list[Measurement]:
    """Plans for the sepsis world: for all policies at once, and for one and many episodes, with the memory it takes."""
    from semiope.domains import sepsis
    from semiope.planning.plan import plan

    world, (name, policy) = sepsis.world(), list(sepsis.world().policies.items())[-1]
    few, some, many = (world.sample(n) for n in (1000, n_episodes // 10, n_episodes))

    def alone(episodes: Episodes) -> Plan:
        return plan(episodes, {name: policy}, 5000, gamma=sepsis.GAMMA, least_gain=0.0)

    def memory(episodes: Episodes) -> float:
        return peak(lambda: alone(episodes)) / episodes.n_steps

    seconds = best(
        {"together": lambda: plan(few, world.policies, 1000, gamma=sepsis.GAMMA), "alone": lambda: alone(many)},
        repeats=2,
    )
    return [
        Measurement("plan: 1,000 episodes, 26 policies, 1,000 questions", seconds["together"], 5, "seconds"),
        Measurement(f"plan: {n_episodes:,} episodes, one policy, 5,000 questions", seconds["alone"], 30, "seconds"),
        Measurement("memory of that plan for a step", memory(many) / memory(some), 1.1, "with a tenth of the episodes"),
    ]


def _paper(*, repeats: int) -> list[Measurement]:
    """The paper's experiments on one sepsis dataset, per policy and setting, beside what its own code needs for one."""
    from semiope.domains import sepsis
    from semiope.paper import trials
    from semiope.paper.settings import TENTHS, Settings

    settings = Settings()
    data = trials.Dataset.of(settings, 0)
    world, pdis, c_pdis = sepsis.world(), trials.PDIS, trials.C_PDIS
    of_each, of_today = data.ask(trials.returns()), data.ask(world.behavior)
    soft = {name: policy.soften(trials.SOFTENED) for name, policy in world.policies.items()}
    both = ("naive-unweighted", "naive-weighted")
    levels = len(TENTHS)
    # How many settings a job goes through, the seconds that the authors' code needs for one policy and dataset, as
    # measured on another machine, and the bar.
    experiments: dict[str, tuple[Job, int, float, float]] = {
        "PDIS": (lambda: data.estimate(pdis), 1, 1.6, 0.004),
        "naive": (lambda: data.estimate(both, of_each, policies=soft, cell="state"), 2, 4.7, 0.002),
        "C*-PDIS": (lambda: data.estimate(c_pdis, of_each), 1, 10.5, 0.002),
        "correction of Qb": (lambda: data.estimate(c_pdis, of_today, repair="convert:authors"), 1, 13.8, 0.003),
        "noise": (lambda: trials.vary_noise(settings, 0), 2 * levels, 10.6, 0.0005),
        "missing": (lambda: trials.vary_share(settings, 0), 4 * (levels - 1), 3.6, 0.002),
    }
    seconds = best({name: job for name, (job, *_) in experiments.items()}, repeats=repeats)
    ours = {name: seconds[name] / times / len(world.policies) for name, (_, times, *_) in experiments.items()}
    return [
        Measurement(f"paper: {name}, a policy and dataset", own / theirs, bar, f"the authors' {theirs:g} s", own)
        for name, own in ours.items()
        for *_, theirs, bar in [experiments[name]]
    ]


def _completing(world: World) -> tuple[Job, Job]:
    """One dataset of the paper's size, few noisy annotations: pp-dr of all policies, c-pdis with optimal weights."""
    from semiope.domains.annotators import Annotator

    episodes = world.sample(1000)
    annotations = world.annotate(episodes, world.policies, annotators=Annotator(std=0.2, ratio=0.1))
    options: dict[str, Any] = {"annotations": annotations, "cell": "step,state", "gamma": 0.99}

    def quiet(**more: Any) -> Any:
        with quietly():
            return evaluate(episodes, world.policies, **options, **more)

    return lambda: quiet(estimators=["pp-dr"]), lambda: quiet(estimators=["c-pdis"], weights="optimal")


def _stepping(world: World) -> Job:
    """Stepping through some episodes of the environment, under the policy that the behaviour explores around."""
    from semiope.domains.environment import SepsisEnv

    env, action = SepsisEnv(), world.behavior.probs.argmax(axis=1)

    def step_through() -> None:
        env.reset(seed=0)
        for _ in range(STEPPED):
            state, over = env.reset()[0], False
            while not over:
                state, _, terminated, truncated, _ = env.step(action[state])
                over = terminated or truncated

    return step_through


def peak(job: Job) -> int:
    """Peak of what a job allocates; compiled code allocates next to nothing, so that tracemalloc sees it all."""
    tracemalloc.start()
    job()
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found


def best(jobs: dict[str, Job], *, repeats: int) -> dict[str, float]:
    """Return the shortest time of each job; the jobs take turns, so that a busy moment does not hit only one."""
    for job in jobs.values():
        job()
    seconds = dict.fromkeys(jobs, float("inf"))
    for _ in range(repeats):
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            seconds[name] = min(seconds[name], time.perf_counter() - start)
    return seconds
