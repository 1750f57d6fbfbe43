"""Simulated experts: exact where they should be, biased, noisy and silent as they are told to be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from scipy import stats

import semiope as so
from semiope.domains import sepsis
from semiope.domains.annotators import annotate, read_annotator
from semiope.domains.world import World
from semiope.models.places import places_of_answers, places_of_rows
from tests.domains.worlds import NAMES, all_worlds


def rows_of(world: World, episodes: so.Episodes, annotations: so.Annotations) -> tuple[Any, ...]:
    """Step, state, action taken and action asked about of each answer, by the world's ids."""
    rows = episodes.rows_of(annotations.labels, annotations.episode, annotations.step, "annotations")
    taken = places_of_rows(world.mdp, episodes).action[rows]
    step, state, asked = places_of_answers(world.mdp, episodes, annotations)
    return step, state, taken, asked


@pytest.mark.parametrize("name", NAMES)
def test_exact_answers_to_everything_that_can_be_asked(name: str) -> None:
    world = all_worlds()[name]
    episodes = world.sample(300, seed=1)
    for policy in (next(iter(world.policies)), "behavior"):
        annotations = world.annotate(episodes, policy)
        step, state, taken, asked = rows_of(world, episodes, annotations)
        assert np.array_equal(annotations.value, world.mdp.action_values(world.policy(policy))[step, state, asked])
        assert world.askable[state, taken, asked].all()
        assert (taken != asked).all()
        decided = episodes.action >= 0
        all_states = world.mdp.states.positions_of(episodes.states)[episodes.state[decided]]
        all_taken = world.mdp.actions.positions_of(episodes.actions)[episodes.action[decided]]
        others = world.askable & ~np.eye(world.mdp.n_actions, dtype=bool)
        assert len(annotations) == others[all_states, all_taken].sum()
        assert so.Annotations.from_arrow(annotations.to_arrow()).to_arrow().equals(annotations.to_arrow())


def test_bias_and_noise() -> None:
    """One-sample tests of mean and distribution, error probability 1e-4 each."""
    world = all_worlds()["sepsis"]
    episodes = world.sample(3000, seed=2)
    exact = world.annotate(episodes, "optimal")
    off = world.annotate(episodes, "optimal", annotators=so.Annotator(bias=0.3, std=0.2), seed=3).value - exact.value
    assert stats.kstest((off - 0.3) / 0.2, "norm").pvalue > 1e-4
    by_pair = np.random.default_rng(0).normal(size=(1442, 8))
    found = world.annotate(episodes, "optimal", annotators=so.Annotator(bias=by_pair))
    _, state, _, asked = rows_of(world, episodes, found)
    assert found.value - exact.value == pytest.approx(by_pair[state, asked])
    by_step = np.arange(20)[:, None, None] * np.ones((20, 1442, 8))
    found = world.annotate(episodes, "optimal", annotators=so.Annotator(bias=by_step))
    assert found.value - exact.value == pytest.approx(found.step)


def test_answers_are_missing_at_random_or_by_state_and_action() -> None:
    world = all_worlds()["sepsis"]
    episodes = world.sample(3000, seed=4)
    everything = len(world.annotate(episodes, "optimal"))
    some = world.annotate(episodes, "optimal", annotators=so.Annotator(ratio=0.3), seed=5)
    assert stats.binomtest(len(some), everything, 0.3).pvalue > 1e-4
    ratio = np.where(np.arange(8) % 2, 0.9, 0.0) * np.ones((1442, 1))
    some = world.annotate(episodes, "optimal", annotators=so.Annotator(ratio=ratio), seed=5)
    _, _, _, asked = rows_of(world, episodes, some)
    assert (asked % 2 == 1).all()
    _, _, _, all_asked = rows_of(world, episodes, world.annotate(episodes, "optimal"))
    assert stats.binomtest(len(some), int((all_asked % 2 == 1).sum()), 0.9).pvalue > 1e-4


def test_several_annotators_are_independent_and_named() -> None:
    world = all_worlds()["sepsis"]
    episodes = world.sample(2000, seed=6)
    experts = [so.Annotator("ann", bias=0.1, std=0.2), so.Annotator("bob", std=0.5), so.Annotator("cy", ratio=0.2)]
    found = world.annotate(episodes, "optimal", annotators=experts, seed=7)
    assert found.annotator is not None
    who = np.array(found.annotator.to_pylist())
    exact = world.annotate(episodes, "optimal").value
    ann, bob = found.value[who == "ann"] - exact - 0.1, found.value[who == "bob"] - exact
    assert abs(stats.pearsonr(ann, bob).statistic) < 4 / len(exact) ** 0.5
    assert ann.std() == pytest.approx(0.2, rel=0.02)
    assert bob.std() == pytest.approx(0.5, rel=0.02)
    assert 0.15 < (who == "cy").sum() / len(exact) < 0.25
    # Who answers is independent, too: of questions that each answers with one half, a quarter are answered by both.
    halves = [so.Annotator("a", ratio=0.5), so.Annotator("b", ratio=0.5)]
    both = world.annotate(episodes, "optimal", annotators=halves, seed=8)
    _, times = np.unique(_codes(both), return_counts=True)
    assert stats.binomtest(int((times == 2).sum()), len(exact), 0.25).pvalue > 1e-4
    assert found.std is None


