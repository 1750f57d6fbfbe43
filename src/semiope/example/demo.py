"""`semiope demo`: the whole story on the sepsis world, where the truth is known."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.table import Table

from semiope.reporting.terminal import console
from semiope.uncertainty.comparison import Comparison

PATIENTS = 1000
NOISE = 0.2
SHOWN = 6
SCORES = {
    "rmse": "error of the estimates (RMSE)",
    "spearman": "rank correlation with the truth",
    "regret@1": "lost by choosing the one that looks best",
    "fpr": "called better than practice, and are not",
    "fnr": "better than practice, and not called so",
}


def run(report: Path, *, patients: int = PATIENTS, seed: int = 0) -> None:
    """Simulate logs, evaluate 26 policies from them, ask annotators, evaluate again, compare with the truth, report."""
    import semiope as so
    from semiope.domains import sepsis
    from semiope.errors import quietly

    out = console()
    world = sepsis.world()
    truth = {name: world.mdp.value(policy) for name, policy in world.policies.items()}
    today = world.mdp.value(world.behavior)
    episodes = world.sample(patients, seed=seed)
    out.print(
        f"[bold]1. Logs.[/] {patients:,} patients with sepsis, treated by current practice for up to 20 steps "
        f"({episodes.n_steps:,} rows).\n   {len(truth)} candidate policies, none of which anybody has tried. "
        "Discharged +1, died -1, discounted by 0.99 a step.\n"
    )
    options: dict[str, Any] = {"gamma": world.mdp.gamma, "cell": "step,state"}
    with quietly():
        alone = so.evaluate(episodes, world.policies, estimators=["pdis", "pdwis"], **options)
    out.print(
        "[bold]2. From the logs alone[/] (pdwis): most of what the candidates would do was never or seldom done.\n"
    )
    annotator = so.Annotator(std=NOISE)
    annotations = world.annotate(episodes, world.policies, annotators=annotator, of_action_taken=True, seed=seed)
    with quietly():
        names = ["pdis", "pdwis", "c-pdis", "pp-dr"]
        both = so.evaluate(episodes, world.policies, annotations=annotations, estimators=names, **options)
    asked = len(next(iter(annotations.values())))
    out.print(
        f"[bold]3. Annotators[/] (simulated, noise {NOISE:g}) say what they expect of each action: {asked:,} "
        "annotations for each policy.\n   Those of actions taken show whether annotators can be trusted; "
        "the others are used (pp-dr).\n"
    )
    before, after = so.compare(alone, estimator="pdwis", seed=seed), so.compare(both, seed=seed)
    _print_policies(truth, before, after, today)
    line: dict[str, Any] = {"threshold": after.today.value, "true_threshold": today}
    found = [so.scores({name: one.value for name, one in some.items()}, truth, **line) for some in (before, after)]
    _print_scores(*found)
    so.report(both, report, seed=seed, title="Sepsis: 26 candidate policies", command="semiope demo")
    out.print("\n[bold]5. Report[/] for a committee: ", end="")
    out.print(str(report), soft_wrap=True, markup=False)


def _print_policies(truth: Mapping[str, float], before: Comparison, after: Comparison, today: float) -> None:
    """The best and the worst by the second look, beside the first look and the truth."""
    table = Table(title="4. Beside the truth, which is known here", title_justify="left")
    for heading in (
        "rank",
        "policy",
        "logs alone",
        "with annotations",
        "95% interval",
        "truth",
        "better than practice?",
    ):
        table.add_column(heading, justify="left" if heading in ("policy", "better than practice?") else "right")
    stands = list(after.values())
    for one in (*stands[:SHOWN], None, *stands[-2:]):
        if one is None:
            table.add_row("", "...")
            continue
        call = "yes, all 26 looked at" if one.surely else "yes" if one.better else "not shown"
        held = f"{one.interval.low:.3f} to {one.interval.high:.3f}"
        numbers = f"{before[one.policy].value:.3f}", f"{one.value:.3f}", held, f"{truth[one.policy]:.3f}"
        table.add_row(str(one.rank), one.policy, *numbers, call)
    out = console()
    out.print(table)
    out.print(f"   Current practice: {after.today.value:.3f} observed, {today:.3f} in truth.\n")


def _print_scores(before: Mapping[str, float], after: Mapping[str, float]) -> None:
    table = Table()
    for heading in ("over all 26 policies", "logs alone", "with annotations"):
        table.add_column(heading, justify="left" if heading.startswith("over") else "right")
    for key, told in SCORES.items():
        shares = key in ("fpr", "fnr")
        table.add_row(told, *(f"{one[key]:.0%}" if shares else f"{one[key]:.3f}" for one in (before, after)))
    console().print(table)
