"""Drawing with known probabilities: what is drawn how often, exactly and by many draws."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import semiope as so
from semiope.data.asked import NEEDED, TAKEN
from semiope.data.batches import effective_inclusion
from semiope.planning.random_design import (
    Choices,
    Decoys,
    Pool,
    balanced,
    capped,
    design,
    draw,
    spending,
    systematic,
)

EPISODES = 12


def pool(seed: int = 0, cost: float | None = None) -> Pool:
    """Six questions in each of twelve episodes: three steps, two actions not taken."""
    rng = np.random.default_rng(seed)
    episode = np.repeat(np.arange(EPISODES), 6)
    row, action = np.arange(len(episode)) // 2, np.tile([1, 2], 3 * EPISODES)
    costs = np.ones(len(episode)) if cost is None else rng.choice([1.0, cost], size=len(episode))
    return Pool(episode, episode, row, action, np.full(len(episode), -1), rng.exponential(size=len(episode)), costs)


def decoys(of: Pool, rate: float) -> Decoys:
    other = Choices(of.episode, of.row, of.action, np.full(len(of.row), 1 / 6))
    own = np.unique(of.row)
    taken = Choices(own // 3, own, np.zeros(len(own), dtype=np.int64), np.full(len(own), 1 / 3))
    return Decoys(rate, other, taken)


def test_probabilities_are_in_proportion_and_cost_what_they_may() -> None:
    size, cost = np.array([5.0, 1.0, 1.0, 0.1, 0.0]), np.array([1.0, 2.0, 1.0, 1.0, 1.0])
    found = spending(size, cost, 2.5)
    assert found @ cost == pytest.approx(2.5)
    assert found[0] == 1
    assert found[1] == pytest.approx(found[2])
    assert found[3] == pytest.approx(0.1 * found[2])
    np.testing.assert_array_equal(spending(size, cost, 100.0), [1, 1, 1, 1, 0])


def test_capped_probabilities_sum_to_the_total_in_each_group() -> None:
    weight, group = np.array([8.0, 1.0, 1.0, 3.0, 1.0]), np.array([0, 0, 0, 1, 1])
    np.testing.assert_allclose(capped(weight, group, 1), [0.8, 0.1, 0.1, 0.75, 0.25])
    np.testing.assert_allclose(capped(weight, group, 2), [1.0, 0.5, 0.5, 1.0, 1.0])


def test_systematic_draws_have_a_fixed_size() -> None:
    rng = np.random.default_rng(0)
    prob, group = np.array([0.5, 0.25, 0.25, 0.9, 0.6, 0.5]), np.array([0, 0, 0, 1, 1, 1])
    times = np.zeros(6)
    for _ in range(4000):
        found = systematic(prob, group, rng)
        assert np.bincount(group[found], minlength=2).tolist() == [1, 2]
        times[found] += 1
    # Twenty standard deviations would be 0.16; five are exceeded by chance with a probability below 1e-5.
    np.testing.assert_allclose(times / 4000, prob, atol=5 * 0.5 / np.sqrt(4000))


@pytest.mark.parametrize("rate", [0.0, 1.25])
@pytest.mark.parametrize("left", [4.0, 30.0])
def test_every_question_is_put_as_often_as_its_probability_says(rate: float, left: float) -> None:
    """Needed questions and decoys together, over many draws: each share is within five standard deviations."""
    of, rng, draws = pool(), np.random.default_rng(1), 6000
    known = np.arange(EPISODES) < 2
    probs = design(of, known, 4.0, left, 6)
    stated, times = np.zeros(len(of.row)), np.zeros(len(of.row))
    for _ in range(draws):
        drawn = draw(of, probs, decoys(of, rate), rng)
        own = drawn.kind != TAKEN
        place = 2 * drawn.row[own] + drawn.action[own] - 1
        assert len(np.unique(place)) == len(place)
        times[place] += 1
        stated[place] = (drawn.episode_prob * drawn.question_prob)[own]
        assert np.count_nonzero(drawn.kind == NEEDED) in ((4,) if left == 4 else (3, 6))
        assert not known[drawn.episode].any()
    seen = times > 0
    assert seen.sum() >= 6 * (EPISODES - 2) - 3
    error = np.sqrt(np.maximum(stated * (1 - stated), 1e-3) / draws)
    assert np.abs((times / draws - stated) / error)[seen].max() < 5


def test_all_is_asked_where_all_may_be() -> None:
    of = pool()
    probs = design(of, np.zeros(EPISODES, dtype=np.bool_), 1000.0, 1000.0, 100)
    assert (probs.episode_prob == 1).all()
    assert (probs.question_prob == 1).all()


def test_costs_are_kept_to_on_average() -> None:
    of, rng = pool(cost=3.0), np.random.default_rng(2)
    probs = design(of, np.zeros(EPISODES, dtype=np.bool_), 8.0, 8.0, 6)
    spent = []
    for _ in range(2000):
        drawn = draw(of, probs, decoys(of, 0.0), rng)
        spent.append(of.cost[2 * drawn.row + drawn.action - 1].sum())
    assert np.mean(spent) == pytest.approx(8.0, abs=5 * np.std(spent) / np.sqrt(2000))
    assert max(spent) <= 8.0 + 3 * 3.0


def test_decoys_are_spread_as_needed_questions_are() -> None:
    of = pool()
    choices = decoys(of, 1.0).other
    wanted = np.array([0.0, 9.0, 1.0])
    found = balanced(choices, np.ones(EPISODES), [(choices.action, wanted)])
    sums = np.bincount(found.episode, weights=found.chance)
    np.testing.assert_allclose(sums, 1.0)
    by_action = np.bincount(found.action, weights=found.chance) / EPISODES
    assert by_action[1] > 0.85


def annotations_of(questions: list[tuple[int, int]], values: list[float]) -> so.Annotations:
    return so.Annotations.from_arrays(
        episode=[e for e, _ in questions], step=[t for _, t in questions], action=[1] * len(values), value=values
    )


def sealed(questions: list[tuple[int, int]], of_episode: list[float], within: list[float], weight: float) -> pa.Table:
    return pa.table({
        "episode": [e for e, _ in questions], "step": [t for _, t in questions], "action": [1] * len(questions),
        "kind": ["needed"] * len(questions), "episode_prob": of_episode, "question_prob": within,
        "needed_prob": within, "batch_weight": [weight] * len(questions),
    })  # fmt: skip


def test_batches_together_are_unbiased_by_enumeration() -> None:
    """Two batches of one question each, all ways in which they can come about: the mean is the sum of all, exactly.

    Four episodes with two questions each. Probabilities of the second batch depend on the annotation of the first.
    """
    rng = np.random.default_rng(6)
    values, within = rng.normal(size=(4, 2)), rng.dirichlet([1, 1], size=4)
    first, mean = rng.dirichlet(np.ones(4)), 0.0
    for e in range(4):
        for t in range(2):
            rest = np.delete(np.arange(4), e)
            second = np.exp(values[e, t] * rest)
            for f, chance in zip(rest.tolist(), second / second.sum(), strict=True):
                for u in range(2):
                    asked = [sealed([(e, t)], [first[e]], [within[e, t]], 1.3),
                             sealed([(f, u)], [chance], [within[f, u]], 0.4)]  # fmt: skip
                    given = annotations_of([(e, t), (f, u)], [values[e, t], values[f, u]])
                    prob = effective_inclusion(given, asked, "policy")
                    assert prob is not None
                    mean += first[e] * within[e, t] * chance * within[f, u] * float(np.sum(given.value / prob))
    assert mean == pytest.approx(values.sum(), abs=1e-10)


def test_annotations_missing_at_random_are_made_up_for() -> None:
    asked = [sealed([(0, 0), (1, 0)], [0.5, 0.25], [1.0, 0.5], 1.0)]
    prob = effective_inclusion(annotations_of([(1, 0)], [2.0]), asked, "policy")
    assert prob is not None
    assert prob.tolist() == [0.25 * 0.5 * 0.5]
    assert effective_inclusion(annotations_of([(2, 0)], [2.0]), asked, "policy") is None