def test_draws_depend_on_seed_and_question_alone() -> None:
    """The same for all policies, however the episodes are divided, and scaled by std and not drawn anew."""
    world = all_worlds()["sepsis"]
    expert = so.Annotator(std=0.2, ratio=0.5)
    episodes = world.sample(400, seed=8)
    whole = world.annotate(episodes, "optimal", annotators=expert, seed=9)
    parts = [world.annotate(world.sample(200, seed=8, first=f), "optimal", annotators=expert, seed=9) for f in (0, 200)]
    assert np.array_equal(np.concatenate([part.value for part in parts]), whole.value)
    other = world.annotate(episodes, "behavior", annotators=expert, seed=9)
    q = world.mdp.action_values({"a": world.policies["optimal"], "b": world.behavior})
    step, state, _, asked = rows_of(world, episodes, whole)
    noise = whole.value - q["a"][step, state, asked]
    assert other.value - q["b"][step, state, asked] == pytest.approx(noise, abs=1e-12)
    doubled = world.annotate(episodes, "optimal", annotators=so.Annotator(std=0.4, ratio=0.5), seed=9)
    assert doubled.value - q["a"][step, state, asked] == pytest.approx(2 * noise, abs=1e-12)
    assert not np.array_equal(world.annotate(episodes, "optimal", annotators=expert, seed=10).value, whole.value)


def test_one_seed_for_episodes_and_annotations_does_not_couple_them() -> None:
    """Whether a question is answered, and its noise, have nothing to do with what was drawn in the episode."""
    world = all_worlds()["tree"]
    episodes = world.sample(20_000, seed=5)
    found = world.annotate(episodes, "uniform", annotators=so.Annotator(std=1.0, ratio=0.5), seed=5)
    rows = episodes.rows_of(found.labels, found.episode, found.step, "annotations")
    answered = np.zeros(episodes.n_steps, dtype=bool)
    answered[rows] = True
    decided = episodes.action >= 0
    table = np.histogram2d(answered[decided], episodes.action[decided], bins=2)[0]
    assert stats.chi2_contingency(table).pvalue > 1e-4
    exact = world.annotate(episodes, "uniform")
    noise = found.value - exact.value[np.isin(_codes(exact), _codes(found))]
    returned = episodes.reward[episodes.offsets[1:] - 1][found.episode]
    assert stats.pearsonr(noise, returned).pvalue > 1e-4


def _codes(annotations: so.Annotations) -> Any:
    labels = annotations.labels.words.to_numpy()[annotations.episode]
    return (labels * 100 + annotations.step) * 10 + annotations.action


def test_strings_as_labels_do_not_tie_draws_to_places() -> None:
    world = all_worlds()["tree"]
    table = world.sample(60, seed=3).to_arrow()
    words = pc.binary_join_element_wise("patient", table["episode"].cast(pa.string()), "-")
    named = so.Episodes.from_arrow(table.set_column(0, "episode", words))
    expert = so.Annotator(std=1.0, ratio=0.5)
    whole = world.annotate(named, "uniform", annotators=expert, seed=4).to_arrow()
    part = so.Episodes.from_arrow(
        named.to_arrow().filter(pc.match_substring_regex(named.to_arrow()["episode"], "-[3-5].$"))
    )
    some = world.annotate(part, "uniform", annotators=expert, seed=4).to_arrow()
    assert some.equals(whole.filter(pc.match_substring_regex(whole["episode"], "-[3-5].$")))
    assert len(set(whole["value"].to_pylist())) == whole.num_rows


def test_the_action_taken_can_be_asked_about() -> None:
    world = all_worlds()["tree"]
    episodes = world.sample(50, seed=1)
    returns = world.mdp.action_values(world.behavior)
    found = annotate(episodes, world.mdp, returns, of_action_taken=True)
    _, _, taken, asked = rows_of(world, episodes, found)
    assert (taken == asked).sum() == (episodes.action >= 0).sum()


def test_several_policies_at_once_have_the_same_noise() -> None:
    world = all_worlds()["tree"]
    episodes = world.sample(50, seed=1)
    expert = so.Annotator(std=0.3, ratio=0.7)
    found = world.annotate(episodes, world.policies, annotators=expert, seed=2)
    assert list(found) == list(world.policies)
    for name, one in found.items():
        alone = world.annotate(episodes, name, annotators=expert, seed=2)
        assert one.to_arrow().equals(alone.to_arrow())
    # A policy will do where its returns are wanted.
    direct = annotate(episodes, world.mdp, world.policies["uniform"], annotators=expert, seed=2)
    assert direct.to_arrow().equals(found["uniform"].to_arrow())


