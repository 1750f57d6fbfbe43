"""How well estimates serve to choose between policies, where the truth is known."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Integral

import numpy as np

from semiope._arrays import Booleans, Floats
from semiope.errors import OptionError, SchemaError


def scores(
    estimates: Mapping[str, float],
    truth: Mapping[str, float],
    *,
    threshold: float | None = None,
    true_threshold: float | None = None,
    top: Sequence[int] = (1, 3, 5),
) -> dict[str, float]:
    """Judge estimates of policies by what these are truly worth, both by name.

    `rmse` and `spearman`; `regret@k`, how much the best policy is better than the best of the k that look best; and,
    with a `threshold` that an estimate must reach for its policy to be called better and the `true_threshold` that its
    value must reach for it to be (what is achieved today, as estimated and in truth), `accuracy`, `fpr` and `fnr`.
    """
    if not estimates:
        raise SchemaError("scores: there are no estimates.")
    strangers = sorted(map(repr, set(estimates) ^ set(truth)))
    if strangers:
        raise SchemaError(
            f"scores: estimates and truth must be of the same policies; not so: {', '.join(strangers[:3])}."
        )
    try:
        guess, true = (np.array([float(values[name]) for name in estimates]) for values in (estimates, truth))
    except (TypeError, ValueError):
        raise SchemaError(
            "scores: give numbers by policy: {name: one.value for name, one in comparison.items()}."
        ) from None
    if not (np.isfinite(guess).all() and np.isfinite(true).all()):
        raise SchemaError("scores: some estimates or true values are no finite numbers. Leave those policies out.")
    order = np.argsort(-guess, kind="stable")
    found = {"rmse": float(np.sqrt(np.mean((guess - true) ** 2))), "spearman": rank_correlation(guess, true)}
    for k in top:
        if not isinstance(k, Integral) or k < 1:
            raise OptionError(f"scores: the best {k} are none. Use 1, 2, 3 ...")
        found[f"regret@{k}"] = float(true.max() - true[order[:k]].max())
    if (threshold is None) != (true_threshold is None):
        raise OptionError("scores: give both threshold and true_threshold, what is achieved as estimated and in truth.")
    if threshold is not None and true_threshold is not None:
        found |= _calls(guess >= threshold, true >= true_threshold)
    return found


def _calls(called: Booleans, better: Booleans) -> dict[str, float]:
    """Shares of right calls, of false ones among those not better, and of missed ones among those better."""
    wrong, missed = called & ~better, ~called & better
    return {
        "accuracy": float(np.mean(called == better)),
        "fpr": float(wrong.sum() / (~better).sum()) if (~better).any() else math.nan,
        "fnr": float(missed.sum() / better.sum()) if better.any() else math.nan,
    }


def rank_correlation(x: Floats, y: Floats) -> float:
    """Spearman's, with the mean of their ranks for ties; NaN where one of them does not vary.

    `scipy.stats` has it too, but takes a second to import.
    """
    return float(np.corrcoef(_ranks(x), _ranks(y))[0, 1]) if np.ptp(x) > 0 and np.ptp(y) > 0 else float("nan")


def _ranks(x: Floats) -> Floats:
    _, places, times = np.unique(x, return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(times) - (times - 1) / 2)[places]
    return ranks
