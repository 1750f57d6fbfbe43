"""Figure 8: how the std of C-IS depends on the share of counterfactuals annotated, without and with imputation."""

from __future__ import annotations

import numpy as np

from semiope._arrays import Floats, Integers
from semiope.diagnostics import theory
from semiope.paper import figures, heatmaps
from semiope.paper.heatmaps import AS_RUN, AS_WRITTEN, REWARD_MEANS, REWARD_STD, Map, Place
from semiope.paper.pages import Claim, Heading, Made, Points
from semiope.paper.pieces import Piece, Pieces
from semiope.paper.settings import Settings
from semiope.policies.lookup import safe_ratio
from semiope.weights.moments import WeightMoments

TITLE = "Figure 8: the std of C-IS with missing annotations"
SHOWS = (
    "Heat maps of the log std of C-IS over the shares of counterfactuals annotated, for action 0 and 1: without "
    "imputation on the left, with imputation on the right."
)
SAMPLES, REPEATS, QUICK_REPEATS = 200, 500, 100
SETTINGS = (("", AS_WRITTEN), (", as run", AS_RUN))
FORMS = {"plain": "(a) without imputation", "imputed": "(b) with imputation"}


def pieces(settings: Settings) -> list[Piece]:
    """One for each setting."""
    return [Piece(sweep_shares, number, cost=2.0) for number in range(len(SETTINGS))]


def repeats_of(settings: Settings) -> int:
    """How many datasets of 200 samples are drawn."""
    return QUICK_REPEATS if settings.quick else REPEATS


