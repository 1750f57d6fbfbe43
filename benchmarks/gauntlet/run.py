"""What each dataset of a gauntlet gives: estimates beside the truth, decisions, findings; a line of JSON a dataset."""

from __future__ import annotations

import json
import math
import os
import time
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from datasets import UNBIASED, Dataset, dataset
from studies import study
from truth import keep_in

import semiope as so
from semiope.errors import SemiopeError, quietly
from semiope.estimate.passes import Recipe
from semiope.estimate.problem import Slab, behavior
from semiope.estimate.registry import ESTIMATORS, Estimator

Row = dict[str, Any]
# Kinds of annotators of whom there are several, and those who say what returns they expect of the policy.
SEVERAL = ("three", "shared bias", "own biases")
RETURNS = (*SEVERAL, "one", "unequal noise", "shrunk")


def plain_call(data: Dataset) -> Row:
    """`so.evaluate(episodes, policy, annotations=a)`, and what follows from it."""
    started = time.perf_counter()
    results = so.evaluate(data.episodes, data.policy, annotations=data.annotations, **data.options)
    estimate = results[results.headline]
    row = {"headline": results.headline, **_estimate(estimate), "seconds": time.perf_counter() - started}
    judged = so.diagnose(results)
    row["light"] = judged.light
    for light in ("red", "amber"):
        row[light] = [one.name for one in judged if one.light == light]
    row["word taken"] = judged["annotations against logs"].light != "green"
    row["better"] = so.compare(results)["policy"].better
    row["c-pdis"] = _estimate(results["c-pdis"])
    row["tipping"] = _tipping(data, results)
    return row


def _tipping(data: Dataset, results: so.Results) -> bool | None:
    """Whether the decision flips between 0.8 and 1.2 times the stated bias; None where no bias flips it."""
    tip = so.tipping_point(results)
    if not math.isfinite(tip.bias):
        return None
    sides = []
    for times in (0.8, 1.2):
        moved = replace(data.annotations, value=data.annotations.value - times * tip.bias)
        found = so.evaluate(data.episodes, data.policy, annotations=moved, estimators=results.headline, **data.options)
        estimate = found[results.headline]
        sides.append(estimate.trusting > tip.observed)
    return sides[0] == (tip.value > tip.observed) and sides[0] != sides[1]


def baselines(data: Dataset) -> Row:
    """All annotated exactly, and the paper's own repair."""
    found: Row = {"exact": _exact(data)}
    repair = "convert:authors" if data.kind == "about behavior" else "impute"
    found["paper"] = math.nan
    if not data.has_features and data.kind not in ("rewards", "preferences"):
        repaired = so.evaluate(
            data.episodes, data.policy, annotations=data.annotations, estimators="c-pdis", repair=repair, **data.options
        )
        found["paper"] = repaired["c-pdis"].value
    return found


def _exact(data: Dataset) -> float:
    """The estimate with all annotated exactly."""
    found = so.evaluate(
        data.episodes, data.policy, annotations=data.exact(), estimators="c*-pdis", gamma=data.options["gamma"]
    )
    return float(found["c*-pdis"].value)


def repairs(data: Dataset) -> Row:
    """Each repair that the annotations allow: the headline and c-pdis after it."""
    names = ["auto"]
    names += ["pool"] if data.kind in SEVERAL else []
    names += ["convert"] if data.kind == "about behavior" else []
    names += ["impute"] if data.kind in RETURNS and not data.has_features else []
    found: Row = {}
    for name in names:
        results = so.evaluate(
            data.episodes, data.policy, annotations=data.annotations, repair=name, estimators=["c-pdis", "pp-dr"],
            **data.options,
        )  # fmt: skip
        for estimator in ("pp-dr", "c-pdis"):
            light = so.diagnose(results, estimator=estimator, refute=False).light
            found[f"{name}, {estimator}"] = {"light": light, **_estimate(results[estimator])}
    return found


def converted(data: Dataset) -> Row:
    """Annotations of the behavior policy, converted: the headline and c-pdis after it."""
    given = dataset(data.family, data.seed, kind="about behavior")
    return {
        name: {**row, "truth": given.truth, "unit": given.unit}
        for name, row in repairs(given).items()
        if name.startswith("convert")
    }


def _clipped(slab: Slab) -> np.ndarray:
    found: np.ndarray = np.minimum(slab.ratio_taken(behavior), 10.0)
    return found


def equal(data: Dataset) -> Row:
    """Which estimators call the behavior policy better than itself; the example of CONTRIBUTING is among them."""
    found: Row = {}
    example = Estimator(Recipe(_clipped), "pdis with ratios of at most 10", support="logged")
    ESTIMATORS["pdis-clipped"] = example
    full = [name for name in ESTIMATORS if name.startswith("c*")]
    rest = [name for name, one in ESTIMATORS.items() if not one.naive and name not in full]
    try:
        for names, annotations in ((rest, data.of_behavior), (full, data.all_of_behavior)):
            if annotations is None:
                continue
            results = so.evaluate(
                data.episodes, data.behavior, annotations=annotations, estimators=names, **data.options
            )
            for name in names:
                found[name] = so.compare(results, estimator=name)["policy"].better
    finally:
        del ESTIMATORS["pdis-clipped"]
    return found


def asked_about_taken(data: Dataset) -> Row:
    """Three unbiased annotators who were also asked about actions taken."""
    return _one_call(dataset(data.family, data.seed, kind="three", design="also taken"))


