"""A small bundled example, and the demonstration made of it."""

from __future__ import annotations

import warnings
from pathlib import Path

FOLDER = Path(__file__).parent


def run() -> None:
    """Evaluate the example without and with annotations, and compare with the truth, which is known here."""
    import semiope as so
    from semiope.example.make import make
    from semiope.report.document import document
    from semiope.report.terminal import console, print_document

    out = console()
    episodes = so.read_episodes(FOLDER / "episodes.csv")
    annotations = so.read_annotations(FOLDER / "annotations.csv")
    policies = {name: so.read_policy(FOLDER / f"{name}.csv") for name in ("today", "proposed")}
    out.print(
        "A ward's logs: each day a team waits, medicates or transfers. Critical patients were never transferred;\n"
        "the proposed policy would do so at once. What is it worth (recovered +1, died -1)?\n"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", so.StatisticalWarning)  # printed with the tables
        alone = so.evaluate(episodes, policies)
        proposed = {"proposed": policies["proposed"]}
        both = so.evaluate(episodes, proposed, annotations=annotations, estimators=["c-pdis", "c-pdwis"])
    out.print("[bold]1. From the logs alone[/]")
    print_document(document(alone))
    out.print(
        f"\n[bold]2. With {len(annotations):,} answers of clinicians on what to expect under the proposed policy[/]"
    )
    print_document(document(both))
    truth = make()
    out.print(
        f"\nThe example is simulated, so the truth is known: today {truth.value_today:.4f}, "
        f"proposed {truth.value_proposed:.4f}."
    )
    out.print(f"The tables are in {FOLDER}; the same by hand:", soft_wrap=True)
    out.print(
        "  semiope evaluate episodes.csv --policy proposed.csv --annotations annotations.csv",
        soft_wrap=True,
    )
