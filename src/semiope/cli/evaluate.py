"""`semiope evaluate`."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from semiope.cli.app import app
from semiope.cli.files import answers as answers_of
from semiope.cli.files import check_targets, named, write
from semiope.errors import OptionError, SchemaError, SemiopeError, quietly

if TYPE_CHECKING:
    from semiope.pipeline import Results


@app.command()
def evaluate(
    episodes: Annotated[str, typer.Argument(help="Logged episodes: Parquet, CSV, Feather, or a folder of parts.")],
    policy: Annotated[
        list[str],
        typer.Option(
            metavar="[NAME=]FILE",
            help="Policy to evaluate: a table by state or by episode and step, or with --features an .onnx file; may "
            "be given several times.",
        ),
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
            metavar="FILE|count|logistic|boosting",
            help="Behavior policy: a file, counted by state, or fitted to --features. Default: the column "
            "behavior_prob if there, else counted; logistic, if there are features and no states.",
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
            help="Make annotations usable: pool, convert[:authors], impute[:step]; or auto.",
        ),
    ] = None,
    model: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE",
            help="Model of returns: auto; empirical; linear, forest, boosting (with --features); or a table.",
        ),
    ] = "auto",
    features: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="Columns of the episodes that make up the state.")
    ] = None,
    impute: Annotated[
        bool,
        typer.Option("--impute", help="Fill gaps in features: with the median, and a feature that flags them."),
    ] = False,
    predictions: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="What another model predicts an annotator would say, for most questions."),
    ] = None,
    means: Annotated[
        str | None,
        typer.Option(
            metavar="cell|prefix",
            help="Mean split weights: per cell, or, if which steps were asked about depends on the episode's past, "
            "weighted by prefix. Default: cell.",
        ),
    ] = None,
    plan: Annotated[
        str | None, typer.Option(metavar="DIR", help="Folder of the plan that chose the questions (semiope plan).")
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
    rehearse: Annotated[
        bool,
        typer.Option(
            "--rehearse", help="See how often intervals like these hold the truth, in worlds like these data."
        ),
    ] = False,
) -> None:
    """Estimate what policies are worth, from logged episodes and, if there are any, counterfactual annotations."""
    import semiope as so
    from semiope._random import generator
    from semiope.reporting.document import document, to_json
    from semiope.reporting.terminal import DelayedProgress, print_document
    from semiope.uncertainty.intervals import check_alpha, check_method

    check_alpha(alpha)
    check_method(ci)
    generator(seed)
    if impute and features is None:
        raise OptionError("--impute: gaps are filled in features, and none are named. Name them: --features A,B,C.")
    policies = named(policy)
    answers = answers_of(annotations or [], policies)
    inputs = [episodes, *policies.values(), behavior, weights, model, predictions]
    check_targets(json, report, [*inputs, *(answers.values() if isinstance(answers, dict) else answers or [])])
    with DelayedProgress() as progress:
        results = _evaluate(
            episodes, policies, annotations=answers, behavior=behavior, cell=cell, estimators=estimators,
            weights=weights, repair=repair, model=model, features=features, impute=impute, predictions=predictions,
            means=means, plan=plan, gamma=gamma, progress=progress,
        )  # fmt: skip
        rehearsals = [so.rehearse(one, alpha=alpha, seed=seed) for one in results.values()] if rehearse else []
        content = document(results, alpha=alpha, ci=ci, seed=seed)
        page, failed = "", None
        try:
            page = "" if report is None else _report(results, alpha=alpha, ci=ci, seed=seed)
        except SemiopeError as error:  # estimates are there, whatever the page makes of them
            failed, report = error, None
    write({json: to_json(content), report: page})
    if json != "-":
        print_document(content)
        for rehearsal in rehearsals:
            print(rehearsal)
        for target in (json, report):
            if target is not None:
                print(f"written: {target}", file=sys.stderr)
    if failed is not None:
        raise failed


def _evaluate(
    episodes: str,
    policies: dict[str, str],
    annotations: list[str] | dict[str, str] | None,
    features: str | None,
    impute: bool,
    **options: Any,
) -> dict[str, Results]:
    import semiope as so
    from semiope.data.annotations import read_together

    with quietly():
        given = read_together(annotations) if isinstance(annotations, list) else annotations
        logs: Any = episodes
        if features is not None:
            logs = so.read_episodes(episodes, features=features, missing="impute" if impute else "refuse")
        results: dict[str, Results] = so.evaluate(logs, policies, annotations=given, **options)
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
