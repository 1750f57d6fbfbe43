"""The annotation model g-hat: Bellman errors of the counted MDP, found from what annotators say.

Annotation i, given by annotator j about action a in state s at step t, is

    g_i = Q_t(s, a) + b_j + noise of variance sigma_j^2 v_i,

with Q linear in the Bellman errors e of the counted MDP (`bellman.py`). Errors and offsets b are normal random effects
of mean 0. What is known of their variances comes from the logs and the annotations at hand, nothing else:

    e of a pair logged n times    `within`^2 / n, from the scatter of what followed the pair in the logs
    e of a pair never logged      starts at `between`^2, that of Q between actions of a state, or at half of what
                                  annotations show; then by annotations
    the mean of all of these      what all pairs never logged have in common: as e of one of them starts
    b of several annotators       by annotations; what all of them share stays in g: only differences are taken off it
    sigma_j^2                     by annotations; v_i is the square of the stated `std`, if there is one

The conditional means of e and b solve one linear system, by conjugate gradients: its matrix is only ever applied, one
pass backward and one forward over the steps of the MDP. The variances are those at which each explains what it should
(MacKay's fixed point of the marginal likelihood): the sum of squares of its effects over their effective number. That
number is a trace, estimated with random signs that belong to the annotations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from semiope._arrays import Booleans, Floats, Integers
from semiope.models.bellman import BellmanModel

# Rounds of the fixed point, and steps of conjugate gradients in each and at the end. More change little.
ROUNDS = 5
STEPS, LAST = 15, 60
# Systems solved so well are solved.
SOLVED = 1e-10
PROBES = 2
ROUNDING = 1e-24
# Noise is not taken to be less than this share of what annotations leave of the model before they are heard.
LEAST = 1e-6
# Less than half an effect says nothing of its variance.
TELLING = 0.5


class Annotated(NamedTuple):
    """Annotations at their places in the MDP, one entry each.

    `annotator` numbers who gave it (-1: not named); `scale` is the variance of its noise beside that of others by the
    same annotator; `sign` is a pair of random signs, (n, PROBES).
    """

    step: Integers
    state: Integers
    action: Integers
    value: Floats
    annotator: Integers
    scale: Floats
    sign: Floats

    def part(self, which: Booleans) -> Annotated:
        """Some of them."""
        return Annotated(
            self.step[which], self.state[which], self.action[which], self.value[which], self.annotator[which],
            self.scale[which], self.sign[which],
        )  # fmt: skip


class Variances(NamedTuple):
    """Of Bellman errors of pairs never logged, of their mean, of annotators' offsets, and of each annotator's noise.

    In square units. The last entry of `noise` is that of annotations whose annotator is not named.
    """

    unlogged: float
    mean: float
    offsets: float
    noise: Floats
    unit: float


@dataclass(frozen=True, eq=False)
class AnnotationModel:
    """The counted MDP with the Bellman errors that annotations tell; `offsets` are annotators' from their mean."""

    model: BellmanModel
    errors: Floats
    offsets: Floats
    variances: Variances
    system: _System

    @property
    def returns(self) -> Floats:
        """Q_t(s, a) by logs and annotations together, (horizon, n_states, n_actions)."""
        return self.model.returns(self.errors)

    def std_of(self, weights: Floats) -> float:
        """The standard deviation, given logs and annotations, of a sum of weights times Q."""
        scaled = self.system.scaled(self.model.attributed(weights), np.zeros(len(self.system.offset_std)))
        variance = float(scaled @ self.system.solve(scaled, LAST))
        return self.variances.unit * math.sqrt(max(variance, 0.0))

    def draw(self, rng: np.random.Generator) -> Floats:
        """Draw Bellman errors from their posterior distribution, given logs and annotations (perturb and optimize).

        Draw effects and annotations from the prior, and take from the effects what such annotations would tell of them:
        what remains is as far from its mean as the effects are from theirs, given the annotations at hand.
        """
        system = self.system
        effects = rng.normal(size=system.size)
        said = system.predicted(effects) + rng.normal(size=len(system.precision)) / np.sqrt(system.precision)
        errors, _ = system.effects(effects - system.solve(system.pulled(said), LAST))
        return self.errors + self.variances.unit * errors


