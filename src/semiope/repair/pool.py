"""Several annotators made one: each one's bias and noise, estimated, taken out and weighed.

Annotator j answers question i with

    g_ij = Q-hat_i + u_i + b_j + noise of variance s_j^2

Q-hat is the model counted from the logs, u_i what it misses. b, s and the variance of u are found by EM (biases shrink
by how few answers they rest on); answers that tell their own `std` have noise in proportion to it. Questions that
several answered tell s apart from u. What all have in common shows where annotators were also asked about actions that
were taken, against the outcome, turned by the model from pi_b to the policy that the answers speak of; else answers
about pairs that were logged are held against the logs (`level.py`). The pooled answer to a question weighs g_ij - b_j
by 1 / s_j^2, and its own standard deviation goes into `std`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from semiope._arrays import Booleans, Floats, Integers, frozen
from semiope._compiled import compiled
from semiope.data.annotations import Annotations
from semiope.errors import SchemaError
from semiope.models.case import Case
from semiope.models.level import common_bias

ROUNDS = 2000
# Biases (in units of the largest residual) and noises (in their own) that change by less than this are settled.
SETTLED = 1e-5
# Noise is not taken to be less than this share of the scatter of all residuals.
LEAST = 1e-3


class Annotators(NamedTuple):
    """What was found out about each annotator; `overlap` counts the questions that others answered, too."""

    names: list[str]
    bias: Floats
    noise: Floats
    answers: Integers
    overlap: Integers


def pool(annotations: Annotations, case: Case, option: str = "") -> tuple[Annotations, str]:
    """Make one answer of all answers to a question, and say what was found out about each annotator."""
    records = case.records
    who, names = _who(annotations)
    places, row = records.places(annotations), records.rows_of(annotations)
    taken = records.rows.action[row] == places.action
    residual = annotations.value - places.read(case.expected)
    known = records.empirical.mdp.available[places.state, places.action]
    questions, question = np.unique(row * records.empirical.mdp.n_actions + places.action, return_inverse=True)
    found = study(residual, who, question, known, names, annotations.std)
    pooled = _pooled(annotations, question, who, len(questions), found)
    of_question = np.unique(question, return_index=True)[1]
    common = _level(case, pooled, row[of_question], taken[of_question])
    found = found._replace(bias=found.bias + common)
    alone = [name for name, overlap in zip(found.names, found.overlap, strict=True) if not overlap]
    if alone and len(found.names) > 1:
        case.doubts.append(
            f"pool: nobody else answered what {', '.join(alone)} did: bias and noise are guesses. Let annotators share "
            "some questions."
        )
    return replace(pooled, value=frozen(pooled.value - common)), _told(found)


def _level(case: Case, pooled: Annotations, row: Integers, taken: Booleans) -> float:
    """What all have in common: by outcomes of actions that were taken, if annotators were asked about some."""
    at, records = case.records.places(pooled), case.records
    if np.count_nonzero(taken) > 1:
        own = at.part(taken)
        # What happened, turned to the policy that the answers speak of.
        outcome = records.returns_from(row[taken]) - own.read(records.behavior_returns) + own.read(case.expected)
        assert pooled.std is not None
        off, scatter = pooled.value[taken] - outcome, pooled.std[taken] ** 2
        of_outcome = max(float(np.var(off)) - float(scatter.mean()), 0.0)
        weight = 1 / (scatter + of_outcome + 1e-300)
        return float(off @ weight / weight.sum())
    if taken.all():
        return 0.0
    return common_bias(case, at.part(~taken), pooled.value[~taken]).shrunk


def _who(annotations: Annotations) -> tuple[Integers, list[str]]:
    """Who gave each answer; without names, all are taken for one."""
    if annotations.annotator is None:
        return np.zeros(len(annotations), dtype=np.int64), ["all answers"]
    if annotations.annotator.null_count:
        raise SchemaError("repair: pool needs to know who gave each answer; the column 'annotator' has gaps.")
    encoded = annotations.annotator.dictionary_encode()
    return encoded.indices.to_numpy(), [str(name) for name in encoded.dictionary.to_pylist()]


def study(
    residual: Floats,
    who: Integers,
    question: Integers,
    known: Booleans,
    names: list[str],
    std: Floats | None = None,
) -> Annotators:
    """Estimate each annotator's bias and noise; biases average zero, precise annotators counting most.

    Who answers without noise is taken to be careful: biases are expected to be of the size of noise variances, and
    their mean is weighed by 1 / s_j^4.

    `std` says how the noise of answers compares, where they say so.
    """
    n_questions, n = int(question.max()) + 1, len(names)
    answers = np.bincount(who, minlength=n)
    per_question = np.bincount(question, minlength=n_questions)
    overlap = np.bincount(who, weights=per_question[question] > 1, minlength=n).astype(np.int64)
    # The model is off in other ways where the logs know nothing; that is nobody's bias.
    unknown = (~known).astype(np.float64)
    centered = residual - unknown * _slope(unknown, residual, who, answers)
    # In units of the largest residual, so that squares of extreme answers stay in range.
    unit = max(float(np.abs(centered).max()), 1e-9 * float(np.abs(residual).max()), 1e-100)
    bias, noise = np.zeros(n), np.full(n, float(np.var(centered / unit)) / 2 + LEAST**2)
    _estimate(Entries(centered / unit, who, question, relative(std, who)), n_questions, bias, noise)
    bias, noise = bias * unit, np.sqrt(noise) * unit
    precision = (noise.min() / noise) ** 4
    bias -= float(np.sum(bias * precision) / precision.sum())
    return Annotators(names, bias, noise, answers, overlap)


def relative(std: Floats | None, who: Integers) -> Floats:
    """The variance of each answer beside the mean one of the same person; 1 where nobody says."""
    if std is None:
        return np.ones(len(who))
    # In units of the largest, so that squares of extreme stds stay in range.
    variance = np.square(np.maximum(std / std.max(), 1e-6))
    mean = np.bincount(who, weights=variance) / np.maximum(np.bincount(who), 1)
    found: Floats = variance / mean[who]
    return found


def _slope(flag: Floats, residual: Floats, who: Integers, answers: Integers) -> float:
    """How much larger residuals are where the flag is one, within annotators."""
    times = np.maximum(answers, 1)
    x = flag - (np.bincount(who, weights=flag, minlength=len(answers)) / times)[who]
    y = residual - (np.bincount(who, weights=residual, minlength=len(answers)) / times)[who]
    return float(x @ y / (x @ x)) if (x @ x) > 1e-12 else 0.0


class Entries(NamedTuple):
    """Residuals, who gave them to which question, and their variance beside that of others by the same person."""

    residual: Floats
    who: Integers
    question: Integers
    scale: Floats


@compiled
def _estimate(entries: Entries, n_questions: int, bias: Floats, noise: Floats) -> None:
    """EM for biases and noises, until they stay the same; biases shrink by how few answers they rest on."""
    residual, who, question, scale = entries
    n = len(bias)
    missed, floor = noise.mean(), LEAST * noise.mean()
    for _ in range(ROUNDS):
        precision, total = np.full(n_questions, 1.0 / missed), np.zeros(n_questions)
        for k in range(len(residual)):
            weight = 1.0 / (noise[who[k]] * scale[k])
            precision[question[k]] += weight
            total[question[k]] += (residual[k] - bias[who[k]]) * weight
        u = total / precision
        count, weights, sums, squares = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
        for k in range(len(residual)):
            count[who[k]] += 1.0
            weights[who[k]] += 1.0 / scale[k]
            sums[who[k]] += (residual[k] - u[question[k]]) / scale[k]
        spread = (bias**2).mean()
        change = 0.0
        for j in range(n):
            new = sums[j] / (weights[j] + (noise[j] / spread if spread > 0 else 0.0)) if count[j] > 0 else 0.0
            change = max(change, abs(new - bias[j]))
            bias[j] = new
        for k in range(len(residual)):
            off = residual[k] - bias[who[k]] - u[question[k]]
            squares[who[k]] += (off * off + 1.0 / precision[question[k]]) / scale[k]
        for j in range(n):
            if count[j] > 0:
                new = max(squares[j] / count[j], floor)
                change = max(change, abs(new / noise[j] - 1.0))
                noise[j] = new
        missed = max((u**2 + 1.0 / precision).mean(), floor)
        if change < SETTLED:
            break


def _pooled(annotations: Annotations, question: Integers, who: Integers, n: int, found: Annotators) -> Annotations:
    least = float(found.noise.min())
    precision = (least / found.noise[who]) ** 2 / relative(annotations.std, who)
    weight = np.bincount(question, weights=precision, minlength=n)
    value = np.bincount(question, weights=precision * (annotations.value - found.bias[who]), minlength=n) / weight
    first = np.full(n, -1)
    first[question[::-1]] = np.arange(len(question))[::-1]
    pooled = annotations.some(first)
    std = frozen(least / np.sqrt(weight))
    return replace(pooled, value=frozen(value), std=std, weight=None, annotator=None, extra=None)


def _told(found: Annotators) -> str:
    each = ", ".join(
        f"{name} bias {bias:+.2g} noise {noise:.2g} ({answers:,} answers, {overlap:,} shared)"
        for name, bias, noise, answers, overlap in zip(*found, strict=True)
    )
    return f"pool: {each}."
