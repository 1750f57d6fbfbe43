"""Several annotators made one: each one's bias and noise, estimated, taken out and weighed.

Annotator j answers question i with

    g_ij = Q-hat_i + u_i + b_j + noise of variance s_j^2

Q-hat is the model counted from the logs, u_i what it misses. b, s and the variance of u are found by EM (200 rounds;
biases shrink by how few answers they rest on). Questions that several answered tell s apart from u. What all have in
common is no annotator's bias unless it shows: where annotators were also asked about actions that were taken, the
outcome, turned by the model from pi_b to the policy that the answers speak of, counts as one more annotator, without
bias; else answers about pairs that were logged are held against the logs (`level.py`). The pooled answer to a question
weighs g_ij - b_j by 1 / s_j^2, and its own standard deviation goes into `std`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from semiope._arrays import Booleans, Floats, Integers, frozen
from semiope._compiled import compiled
from semiope.data.annotations import Annotations
from semiope.errors import SchemaError
from semiope.models.places import Places
from semiope.repair.case import Case
from semiope.repair.level import common_bias

ROUNDS = 200
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
    outcomes = _outcomes(case, row, places.action, question, taken)
    found = study(residual, who, question, known, names, outcomes)
    pooled = _pooled(annotations, question, who, len(questions), found)
    if len(outcomes[0]) <= 1:
        counterfactual = ~taken[np.unique(question, return_index=True)[1]]
        at, value = records.places(pooled), pooled.value
        asked = Places(*(ids[counterfactual] for ids in at))
        common = common_bias(case, asked, value[counterfactual]).shrunk
        found = found._replace(bias=found.bias + common)
        pooled = replace(pooled, value=frozen(value - common))
    return pooled, _told(found)


def _who(annotations: Annotations) -> tuple[Integers, list[str]]:
    """Who gave each answer; without names, all are taken for one."""
    if annotations.annotator is None:
        return np.zeros(len(annotations), dtype=np.int64), ["all answers"]
    if annotations.annotator.null_count:
        raise SchemaError("repair: pool needs to know who gave each answer; the column 'annotator' has gaps.")
    encoded = annotations.annotator.dictionary_encode()
    return encoded.indices.to_numpy(), [str(name) for name in encoded.dictionary.to_pylist()]


def _outcomes(
    case: Case, row: Integers, action: Integers, question: Integers, taken: Booleans
) -> tuple[Integers, Floats]:
    """For questions about actions that were taken: the question, and the outcome's residual against the model."""
    records = case.records
    first = np.unique(question[taken], return_index=True)[1]
    rows, asked = row[taken][first], question[taken][first]
    places = records.rows
    at = places.step[rows], places.state[rows], action[taken][first]
    # What happened, turned to the policy that the answers speak of, minus what the model expects of that.
    return asked, records.returns_from(rows) - records.behavior_returns[at]


def study(
    residual: Floats,
    who: Integers,
    question: Integers,
    known: Booleans,
    names: list[str],
    outcomes: tuple[Integers, Floats],
) -> Annotators:
    """Estimate each annotator's bias and noise."""
    n_questions, n = int(question.max()) + 1, len(names)
    answers = np.bincount(who, minlength=n)
    per_question = np.bincount(question, minlength=n_questions)
    overlap = np.bincount(who, weights=per_question[question] > 1, minlength=n).astype(np.int64)
    anchored = len(outcomes[0]) > 1
    entries = (
        np.concatenate([residual, outcomes[1]]),
        np.concatenate([who, np.full(len(outcomes[0]), n)]),
        np.concatenate([question, outcomes[0]]),
    )
    # The model is off in other ways where the logs know nothing; that is nobody's bias.
    unknown = np.zeros(n_questions)
    unknown[question[~known]] = 1.0
    centered = entries[0] - unknown[entries[2]] * _slope(unknown[question], residual, who, answers)
    # In units of the largest residual, so that squares of extreme answers stay in range.
    unit = max(float(np.abs(centered).max()), 1e-9 * float(np.abs(entries[0]).max()), 1e-100)
    bias, noise = np.zeros(n + 1), np.full(n + 1, float(np.var(centered / unit)) / 2 + LEAST**2)
    _estimate(centered / unit, entries[1], entries[2], n_questions, n if anchored else -1, bias, noise)
    bias, noise = bias * unit, np.sqrt(noise) * unit
    if not anchored:
        precision = (noise[:n].min() / noise[:n]) ** 2
        bias -= float(np.sum(bias[:n] * precision) / precision.sum())
    return Annotators(names, bias[:n], noise[:n], answers, overlap)