def fit(model: BellmanModel, given: Annotated, n_annotators: int) -> AnnotationModel:
    """Find Bellman errors and annotators' offsets from annotations."""
    left = given.value - model.returns()[given.step, given.state, given.action]
    # In units of the largest, so that squares of extreme values stay in range.
    unit = max(float(np.abs(left).max(initial=0.0)), *model.spread, 1e-150)
    left, n = left / unit, n_annotators
    least = LEAST * float(np.mean(left**2 / given.scale)) + ROUNDING if len(left) else 1.0
    known = _first_guess(left, given, n, model, unit)
    known = known._replace(noise=np.maximum(known.noise, least))
    found = None
    for _ in range(ROUNDS if len(left) else 0):
        system = _System(model, given, n, known)
        found = system.solve(system.pulled(left), STEPS, found)
        probes = system.probed()
        known = _next_variances(system, found, probes, left, known, least)
    system = _System(model, given, n, known)
    found = system.solve(system.pulled(left), LAST, found)
    errors, offsets = system.effects(found)
    offsets = offsets - offsets.mean() if n else offsets
    return AnnotationModel(model, errors * unit, offsets * unit, known, system)


def _first_guess(left: Floats, given: Annotated, n: int, model: BellmanModel, unit: float) -> Variances:
    """Half of what is left of the model is noise; annotators are off as the means of what is left differ.

    A pair never logged is off as actions of a state differ or, if that is more, by the other half.
    """
    noise = float(np.mean(left**2 / given.scale)) / 2 if len(left) else 0.0
    named = given.annotator >= 0
    times = np.bincount(given.annotator[named], minlength=n)
    means = np.bincount(given.annotator[named], weights=left[named], minlength=n) / np.maximum(times, 1)
    offsets = float(np.var(means[times > 0], ddof=1)) if np.count_nonzero(times) > 1 else 0.0
    never = left[~model.logged[given.state, given.action]]
    unlogged = max((model.spread.between / unit) ** 2, float(np.mean(never**2)) / 2 if len(never) else 0.0)
    return Variances(unlogged, unlogged, offsets, np.full(n + 1, noise), unit)


def _next_variances(
    system: _System, found: Floats, probes: list[Floats], left: Floats, known: Variances, least: float
) -> Variances:
    """One round of the fixed point: sums of squares over effective numbers."""
    given, n = system.given, len(known.noise)
    squares = (left - system.predicted(found)) ** 2 / given.scale
    total, unlogged, offsets = system.effective_numbers(probes)
    times = np.bincount(given.annotator % n, minlength=n)
    sums = np.bincount(given.annotator % n, weights=squares, minlength=n)
    # Each annotator's noise leans on that of all as on one annotation more.
    kept = max(1 - total / len(left), 1 / len(left))
    overall = float(squares.sum()) / (len(left) * kept)
    noise = np.maximum((sums / kept + overall) / (times + 1), least)
    z, _, annotators = system.divided(found)
    of_unlogged = float(np.sum(np.where(system.model.logged, 0.0, z) ** 2))
    return Variances(
        known.unlogged * (of_unlogged / unlogged if unlogged > TELLING else 1.0),
        known.mean,
        known.offsets * (float(annotators @ annotators) / offsets if offsets > TELLING else 1.0),
        noise,
        known.unit,
    )


