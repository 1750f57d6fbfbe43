"""`semiope plan`."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from semiope.cli.app import app
from semiope.cli.files import check_targets, named, write
from semiope.errors import OptionError, OutputError, quietly


@app.command()
def plan(
    episodes: Annotated[str, typer.Argument(help="Logged episodes: Parquet, CSV, Feather, or a folder of parts.")],
    policy: Annotated[
        list[str], typer.Option(metavar="[NAME=]FILE", help="Policy to evaluate; may be given several times.")
    ],
    budget: Annotated[
        float | None,
        typer.Option(
            metavar="N", help="How many answers to needed questions are wanted in all (or what they may cost)."
        ),
    ] = None,
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Folder of the plan: each call adds a batch to it.")
    ] = None,
    annotations: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="All answers so far; may be given several times.")
    ] = None,
    batch: Annotated[
        float | None, typer.Option(metavar="N", help="How many questions to ask now. Default: all the budget leaves.")
    ] = None,
    about: Annotated[
        str | None,
        typer.Option(
            metavar="policy|behavior",
            help="Whose returns annotators state: those of the policy, or of the behavior policy. Default: policy; for "
            "several policies and --design best, behavior.",
        ),
    ] = None,
    goal: Annotated[
        str, typer.Option(metavar="value|difference|ranking", help="What the answers are to tell.")
    ] = "difference",
    target_width: Annotated[
        float | None, typer.Option(metavar="W", help="Instead of a budget: as many as intervals of this width take.")
    ] = None,
    noise: Annotated[float | None, typer.Option(help="Standard deviation of an answer. Default: found.")] = None,
    cost: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of the episodes with the cost.")] = None,
    experts: Annotated[str, typer.Option(metavar="N|A,B,C", help="Number or names of the experts.")] = "1",
    overlap: Annotated[float, typer.Option(help="Share of questions that go to several experts.")] = 0.0,
    shared_by: Annotated[int, typer.Option(help="To how many.")] = 2,
    per_episode: Annotated[int | None, typer.Option(help="The most questions about one episode.")] = None,
    per_expert: Annotated[int | None, typer.Option(help="The most questions for one expert, in this batch.")] = None,
    decoys: Annotated[
        float | None,
        typer.Option(help="Questions that are not needed, for each that is. Default: 1, for several policies 1.25."),
    ] = None,
    alpha: Annotated[float, typer.Option(help="Stop when decisions are settled at this error rate.")] = 0.05,
    least_gain: Annotated[float, typer.Option(help="Stop when a batch gains less than this share.")] = 0.01,
    design: Annotated[
        str | None,
        typer.Option(
            metavar="random|best",
            help="Questions drawn with known probabilities, or the best by a model counted from states. Default: best "
            "for tables over states, else random.",
        ),
    ] = None,
    behavior: Annotated[
        str | None,
        typer.Option(metavar="FILE|count|logistic|boosting", help="Behavior policy, as for evaluate (design random)."),
    ] = None,
    features: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="Columns of the episodes that make up the state.")
    ] = None,
    impute: Annotated[bool, typer.Option("--impute", help="Fill gaps in features, as for evaluate.")] = False,
    model: Annotated[
        str | None, typer.Option(metavar="NAME|FILE", help="Model of returns, as for evaluate (design random).")
    ] = None,
    gamma: Annotated[float, typer.Option(help="Discount factor.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Seed of decoys, order, and who is asked what.")] = 0,
    json: Annotated[str | None, typer.Option(metavar="FILE", help="Write a summary (- for standard output).")] = None,
) -> None:
    """Choose the questions worth asking experts next, and say when to stop."""
    import semiope as so
    from semiope.data.annotations import read_together
    from semiope.data.asked import read_asked
    from semiope.planning.files import batches, check_same
    from semiope.reporting.document import to_json
    from semiope.reporting.terminal import print_plan

    policies = named(policy)
    check_targets(json, None, [episodes, *policies.values(), *(annotations or [])])
    if out is None and target_width is None:
        raise OptionError("--out: name a folder for the questions.")
    if out is not None and not out:
        raise OptionError("--out: name a folder.")
    if out is not None and json not in (None, "-") and Path(out).resolve() in Path(str(json)).resolve().parents:
        raise OptionError(f"--json: {json} would lie among the batches of the plan. Name a file elsewhere.")
    if impute and features is None:
        raise OptionError("--impute: gaps are filled in features, and none are named. Name them: --features A,B,C.")
    earlier = read_asked(out) if out is not None and batches(Path(out)) else []
    with quietly():
        answers = read_together(annotations) if annotations else None
        logs = so.read_episodes(episodes, features=features, missing="impute" if impute else "refuse")
        found = so.plan(
            logs, policies, budget, annotations=answers, batch=batch, about=about, goal=goal, gamma=gamma,
            noise=noise, cost=cost, experts=int(experts) if experts.isdecimal() else experts, overlap=overlap,
            shared_by=shared_by, per_episode=per_episode, per_expert=per_expert, decoys=decoys, alpha=alpha,
            least_gain=least_gain, target_width=target_width, earlier=earlier, design=design, behavior=behavior,
            model=model, seed=seed,
        )  # fmt: skip
    if out is not None:
        check_same(found, Path(out))
    is_new = out is not None and not Path(out).exists()
    written = found.save(out) if out is not None and found.stop is None else None
    try:
        write({json: to_json(found.to_dict())})
    except (OutputError, OSError):
        if written is not None:
            shutil.rmtree(written)
            if is_new and not any(written.parent.iterdir()):
                written.parent.rmdir()
        raise
    if json != "-":
        print_plan(found)
    if written is not None:
        print(f"written: {written} (give experts questions-*.csv only; sealed.parquet stays sealed)", file=sys.stderr)