def own_biases(data: Dataset) -> Row:
    """Annotators with biases of their own, a fifth of the questions shared."""
    return _one_call(dataset(data.family, data.seed, kind="own biases"))


def _one_call(data: Dataset) -> Row:
    results = so.evaluate(data.episodes, data.policy, annotations=data.annotations, estimators="pp-dr", **data.options)
    return {"truth": data.truth, "unit": data.unit, **_estimate(results["pp-dr"])}


def planned(data: Dataset) -> Row:
    """Annotations of questions that a plan chose, by one annotator; nothing where states are features."""
    if data.has_features:
        return {}
    chosen = dataset(data.family, data.seed, kind="one", design="planned")
    results = so.evaluate(chosen.episodes, chosen.policy, annotations=chosen.annotations, **chosen.options)
    light = so.diagnose(results, refute=False).light
    return {"truth": chosen.truth, "unit": chosen.unit, "light": light, **_estimate(results[results.headline])}


def features(data: Dataset) -> Row:
    """The plain call where states are features: 2,000 episodes, 5% annotated by three unbiased annotators.

    The probabilities of logged actions are not known, so that c-pdis has to fit them.
    """
    if not data.has_features:
        return {}
    given = dataset(
        data.family, data.seed, kind="three", design="at random", n=2000, share=0.05, noise=(0.1, 0.2, 0.4),
        propensities=False,
    )  # fmt: skip
    started = time.perf_counter()
    results = so.evaluate(given.episodes, given.policy, annotations=given.annotations, **given.options)
    row = {"headline": results.headline, **_estimate(results[results.headline])}
    row["seconds"] = time.perf_counter() - started
    judged = so.diagnose(results, refute=False)
    row["light"], row["red"] = judged.light, [one.name for one in judged if one.light == "red"]
    row["annotations"] = len(given.annotations)
    return {**row, "c-pdis": _estimate(results["c-pdis"])}


def unbiased(data: Dataset) -> Row:
    """Annotators without a bias, such as rehearsals draw."""
    return _one_call(_unbiased(data))


def _unbiased(data: Dataset) -> Dataset:
    return dataset(data.family, data.seed, kind=UNBIASED[data.seed % len(UNBIASED)])


def rehearsed(data: Dataset) -> Row:
    """The coverage that a rehearsal foretells where annotators have no bias."""
    data = _unbiased(data)
    results = so.evaluate(data.episodes, data.policy, annotations=data.annotations, **data.options)
    return so.rehearse(results, datasets=40).to_dict()


def _estimate(estimate: so.Estimate) -> Row:
    low, high = estimate.interval()
    return {"value": estimate.value, "std_error": estimate.std_error, "low": low, "high": high}


def best_studies(data: Dataset) -> Row:
    """A study whose questions are the best by an annotation model of states; nothing where states are features."""
    return {} if data.has_features else study(data, "best")


PARTS: dict[str, Callable[[Dataset], Row]] = {
    "plain": plain_call, "baselines": baselines, "repairs": repairs, "converted": converted,
    "equal": equal, "taken": asked_about_taken,
    "own": own_biases, "planned": planned, "features": features, "unbiased": unbiased,
    "rehearsed": rehearsed,
    "studies": partial(study, design="random"), "best studies": best_studies,
}  # fmt: skip


def examine(family: str, seed: int, parts: Iterable[str]) -> list[Row]:
    """These parts of one dataset, a row each; an error that a user would see is kept in its words."""
    data = dataset(family, seed)
    known: Row = {
        "family": family, "seed": seed, "kind": data.kind, "design": data.design, "share": data.share,
        "noise": data.noise, "episodes": data.episodes.n_episodes, "annotations": len(data.annotations),
        "truth": data.truth, "truth_error": data.truth_error, "truth_behavior": data.truth_behavior,
        "unit": data.unit, "unsupported": data.unsupported, "hidden": data.hidden,
    }  # fmt: skip
    rows = []
    with quietly(), warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for part in parts:
            try:
                found = PARTS[part](data)
            except SemiopeError as error:
                found = {"error": str(error)}
            rows.append({**known, "part": part, "found": found})
    return rows


def run(
    wanted: Iterable[tuple[str, int]], parts: tuple[str, ...], path: Path, jobs: int,
    progress: Callable[[int, int], None], cache: Path,
) -> None:  # fmt: skip
    """Examine all parts of datasets that are not in the file yet, and add a line for each.

    What is true in worlds with features is kept in the folder `cache`.
    """
    known = {(row["family"], row["seed"], row["part"]) for row in read(path)}
    left = {(family, seed): [part for part in parts if (family, seed, part) not in known] for family, seed in wanted}
    left = {key: those for key, those in left.items() if those}
    # As many processes as cores, each with one thread for linear algebra: set before they start.
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    with (
        ProcessPoolExecutor(jobs, get_context("spawn"), initializer=keep_in, initargs=(cache,)) as pool,
        path.open("a", encoding="utf-8") as lines,
    ):
        futures = [pool.submit(examine, family, seed, those) for (family, seed), those in left.items()]
        for done, future in enumerate(as_completed(futures), 1):
            lines.writelines(json.dumps(row) + "\n" for row in future.result())
            lines.flush()
            progress(done, len(left))


def read(path: Path) -> list[Row]:
    """The lines of a file, those cut short by an interruption left out."""
    if not path.exists():
        return []
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return found
