"""Commands that bring their own data: `semiope demo`, `simulate`, `reproduce` and `bench`."""

from __future__ import annotations

import shlex
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from semiope.cli.app import app
from semiope.cli.files import check_targets, write
from semiope.errors import OptionError


@app.command()
def demo(
    report: Annotated[str, typer.Option(metavar="FILE.html", help="Where to write the report.")] = "semiope-demo.html",
) -> None:
    """Simulate a ward, evaluate 26 policies from its logs, ask annotators, evaluate again, and write a report.

    Then the same with vitals in the place of states.
    """
    from semiope.example.demo import run

    check_targets(None, report, [])
    run(Path(report))


@app.command()
def simulate(
    domain: Annotated[str, typer.Argument(metavar="sepsis|bandit|tree", help="World to draw from.")],
    out: Annotated[str, typer.Option(metavar="DIR", help="New or empty folder to write to.")],
    episodes: Annotated[int, typer.Option(metavar="N", help="How many episodes.")] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    policy: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Policy to evaluate; may be given several times. Default: all."),
    ] = None,
    annotator: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[,bias=B][,std=S][,ratio=R]",
            help="Expert who answers a share R of the questions with this bias and std of noise; may be given several "
            "times. Default: exact answers to all.",
        ),
    ] = None,
    annotate: Annotated[
        str, typer.Option(metavar="evaluation|behavior", help="Policy whose returns the experts have in mind.")
    ] = "evaluation",
    propensities: Annotated[
        bool, typer.Option("--propensities", help="Log the probability of the action taken (column behavior_prob).")
    ] = False,
    file_format: Annotated[str, typer.Option("--format", help="parquet, csv or feather.")] = "parquet",
) -> None:
    """Draw a dataset from a world in which the truth is known: episodes, policies, annotations, true values."""
    from semiope._options import check_count
    from semiope._random import generator
    from semiope.domains.annotators import read_annotator
    from semiope.domains.simulate import simulate as write_data
    from semiope.domains.simulate import world_of
    from semiope.reporting.terminal import DelayedProgress, console

    check_count(episodes, "--episodes")
    generator(seed)
    if not out:
        raise OptionError("--out: name a folder.")
    experts = [read_annotator(text) for text in annotator or []]
    with DelayedProgress("simulating") as progress:
        written = write_data(
            world_of(domain), Path(out), episodes, seed=seed, policies=policy or [], annotators=experts,
            annotate_under=annotate, propensities=propensities, suffix=file_format, progress=progress,
        )  # fmt: skip
    printed = console()
    told = f"{len(written.files)} files in {out}: episodes, policies/, annotations/, truth ... For instance:"
    printed.print(told, soft_wrap=True, markup=False)
    printed.print(f"  {shlex.join(written.command)}", soft_wrap=True, markup=False)


@app.command()
def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help="table1 ... table5, fig5, fig7 ... fig12, intuition, or all (default); beyond the paper: questions.",
        ),
    ] = None,
    out: Annotated[str, typer.Option(metavar="DIR", help="Folder to write to.")] = "reproduction",
    datasets: Annotated[
        int | None, typer.Option(metavar="N", help="How many sepsis datasets. Default: 50; with --quick 1.")
    ] = None,
    episodes: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Sepsis episodes with a column run, in place of simulated ones."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    jobs: Annotated[int | None, typer.Option(metavar="N", help="How many processes. Default: one a core.")] = None,
    quick: Annotated[bool, typer.Option(help="Fewer datasets and draws: to try it out, not to judge by.")] = False,
) -> None:
    """Compute the tables and figures of the paper anew, and put them beside what it prints.

    An interrupted run goes on where it was: the same command again.
    """
    from semiope.paper.run import reproduce as run
    from semiope.paper.settings import DATASETS, QUICK_DATASETS, Settings
    from semiope.reporting.terminal import DelayedProgress, print_reproduced

    if not out:
        raise OptionError("--out: name a folder.")
    number = (QUICK_DATASETS if quick else DATASETS) if datasets is None else datasets
    settings = Settings(number, seed, episodes, quick=quick)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as Ctrl-C does
    try:
        with DelayedProgress("reproducing") as progress:
            found = run(names or [], settings, Path(out), jobs=jobs, progress=progress)
    except KeyboardInterrupt:
        print("interrupted: finished pieces are kept, and the same command goes on from there.", file=sys.stderr)
        raise SystemExit(130) from None
    print_reproduced({name: one.claims for name, one in found.made.items()}, found.files, out, quick=quick)


@app.command()
def bench(
    json: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the measurements as JSON (- for standard output).")
    ] = None,
    quick: Annotated[bool, typer.Option(help="A tenth of the data: to try it out, not to judge by.")] = False,
) -> None:
    """Measure speed and memory on synthetic data, as ratios to what the machine itself needs."""
    from semiope.bench import measure, print_measurements
    from semiope.reporting.document import to_json

    check_targets(json, None, [])
    measurements = measure(quick=quick)
    if json != "-":
        print_measurements(measurements, verdicts=not quick)
    write({json: to_json([one._asdict() for one in measurements])})
