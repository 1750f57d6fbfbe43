"""Whether annotators agree: answers of several to the same (episode, step, action), without any outcome.

Annotator j answers question i with g_ij = q_i + b_j + e_ij. Nothing here knows q: an error that all have in common is
agreement.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from semiope._arrays import Floats, Integers
from semiope.diagnostics.answers import Answers
from semiope.diagnostics.clustered import Figure, Spread, figures, half_width, mean_by, sum_by
from semiope.uncertainty.intervals import Interval, check_alpha

ROUNDS = 500
SETTLED = 1e-12
# Each of a crowd is compared with at most so many others about a question, so that pairs do not fill the memory.
MOST = 200


class Agreement(NamedTuple):
    """ICC(1): the share of the variance of single answers that lies between questions (one-way random effects).

    For k questions with m_i >= 2 persons each, N answers in all (Shrout & Fleiss 1979; n0 as in Searle 1971),

        icc = (between - within) / (between + (n0 - 1) within),     n0 = (N - sum m_i^2 / N) / (k - 1)

    with the mean squares between and within questions. What annotators have for biases counts as disagreement. The
    standard error deletes an episode at a time. `ratio` is the F that the interval inverts, `size` the answers a
    question that it counts with; `log_error` is 0 if each episode has one question, else the standard error of log F.
    """

    icc: float
    std_error: float
    questions: int
    answers: int
    episodes: int
    between: float
    within: float
    ratio: float
    size: float
    log_error: float

    def interval(self, alpha: float = 0.05) -> Interval:
        """An interval with nominal coverage 1 - alpha, for normal answers if each episode has one question.

        Then it is that of Searle, with harmonic means for unequal m_i (Thomas & Hultquist 1978). Questions about the
        same episode resemble each other, which F does not know: then log F gets Student's interval over episodes.
        """
        from scipy.special import fdtri

        check_alpha(alpha)
        if math.isinf(self.ratio):
            return Interval(1.0, 1.0)
        if math.isnan(self.ratio) or math.isnan(self.log_error):
            return Interval(math.nan, math.nan)
        if self.log_error:
            up = math.exp(min(half_width(self.episodes, alpha) * self.log_error, 700.0))
            ends = (self.ratio / up, self.ratio * up)
        else:
            above, below = self.questions - 1, self.answers - self.questions
            ends = (
                self.ratio / float(fdtri(above, below, 1 - alpha / 2)),
                self.ratio / float(fdtri(above, below, alpha / 2)),
            )
        return Interval(*((end - 1) / (end + self.size - 1) for end in ends))


class Difference(NamedTuple):
    """By how much the answers of `first` exceed those of `second` to the same questions, on average."""

    first: str
    second: str
    mean: Figure


class Shared(NamedTuple):
    """One row for each person who answered a question that others answered, too: the mean of that person's answers.

    `times` is how many persons answered the question; `centred` is the value without the annotator's offset from the
    others, as found by least squares in g_ij = q_i + b_j + e_ij (those without a name have none).
    """

    names: list[str]
    who: Integers
    column: Integers
    episode: Integers
    question: Integers
    value: Floats
    variance: Floats | None
    times: Integers
    centred: Floats

    @property
    def n_questions(self) -> int:
        """How many questions at least two persons answered."""
        return int(self.question.max(initial=-1)) + 1


def shared_by(answers: Answers) -> Shared:
    """Collect what at least two persons answered."""
    width = int(answers.person.max(initial=0)) + 1
    keys, first, place = np.unique(answers.question * width + answers.person, return_index=True, return_inverse=True)
    repeats = np.bincount(place, minlength=len(keys))
    value = mean_by(answers.value, place, len(keys))
    variance = None
    if answers.std is not None:
        variance = sum_by(answers.std**2, place, len(keys)) / repeats**2
    times = np.bincount(keys // width)[keys // width]
    several = times > 1
    chosen = first[several]
    question = np.unique(answers.question[chosen], return_inverse=True)[1]
    column = np.where(answers.named, answers.who, len(answers.names))[chosen]
    centred = value[several] - _offsets(value[several], column, question, len(answers.names))
    return Shared(
        answers.names, answers.who[chosen], column, answers.episode[chosen], question, value[several],
        None if variance is None else variance[several], times[several], centred,
    )  # fmt: skip


def _offsets(value: Floats, column: Integers, question: Integers, n: int) -> Floats:
    """Annotators' least-squares offsets, by turns with the means of questions; column n has none."""
    offset, n_questions = np.zeros(n + 1), int(question.max(initial=-1)) + 1
    for _ in range(ROUNDS if len(value) else 0):
        left = value - offset[column]
        change = np.nan_to_num(mean_by(left - mean_by(left, question, n_questions)[question], column, n + 1))
        change[n] = 0.0
        offset += change
        if np.abs(change).max() <= SETTLED * np.abs(value).max():
            break
    return offset[column]


