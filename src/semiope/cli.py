"""The command line: parse, call, print. Exit status 0 done, 2 bad input, 1 anything unexpected."""

from __future__ import annotations

import functools
import os
import shlex
import signal
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from semiope._files import exists, write_whole
from semiope._version import __version__
from semiope.errors import OptionError, OutputError, SchemaError, SemiopeError, nearest, quietly

if TYPE_CHECKING:
    from semiope.pipeline import Results

app = typer.Typer(
    help="Semi-offline policy evaluation: what would a new policy be worth, from logs and expert annotations?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # labels may be beyond what the terminal can show
    try:
        app()
    except SemiopeError as error:
        _refuse(str(error))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains again at its end
        raise SystemExit(1) from None
    except OSError as error:
        _refuse(f"cannot write the results: {error.strerror or error}.")


def _refuse(message: str) -> NoReturn:
    printable = "".join(c if c.isprintable() else repr(c)[1:-1] for c in message)
    print(f"error: {printable}", file=sys.stderr)
    raise SystemExit(2) from None


def _version(wanted: bool) -> None:
    if wanted:
        print(f"semiope {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@app.command()
def evaluate(
    episodes: Annotated[str, typer.Argument(help="Logged episodes: Parquet, CSV, Feather, or a folder of parts.")],
    policy: Annotated[
        list[str], typer.Option(metavar="[NAME=]FILE", help="Policy to evaluate; may be given several times.")
    ],
    annotations: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]FILE", help="Counterfactual annotations; with a name, for the policy of that name only."
        ),
    ] = None,
    behavior: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|count",
            help="Behaviour policy. Default: the column behavior_prob if there, else counted from the logs.",
        ),
    ] = None,
    cell: Annotated[
        str, typer.Option(help="state, or step,state: cells over which behaviour and mean weights are counted.")
    ] = "state",
    estimators: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="Estimators. Default: a sensible set for the data at hand.")
    ] = None,
    weights: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE",
            help="Split weights: equal, factual, annotated, column, inverse-variance, optimal, auto, or a table.",
        ),
    ] = "equal",
    repair: Annotated[
        str | None,
        typer.Option(
            metavar="STEP[,STEP...]",
            help="Make annotations usable: pool, convert[:authors|state], impute[:step], model; or auto.",
        ),
    ] = None,
    model: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE",
            help="Model of returns for dm, dr ...: empirical; linear, forest, boosting (with --features); or a table.",
        ),
    ] = "empirical",
    features: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="Columns of the episodes that a model by regression uses.")
    ] = None,
    means: Annotated[
        str | None,
        typer.Option(
            metavar="cell|prefix",
            help="Mean split weights: per cell, or, if which steps were asked about depends on the episode's past, "
            "weighted by prefix. Default: cell.",
        ),
    ] = None,
    gamma: Annotated[float, typer.Option(help="Discount factor.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Seed of resamples and shuffles.")] = 0,
    alpha: Annotated[float, typer.Option(help="Intervals have level 1 - alpha.")] = 0.05,
    ci: Annotated[
        str, typer.Option(metavar="METHOD", help="Intervals: t, normal, bootstrap, studentized or bca.")
    ] = "t",
    json: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the results as JSON (- for standard output).")
    ] = None,
    report: Annotated[str | None, typer.Option(metavar="FILE.html", help="Write a report as a web page.")] = None,
) -> None:
    """Estimate what policies are worth, from logged episodes and, if there are any, counterfactual annotations."""
    from semiope._random import generator
    from semiope.reporting.document import document, to_json
    from semiope.reporting.terminal import DelayedProgress, print_document
    from semiope.uncertainty.intervals import check_alpha, check_method

    check_alpha(alpha)
    check_method(ci)
    generator(seed)
    policies = _named(policy)
    answers = _answers(annotations or [], policies)
    inputs = [episodes, *policies.values(), behavior, weights, model]
    _check_targets(json, report, [*inputs, *(answers.values() if isinstance(answers, dict) else [answers])])
    with DelayedProgress() as progress:
        results = _evaluate(
            episodes, policies, annotations=answers, behavior=behavior, cell=cell, estimators=estimators,
            weights=weights, repair=repair, model=model, features=features, means=means, gamma=gamma,
            progress=progress,
        )  # fmt: skip
        content = document(results, alpha=alpha, ci=ci, seed=seed)
        page = "" if report is None else _report(results, alpha=alpha, ci=ci, seed=seed)
    _write({json: to_json(content), report: page})
    if json != "-":
        print_document(content)
        for target in (json, report):
            if target is not None:
                print(f"written: {target}", file=sys.stderr)


