"""What the user wants to know, as sums of policies' values whose variances are to fall.

The value of each policy; which policies are better than today's; or which is better than which. Where a decision hangs
on a difference d known up to s, the expected loss of deciding by its sign is s phi(d / s) - |d| Phi(-|d| / s), and
falls with the variance by phi(d / s) / (2 s): that is what a difference counts. One that is settled counts little.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import norm

from semiope._arrays import Floats
from semiope.errors import OptionError, nearest

GOALS = ("value", "difference", "ranking")
# Differences are taken to be no more settled than this many standard deviations: something is always asked.
SETTLED = 4.0


def check_goal(goal: str) -> None:
    """Fail unless this is a goal."""
    if goal not in GOALS:
        raise OptionError(f"goal: {goal!r} is not known.{nearest(str(goal), GOALS)} Use {', '.join(GOALS)}.")


def wanted(goal: str, values: Floats, covariance: Floats) -> Floats:
    """Rows of coefficients of the policies' values, (n_wanted, n_policies).

    `values` are those of the policies minus today's, `covariance` is theirs, (n_policies, n_policies).
    """
    n = len(values)
    if goal == "value":
        return np.eye(n)
    if goal == "difference":
        weights: Floats = np.diag(np.sqrt(_worth(values, np.sqrt(np.diag(covariance)))))
        return weights
    # Differences of all pairs, today's policy among them: a quadratic form, and its square root.
    padded = np.append(values, 0.0)
    wide = np.pad(covariance, (0, 1))
    scatter = np.diag(wide)[:, None] + np.diag(wide)[None, :] - 2 * wide
    np.fill_diagonal(scatter, np.inf)
    weight = _worth(padded[:, None] - padded[None, :], np.sqrt(np.maximum(scatter, 0.0)))
    form = (np.diag(weight.sum(axis=1)) - weight)[:n, :n]
    size, direction = np.linalg.eigh(form)
    found: Floats = (direction * np.sqrt(np.maximum(size, 0.0))).T[size > 1e-12 * size.max()]
    return found


def _worth(difference: Floats, std: Floats) -> Floats:
    """How much the expected loss falls with the variance, in units of the largest."""
    # What is known exactly, as the difference of a policy to itself, is not worth a question.
    known = std <= 1e-7 * np.max(std, initial=0.0, where=np.isfinite(std))
    std = np.where(known, 1.0, std)
    found = np.where(known, 0.0, norm.pdf(np.minimum(np.abs(difference) / std, SETTLED)) / std)
    return np.asarray(found / max(found.max(), 1e-300))