class _Anova(NamedTuple):
    """ICC(1), mean squares, n0, log F with n0, F with harmonic means and the harmonic mean of the m_i."""

    icc: Floats
    between: Floats
    within: Floats
    n0: Floats
    log_f: Floats
    ratio: Floats
    harmonic: Floats


def agreement(shared: Shared) -> Agreement:
    """ICC(1) with its standard error and what its interval needs; see `Agreement`."""
    k, n = shared.n_questions, len(shared.value)
    # Means of equal values may be off by rounding, which is no variance.
    value = shared.value - shared.value.mean() if n and np.ptp(shared.value) > 0 else np.zeros(n)
    size = np.bincount(shared.question, minlength=k).astype(np.float64)
    mean = mean_by(value, shared.question, k)
    within = sum_by((value - mean[shared.question]) ** 2, shared.question, k)
    # Each question belongs to one episode.
    episode = shared.episode[np.unique(shared.question, return_index=True)[1]]
    episodes, place = np.unique(episode, return_inverse=True)
    parts = (np.ones(k), size, size**2, size * mean, size * mean**2, within, mean, mean**2, 1 / size)
    sums = np.stack([sum_by(part, place, len(episodes)) for part in parts])
    total, c = sums.sum(axis=1, keepdims=True), len(episodes)
    whole, without = _anova(total), _anova(total - sums)
    error, log_error = (
        math.sqrt((c - 1) / c * float(np.sum((column - column.mean()) ** 2))) if c > 1 else math.nan
        for column in (without.icc, without.log_f)
    )
    found = _Anova(*(float(column[0]) for column in whole))  # type: ignore[arg-type]
    counts = (float(found.icc), error, k, n, c, float(found.between), float(found.within))
    if c == k:
        return Agreement(*counts, float(found.ratio), float(found.harmonic), 0.0)
    return Agreement(*counts, float(np.exp(found.log_f)), float(found.n0), log_error)


def _anova(sums: Floats) -> _Anova:
    """From sums over questions of 1, m, m^2, m mean, m mean^2, squares within, mean, mean^2 and 1/m."""
    k, n, squares, weighted, weighted_squares, inside, means, mean_squares, inverses = sums
    enough = (k > 1.5) & (n - k > 0.5)
    k, n, inverses = (np.where(enough, column, math.nan) for column in (k, n, inverses))
    between = np.maximum(weighted_squares - weighted**2 / n, 0) / (k - 1)
    within = inside / (n - k)
    n0, harmonic = (n - squares / n) / (k - 1), k / inverses
    icc = (between - within) / (between + (n0 - 1) * within)
    ratio = harmonic * np.maximum(mean_squares - means**2 / k, 0) / (k - 1) / within
    return _Anova(icc, between, within, n0, np.log(between / within), ratio, harmonic)


