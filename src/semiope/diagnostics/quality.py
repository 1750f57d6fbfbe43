"""How good annotators are, judged from data alone: against what happened, against each other, by their own word.

Annotator j answers question i, an (episode, step, action), with g_ij = q_i + b_j + e_ij, the noise e of variance s_j^2.
Where the action was taken the log knows an outcome, y_i = q_i + chance: a single return, with a scatter of its own.

- bias: the mean of g - y. The outcome's chance averages out.
- calibration: the line of y on g. Slope 1 and intercept 0: answers mean what they say. Noise alone makes the slope
  smaller than 1: it is q's share of the variance of answers, if errors are unrelated to q.
- noise: Var(g - y) = s^2 + Var(chance), so that squares of g - y say nothing by themselves. There are six ways out; an
  annotator's `noises` has all, by `source`, and `noise` is the first in this order that rests on ENOUGH episodes:
    peers     questions that three or more answered (`agreement.peers`); errors in common do not show
    persons   answers without names to the same question: their variance, if each is of another person
    another   own answers against own minus others' where two answered; errors are unrelated to q as well
    twins     (g_i - b - y_i)(g_i - b - y'_i), y' the mean outcome of other episodes with the same step, state and
              action: chance is another there, and its variance drops out, if the state says all that matters
    outcomes  Cov(g, g - y), if errors are unrelated to q
    repeats   the scatter of a person who answers the same question again: what he misjudges each time does not show
- honesty: the same over the mean of stated std^2, as a ratio of standard deviations; 1 is honest.

What is not identified is NaN: noise with one annotator, no outcome and no repeats; bias without outcomes. Whatever all
annotators have in common is seen by outcomes only.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from semiope._arrays import Floats
from semiope._options import check_gamma
from semiope.data.annotations import Annotations
from semiope.data.episodes import Episodes
from semiope.diagnostics.agreement import (
    Agreement,
    Difference,
    Products,
    Shared,
    agreement,
    differences,
    honesty_by_peers,
    peers,
    shared_by,
)
from semiope.diagnostics.answers import Answers, gather
from semiope.diagnostics.clustered import Figure, Spread, figures, lines, mean_by, sum_by

# Episodes that a number must rest on to be preferred to one that assumes more.
ENOUGH = 20
SOURCES = ("peers", "persons", "another", "twins", "outcomes", "repeats")
LAST, ALL = "last step", "all steps"
CAVEAT = (
    "Outcomes follow the behaviour policy, while answers speak of the policy under evaluation: unless they were asked "
    "about today's policy, the difference between the policies is in {}, too."
)


class Calibration(NamedTuple):
    """The line of outcomes on answers; slope 1 and intercept 0 if answers mean what they say."""

    slope: Figure
    intercept: Figure


class AnnotatorQuality(NamedTuple):
    """What the data say of one annotator.

    `answers` counts returns, `known` those about actions that were taken. `basis` says which outcomes `bias` and noise
    by outcomes rest on: those of the last step at which anything was decided, if the annotator answered about ENOUGH
    episodes there, else all. The calibration is over all of them and over those of the last step, where answers may
    differ too little to say much. `apart` is how far answers are from the mean of others' to the same questions.
    `noises` and `ratios` are by SOURCES, those that the data have.
    """

    name: str
    answers: int
    known: int
    basis: str
    bias_all: Figure
    bias_last: Figure
    calibration: Calibration
    calibration_last: Calibration
    apart: Figure
    noises: tuple[Spread, ...]
    ratios: tuple[Spread, ...]

    @property
    def bias(self) -> Figure:
        """The mean of value minus outcome, on the basis chosen."""
        return self.bias_last if self.basis == LAST else self.bias_all

    @property
    def caveat(self) -> str:
        """What else than the annotator is in these numbers; empty if nothing is."""
        if self.known == self.bias_last.n:
            return ""
        return CAVEAT.format("calibration" if self.basis == LAST else "bias, calibration and noise by outcomes")

    @property
    def noise(self) -> Spread:
        """The standard deviation of noise, by the best source there is."""
        return _best(self.noises)

    @property
    def honesty(self) -> Spread:
        """The ratio of observed to stated std, by the same source as the noise."""
        source = self.noise.source
        return next((ratio for ratio in self.ratios if ratio.source == source), Spread(NOTHING, ""))


class Quality(NamedTuple):
    """What the data say of all annotators, in the order of their names.

    `honesty_peers` and `honesty_outcomes` are the ratios of observed to stated std over all annotators: by answers to
    the same questions, and by outcomes. `left_out` counts answers that are rewards or preferences.
    """

    annotators: list[AnnotatorQuality]
    agreement: Agreement
    differences: list[Difference]
    honesty_peers: Spread
    honesty_outcomes: Spread
    left_out: int


NOTHING = Figure(math.nan, math.nan, 0, 0)


def annotator_quality(episodes: Episodes, annotations: Annotations, gamma: float) -> Quality:
    """Judge annotators by outcomes, by each other, and by what they say of their own scatter.

    The last step is the last at which any episode has a decision. Last decisions of episodes that end earlier are not
    used like it: to end there is part of their outcome, and answers could not know of it.
    """
    answers = gather(episodes, annotations, check_gamma(gamma))
    # Numbers near the end of the range overflow to inf or NaN when squared; that is what they are worth.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return _judged(answers, len(annotations) - len(answers.value))


def _judged(answers: Answers, left_out: int) -> Quality:
    n, shared = len(answers.names), shared_by(answers)
    known = answers.part(~np.isnan(answers.outcome))
    off = known.value - known.outcome
    bias_all = figures(off, None, known.who, known.episode, n)
    last = known.last
    bias_last = figures(off[last], None, known.who[last], known.episode[last], n)
    on_last = np.array([figure.episodes >= ENOUGH for figure in bias_last], dtype=np.bool_)
    used = known.part(last | ~on_last[known.who])
    calibration, calibration_last = _calibrations(known, n), _calibrations(known.part(last), n)
    by_outcomes = _outcomes(used)
    products = [*peers(shared), *_same_question(answers), *by_outcomes]
    noises, ratios = _spreads(products, n, stated=False), _spreads(products, n, stated=True)
    apart = _apart(shared)
    counts = zip(_count(answers), _count(known), strict=True)
    rows = [
        AnnotatorQuality(
            answers.names[j], *both, LAST if on_last[j] else ALL, bias_all[j], bias_last[j], calibration[j],
            calibration_last[j], apart[j], noises[j], ratios[j],
        )
        for j, both in enumerate(counts)
    ]  # fmt: skip
    together = [part._replace(who=np.zeros_like(part.who)) for part in by_outcomes]
    honesty = _best(_spreads(together, 1, stated=True)[0])
    return Quality(rows, agreement(shared), differences(shared), honesty_by_peers(shared), honesty, left_out)


def _calibrations(known: Answers, n: int) -> list[Calibration]:
    intercepts, slopes = lines(known.value, known.outcome, known.who, known.episode, n)
    return [Calibration(slope, intercept) for slope, intercept in zip(slopes, intercepts, strict=True)]


def _count(answers: Answers) -> list[int]:
    found: list[int] = np.bincount(answers.who, minlength=len(answers.names)).tolist()
    return found


def _apart(shared: Shared) -> list[Figure]:
    """How far each annotator's answers are from the mean of the others' to the same questions."""
    mean = mean_by(shared.value, shared.question, shared.n_questions)[shared.question]
    off = (shared.value - mean) * shared.times / (shared.times - 1)
    named = shared.column < len(shared.names)
    return figures(off[named], None, shared.who[named], shared.episode[named], len(shared.names))


def _outcomes(known: Answers) -> list[Products]:
    """What outcomes tell of noise: see "twins" and "outcomes" above."""
    n = len(known.names)
    off_value, off_outcome = (
        column - mean_by(column, known.who, n)[known.who] for column in (known.value, known.value - known.outcome)
    )
    variance = None if known.std is None else known.std**2
    covariance = Products("outcomes", known.who, known.episode, off_value * off_outcome, variance, 1)
    return [_twins(known), covariance]


def _twins(known: Answers) -> Products:
    """(g_i - b - y_i)(g_i - b - y'_i), with y' the mean outcome of the cell's other episodes that j answered about.

    An outcome is in the products of its twins, too. What it does there is added to its own product; that sums to 0, and
    standard errors know of it.
    """
    n = len(known.names)
    in_cell, in_question = (
        np.unique(column * n + known.who, return_inverse=True)[1] for column in (known.cell, known.question)
    )
    others = np.bincount(in_cell)[in_cell] - np.bincount(in_question)[in_question]
    paired = others > 0

    def elsewhere(values: Floats) -> Floats:
        """Sums over the cell's other episodes."""
        size = len(values)
        found: Floats = sum_by(values, in_cell, size)[in_cell] - sum_by(values, in_question, size)[in_question]
        return found

    off = known.value - known.outcome
    twin = elsewhere(known.outcome) / np.maximum(others, 1)
    bias = figures(off[paired], None, known.who[paired], known.episode[paired], n)
    level, error = (np.array([figure[i] for figure in bias])[known.who] for i in (0, 1))
    own = np.where(paired, off - level, 0.0)
    passed_on = (elsewhere(own * twin) - known.outcome * elsewhere(own)) / np.maximum(others, 1)
    # The estimated bias scatters with the same outcomes: its square is too large by that of its standard error.
    product = own * (known.value - twin - level) + passed_on + error**2
    variance = None if known.std is None else known.std[paired] ** 2
    return Products("twins", known.who[paired], known.episode[paired], product[paired], variance, 0)


def _same_question(answers: Answers) -> list[Products]:
    """Squares of answers minus the mean of the same person's to the same question, or of all without a name."""
    n = len(answers.names)
    group = np.unique(answers.question * n + answers.who, return_inverse=True)[1] if n else answers.question
    times = np.bincount(group)[group]
    mean = mean_by(answers.value, group, int(group.max(initial=-1)) + 1)[group]
    found = []
    for source, whose in (("persons", ~answers.named), ("repeats", answers.named)):
        which = whose & (times > 1)
        square = (answers.value - mean)[which] ** 2 * times[which] / (times[which] - 1)
        variance = None if answers.std is None else answers.std[which] ** 2
        found.append(Products(source, answers.who[which], answers.episode[which], square, variance, 0))
    return found


def _spreads(products: list[Products], n: int, *, stated: bool) -> list[tuple[Spread, ...]]:
    """For each annotator the roots of mean products, or of their sums over stated variances; only those found."""
    found: dict[str, list[Figure]] = {}
    for part in products:
        if stated and part.variance is None:
            continue
        weights = part.variance if stated else None
        found[part.source] = figures(part.product, weights, part.who, part.episode, n, spent=part.spent)
    return [tuple(Spread(found[s][j], s) for s in SOURCES if s in found and found[s][j].n) for j in range(n)]


def _best(spreads: tuple[Spread, ...]) -> Spread:
    """The first that rests on enough episodes, else the one that rests on most."""
    there = [spread for spread in spreads if not math.isnan(spread.value)]
    enough = [spread for spread in there if spread.episodes >= ENOUGH]
    return enough[0] if enough else max(there, key=lambda spread: spread.episodes, default=Spread(NOTHING, ""))
