"""Questions drawn at random, batch by batch: how much each annotation is to count.

In batch b, each episode that was not drawn before is drawn with probability P_be. In a drawn episode each question i is
put with probability w_i, and it is annotated with probability rho_b, the share of the needed questions of the batch
that came back: decoys that nobody could say anything about do not tell how likely a needed one is annotated. A sealed
table holds P_be (`episode_prob`), w_i (`question_prob`) and a weight lambda_b of the batch (`batch_weight`): its size,
which does not depend on what was drawn. Probabilities may depend on all that was seen before. Seen from batch b, the
sum of all annotations is estimated without bias by

    those of episodes drawn before, each divided by w_i rho,   and   those of this batch, divided by P_be w_i rho_b.

The mean of these estimates with the weights lambda_b is unbiased as well. In it, an annotation of batch b counts

    1 / p_i  =  ( lambda_b / P_be  +  sum of lambda of later batches ) / ( w_i rho_b  sum of all lambda ),

so that p_i stands for an inclusion probability. It may be above 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from semiope._arrays import Floats, frozen
from semiope.data.annotations import Annotations
from semiope.data.asked import KINDS, NEEDED, TAKEN, Key, keys

EPISODE_PROB, QUESTION_PROB, BATCH_WEIGHT = "episode_prob", "question_prob", "batch_weight"
# The policy that a question is about, where questions are about several.
POLICY = "policy"


def drawn_at_random(asked: Sequence[pa.Table]) -> bool:
    """Whether all of these sealed tables hold questions that were drawn with known probabilities."""
    return bool(asked) and all(EPISODE_PROB in table.column_names for table in asked)


def of_policy(table: pa.Table, policy: str) -> pa.Table:
    """The questions of a sealed table that are about a policy: all, where it does not name any."""
    if POLICY not in table.column_names:
        return table
    return table.filter(pa.array([name == policy for name in table.column(POLICY).to_pylist()], pa.bool_()))


def effective_inclusion(annotations: Annotations, asked: Sequence[pa.Table], policy: str) -> Floats | None:
    """p_i of each annotation, 1 for those of actions taken; None if some are to questions that were not drawn."""
    given = keys(annotations.to_arrow())
    present = set(given)
    weights: list[tuple[float, float]] = []
    found: dict[Key, tuple[int, float, float | None]] = {}
    needed, calibration = KINDS[NEEDED], KINDS[TAKEN]
    for batch, whole in enumerate(asked):
        table = of_policy(whole, policy)
        names = (EPISODE_PROB, QUESTION_PROB, BATCH_WEIGHT, "kind")
        of_episode, of_question, weight, kind = (table.column(name).to_pylist() for name in names)
        put: dict[bool, set[Key]] = {True: set(), False: set()}
        for place, key in enumerate(keys(table)):
            if kind[place] == calibration:
                found.setdefault(key, (batch, 1.0, None))
                continue
            put[kind[place] == needed].add(key)
            found[key] = (batch, of_episode[place], of_question[place])
        own = next((those for those in put.values() if those & present), set())
        share = len(own & present) / max(len(own), 1)
        weights.append((weight[0] if share else 0.0, share))
    if not all(key in found for key in given):
        return None
    total = sum(weight for weight, _ in weights)
    later = [sum(weight for weight, _ in weights[batch + 1 :]) for batch in range(len(weights))]
    probs = np.ones(len(given))
    for place, key in enumerate(given):
        batch, of_episode_drawn, within = found[key]
        if within is not None:
            of_batch, share = weights[batch]
            probs[place] = within * share * total / (of_batch / of_episode_drawn + later[batch])
    return frozen(probs)
