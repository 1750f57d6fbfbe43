"""Inclusion probabilities: how likely each question was to be asked.

They are known where whoever drew the questions wrote them down (the column `inclusion_prob`). Else they are estimated
by the share of questions asked, in strata of what a question is about: its state, step, the action taken there and the
action asked about. Which of these matter, and how far the shares of strata are to be believed, the questions tell: of
several stratifications, and of shares shrunk towards the overall one as by M more questions, the one is taken that
predicts best which questions of other episodes were asked. Shares of strata come from other folds, so that an episode's
own questions do not make themselves likely; the overall share is that of all, since other folds may have no question.
Where there are features, a logistic regression on them competes with the stratifications (`inclusion_regression.py`).

What is assumed then: within a stratum, whether a question was asked does not depend on what its annotation says.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from semiope._arrays import Booleans, Floats, Integers, id_dtype
from semiope.data.labels import ABSENT
from semiope.data.logbook import Logbook
from semiope.policies.lookup import BoundPolicy
from semiope.weights.inclusion_regression import Drawn, InclusionRegression, Sample, fit_regression

COLUMN, ESTIMATED = "column inclusion_prob", "estimated"
# Shares of strata are shrunk as by so many questions: a grid fine enough that a finer one changes nothing.
SHRUNK_BY = np.exp(np.arange(-2.0, 12.0, 0.5))
# What inclusion probabilities may depend on.
TRIED: tuple[tuple[str, ...], ...] = (
    (), ("action",), ("taken",), ("step",), ("state",), ("taken", "action"), ("state", "action"), ("state", "taken"),
    ("step", "state"), ("state", "taken", "action"),
)  # fmt: skip
# Tables of strata beyond this are not tried.
MOST_STRATA = 1 << 22
ROWS_AT_ONCE = 1 << 14
# Were it chance that no question of a pair was asked, the chance would be less than this.
NEVER = 0.05


class Inclusion(NamedTuple):
    """How likely each aligned annotation's question was to be asked, and what that rests on.

    `strata` are what the estimates depend on, and `table` the probability of each stratum by fold, (n_folds, n_strata);
    None if nothing was estimated, or by a `regression` on features. `asked` and `questions` count those that the policy
    may need; `never` flags pairs, (n_states, n_actions), about which nothing was asked though it could have been; all
    pairs if nothing was asked at all.
    """

    prob: Floats
    origin: str
    asked: int
    questions: int
    never: Booleans
    strata: tuple[str, ...] = ()
    table: Floats | None = None
    regression: InclusionRegression | None = None

    @property
    def estimated(self) -> bool:
        """Whether probabilities were estimated from which questions were asked."""
        return self.table is not None or self.regression is not None

    @property
    def words(self) -> str:
        """What the probabilities are taken to depend on."""
        if self.origin == COLUMN:
            return "as written down in inclusion_prob"
        if self.regression is not None:
            return "the features, the step, the action taken and the action asked about"
        if self.table is None:
            return "1, since everything was asked"
        names = {"taken": "the action taken", "action": "the action asked about"}
        return ", ".join(names.get(name, f"the {name}") for name in self.strata) or "nothing: all were equally likely"

    @property
    def typical(self) -> float:
        """The harmonic mean of the probabilities of what was asked."""
        return 1 / float(np.mean(1 / self.prob)) if len(self.prob) else 1.0


class Questions(NamedTuple):
    """Questions that a policy needs: what could be asked at each step about actions that it may take."""

    fold: Integers
    step: Integers
    state: Integers
    taken: Integers
    action: Integers

    def part(self, which: Booleans) -> Questions:
        """Some of them."""
        return Questions(*(column[which] for column in self))


def inclusion(logbook: Logbook, evaluation: BoundPolicy, fold: Integers) -> Inclusion:
    """The inclusion probability of each aligned annotation, for one policy; `fold` is that of each episode."""
    annotations = logbook.annotations
    needed = evaluation.annotated(slice(0, len(annotations.row))) > 0
    tables = _Tables(logbook, fold)
    tables.count(evaluation)
    asked = tables.of_annotations(needed)
    n_asked, n = int(np.count_nonzero(needed)), tables.total
    never = tables.never(asked, n_asked)
    prob = np.ones(len(needed))
    if annotations.inclusion_prob is not None:
        return Inclusion(annotations.inclusion_prob, COLUMN, n_asked, n, np.zeros_like(never))
    if n_asked >= n:  # everything was asked
        return Inclusion(prob, ESTIMATED, n_asked, n, never)
    strata, table = tables.best(asked)
    regression = _regression(tables, evaluation, asked, strata, table)
    if regression is not None:
        prob[needed] = regression.prob(asked.fold, annotations.row[needed], asked.taken, asked.action)
        return Inclusion(prob, ESTIMATED, n_asked, n, never, regression=regression)
    prob[needed] = table[asked.fold, tables.stratum(asked, strata)]
    return Inclusion(prob, ESTIMATED, n_asked, n, never, strata, table)


def _regression(
    tables: _Tables, evaluation: BoundPolicy, asked: Questions, strata: tuple[str, ...], table: Floats
) -> InclusionRegression | None:
    """A regression on features, if it predicts better than strata which questions of other episodes were asked."""
    episodes, n_actions = tables.logbook.episodes, len(tables.logbook.actions)
    if episodes.features is None:
        return None
    annotations = tables.logbook.annotations
    sample = Sample(tables.total)
    for row, questions in tables.needed(evaluation):
        sample.add(questions.fold, row, questions.taken, questions.action)
    fold, row, taken, action = sample.columns()
    keys = annotations.row.astype(np.int64) * n_actions + annotations.action
    was = np.isin(row * n_actions + action, keys, assume_unique=True)
    drawn = Drawn(fold, row, taken, action, was)
    found = fit_regression(episodes.features.matrix, episodes.step, n_actions, tables.n_folds, drawn)
    # Both are judged by the questions that the regression was fitted to, each by other folds.
    by_strata = table[fold, tables.stratum(tables.at(row, action), strata)]
    fits = [
        _fit(prob, was.astype(np.float64), np.ones(len(was)))
        for prob in (found.prob(fold, row, taken, action), by_strata)
    ]
    return found if fits[0] > fits[1] + 1e-9 * abs(fits[1]) else None


class Questioning(NamedTuple):
    """How questions came to be asked, as far as it shows: what is needed to ask others like them.

    `prob` is the inclusion probability of each stratum of questions that the policy needs, `others` that of all others
    about actions not taken, `taken` that of questions about actions taken. `correlation` is that of two questions of
    one episode being asked: 0 if each is drawn on its own, 1 if whole episodes are.
    """

    strata: tuple[str, ...]
    sizes: dict[str, int]
    prob: Floats
    others: float
    taken: float
    correlation: float

    def prob_of(self, questions: Questions, needed: Booleans) -> Floats:
        """The inclusion probability of each question about an action not taken."""
        return np.where(needed, self.prob[_stratum(questions, self.strata, self.sizes)], self.others)


def questioning(logbook: Logbook, evaluation: BoundPolicy, fold: Integers) -> Questioning:
    """Find out how the questions of a logbook came to be asked, whether or not inclusion probabilities are known."""
    annotations, episodes = logbook.annotations, logbook.episodes
    needed = evaluation.annotated(slice(0, len(annotations.row))) > 0
    tables = _Tables(logbook, fold)
    tables.count(evaluation)
    asked = tables.of_annotations(needed)
    n_asked, n = int(np.count_nonzero(needed)), tables.total
    n_decisions = int(np.count_nonzero(episodes.action != ABSENT))
    n_others = n_decisions * (len(logbook.actions) - 1) - n
    taken = 0 if annotations.taken is None else len(np.unique(annotations.taken.place))
    strata, table = ((), np.ones((1, 1))) if n_asked >= n else tables.best(asked)
    prob = table.mean(axis=0)
    moments = np.zeros((3, episodes.n_episodes))
    for row, questions in tables.needed(evaluation):
        p = prob[tables.stratum(questions, strata)]
        of = episodes.episode_of(row)
        for k, column in enumerate((p, p * (1 - p), np.sqrt(p * (1 - p)))):
            moments[k] += np.bincount(of, weights=column, minlength=episodes.n_episodes)
    times = np.bincount(episodes.episode_of(annotations.row[needed]), minlength=episodes.n_episodes)
    pairs = float(np.sum(moments[2] ** 2 - moments[1]))
    correlation = float(np.sum((times - moments[0]) ** 2 - moments[1])) / pairs if pairs > 0 else 0.0
    return Questioning(
        strata, tables.sizes, prob, min((len(needed) - n_asked) / max(n_others, 1), 1.0), taken / max(n_decisions, 1),
        min(max(correlation, 0.0), 1.0),
    )  # fmt: skip


def expected_per_row(found: Inclusion, logbook: Logbook, evaluation: BoundPolicy, fold: Integers) -> Floats:
    """How many of the questions that the policy needs were to be expected at each row, by the probabilities found."""
    tables, expected = _Tables(logbook, fold), np.zeros(logbook.episodes.n_steps)
    for row, questions in tables.needed(evaluation):
        if found.regression is not None:
            prob = found.regression.prob(questions.fold, row, questions.taken, questions.action)
        else:
            assert found.table is not None
            prob = found.table[questions.fold, tables.stratum(questions, found.strata)]
        expected += np.bincount(row, weights=prob, minlength=len(expected))
    return expected


class _Tables:
    """Counts of needed questions by fold and stratum, for each stratification; strata without any are left out."""

    def __init__(self, logbook: Logbook, fold: Integers) -> None:
        self.logbook, self.n_folds = logbook, int(fold.max()) + 1
        episodes = logbook.episodes
        self.fold_of_row = np.repeat(fold.astype(id_dtype(self.n_folds)), episodes.lengths)
        n_steps, n_states, n_actions = int(episodes.lengths.max()), len(episodes.states), len(logbook.actions)
        self.sizes = {"step": n_steps, "state": n_states, "taken": n_actions, "action": n_actions}
        self.tried = [names for names in TRIED if self.n_folds * _product(self.sizes, names) <= MOST_STRATA]
        self.by_pair = np.zeros((n_states, n_actions))
        self.counts: dict[tuple[str, ...], Floats] = {}

    @property
    def total(self) -> int:
        """How many questions the policy needs."""
        return int(self.by_pair.sum())

    def needed(self, evaluation: BoundPolicy) -> Iterator[tuple[Integers, Questions]]:
        """Questions about actions that were not taken and that the policy may take, and their rows, part by part."""
        episodes = self.logbook.episodes
        decided = np.flatnonzero(episodes.action != ABSENT)
        for first in range(0, len(decided), ROWS_AT_ONCE):
            rows = decided[first : first + ROWS_AT_ONCE]
            needed = evaluation.at(rows) > 0
            needed[np.arange(len(rows)), episodes.action[rows]] = False
            place, action = np.nonzero(needed)
            yield rows[place], self.at(rows[place], action)

    def count(self, evaluation: BoundPolicy) -> None:
        """Count all of these."""
        self.counts = {names: np.zeros((self.n_folds, _product(self.sizes, names))) for names in self.tried}
        for _, questions in self.needed(evaluation):
            for names, table in self.counts.items():
                _add(table, questions.fold, self.stratum(questions, names))
            np.add.at(self.by_pair, (questions.state, questions.action), 1.0)

    def of_annotations(self, needed: Booleans) -> Questions:
        """The questions that were asked and that the policy needs."""
        annotations = self.logbook.annotations
        return self.at(annotations.row[needed], annotations.action[needed])

    def at(self, row: Integers, action: Integers) -> Questions:
        """Questions about these actions in these rows."""
        episodes = self.logbook.episodes
        columns = (self.fold_of_row[row], episodes.step[row], episodes.state[row], episodes.action[row], action)
        return Questions(*(column.astype(np.int64) for column in columns))

    def stratum(self, questions: Questions, names: tuple[str, ...]) -> Integers:
        """The stratum of each question."""
        return _stratum(questions, names, self.sizes)

    def never(self, asked: Questions, n_asked: int) -> Booleans:
        """Pairs about which nothing was asked, while at the overall share something should have been."""
        times = np.zeros_like(self.by_pair)
        np.add.at(times, (asked.state, asked.action), 1.0)
        share = min(n_asked / max(self.total, 1), 1.0)
        with np.errstate(divide="ignore"):
            unlikely = self.by_pair * np.log1p(-share) < np.log(NEVER) if share < 1 else self.by_pair > 0
        found: Booleans = (times == 0) & (self.by_pair > 0) & unlikely
        return found | (n_asked == 0)

    def best(self, asked: Questions) -> tuple[tuple[str, ...], Floats]:
        """The stratification that predicts other folds best, and its probabilities by fold and stratum."""
        per_fold = np.bincount(asked.fold, minlength=self.n_folds).astype(np.float64)
        questions = self.counts[()][:, 0]
        # The overall share is that of all folds, since others may have no question. Jeffreys' prior: it is not 0.
        every = np.full((self.n_folds, 1), (per_fold.sum() + 0.5) / (questions.sum() + 1.0))
        best = _fit(every, per_fold[:, None], questions[:, None])
        chosen: tuple[str, ...] = ()
        found = every
        for names in self.tried:
            if not names:
                continue
            n = self.counts[names]
            k = np.zeros_like(n)
            _add(k, asked.fold, self.stratum(asked, names))
            there = np.flatnonzero(n.any(axis=0))
            for shrunk_by in SHRUNK_BY:
                prob = (_of_others(k[:, there]) + shrunk_by * every) / (_of_others(n[:, there]) + shrunk_by)
                fit = _fit(prob, k[:, there], n[:, there])
                if fit > best + 1e-9 * abs(fit):
                    best, chosen = fit, names
                    found = np.repeat(every, n.shape[1], axis=1)
                    found[:, there] = prob
        return chosen, found


def _stratum(questions: Questions, names: tuple[str, ...], sizes: dict[str, int]) -> Integers:
    found = np.zeros(len(questions.step), dtype=np.int64)
    for name in names:
        found = found * sizes[name] + getattr(questions, name)
    return found


def _of_others(table: Floats) -> Floats:
    """Sums over the other folds; over the only one where there is no other."""
    return table.sum(axis=0) - table if len(table) > 1 else table


def _fit(prob: Floats, asked: Floats, questions: Floats) -> float:
    """The log likelihood of which questions were asked."""
    clear = np.clip(prob, 1e-300, 1 - 1e-15)
    return float(np.sum(asked * np.log(clear) + (questions - asked) * np.log1p(-clear)))


def _product(sizes: dict[str, int], names: tuple[str, ...]) -> int:
    found = 1
    for name in names:
        found *= sizes[name]
    return found


def _add(table: Floats, fold: Integers, stratum: Integers) -> None:
    """Count entries by fold and stratum."""
    flat = np.bincount(fold * table.shape[1] + stratum, minlength=table.size)
    table += flat.reshape(table.shape)