class _System:
    """(I + S' G' R^-1 G S) x = b, with effects S x: G from effects to annotations, R their noise, S the effects' std.

    x holds one entry a pair, one for the mean of pairs never logged, and one an annotator, if there are several.
    """

    def __init__(self, model: BellmanModel, given: Annotated, n: int, known: Variances) -> None:
        self.model, self.given, self.n_annotators = model, given, n
        counts, within = model.empirical.counts, model.spread.within / known.unit
        self.std = np.where(counts > 0, within / np.sqrt(np.maximum(counts, 1)), math.sqrt(known.unlogged))
        some = not model.logged.all()
        self.mean_std = np.full(1 if some else 0, math.sqrt(known.mean))
        # One annotator's offset is in all annotations, and nothing would tell it from Q.
        self.offset_std = np.full(n if n > 1 and known.offsets > 0 else 0, math.sqrt(known.offsets))
        self.precision = 1 / (known.noise[given.annotator % (n + 1)] * given.scale)
        self.cell = np.ravel_multi_index((given.step, given.state, given.action), model.shape)

    @property
    def size(self) -> int:
        """Number of effects."""
        return self.std.size + len(self.mean_std) + len(self.offset_std)

    def divided(self, x: Floats) -> tuple[Floats, Floats, Floats]:
        """The parts of x: of pairs, (n_states, n_actions), of the mean over pairs never logged, of annotators."""
        pairs, mean, annotators = np.split(x, [self.std.size, self.std.size + len(self.mean_std)])
        return pairs.reshape(self.std.shape), mean, annotators

    def effects(self, x: Floats) -> tuple[Floats, Floats]:
        """Bellman errors and annotators' offsets."""
        pairs, mean, annotators = self.divided(x)
        offsets = self.offset_std * annotators if len(annotators) else np.zeros(self.n_annotators)
        return self.std * pairs + np.where(self.model.logged, 0.0, float(np.sum(self.mean_std * mean))), offsets

    def scaled(self, errors: Floats, offsets: Floats) -> Floats:
        """x from what weighs on errors and offsets."""
        mean = self.mean_std * float(np.sum(errors, where=~self.model.logged))
        return np.concatenate([(self.std * errors).ravel(), mean, self.offset_std * offsets])

    def predicted(self, x: Floats) -> Floats:
        """G S x: what annotations are beyond the model."""
        errors, offsets = self.effects(x)
        found: Floats = self.model.changes(errors).ravel()[self.cell] + np.append(offsets, 0.0)[self.given.annotator]
        return found

    def pulled(self, left: Floats) -> Floats:
        """S' G' R^-1 of what annotations leave."""
        return self._back(self.precision * left)

    def _back(self, weights: Floats) -> Floats:
        table = np.bincount(self.cell, weights=weights, minlength=int(np.prod(self.model.shape))).astype(np.float64)
        errors = self.model.attributed(table.reshape(self.model.shape))
        n = self.n_annotators
        by_annotator = np.bincount(self.given.annotator % (n + 1), weights=weights, minlength=n + 1).astype(np.float64)
        return self.scaled(errors, by_annotator[: len(self.offset_std)])

    def solve(self, b: Floats, steps: int, first: Floats | None = None) -> Floats:
        """Conjugate gradients, so many steps, from a first guess."""
        x = np.zeros_like(b) if first is None else first.copy()
        left = b - self._applied(x) if first is not None else b.copy()
        toward, square = left.copy(), float(left @ left)
        for _ in range(steps):
            if square <= SOLVED**2 * float(b @ b) or not square:
                break
            applied = self._applied(toward)
            length = square / float(toward @ applied)
            x += length * toward
            left -= length * applied
            before, square = square, float(left @ left)
            toward = left + square / before * toward
        return x

    def _applied(self, x: Floats) -> Floats:
        return x + self._back(self.precision * self.predicted(x))

    def probed(self) -> list[Floats]:
        """What the effects would be if annotations were nothing but random signs."""
        return [self.solve(self._back(self._sized(one)), STEPS) for one in self.given.sign.T]

    def effective_numbers(self, probes: list[Floats]) -> tuple[float, float, float]:
        """Effective numbers of all effects, of errors of pairs never logged, and of annotators' offsets."""
        cut, n = self.std.size, self.size
        unlogged = np.append(~self.model.logged.ravel(), np.zeros(n - cut, dtype=np.bool_))
        offset = np.arange(n) >= cut + len(self.mean_std)
        found = np.zeros(3)
        for signs, x in zip(self.given.sign.T, probes, strict=True):
            for k, which in enumerate((unlogged | ~unlogged, unlogged, offset)):
                if which.any():
                    found[k] += float(self._sized(signs) @ self.predicted(np.where(which, x, 0.0))) / PROBES
        total, of_unlogged, of_offsets = np.maximum(found, 0.0).tolist()
        return total, of_unlogged, of_offsets

    def _sized(self, signs: Floats) -> Floats:
        """Random signs of the size that noise has, times its precision."""
        found: Floats = np.sqrt(self.precision) * signs
        return found
