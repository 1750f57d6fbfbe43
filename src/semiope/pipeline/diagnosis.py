"""`so.diagnose`: can these estimates be trusted, and what would make them better?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from semiope._random import Seed
from semiope._tables import as_table
from semiope.diagnostics.annotators import judge_annotators
from semiope.diagnostics.behavior import judge_behavior
from semiope.diagnostics.coverage import judge_coverage
from semiope.diagnostics.findings import AMBER, RED, Finding, judge_average, judge_weights, worst
from semiope.diagnostics.overlap import judge_overlap
from semiope.diagnostics.path import judge_path, judge_thin
from semiope.diagnostics.plausible import judge_reach
from semiope.diagnostics.predicted import judge_degrees, judge_inclusion, judge_mean_weights
from semiope.diagnostics.propensities import judge_propensities
from semiope.diagnostics.quality import annotator_quality
from semiope.diagnostics.shuffle import judge_shuffled
from semiope.diagnostics.steps import judge_steps
from semiope.errors import NotEstimatedError, nearest
from semiope.estimate.predicted import never_asked
from semiope.estimate.problem import Problem
from semiope.estimate.registry import ESTIMATORS, Estimator
from semiope.pipeline.refute import leave_one_out, placebo
from semiope.pipeline.results import Results, frame, named
from semiope.pipeline.trust import judge_filled_in, judge_following, judge_states, judge_tipping, judge_trust

MARKS = {"green": "o", "amber": "!", "red": "X"}
_MODELLED = Finding(
    "estimator", AMBER, "model", "amber where there is a model and nothing to correct it",
    "It rests on a model of returns alone: if the model is wrong, no interval knows by how much.",
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
        return worst(_lights(self.findings))

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


def _lights(findings: Sequence[Finding]) -> list[str]:
    return [one.light for one in findings]


def trust(results: Results, estimator: str, *, annotators: bool = True) -> str:
    """Whether the interval of an estimate can be trusted, as a light: by weights, support, and what it rests on.

    Without `annotators`, they are taken to be right.
    """
    key = f"trust {estimator} {annotators}"
    return str(results.origin.once(key, lambda: worst(_lights(_on_interval(results, estimator, annotators)))))


def _on_interval(results: Results, name: str, annotators: bool = True) -> list[Finding]:
    """What decides whether an interval can be trusted."""
    _, estimate, problem = results.chosen(name)
    kind, listens = ESTIMATORS[name], _listens(problem, name)
    if kind.completes:
        on_weights = [judge_degrees(problem, estimate), judge_inclusion(problem)]
    else:
        on_weights = [_MODELLED] if kind.model_only else judge_weights(estimate)
        if kind.support == "augmented" and problem.evidence.by_features:
            on_weights.append(judge_mean_weights(problem))
    return [
        *([_BIASED] if kind.naive else []),
        *on_weights,
        *judge_coverage(problem, kind.support or "augmented" if listens else None),
        *([judge_trust(results, name)] if listens and annotators else []),
        *((one for one in [judge_following(results), judge_filled_in(results)] if one is not None) if listens else ()),
        *(results.origin.once("annotators", lambda: _on_annotators(results)) if listens and annotators else []),
    ]


def _listens(problem: Problem, name: str) -> bool:
    """Whether annotations stand for what was not logged."""
    kind = ESTIMATORS[name]
    return len(problem.annotations.row) > 0 and kind.trusts


def diagnose(results: Any, *, estimator: str | None = None, refute: bool = True, seed: Seed = 0) -> Any:
    """Judge the estimates of a policy: lights, what they mean, and the way out; of several by name if given a dict.

    Parameters
    ----------
    results
        What `so.evaluate` returns.
    estimator
        Whose estimate is judged. Default: the headline.
    refute
        Whether to evaluate again with something changed: a placebo policy, shuffled answers, one annotator left out.
    seed
        Of the shuffles.
    """
    if not isinstance(results, Results):
        several = named(results, "diagnose").items()
        return {name: diagnose(one, estimator=estimator, refute=refute, seed=seed) for name, one in several}
    name, estimate, problem = results.chosen(estimator)
    kind, listens = ESTIMATORS[name], _listens(problem, name)
    counted = problem.evidence.behavior.origin == "counted"
    matters = not (listens and np.allclose(estimate.normalizers, 1, rtol=0, atol=1e-9))
    findings = _on_interval(results, name)
    if not kind.model_only and not kind.recipe.per_step and not kind.naive:
        findings.append(judge_average(estimate, counted=counted))
        if not kind.completes:
            findings.append(judge_steps(problem, kind.recipe))
    findings += [one for one in [judge_states(results, name)] if one is not None]
    overlap = judge_overlap(problem, listens=listens, matters=matters and not kind.completes)
    findings.append(judge_path(problem, listens=listens))
    if problem.evidence.logbook.episodes.has_states:  # with features, overlap is judged by them
        findings.append(judge_thin(problem, listens=listens, matters=matters and not kind.completes))
    findings += [
        *([overlap] if overlap is not None else []),
        *_on_behavior(problem, matters=matters and not (kind.completes and counted), aside=_aside(problem, kind)),
    ]
    if listens:
        findings.append(judge_tipping(results, name))
    rehearsal = results.origin.kept(f"rehearsal {name}")
    if rehearsal is not None:
        findings.append(rehearsal.finding)
    if refute:
        findings += _refutations(results, name, problem, listens=listens, seed=seed)
    return Diagnosis(results.policy, name, findings)


def _aside(problem: Problem, kind: Estimator) -> bool:
    """Whether an estimator does without the behavior policy: it was fitted, and all actions were asked about.

    Estimates that do not trust annotations still rest on it: if it is wrong, that is a reason for caution.
    """
    fitted = problem.evidence.behavior.origin == "fitted"
    return fitted and kind.completes and bool(len(problem.annotations.row)) and not problem.once(never_asked).any()


def _on_behavior(problem: Problem, *, matters: bool, aside: bool) -> list[Finding]:
    """Whether the behavior policy is the one that acted: by states where they recur, by features where they are."""
    evidence = problem.evidence
    episodes, counted = evidence.logbook.episodes, evidence.behavior.origin == "counted"
    found = [
        *([judge_behavior(evidence, matters=matters)] if episodes.has_states or counted else []),
        *([judge_propensities(evidence, matters=matters)] if episodes.features is not None and not counted else []),
    ]
    return [one._replace(light=_least(one.light)) if aside else one for one in found]


def _on_annotators(results: Results) -> list[Finding]:
    """What the data say of annotators; what costs precision and not rightness is amber at most."""
    run, problem = results.origin, results.origin.weighed.problem
    spread = float(np.std(run.observed.values))
    if run.annotations is None or not spread > 0:
        return []
    judged = judge_annotators(annotator_quality(run.episodes, run.annotations, problem.gamma), spread)
    return [judge_reach(problem), *(one._replace(light=_least(one.light)) for one in judged)]


def _least(light: str) -> str:
    return AMBER if light == RED else light


def _refutations(results: Results, name: str, problem: Problem, *, listens: bool, seed: Seed) -> Iterator[Finding]:
    if problem.evidence.logbook.episodes.has_states:  # with features, a finding of its own judges the behavior policy
        found = placebo(results)
        yield found._replace(light=_least(found.light)) if _aside(problem, ESTIMATORS[name]) else found
    answers = results.origin.annotations
    if not listens or answers is None:
        return
    yield judge_shuffled(problem, seed)
    if answers.annotator is not None and len(set(answers.annotator.to_pylist()) - {None}) > 1:
        yield leave_one_out(results, name)
