"""Whether a behavior policy is the one that acted, where states are features: tests against classifiers of the action.

No state recurs, so stated probabilities cannot be held against shares in cells. Two tests take their place. Write p for
the behavior policy, a for the action taken, and q for a rival: a classifier of the action, fitted to other episodes.

**Likelihood.** If p is right, the ratio of (p(a) + q(a)) / 2 to p(a) has mean 1 at each decision, whatever happened
before. So has its product over all decisions of a fold, and the mean of these products over folds and rivals. A mean of
1 / alpha or more then has a probability of at most alpha (Markov's inequality; universal inference, Wasserman, Ramdas
and Balakrishnan, 2020). No large sample is needed, and decisions of an episode may depend on each other.

**Sureness.** Where p is known for all actions, log p(a) has the mean sum_k p_k log p_k and a variance that p states as
well. This is the score test of p^s at s = 1: p is too sure of itself where the difference is below 0, and not sure
enough, or fitted to the same rows, where it is above. Where p is known for the action taken alone, q takes part of its
place: with q2 proportional to q^2, both q(a) / p(a) and q2(a) / p(a) have mean 1, and their difference has mean 0. The
mean of q2(a) / p(a) is tested as well: it is below 1 where p was fitted to the same rows.

A policy that was fitted here is never quite right. It is asked for less: that no rival predicts better.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import numpy as np

from semiope._arrays import Floats, Integers
from semiope._extras import need
from semiope._random import generator
from semiope.data.episodes import Episodes
from semiope.data.labels import ABSENT
from semiope.data.repeat import Resample
from semiope.diagnostics.findings import AMBER, GREEN, RED, SETTLED, Finding, Rule
from semiope.errors import MissingExtraError, SupportError
from semiope.estimate.evidence import Evidence
from semiope.models.behavior_model import fit_behavior
from semiope.models.folds import deal
from semiope.policies.lookup import BoundPolicy, Lookup

NAME = "behavior policy by features"
# Error probabilities of all tests together: of 1,000 behavior policies that are right, at most 50 are amber and 1 red.
CHANCE = Rule(amber=0.05, red=0.001, form="{:.1%}")
# Decisions that rivals are fitted to.
MOST_DECISIONS = 20_000
# Boosting fits a tree to each action in each round; with more actions, a random forest takes its place.
MOST_ACTIONS = 20
# As few folds as allow to calibrate the rivals: they cost least.
FOLDS = 3
ROWS_AT_ONCE = 1 << 16
# How to use each rival as the behavior policy.
OPTION = {
    "logistic regression": "behavior='logistic'",
    "boosting": "behavior='boosting'",
    "random forest": "behavior=RandomForestClassifier(min_samples_leaf=5)",
}


class Rivals(NamedTuple):
    """Classifiers of the action taken, cross-fitted by episode on at most `MOST_DECISIONS` decisions.

    Of each decision: its `row`, its `episode` among those chosen, their `fold`. `probs` are by name, (decisions,
    actions).
    """

    row: Integers
    episode: Integers
    fold: Integers
    action: Integers
    probs: dict[str, Floats]

    def taken(self, name: str) -> Floats:
        """Probabilities of the actions taken."""
        return self.probs[name][np.arange(len(self.row)), self.action]

    @property
    def best(self) -> str:
        """The one that predicts the actions taken best."""
        return max(self.probs, key=lambda name: float(np.sum(np.log(self.taken(name)))))


class Check(NamedTuple):
    """One test: the probability of a result like this if the behavior policy is right, and the result in words."""

    p_value: float
    words: str


class Checks(NamedTuple):
    """All tests of a behavior policy, and the rival that predicts best, if there is one."""

    each: tuple[Check, ...]
    best: str | None

    @property
    def p_value(self) -> float:
        """The smallest of all, times their number (Bonferroni); NaN if there is none."""
        return min([1.0, *(len(self.each) * one.p_value for one in self.each)]) if self.each else math.nan

    @property
    def worst(self) -> Check:
        """The test that speaks most against the behavior policy."""
        return min(self.each, key=lambda one: one.p_value)


def behavior_checks(evidence: Evidence) -> Checks:
    """Test the behavior policy of some evidence; `evidence.derived(behavior_checks)` does so once."""
    return checks_against(evidence, rivals_of(evidence.logbook.episodes))


def rivals_of(episodes: Episodes) -> Rivals:
    """Fit the rivals; there are none without scikit-learn, or of too few episodes."""
    some = Resample(episodes, _some_episodes(episodes))
    chosen = some.episodes
    inside = np.flatnonzero(chosen.action != ABSENT)
    episode = chosen.episode_of(inside)
    probs: dict[str, Floats] = {}
    fold = np.zeros(len(inside), dtype=np.int64)
    if chosen.n_episodes > 1:
        fold = deal(chosen.n_episodes, FOLDS)[episode]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a rival that did not converge is still a rival
                for name, classifier in _classifiers(episodes):
                    probs[name] = fit_behavior(chosen, classifier, folds=FOLDS).probs[inside]
        except (MissingExtraError, SupportError):
            probs = {}
    return Rivals(some.source_rows[inside], episode, fold, chosen.action[inside].astype(np.int64), probs)


def _some_episodes(episodes: Episodes) -> Integers:
    """1 for the episodes that rivals are fitted to, drawn at random if all have too many decisions; else 0."""
    order = generator(0).permutation(episodes.n_episodes)
    decisions = np.add.reduceat((episodes.action != ABSENT).astype(np.int64), episodes.offsets[:-1])[order]
    found = np.zeros(episodes.n_episodes, dtype=np.int64)
    found[order[np.append(0, np.cumsum(decisions)[:-1]) < MOST_DECISIONS]] = 1
    return found


def _classifiers(episodes: Episodes) -> Iterator[tuple[str, Any]]:
    yield "logistic regression", "logistic"
    if len(episodes.actions) <= MOST_ACTIONS:
        yield "boosting", "boosting"
    else:
        ensemble = need("sklearn.ensemble", "models", "A fitted behavior policy")
        yield "random forest", ensemble.RandomForestClassifier(50, min_samples_leaf=5, random_state=0)


def checks_against(evidence: Evidence, rivals: Rivals) -> Checks:
    """Test the behavior policy with rivals that are fitted already."""
    behavior, n_rows = evidence.behavior, evidence.logbook.episodes.n_steps
    best = rivals.best if rivals.probs else None
    taken = behavior.lookup.taken(slice(0, n_rows))[rivals.row]
    if behavior.origin == "fitted":
        better = (_predicts_better(rivals, name, taken) for name in rivals.probs)
        return Checks(tuple(one for one in better if one is not None), best)
    likelihood = _likelihood(rivals, taken) if rivals.probs else None
    others = _of_taken(rivals, taken) if behavior.origin == "logged" else [_sureness(evidence)]
    return Checks(tuple(one for one in (likelihood, *others) if one is not None), best)


def _likelihood(rivals: Rivals, taken: Floats) -> Check:
    """The likelihood of p mixed half and half with each rival, over that of p alone."""
    logs = {name: np.log((rivals.taken(name) + taken) / 2) - np.log(taken) for name in rivals.probs}
    products = np.array([np.bincount(rivals.fold, weights=gain) for gain in logs.values()])
    top = float(products.max())
    log_mean = top + float(np.log(np.mean(np.exp(products - top))))
    name = max(logs, key=lambda one: float(logs[one].sum()))
    side = "more" if log_mean > 0 else "no more"
    beyond = f" by a factor of 10^{log_mean / math.log(10):,.0f}" if log_mean > math.log(10) else ""
    return Check(
        min(1.0, math.exp(-max(log_mean, 0.0))),
        f"Mixed half and half with {name} fitted to other episodes, it makes the actions taken {side} "
        f"likely{beyond}" + ("." if log_mean <= 0 else ": the features tell of the action what it leaves out."),
    )


def _sureness(evidence: Evidence) -> Check | None:
    """The score test, over all decisions; None if p states that log p does not vary."""
    lookup = of_all_actions(evidence.behavior.lookup)
    if lookup is None:
        return None
    episodes = evidence.logbook.episodes
    beyond, variance = np.zeros(episodes.n_steps), 0.0
    for first in range(0, episodes.n_steps, ROWS_AT_ONCE):
        rows = np.arange(first, min(first + ROWS_AT_ONCE, episodes.n_steps))
        rows = rows[episodes.action[rows] != ABSENT]
        probs = lookup.at(rows)
        logs = np.log(np.where(probs > 0, probs, 1.0))
        mean = np.sum(probs * logs, axis=1)
        variance += float(np.sum(probs * (logs - mean[:, None]) ** 2))
        beyond[rows] = logs[np.arange(len(rows)), episodes.action[rows]] - mean
    sums = np.add.reduceat(beyond, episodes.offsets[:-1])
    # What p states, or what episodes show, if that is more: a few unlikely actions may be too rare to be among them.
    error = math.sqrt(max(variance, float(np.sum((sums - sums.mean()) ** 2))))
    if not variance > 1e-12 * len(sums):
        return None
    z = float(sums.sum()) / error
    return Check(_two_sided(z, len(sums)), _sure_words(z, "it says"))


def of_all_actions(lookup: Lookup) -> BoundPolicy | None:
    """A lookup that knows the probabilities of all actions; None where those of actions taken alone are known."""
    return cast(BoundPolicy, lookup) if hasattr(lookup, "at") else None


def _of_taken(rivals: Rivals, taken: Floats) -> list[Check | None]:
    """Where p of other actions is not known: sureness by the best rival, and whether p of actions taken is too large.

    Ratios are skewed: unlikely actions, of large ratios, may be too rare to be among those taken. So the variance is at
    least the one that they would have if actions were taken as the rival says.
    """
    if not rivals.probs:
        return []
    probs, place = rivals.probs[rivals.best], (np.arange(len(rivals.row)), rivals.action)
    squares = probs**2
    squares = squares / squares.sum(axis=1, keepdims=True)
    with np.errstate(over="ignore"):
        sure = _z((squares - probs)[place] / taken, rivals, float(np.sum((squares - probs) ** 2 / probs)))
        size = _z(squares[place] / taken - 1, rivals, float(np.sum(squares**2 / probs) - len(taken)))
    found: list[Check | None] = []
    if sure is not None:
        words = _sure_words(sure[0], f"it says, as far as {rivals.best} can tell")
        found.append(Check(_two_sided(*sure), words))
    if size is not None:
        few = "too likely, as if it was fitted to these very rows" if size[0] < 0 else "too unlikely"
        words = f"It makes the actions taken {few}: beside {rivals.best}, by {abs(size[0]):.1f} standard errors."
        found.append(Check(_two_sided(*size), words))
    return found


def _sure_words(z: float, expected: str) -> str:
    apart = f"{abs(z):.1f} standard errors"
    if z < 0:
        return f"It is too sure of itself by {apart}: unlikely actions were taken more often than {expected}."
    return (
        f"Its likely actions were taken more often than {expected}, by {apart}: it is not sure enough, or was fitted "
        "to these very rows."
    )


def _predicts_better(rivals: Rivals, name: str, taken: Floats) -> Check | None:
    """Whether a rival alone predicts better, one-sided, over episodes."""
    gain = np.log(rivals.taken(name) / taken)
    found = _z(gain, rivals)
    if found is None:
        return None
    z, n = found
    side = "better" if z > 0 else "worse"
    return Check(
        _upper(z, n),
        f"{name.capitalize()} fitted to other episodes predicts the actions taken {side} than it, by "
        f"{abs(float(gain.mean())):.3f} in log likelihood a decision, {abs(z):.1f} standard errors.",
    )


def _z(numbers: Floats, rivals: Rivals, variance: float = 0.0) -> tuple[float, int] | None:
    """The sum over all episodes in standard errors, and how many episodes; None if nothing varies.

    The variance of the sum is taken from that between episodes, and is at least the one given.
    """
    sums = np.bincount(rivals.episode, weights=numbers)
    n = len(sums)
    error = math.sqrt(max(n * float(np.var(sums, ddof=1)), variance)) if n > 1 else 0.0
    # Rounding of probabilities that are alike is no difference.
    if not error > 1e-12 * n:
        return None
    return float(sums.sum()) / error, n


def _upper(z: float, n: int) -> float:
    from scipy.stats import t

    return float(t.sf(z, n - 1))


def _two_sided(z: float, n: int) -> float:
    return 2 * _upper(abs(z), max(n, 2))


def judge_propensities(evidence: Evidence, *, matters: bool = True) -> Finding:
    """Whether the behavior policy is the one that acted, as far as features tell."""
    found = evidence.derived(behavior_checks)
    rule = f"error probability of all tests together: {CHANCE}" if matters else SETTLED
    if not found.each:
        return Finding(
            NAME, AMBER if matters else GREEN, "-", rule, "The behavior policy could not be tested.",
            "" if found.best or not matters else 'Install scikit-learn (pip install "semiope[models]"), or log more '
            "episodes.",
        )  # fmt: skip
    p_value, origin = found.p_value, evidence.behavior.origin
    light = CHANCE.light(p_value) if matters else GREEN
    tested = "1 test" if len(found.each) == 1 else f"{len(found.each)} tests"
    how = origin if evidence.fitted is None else f"fitted here, {evidence.fitted.name}"
    fits = {
        GREEN: f"fits the actions taken, as far as the features tell ({tested}).",
        AMBER: f"may not fit the actions taken. {found.worst.words}",
        RED: f"does not fit the actions taken. {found.worst.words}",
    }[CHANCE.light(p_value)]
    sentence = f"The behavior policy ({how}) {fits}"
    return Finding(NAME, light, _figure(p_value), rule, sentence, "" if light == GREEN else _way_out(found, origin))


def _figure(p_value: float) -> str:
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}" if p_value < 0.1 else f"p = {p_value:.2f}"


def _way_out(found: Checks, origin: str) -> str:
    option = "behavior='logistic'" if found.best is None else OPTION[found.best]
    if origin == "fitted":
        return f"Use {option}, or another classifier that suits the features better."
    return (
        "It is not the policy that acted, or it was fitted to the same rows. Find the probabilities that were really "
        f"used, or use {option}, which is cross-fitted (so.fit_behavior)."
    )
