"""Overlap by features: where the policy does what was hardly ever done, in words of the features.

An action is hardly ever done at a decision if the behavior policy takes it less than `RARE` times as often as the
policy to evaluate: its ratio is above 1 / `RARE`. A small regression tree of the probability that the policy puts on
such actions cuts the decisions into regions, and names the features by which they differ.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from semiope._arrays import Floats, Integers
from semiope._extras import need
from semiope._random import generator
from semiope.data.episodes import Episodes
from semiope.data.features import Features
from semiope.data.labels import ABSENT
from semiope.diagnostics.findings import GREEN, Finding, Rule
from semiope.diagnostics.propensities import of_all_actions
from semiope.errors import MissingExtraError
from semiope.estimate.problem import Problem

NAME = "overlap by features"
# As for decisions on thin evidence, which count states.
POOR = Rule(amber=0.05, red=0.2)
RARE = 0.05
# Annotations of an action in a region from which on it is answered for there: as in decisions on thin evidence.
FEW = 5
MOST_DECISIONS = 20_000
# The tree: so many conditions at most, so many regions, none with a smaller share of the decisions, and no condition
# that explains a smaller share of the variance.
DEPTH, REGIONS, LEAST_SHARE, LEAST_EXPLAINED = 3, 6, 0.02, 0.01
SHOWN = 2
# Less than this is rounding.
NEGLIGIBLE = 1e-9


class Region(NamedTuple):
    """A part of the feature space in words, and what both policies do there.

    `share` is that of all decisions, `rare` the share of the policy's decisions there on actions hardly ever done, and
    `open` what annotations leave of it. `action` is the one most of that is on: the policy takes it with probability
    `wanted`, and it was taken in a share `taken` of the decisions there; `annotated` is how often it was annotated.
    """

    where: str
    share: float
    rare: float
    open: float
    action: int | str
    wanted: float
    taken: float
    annotated: int


class Overlap(NamedTuple):
    """Share of the policy's decisions on actions hardly ever done, without those annotated too, and the worst regions.

    Regions are sorted by how much of all decisions is open there, then by how much is rare.
    """

    rare: float
    open: float
    regions: list[Region]


def overlap_by_features(problem: Problem) -> Overlap | None:
    """Find where the policy does what was hardly ever done; None without features or pi_b of all actions."""
    evidence = problem.evidence
    episodes, behavior = evidence.logbook.episodes, of_all_actions(evidence.behavior.lookup)
    rows = np.flatnonzero(episodes.action != ABSENT)
    if episodes.features is None or behavior is None or not len(rows):
        return None
    if len(rows) > MOST_DECISIONS:
        rows = np.sort(generator(0).choice(rows, MOST_DECISIONS, replace=False))
    wanted = problem.evaluation.at(rows)
    lacking = np.where(behavior.at(rows) < RARE * wanted, wanted, 0.0)
    answers = problem.annotations
    tree = _tree(_inputs(episodes, rows), lacking.sum(axis=1))
    region, of_answers = (_regions(tree, _inputs(episodes, some)) for some in (rows, answers.row))
    n_regions, n_actions = int(region.max()) + 1, wanted.shape[1]
    n = np.bincount(region, minlength=n_regions)
    rare, policy, taken, annotated = np.zeros((4, n_regions, n_actions))
    np.add.at(rare, region, lacking)
    np.add.at(policy, region, wanted)
    np.add.at(taken, (region, episodes.action[rows]), 1.0)
    np.add.at(annotated, (of_answers, answers.action), 1.0)
    left = np.where(annotated < FEW, rare, 0.0)
    where = _in_words(tree, episodes.features, n_regions)
    found = []
    for k in np.flatnonzero(n).tolist():
        a, here = int((left if left[k].any() else rare)[k].argmax()), float(n[k])
        found.append(
            Region(
                where[k], here / len(rows), float(rare[k].sum()) / here, float(left[k].sum()) / here,
                evidence.logbook.actions[a], float(policy[k, a]) / here, float(taken[k, a]) / here,
                int(annotated[k, a]),
            )
        )  # fmt: skip
    found.sort(key=lambda one: (-one.open * one.share, -one.rare * one.share))
    return Overlap(float(rare.sum()) / len(rows), float(left.sum()) / len(rows), found)


def judge_overlap(problem: Problem, *, listens: bool, matters: bool = True) -> Finding | None:
    """How much of what the policy does was hardly ever done; `listens`: annotations stand for what was not logged.

    None without features, or where the behavior policy is known for actions taken alone.
    """
    found = problem.once(overlap_by_features)
    if found is None:
        return None
    share = found.open if listens else found.rare
    light = POOR.light(share) if matters else GREEN
    rule = (
        f"{POOR} of the policy's decisions, on actions that it takes more than {1 / RARE:.0f} times as often as the "
        f"behavior policy{f' and that have fewer than {FEW} annotations there' if listens else ''}"
        if matters else "for information: the estimate does not need overlap"
    )  # fmt: skip
    if found.rare <= NEGLIGIBLE:
        return Finding(NAME, light, "0%", rule, "The policy does nothing that was hardly ever done.")
    worst = [one for one in found.regions if (one.open if listens else one.rare) > NEGLIGIBLE] or found.regions
    listed = "; ".join(_described(one, listens) for one in worst[:SHOWN] if one.rare > NEGLIGIBLE)
    covered = f", {share:.1%} without annotations of it" if listens else ""
    return Finding(
        NAME, light, f"{share:.1%}", rule,
        f"{found.rare:.1%} of the policy's decisions at the logged steps are actions that were hardly ever taken in "
        f"such a place{covered}. Most of it: {listed}.",
        "" if light == GREEN else f"Ask annotators about {worst[0].action!r} there, or log more episodes like these.",
    )  # fmt: skip


def _described(one: Region, listens: bool) -> str:
    annotated = f", and it was annotated {one.annotated:,} times" if listens else ""
    return (
        f"{one.where} ({one.share:.0%} of decisions), where the policy takes {one.action!r} with probability "
        f"{one.wanted:.0%} and it was taken in {one.taken:.0%}{annotated}"
    )


def _inputs(episodes: Episodes, rows: Integers) -> Floats:
    """Features and the step of these rows."""
    assert episodes.features is not None
    return np.column_stack([episodes.features.matrix[rows], episodes.step[rows]])


def _tree(x: Floats, target: Floats) -> Any:
    """A small regression tree; None where there is nothing to tell apart, or no scikit-learn."""
    if not float(np.ptp(target)) > NEGLIGIBLE:
        return None
    try:
        trees = need("sklearn.tree", "models", "Overlap by features")
    except MissingExtraError:
        return None
    maker = trees.DecisionTreeRegressor(
        max_depth=DEPTH, max_leaf_nodes=REGIONS, min_samples_leaf=max(1, int(LEAST_SHARE * len(x))),
        min_impurity_decrease=LEAST_EXPLAINED * float(np.var(target)), random_state=0,
    )  # fmt: skip
    return maker.fit(x, target).tree_


def _regions(tree: Any, x: Floats) -> Integers:
    """The region of each row: the number of a leaf."""
    if tree is None:
        return np.zeros(len(x), dtype=np.int64)
    found: Integers = tree.apply(np.asarray(x, dtype=np.float32)).astype(np.int64)
    return found


def _in_words(tree: Any, features: Features, n: int) -> dict[int, str]:
    """Each leaf by the conditions that lead there."""
    if tree is None:
        return dict.fromkeys(range(n), "everywhere")
    names = (*features.names, "step")
    found: dict[int, str] = {}
    ahead: list[tuple[int, dict[int, tuple[float, float]]]] = [(0, {})]
    while ahead:
        node, bounds = ahead.pop()
        left, right = int(tree.children_left[node]), int(tree.children_right[node])
        if left < 0:
            found[node] = " and ".join(
                _condition(names[k], low, high, features) for k, (low, high) in bounds.items()
            ) or "everywhere"  # fmt: skip
            continue
        column, cut = int(tree.feature[node]), float(tree.threshold[node])
        low, high = bounds.get(column, (-np.inf, np.inf))
        ahead += [(left, {**bounds, column: (low, cut)}), (right, {**bounds, column: (cut, high)})]
    return found


def _condition(name: str, low: float, high: float, features: Features) -> str:
    """A range of one feature in words; columns of categories and of gaps are 0 or 1."""
    column, _, word = name.partition("=")
    if column in features.categories and word:
        return f"{column} is {word!r}" if low > 0 else f"{column} is not {word!r}"
    if name.endswith(" missing") and name.removesuffix(" missing") in features.columns:
        return f"{name.removesuffix(' missing')} is {'missing' if low > 0 else 'known'}"
    if np.isinf(low):
        return f"{name} <= {high:.4g}"
    return f"{name} > {low:.4g}" if np.isinf(high) else f"{name} from {low:.4g} to {high:.4g}"