@app.command()
def demo(
    report: Annotated[str, typer.Option(metavar="FILE.html", help="Where to write the report.")] = "semiope-demo.html",
) -> None:
    """Simulate a ward, evaluate 26 policies from its logs, ask experts, evaluate again, and write a report."""
    from semiope.example.demo import run

    _check_targets(None, report, [])
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
            help="table1 ... table5, fig5, fig7 ... fig12, intuition, or all (default).",
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

    _check_targets(json, None, [])
    measurements = measure(quick=quick)
    if json != "-":
        print_measurements(measurements, verdicts=not quick)
    _write({json: to_json([one._asdict() for one in measurements])})


def _evaluate(episodes: str, policies: dict[str, str], **options: Any) -> dict[str, Results]:
    import semiope as so

    with quietly():
        results: dict[str, Results] = so.evaluate(episodes, policies, **options)
    if next(iter(results.values())).settings["episodes"] == 1:
        raise SchemaError(
            "episodes: there is only one episode, and a standard error needs at least two. "
            "Add episodes (so.evaluate in Python gives the bare value of one)."
        )
    return results


def _report(results: dict[str, Results], **options: Any) -> str:
    import semiope as so

    command = shlex.join(["semiope", *sys.argv[1:]])
    return so.report(results, command=command, **options).html


def _named(policies: list[str]) -> dict[str, str]:
    """Split NAME=FILE; a file without a name is called by its stem."""
    named: dict[str, str] = {}
    for entry in policies:
        name, found, path = entry.partition("=")
        if not found or exists(Path(entry)):
            name, path = Path(entry).stem, entry
        if not name or not path:
            raise OptionError(f"--policy: {entry!r} is not [NAME=]FILE.")
        if name in named:
            raise OptionError(f"--policy: two policies are called {name!r}. Name them: --policy NAME=FILE.")
        named[name] = path
    return named


def _answers(annotations: list[str], policies: dict[str, str]) -> str | dict[str, str] | None:
    """Annotations for all policies, or by the name of a policy."""
    if not annotations:
        return None
    named = {}
    for entry in annotations:
        name, found, path = entry.partition("=")
        if found and name in policies and not exists(Path(entry)):
            named[name] = path
        elif found and exists(Path(path)) and not exists(Path(entry)):
            raise OptionError(f"--annotations: there is no policy called {name!r}.{nearest(name, policies)}")
    if not named and len(annotations) == 1:
        return annotations[0]
    if len(named) < len(annotations):
        raise OptionError(
            "--annotations: give one FILE for all policies, or NAME=FILE once for each policy that has annotations. "
            f"Policies: {', '.join(policies)}."
        )
    return named


def _check_targets(json: str | None, report: str | None, inputs: list[str | None]) -> None:
    """Refuse files that cannot be written before any work is done."""
    if report is not None and Path(report).suffix.lower() not in (".html", ".htm"):
        raise OptionError(f"--report: {report} must end in .html, for that is what is written.")
    if json is not None and report is not None and Path(json).resolve() == Path(report).resolve():
        raise OptionError("--json and --report name the same file.")
    for option, target in (("--json", json), ("--report", report)):
        if target is None or target == "-":
            continue
        path = Path(target)
        if not target or (exists(path) and path.is_dir()):
            raise OptionError(f"{option}: {target or 'nothing'!s} is no file to write to. Name a file.")
        if not exists(path.parent):
            raise OptionError(f"{option}: the folder {path.parent} does not exist.")
        if exists(path) and any(entry and exists(Path(entry)) and path.samefile(entry) for entry in inputs):
            raise OptionError(f"{option}: {target} is one of the tables that are read. Name another file.")


def _write(texts: dict[str | None, str]) -> None:
    """Write each text to its file, or to standard output for "-"; all of the files or none."""
    files = {}
    for target, text in texts.items():
        if target == "-":
            if sys.stdout is None:
                raise OutputError("standard output is closed.")
            sys.stdout.write(text)
            sys.stdout.flush()
        elif target is not None:
            content = text.encode("utf-8", errors="backslashreplace")
            files[Path(target)] = functools.partial(Path.write_bytes, data=content)
    write_whole(files)