def test_stated_std() -> None:
    world = all_worlds()["tree"]
    episodes = world.sample(50, seed=1)
    experts = [so.Annotator("a", std=0.2, stated_std=0.1), so.Annotator("b", stated_std=0.3)]
    found = world.annotate(episodes, "uniform", annotators=experts)
    assert found.std is not None
    assert set(found.std.tolist()) == {0.1, 0.3}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"std": -0.1}, "std is -0.1"),
        ({"ratio": 1.5}, "ratio must lie between 0 and 1"),
        ({"ratio": [[0.5, -0.1]]}, "ratio must lie between 0 and 1"),
        ({"bias": np.nan}, "bias is not finite"),
        ({"std": np.inf}, "std is not finite"),
        ({"bias": "much"}, "bias: not an array of numbers"),
        ({"stated_std": 0.0}, "stated_std is 0.0"),
        ({"stated_std": np.inf}, "stated_std is inf"),
        ({"name": ""}, "'' is no name"),
        ({"name": None}, "None is no name"),
    ],
)
def test_bad_annotators(options: dict[str, Any], message: str) -> None:
    with pytest.raises(so.SemiopeError, match=message):
        so.Annotator(**options)


@pytest.mark.parametrize(
    ("annotators", "message"),
    [
        (so.Annotator(bias=[1.0, 2.0]), r"annotator 'expert': bias: an array of shape \(2,\)"),
        (so.Annotator(ratio=0.0), "not one question is answered"),
        (so.Annotator(std=1e308), "not a finite number"),
        ([so.Annotator("a"), so.Annotator("a")], "a name of its own"),
        ([so.Annotator("a", stated_std=0.1), so.Annotator("b")], "either all state their std"),
        ("ann", "give one Annotator or a list"),
        (None, "give one Annotator or a list"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow")
def test_annotators_that_do_not_fit(annotators: Any, message: str) -> None:
    world = all_worlds()["tree"]
    with pytest.raises(so.SemiopeError, match=message):
        world.annotate(world.sample(10), "uniform", annotators=annotators)


def test_what_does_not_fit_together() -> None:
    tree, sepsis = all_worlds()["tree"], all_worlds()["sepsis"]
    with pytest.raises(so.SchemaError, match=r"returns: an array of shape \(5, 31, 2\)"):
        annotate(sepsis.sample(5), sepsis.mdp, tree.mdp.action_values(tree.behavior))
    with pytest.raises(so.SchemaError, match="the model has no state"):
        annotate(all_worlds()["one-state bandit"].sample(5), tree.mdp, tree.mdp.action_values(tree.behavior))
    with pytest.raises(so.OptionError, match="episodes, then the model"):
        annotate(tree.mdp, tree.sample(5), tree.behavior)  # type: ignore[call-overload]
    with pytest.raises(so.OptionError, match="no episode number 5; they go from 0 to 4"):
        tree.tell(tree.sample(5), 5)
    with pytest.raises(so.SchemaError, match="horizon is 5"):
        annotate(sepsis.sample(50), tree.mdp, tree.mdp.action_values(tree.behavior))
    with pytest.raises(so.OptionError, match=r"none called 'optimum'. Did you mean 'optimal'\?"):
        tree.policy("optimum")
    with pytest.raises(so.OptionError, match="not episodes of the world 'tree'"):
        tree.tell(all_worlds()["one-state bandit"].sample(5), 0)
    with pytest.raises(so.SchemaError, match="not a finite number"):
        annotate(tree.sample(5), tree.mdp, np.full((5, 31, 2), np.nan))
    with pytest.raises(so.SchemaError, match="askable"):
        annotate(tree.sample(5), tree.mdp, tree.behavior, askable=np.ones((2, 2), dtype=bool))
    with pytest.raises(so.OptionError, match="'behavior' is the name of"):
        replace(tree, policies={"behavior": tree.behavior})


def test_worlds_do_not_share_what_can_be_changed() -> None:
    sepsis.world().policies["mine"] = sepsis.world().behavior
    assert "mine" not in sepsis.world().policies
    with pytest.raises(ValueError, match="read-only"):
        sepsis.world().askable[0, 0, 0] = True
    assert len(repr(sepsis.world())) < 1000


def test_annotators_from_text() -> None:
    assert read_annotator("nurse") == so.Annotator("nurse")
    assert read_annotator("nurse, bias=0.1,std=0.2,ratio=.5") == so.Annotator("nurse", bias=0.1, std=0.2, ratio=0.5)
    for text, message in {
        "nurse,rato=1": "Did you mean 'ratio'",
        "nurse,bias=much": "'much' is not a number",
        "bias=1": "has no name",
        "": "has no name",
        "nurse,bias=1,bias=2": "bias is given twice",
    }.items():
        with pytest.raises(so.OptionError, match=message):
            read_annotator(text)