class Samples:
    """Datasets of samples, (datasets, 200): actions taken, rewards, answers about the other action, and who answers."""

    def __init__(self, behavior: tuple[float, float], evaluation: tuple[float, float], repeats: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        shape = (repeats, SAMPLES)
        self.behavior, self.evaluation = np.array(behavior), np.array(evaluation)
        self.taken: Integers = (rng.random(shape) >= behavior[0]).astype(np.int64)
        self.reward: Floats = np.array(REWARD_MEANS)[self.taken] + REWARD_STD * rng.standard_normal(shape)
        self.answer: Floats = np.array(REWARD_MEANS)[1 - self.taken] + REWARD_STD * rng.standard_normal(shape)
        self.chance: Floats = rng.random(shape)

    def answered(self, share: Place) -> Floats:
        """1 where the other action is annotated; `share` is by the action that is asked about."""
        found: Floats = (self.chance < np.array(share)[1 - self.taken]).astype(float)
        return found

    def plain(self, share: Place) -> Floats:
        """C-IS of each dataset: equal weights where there is an answer, all on what happened elsewhere.

        Mean weights are their expectations, as in the paper's definitions, not counted in the dataset.
        """
        means = _mean_weights(np.array(share))
        return self._c_is(self.answer, 0.5 * self.answered(share), np.broadcast_to(means, (len(self.taken), 2, 2)))

    def imputed(self, share: Place) -> Floats:
        """The same with missing answers taken as the mean of the dataset's answers about that action."""
        given, about = self.answered(share), 1 - self.taken
        filled, there = self.answer.copy(), np.zeros((len(self.taken), 2))
        for action in (0, 1):
            told = given * (about == action)
            times = told.sum(axis=1)
            mean = (told * self.answer).sum(axis=1) / np.maximum(times, 1)
            filled = np.where((about == action) & (given == 0), mean[:, None], filled)
            there[:, action] = times > 0
        weight = 0.5 * np.take_along_axis(there, about, axis=1)
        return self._c_is(filled, weight, _mean_weights(there))

    def _c_is(self, answer: Floats, weight: Floats, means: Floats) -> Floats:
        """The mean over each dataset of (1 - w) rho r + w rho g; `means` are W: (datasets, action taken, action)."""
        augmented = np.einsum("a,kai->ki", self.behavior, means)
        ratio = safe_ratio(np.broadcast_to(self.evaluation, augmented.shape), augmented)
        own, other = (np.take_along_axis(ratio, action, axis=1) for action in (self.taken, 1 - self.taken))
        found: Floats = ((1 - weight) * own * self.reward + weight * other * answer).mean(axis=1)
        return found


def _mean_weights(share: Floats) -> Floats:
    """W by action taken and action, if this share of answers about each action is there; (..., 2, 2)."""
    off = 0.5 * share[..., ::-1]  # by the action taken: what is given away to the other
    return np.stack([np.stack([1 - off[..., 0], off[..., 0]], -1), np.stack([off[..., 1], 1 - off[..., 1]], -1)], -2)


def sweep_shares(settings: Settings, number: int) -> dict[str, Floats]:
    """Log of std times sqrt(200) over the grid, without and with imputation; all points see the same samples."""
    samples = Samples(*SETTINGS[number][1], repeats_of(settings), settings.seed)

    def log_std(estimates: Floats) -> float:
        return heatmaps.log_std(float(estimates.var()) * SAMPLES)

    return {
        "plain": heatmaps.surface(lambda place: log_std(samples.plain(place))),
        "imputed": heatmaps.surface(lambda place: log_std(samples.imputed(place))),
    }


def make(settings: Settings, found: Pieces) -> Made:
    """Four maps: the caption's setting above, what the paper's code ran below."""
    drawn = [found[piece] for piece in pieces(settings)]
    shown = [
        _map(settings, f"{title}{told}", policies, form, surfaces)
        for (told, policies), surfaces in zip(SETTINGS, drawn, strict=True)
        for form, title in FORMS.items()
    ]
    labels = ("share annotated, action 0", "share annotated, action 1")
    with figures.styled():
        figure, axes = figures.new(2, 2, height=4.2, width=4.2)
        for one, surface in zip(axes.flat, shown, strict=True):
            heatmaps.draw(figure, one, surface, labels)
        heatmaps.legend(figure, list(axes.flat), 2)
    inner = np.ix_(range(1, 10), range(1, 10))
    gains = [(one.exact - other.exact)[inner] for one, other in zip(shown[::2], shown[1::2], strict=True)]
    claims = [
        *heatmaps.claims(shown),
        Claim(
            "imputing reduces the exact std wherever both actions are annotated in part (shares of 0.1 to 0.9)",
            all((g > 0).all() for g in gains),
        ),
    ]
    notes = (
        "Axes: share of the counterfactuals about action 0 (where 1 was taken) and about action 1 that are "
        "annotated. At (1, 1) everything is annotated, which is C*-IS; at (0, 0) nothing, which is IS.",
        f"Datasets of {SAMPLES} samples, {repeats_of(settings)} of them (the paper has 50); log of the std over "
        f"datasets times √{SAMPLES}, so that it compares with Figure 7. The white star is the exact minimum.",
        "The caption gives the settings of Figure 7a; the paper's code ran with pi_b = [0.8, 0.2] and pi_e = [0.1, "
        "0.9]. Both are here.",
        "Mean weights are expectations, as in the paper's definitions. Counted in the data, as `so.evaluate` does, "
        "they take much of the variance of the weights away, and imputing has less to gain.",
        "Exact surfaces: Theorem 13; with imputation the variance for large datasets, in which an answer that stands "
        "for 1/q others counts 1/q times. Where few answers are left (share 0.1) the drawn std lies above it.",
    )
    rows = heatmaps.rows(shown, ("share_0", "share_1"))
    return Made(TITLE, rows, [heatmaps.table(shown), Heading("Notes"), Points(notes)], claims, figure, SHOWS)


def _map(
    settings: Settings, title: str, policies: tuple[tuple[float, float], tuple[float, float]], form: str,
    surfaces: dict[str, Floats],
) -> Map:  # fmt: skip
    exact = heatmaps.surface(lambda place: heatmaps.log_std(_variance(*policies, place, form)))
    error = np.full(exact.shape, (2 * repeats_of(settings)) ** -0.5)  # means of 200 samples are all but normal
    return Map(
        title, surfaces[form], exact, np.zeros(exact.shape, dtype=np.bool_), error, Place(1.0, 1.0), Place(0.0, 0.0)
    )


def _variance(behavior: tuple[float, float], evaluation: tuple[float, float], share: Place, form: str) -> float:
    """Of an estimate from one sample; with imputation, 200 times that of a large dataset's."""
    there = np.array(share) if form == "plain" else (np.array(share) > 0).astype(float)
    setting = heatmaps.setting_of(behavior, evaluation, WeightMoments.equal(_askable(there)), REWARD_STD)
    variance = theory.variance_c_is(setting).total
    if form == "plain":
        return variance
    ratio = safe_ratio(setting.evaluation[0, 0], setting.augmented[0, 0])
    for action in (0, 1):
        if share[action]:
            asked = behavior[1 - action]  # how often the other action was taken
            variance += asked * (0.5 * ratio[action] * REWARD_STD) ** 2 * (1 / share[action] - 1)
    return variance


def _askable(share: Floats) -> Floats:
    """Probability that an action is annotated, by state, action taken and action."""
    return np.broadcast_to(share, (1, 2, 2))
