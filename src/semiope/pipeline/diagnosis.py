"""`so.diagnose`: can these estimates be trusted, and what would make them better?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from semiope._random import Seed
from semiope._tables import as_table
from semiope.diagnostics.annotators import judge_annotators
from semiope.diagnostics.behavior import judge_behavior
from semiope.diagnostics.coverage import LACKING, judge_coverage
from semiope.diagnostics.findings import AMBER, GREEN, RED, Finding, judge_average, judge_weights, worst
from semiope.diagnostics.path import judge_path, judge_thin
from semiope.diagnostics.quality import annotator_quality
from semiope.diagnostics.shuffle import judge_shuffled
from semiope.diagnostics.steps import judge_steps
from semiope.errors import NotEstimatedError, OptionError, nearest
from semiope.estimate.doubly_robust import nothing
from semiope.estimate.problem import Problem
from semiope.estimate.registry import ESTIMATORS, Estimator, canonical
from semiope.pipeline.refute import leave_one_out, placebo
from semiope.pipeline.results import Results, frame

MARKS = {"green": "o", "amber": "!", "red": "X"}
_SETTLED = "for information: all is answered for, and the behaviour policy cancels"
_MODELLED = Finding(
    "estimator", AMBER, "model", "amber where there is a model and nothing to correct it",
    "It rests on a model of returns alone, whose error no interval knows.",
    "Use dr or dm+-is, which correct the model.",
)  # fmt: skip
_BIASED = Finding(
    "estimator", RED, "naive", "red for naive estimators", "It takes annotations for data, and is biased by design.",
    "Use c-pdis.",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Diagnosis(Sequence[Finding]):
    """Findings on one policy by one estimator; `light` is the worst of theirs."""

    policy: str
    estimator: str
    findings: list[Finding]

    def __getitem__(self, place: Any) -> Any:
        if not isinstance(place, str):
            return self.findings[place]
        by_name = {one.name: one for one in self.findings}
        if place not in by_name:
            raise NotEstimatedError(f"no finding {place!r} here, only {', '.join(by_name)}.{nearest(place, by_name)}")
        return by_name[place]

    def __len__(self) -> int:
        return len(self.findings)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    @property
    def light(self) -> str:
        """The worst light of all."""
        return worst([one.light for one in self.findings])

    def to_dict(self) -> dict[str, Any]:
        """As plain Python objects."""
        found = [one._asdict() for one in self.findings]
        return {"policy": self.policy, "estimator": self.estimator, "light": self.light, "findings": found}

    def to_frame(self) -> Any:
        """As a data frame (pandas), one row a finding."""
        return frame([one._asdict() for one in self.findings])

    def __repr__(self) -> str:
        lines = [f"{self.policy}, {self.estimator}: {self.light}"]
        for one in self.findings:
            lines.append(f" {MARKS[one.light]} {one.light:<6}{one.name}: {one.figure}  ({one.rule})")
            lines.append(f"          {one.sentence} {one.way_out}".rstrip())
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return as_table([one._asdict() for one in self.findings], f"{self.policy}, {self.estimator}: {self.light}")


def trust(results: Results, estimator: str) -> str:
    """Whether the interval of an estimate can be trusted, as a light, by its weights and its support.

    One that rests on a model alone is at best amber, since intervals know nothing of the model's error; a naive one is
    red, being biased by design.
    """
    kind = ESTIMATORS[estimator]
    if kind.naive:
        return RED
    lacking = results.diagnostics.get("unsupported_mass", {}).get(kind.support, 0.0)
    lights = [LACKING.light(lacking)]
    lights += [AMBER] if _modelled(kind) else [one.light for one in judge_weights(results[estimator])]
    if kind.support == "augmented" and (results.settings["repair"] or results.origin.weighed.kind):
        lights.append(AMBER)
    return worst(lights)


def _modelled(kind: Estimator) -> bool:
    """Whether there are no weights, only a model."""
    return kind.recipe.terms is nothing


def diagnose(results: Any, *, estimator: str | None = None, refute: bool = True, seed: Seed = 0) -> Any:
    """Judge the estimates of a policy: lights, what they mean, and the way out; of several by name if given a dict.

    Parameters
    ----------
    results
        What `so.evaluate` returns.
    estimator
        Whose estimate is judged. Default: the one that speaks for the policy (c-pdis, if it is there).
    refute
        Whether to evaluate again with something changed: a placebo policy, shuffled answers, one annotator left out.
    seed
        Of the shuffles.
    """
    if isinstance(results, Mapping) and not isinstance(results, Results):
        return {name: diagnose(one, estimator=estimator, refute=refute, seed=seed) for name, one in results.items()}
    if not isinstance(results, Results):
        raise OptionError("diagnose: give what so.evaluate returns.")
    name = results.headline if estimator is None else canonical(estimator)
    estimate, kind = results[name], ESTIMATORS[name]
    problem = results.origin.weighed.seen_by(kind)
    listens = len(problem.annotations.row) > 0 and kind.support != "logged" and not kind.naive
    findings = [_BIASED] if kind.naive else [_MODELLED] if _modelled(kind) else []
    if not _modelled(kind):
        findings += judge_weights(estimate)
        if not kind.recipe.per_step and not kind.naive:
            findings += [judge_average(estimate), judge_steps(problem, kind.recipe)]
    findings += [judge_path(problem, listens=listens), *judge_coverage(problem, listens=listens)]
    on_behavior = [judge_thin(problem, listens=listens), judge_behavior(problem.evidence)]
    if listens and np.allclose(estimate.normalizers, 1, rtol=0, atol=1e-9):
        on_behavior = [one._replace(light=GREEN, rule=_SETTLED, way_out="") for one in on_behavior]
    findings += on_behavior
    if listens:
        findings += _answers(results, kind)
    if refute:
        findings += _refutations(results, name, problem, listens=listens, seed=seed)
    return Diagnosis(results.policy, name, findings)


def _answers(results: Results, kind: Estimator) -> Iterator[Finding]:
    """On those who answered, and on what was done with their answers."""
    run = results.origin
    if run.annotations is not None:
        quality = annotator_quality(run.episodes, run.annotations, run.options["gamma"])
        yield from judge_annotators(quality, float(np.std(run.observed.values)))
    done = list(results.settings["repair"])
    done += [f"weights by {run.weighed.kind}"] if run.weighed.kind and kind.support == "augmented" else []
    yield Finding(
        "repairs that intervals take as given", AMBER if done else GREEN, ", ".join(done) or "none",
        "amber if there are any",
        "Answers and weights were made from the same data; standard errors do not know, and are too small."
        if done else "Answers are used as they were given, with weights that do not depend on them.",
        "so.refitted repairs and weighs anew in resamples of the episodes." if done else "",
    )  # fmt: skip


def _refutations(results: Results, name: str, problem: Problem, *, listens: bool, seed: Seed) -> Iterator[Finding]:
    yield placebo(results)
    answers = results.origin.annotations
    if not listens or answers is None:
        return
    yield judge_shuffled(problem, seed)
    if answers.annotator is not None and len(set(answers.annotator.to_pylist())) > 1:
        yield leave_one_out(results, name)
