"""Questions drawn at random, batch by batch: how much each annotation is to count.

In batch b, each episode that was not drawn before is drawn with probability P_be. In a drawn episode, question i is put
because it is needed with probability q_i and, else, as a decoy with probability w_i - q_i. Of needed questions a share
rho_b was annotated, of decoys a share delta_b: annotations are missing at random among each of them. So question i is
annotated in a drawn episode with probability

    u_i = rho_b q_i + delta_b (w_i - q_i).

A sealed table holds P_be (`episode_prob`), w_i (`question_prob`), q_i (`needed_prob`) and a weight lambda_b of the
batch (`batch_weight`): the size that was planned for it, which does not depend on what was drawn. Probabilities may
depend on all that was seen before. Seen from batch b, the sum of all annotations is estimated without bias by

    those of episodes drawn before, each divided by u_i,   and   those of this batch, divided by P_be u_i.

The mean of these estimates with the weights lambda_b is unbiased as well. In it, an annotation of batch b counts

    1 / p_i  =  ( lambda_b / P_be  +  sum of lambda of later batches ) / ( u_i  sum of all lambda ),

so that p_i stands for an inclusion probability. It may be above 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from semiope._arrays import Floats, frozen
from semiope.data.annotations import Annotations
from semiope.data.asked import KINDS, NEEDED, OTHER, QUESTION, TAKEN, Key, keys
from semiope.errors import SchemaError

EPISODE_PROB, QUESTION_PROB, NEEDED_PROB, BATCH_WEIGHT = "episode_prob", "question_prob", "needed_prob", "batch_weight"
DRAWN = (EPISODE_PROB, QUESTION_PROB, NEEDED_PROB, BATCH_WEIGHT, "kind")
# The policy that a question is about, where questions are about several.
POLICY = "policy"


def drawn_at_random(asked: Sequence[pa.Table]) -> bool:
    """Whether all of these sealed tables hold questions drawn with known probabilities; fail on broken ones."""
    found = [any(name in table.column_names for name in DRAWN[:-1]) for table in asked]
    for table, is_drawn in zip(asked, found, strict=True):
        if is_drawn:
            _check(table)
    return bool(asked) and all(found)


def _check(table: pa.Table) -> None:
    """Fail where a sealed table of drawn questions lacks something, or holds what is no probability."""
    way_out = "Give the sealed table as it was written."
    for name in DRAWN:
        if name not in table.column_names:
            raise SchemaError(f"plan: a sealed table lacks the column {name!r}. {way_out}")
    kind = table.column("kind").to_pylist()
    odd = next((one for one in kind if one not in KINDS), None)
    if odd is not None:
        raise SchemaError(
            f"plan: the column 'kind' of a sealed table holds {odd!r}; known are {', '.join(KINDS)}. {way_out}"
        )
    drawn = np.array([one != KINDS[TAKEN] for one in kind], dtype=np.bool_)
    for name, least, most, rows in (
        (EPISODE_PROB, 0.0, 1.0, drawn | ~drawn), (QUESTION_PROB, 0.0, 1.0, drawn), (NEEDED_PROB, -1.0, 1.0, drawn),
        (BATCH_WEIGHT, 0.0, np.inf, drawn | ~drawn),
    ):  # fmt: skip
        values = np.array([np.nan if one is None else one for one in table.column(name).to_pylist()], dtype=np.float64)
        wrong = np.flatnonzero(rows & ~((values > least) & (values <= most)))
        if len(wrong):
            episode, step, action = (table.column(key)[int(wrong[0])].as_py() for key in QUESTION)
            what = "size" if name == BATCH_WEIGHT else "probability"
            raise SchemaError(
                f"plan: {name!r} of a sealed table is {values[wrong[0]]:g} in row {wrong[0]} (episode {episode!r}, "
                f"step {step}, action {action!r}), which is no {what}. {way_out}"
            )


def of_policy(table: pa.Table, policy: str) -> pa.Table:
    """The questions of a sealed table that are about a policy: all, where it does not name any."""
    if POLICY not in table.column_names:
        return table
    return table.filter(pa.array([name == policy for name in table.column(POLICY).to_pylist()], pa.bool_()))


class _Put(NamedTuple):
    """A question as a batch put it: P_be, w_i and q_i; None for an action taken."""

    batch: int
    probs: tuple[float, float, float] | None


class _Batch(NamedTuple):
    """The weight of a batch, 0 while none of its questions is annotated, and shares of needed ones and decoys that are.

    A batch in which nothing was drawn for a policy keeps its weight: it says that there is nothing to add.
    """

    weight: float
    needed: float
    decoys: float


def effective_inclusion(annotations: Annotations, asked: Sequence[pa.Table], policy: str) -> Floats | None:
    """p_i of each annotation, 1 for those of actions taken; None if some are to questions that were not drawn."""
    given = keys(annotations.to_arrow())
    present = set(given)
    batches: list[_Batch] = []
    found: dict[Key, _Put] = {}
    for number, whole in enumerate(asked):
        table = of_policy(whole, policy)
        columns = [table.column(name).to_pylist() for name in DRAWN]
        put: dict[str, set[Key]] = {kind: set() for kind in KINDS}
        for key, of_episode, of_question, needed, _, kind in zip(keys(table), *columns, strict=True):
            put[kind].add(key)
            if kind == KINDS[TAKEN]:
                found.setdefault(key, _Put(number, None))
            else:
                found[key] = _Put(number, (of_episode, of_question, needed))
        shares = [len(put[kind] & present) / max(len(put[kind]), 1) for kind in (KINDS[NEEDED], KINDS[OTHER])]
        waits = bool(put[KINDS[NEEDED]] | put[KINDS[OTHER]]) and not any(shares)
        weight = whole.column(BATCH_WEIGHT)[0].as_py() if whole.num_rows and not waits else 0.0
        batches.append(_Batch(weight, *shares))
    if not all(key in found for key in given):
        return None
    total = sum(batch.weight for batch in batches)
    later = [sum(batch.weight for batch in batches[number + 1 :]) for number in range(len(batches))]
    probs = np.ones(len(given))
    for place, key in enumerate(given):
        number, drawn = found[key]
        if drawn is not None:
            of_episode, of_question, needed = drawn
            batch = batches[number]
            annotated = batch.needed * needed + batch.decoys * max(of_question - needed, 0.0)
            probs[place] = annotated * total / (batch.weight / of_episode + later[number])
    return frozen(probs)