def differences(shared: Shared) -> list[Difference]:
    """Mean differences between all pairs of annotators with a name who answered the same questions."""
    named = np.flatnonzero(shared.column < len(shared.names))
    question, n = shared.question[named], len(shared.names)
    start = np.searchsorted(question, question, side="right") - np.arange(len(named)) - 1
    follow = np.minimum(start, MOST)
    first = np.repeat(np.arange(len(named)), follow)
    second = first + 1 + np.arange(len(first)) - np.repeat(np.cumsum(follow) - follow, follow)
    first, second = named[first], named[second]
    pairs, place = np.unique(shared.who[first] * n + shared.who[second], return_inverse=True)
    off = shared.value[first] - shared.value[second]
    found = figures(off, None, place, shared.episode[first], len(pairs))
    names = shared.names
    return [Difference(names[pair // n], names[pair % n], mean) for pair, mean in zip(pairs, found, strict=True)]


class Products(NamedTuple):
    """Numbers whose expectation, for each annotator, is the variance of noise; `variance` is what answers say of it.

    `source` names where they are from; `spent` counts what was estimated for each annotator on the way.
    """

    source: str
    who: Integers
    episode: Integers
    product: Floats
    variance: Floats | None
    spent: int


def peers(shared: Shared) -> list[Products]:
    """What others' answers tell of an annotator's noise, with a_ij = g_ij - b_j minus its mean over the m persons.

    "peers": by questions of three persons or more,

        (m (m - 1) a_ij^2 - sum_k a_ik^2) / ((m - 1) (m - 2)),

    the mean of (g_ij - g_ik)(g_ij - g_il) over all pairs k, l of others (Grubbs 1948). It asks that errors of different
    persons are uncorrelated. "another": the covariance of own answers with own minus others' ones, m a_ij / (m - 1). It
    asks as well that errors are uncorrelated with the truth: somebody who exaggerates is noisy in it, and who is too
    cautious is less noisy than he is.
    """
    named, m = shared.column < len(shared.names), shared.times.astype(np.float64)
    k, question = shared.n_questions, shared.question
    off = shared.centred - mean_by(shared.centred, question, k)[question]
    squares = sum_by(off**2, question, k)[question]
    own = shared.centred - mean_by(shared.centred, shared.column, len(shared.names) + 1)[shared.column]
    three = named & (m > 2)
    grubbs = (m * (m - 1) * off**2 - squares)[three] / ((m - 1) * (m - 2))[three]

    def products(source: str, which: np.ndarray, values: Floats) -> Products:
        variance = None if shared.variance is None else shared.variance[which]
        return Products(source, shared.who[which], shared.episode[which], values, variance, 1)

    return [products("peers", three, grubbs), products("another", named, (own * off * m / (m - 1))[named])]


def honesty_by_peers(shared: Shared) -> Spread:
    """The ratio of observed to stated std by all answers to the same questions, annotators' offsets taken out.

    For two answers to a question z = (g_1 - g_2) / sqrt(std_1^2 + std_2^2) has variance 1 if stds are honest, and the
    ratio is the root of the mean z^2. For m answers it is Cochran's Q = sum_j (g_j - mean)^2 / std_j^2, of expectation
    m - 1, with the mean weighed by 1 / std^2; sums of Q are divided by sums of m - 1 less the offsets estimated.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    source, k, n = "answers to the same question", shared.n_questions, len(shared.value)
    nothing = Spread(Figure(math.nan, math.nan, n if shared.variance is not None else 0, 0), source)
    if shared.variance is None or not n:
        return nothing
    columns, column = np.unique(shared.column, return_inverse=True)
    nodes = len(columns) + k
    graph = coo_array((np.ones(n), (column, len(columns) + shared.question)), shape=(nodes, nodes))
    spent = len(columns) - connected_components(graph, directed=False)[0]
    if n - k - spent <= 0:
        return nothing
    weight = 1 / shared.variance
    total = sum_by(weight, shared.question, k)
    mean = sum_by(weight * shared.centred, shared.question, k) / total
    q = sum_by(weight * (shared.centred - mean[shared.question]) ** 2, shared.question, k)
    episode = shared.episode[np.unique(shared.question, return_index=True)[1]]
    found = figures(q, (np.bincount(shared.question) - 1).astype(np.float64), np.zeros(k, np.int64), episode, 1)[0]
    factor = (n - k) / (n - k - spent)
    return Spread(Figure(found.value * factor, found.std_error * factor, n, found.episodes), source)