def _slope(flag: Floats, residual: Floats, who: Integers, answers: Integers) -> float:
    """How much larger residuals are where the flag is one, within annotators."""
    times = np.maximum(answers, 1)
    x = flag - (np.bincount(who, weights=flag, minlength=len(answers)) / times)[who]
    y = residual - (np.bincount(who, weights=residual, minlength=len(answers)) / times)[who]
    return float(x @ y / (x @ x)) if (x @ x) > 1e-12 else 0.0


@compiled
def _estimate(
    residual: Floats, who: Integers, question: Integers, n_questions: int, anchor: int, bias: Floats, noise: Floats
) -> None:
    """EM for biases and noises; the annotator `anchor` has no bias. Biases shrink by how few answers they rest on."""
    n = len(bias)
    missed = noise.mean()
    floor = LEAST * noise.mean()
    for _ in range(ROUNDS):
        precision, total = np.full(n_questions, 1.0 / missed), np.zeros(n_questions)
        for k in range(len(residual)):
            precision[question[k]] += 1.0 / noise[who[k]]
            total[question[k]] += (residual[k] - bias[who[k]]) / noise[who[k]]
        count, sums, squares = np.zeros(n), np.zeros(n), np.zeros(n)
        for k in range(len(residual)):
            u = total[question[k]] / precision[question[k]]
            count[who[k]] += 1
            sums[who[k]] += residual[k] - u
        spread = 0.0
        for j in range(n - 1):  # the last one stands for outcomes
            spread += bias[j] * bias[j] / (n - 1)
        for j in range(n):
            if j == anchor or count[j] == 0:
                bias[j] = 0.0
            else:
                bias[j] = sums[j] / (count[j] + (noise[j] / spread if spread > 0 else 0.0))
        for k in range(len(residual)):
            u = total[question[k]] / precision[question[k]]
            squares[who[k]] += (residual[k] - bias[who[k]] - u) ** 2 + 1.0 / precision[question[k]]
        for j in range(n):
            if count[j] > 0:
                noise[j] = max(squares[j] / count[j], floor)
        missed = 0.0
        for i in range(n_questions):
            missed += (total[i] / precision[i]) ** 2 + 1.0 / precision[i]
        missed = max(missed / n_questions, floor)


def _pooled(annotations: Annotations, question: Integers, who: Integers, n: int, found: Annotators) -> Annotations:
    least = float(found.noise.min())
    precision = (least / found.noise[who]) ** 2
    weight = np.bincount(question, weights=precision, minlength=n)
    value = np.bincount(question, weights=precision * (annotations.value - found.bias[who]), minlength=n) / weight
    first = np.full(n, -1)
    first[question[::-1]] = np.arange(len(question))[::-1]
    return replace(
        annotations,
        episode=frozen(annotations.episode[first]),
        step=frozen(annotations.step[first]),
        action=frozen(annotations.action[first]),
        value=frozen(value),
        std=frozen(least / np.sqrt(weight)),
        weight=None,
        annotator=None,
        extra=None,
    )


def _told(found: Annotators) -> str:
    each = ", ".join(
        f"{name} bias {bias:+.2g} noise {noise:.2g} ({answers:,} answers, {overlap:,} shared)"
        for name, bias, noise, answers, overlap in zip(*found, strict=True)
    )
    alone = [name for name, overlap in zip(found.names, found.overlap, strict=True) if not overlap]
    doubt = f" Nobody else answered what {', '.join(alone)} did: bias and noise are guesses." if alone else ""
    return f"pool: {each}.{doubt}"
