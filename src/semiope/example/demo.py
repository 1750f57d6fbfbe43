"""`semiope demo`: the whole story where the truth is known, first on states that recur, then on vitals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from semiope._arrays import Floats
from semiope._extras import need
from semiope.errors import MissingExtraError
from semiope.example import vitals
from semiope.pipeline.results import Results
from semiope.reporting.models import behavior, of_returns, state
from semiope.reporting.terminal import console
from semiope.uncertainty.comparison import Comparison, Standing

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


# Shares of questions that annotators are asked in the second act: about actions not taken, and about those taken.
ASKED, ASKED_TAKEN = 0.05, 0.2


def run(report: Path, *, patients: int = PATIENTS, seed: int = 0) -> None:
    """Run both acts: 26 policies over states that recur, with a report, and a classifier of vitals."""
    by_states(report, patients=patients, seed=seed)
    by_features(patients=patients, seed=seed)


def by_states(report: Path, *, patients: int, seed: int) -> None:
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


def by_features(*, patients: int, seed: int) -> None:
    """Read vitals, evaluate a classifier of them, and say which models were fitted, the value, and the decision."""
    import semiope as so
    from semiope.errors import quietly

    out = console()
    policy, what, practice = _candidate()
    table = vitals.logs(patients, seed)
    episodes = so.read_episodes(table, features=vitals.FEATURES)
    out.print(
        f"\n[bold]6. Vitals instead of states.[/] {patients:,} other patients, {vitals.DECISIONS} decisions each. A "
        "return is 1 for those who survive, else 0."
    )
    _print_indented([("State", state(episodes)), ("Candidate", what)])
    asked = [vitals.ask(table, policy, ASKED, seed=seed + 1)]
    asked.append(vitals.ask(table, policy, ASKED_TAKEN, taken=True, seed=seed + 2))
    annotations = {name: asked[0][name] + asked[1][name] for name in asked[0]}
    out.print(
        f"\n[bold]7. Three annotators[/] are asked about {ASKED:.0%} of the actions not taken: "
        f"{len(asked[0]['value']):,} annotations.\n   {len(asked[1]['value']):,} more, of actions taken, show whether "
        "they share a bias.\n"
    )
    with quietly():
        names = ["pdis", "c-pdis", "pp-dr"]
        results = so.evaluate(episodes, policy, annotations=annotations, behavior=practice, estimators=names)
        diagnosis = so.diagnose(results, seed=seed)
        standing = so.compare(results, seed=seed)["policy"]
    evidence = results.origin.weighed.problem.evidence
    out.print("[bold]8. Models[/] behind the estimates:")
    _print_indented([("Behavior policy", behavior(evidence)), *of_returns(results, ["pp-dr"])])
    truth = vitals.value(policy)
    _print_estimates(results, truth)
    lights = {light: [one.name for one in diagnosis if one.light == light] for light in ("red", "amber")}
    found = "; ".join(f"{light}: {', '.join(named)}" for light, named in lights.items() if named) or "all are green"
    gap = standing.difference
    out.print(
        f"\n[bold]9. Decision.[/] Beside current practice ({results.origin.observed.value:.3f}) the candidate gains "
        f"{gap.value:+.3f} ({gap.interval.low:+.3f} to {gap.interval.high:+.3f}).\n   {_call(standing, lights)} "
        f"Findings: {found}.\n   In truth it gains {truth - vitals.value(vitals.practice):+.3f}."
    )


def _candidate() -> tuple[Any, str, Any]:
    """The policy of the second act, what it is, and the behavior policy, if it has to be given."""
    try:
        linear = need("sklearn.linear_model", "models", "A classifier")
        scaler = need("sklearn.preprocessing", "models", "A classifier").StandardScaler()
        pipeline = need("sklearn.pipeline", "models", "A classifier")
    except MissingExtraError:
        what = (
            "A function of the vitals, and current practice is given. With scikit-learn, which is not installed, it "
            'would be a classifier, and current practice would be fitted: pip install "semiope[models]".'
        )
        return vitals.senior, what, vitals.practice
    learned = vitals.seniors()
    x = np.column_stack([learned[name] for name in vitals.VITALS])
    classifier = pipeline.make_pipeline(scaler, linear.LogisticRegression()).fit(x, learned["action"])

    def decide(x: Floats) -> Floats:
        """Probabilities of actions; the classifier knows the vitals, and not the ward."""
        found: Floats = classifier.predict_proba(x[:, : len(vitals.VITALS)])
        return found

    return decide, f"A classifier: logistic regression, learned from {len(x):,} decisions of a senior team.", None


def _call(standing: Standing, lights: Mapping[str, list[str]]) -> str:
    if lights["red"]:
        return "It cannot be decided: a finding is red."
    return "It is called better at an error rate of 5%." if standing.surely else "It is not shown to be better."


def _print_indented(lines: Sequence[tuple[str, str]]) -> None:
    """Headings, and what is said under each beside them."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    for head, words in lines:
        grid.add_row("  ", Text(head), Text(words))
    console().print(grid)


def _print_estimates(results: Results, truth: float) -> None:
    """Estimates of the second act beside the truth."""
    table = Table()
    for heading in ("estimator", "value", "95% interval", "truth"):
        table.add_column(heading, justify="left" if heading == "estimator" else "right")
    for name, one in results.items():
        low, high = one.interval()
        table.add_row(name, f"{one.value:.3f}", f"{low:.3f} to {high:.3f}", f"{truth:.3f}")
    console().print(table)


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
