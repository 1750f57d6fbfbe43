"""so.evaluate as a whole: what it returns, warns of and notes."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import semiope as so
from semiope.estimate.counterfactual import split_factor, split_shares
from semiope.estimate.evidence import gather
from semiope.estimate.passes import Recipe, episode_values
from semiope.estimate.problem import Problem
from semiope.models.counted import Counted

HALF = so.Policy.from_table(np.full((1, 2), 0.5))


def one_step(n: int) -> dict[str, Any]:
    """Everybody takes action 0 and gets 0; every second one is annotated: action 1 would bring 1."""
    episodes = so.Episodes.from_arrays(
        episode=np.arange(n), step=np.zeros(n, int), state=np.zeros(n, int), action=np.zeros(n, int), reward=np.zeros(n)
    )
    asked = np.arange(1, n, 2)
    annotations = so.Annotations.from_arrays(
        episode=asked, step=0 * asked, action=0 * asked + 1, value=np.ones(len(asked))
    )
    return {"episodes": episodes, "policy": HALF, "annotations": annotations}


@pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")
@pytest.mark.parametrize("n", [126, 127, 128, 129, 32_766, 32_767, 32_768, 32_769])
def test_sizes_at_which_integer_types_change(n: int) -> None:
    found = so.evaluate(**one_step(n), estimators=["c-pdis", "naive-weighted"])
    assert found["c-pdis"].value == pytest.approx(0.5)
    assert found["naive-weighted"].value > 0.1


def test_warnings_point_at_the_line_that_called() -> None:
    with pytest.warns(so.StatisticalWarning) as caught:
        so.evaluate(**one_step(40), estimators=["pdis"])
    assert [Path(warning.filename) for warning in caught] == [Path(__file__)]


def test_full_support_needs_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = so.evaluate(**one_step(40), estimators=["c-pdis", "c-pdwis"])
    assert found.warnings == []
    assert found.diagnostics["unsupported_mass"] == {"augmented": 0.0}


@pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")
def test_several_policies_give_a_result_each() -> None:
    data = one_step(40)
    data["policy"] = {"half": HALF, "other": so.Policy.from_table([[0.0, 1.0]])}
    found = so.evaluate(**data, estimators="c-pdis")
    assert {name: result["c-pdis"].value for name, result in found.items()} == pytest.approx(
        {"half": 0.5, "other": 1.0}
    )
    assert "used for several policies" in found["half"].diagnostics["notes"][0]
    own = so.evaluate(**data | {"annotations": {"other": data["annotations"]}}, estimators=["c-pdis"])
    assert own["other"]["c-pdis"].value == pytest.approx(1.0)
    assert own["half"]["c-pdis"].value == 0.0
    assert "without them c-pdis is pdis" in own["half"].diagnostics["notes"][0]
    assert own["other"].diagnostics["notes"] == []


def test_results_are_a_mapping() -> None:
    found = so.evaluate(**one_step(40) | {"policy": so.Policy.from_table([[1.0, 0.0]])}, estimators=["snips", "pdis"])
    assert list(found) == ["wis", "pdis"]
    assert found["snips"] is found["wis"]
    assert "snips" in found
    assert "c-pdis" not in found
    assert found.get("nonsense") is None
    with pytest.raises(so.NotEstimatedError, match=r"no estimate 'pd_is' here, only wis, pdis\. Did you mean 'pdis'"):
        found["pd_is"]
    with pytest.raises(KeyError):
        found["c-pdis"]
    assert "snips is called wis here" in repr(found)


def test_the_columns_of_a_policy_are_not_a_dict_of_policies() -> None:
    columns = {"state": [0], "action": [0], "prob": [1.0]}
    with pytest.raises(so.OptionError, match=r"so\.read_policy"):
        so.evaluate(one_step(4)["episodes"], columns)


@pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")
def test_a_policy_that_nobody_follows_is_not_surely_worth_nothing() -> None:
    policy = so.Policy.from_table([[0.0, 1.0]])
    with pytest.warns(so.StatisticalWarning, match="is is 0 without meaning, since no episode has a ratio above 0"):
        found = so.evaluate(one_step(40)["episodes"], policy, estimators=["is", "wis"])
    assert found["is"].value == 0.0
    assert np.isnan(found["wis"].value)
    assert found["wis"].ess == 0.0


def test_a_handful_of_episodes_is_not_much() -> None:
    n = 400
    episodes = {"episode": np.arange(n), "step": np.zeros(n, int), "state": np.zeros(n, int)}
    episodes |= {"action": (np.arange(n) < 3).astype(int), "reward": np.ones(n)}
    with pytest.warns(so.StatisticalWarning, match=r"of 400 the effective number is below 10 for is \(3\.0\)"):
        so.evaluate(episodes, so.Policy.from_table([[0.0, 1.0]]), estimators=["is"])


@pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")
def test_a_misspelt_action_is_named() -> None:
    episodes = {"episode": [0, 1], "step": [0, 0], "state": ["s", "s"], "action": ["teach", "wait"], "reward": [1.0, 0]}
    policy = so.read_policy({"state": ["s", "s"], "action": ["Teach", "wait"], "prob": [0.5, 0.5]})
    with pytest.warns(so.StatisticalWarning, match="Nobody ever took or annotated 'Teach'. Did you mean 'teach'"):
        so.evaluate(episodes, policy, estimators=["pdis"])


def test_weights_that_are_not_used_are_noted() -> None:
    data = one_step(40)
    answers = data["annotations"].to_arrow().to_pydict()
    data["annotations"] = {**answers, "weight": [0.5] * 20}
    found: so.Results = so.evaluate(**data, estimators=["c-pdis"])
    assert found.diagnostics["notes"] == [
        "the annotations have a column 'weight', which is used only with weights='column'."
    ]


def test_progress_is_told_and_ends_at_the_end() -> None:
    told: list[tuple[int, int]] = []
    so.evaluate(**one_step(40), estimators=["c-pdis", "c-is"], progress=lambda done, total: told.append((done, total)))
    assert told == [(40, 80), (80, 80)]


def test_per_step_normalisers_refuse_what_they_would_ignore() -> None:
    data = one_step(4)
    evidence = gather(data["episodes"], data["annotations"], {"e": HALF}, behavior=None, cell="state", weights="equal")
    problem = Problem.of("e", HALF, evidence, 1.0, Counted())
    with pytest.raises(ValueError, match="without additions c and k"):
        episode_values(problem, Recipe(split_factor, split_shares, per_step="all"))


def test_propensities_of_actions_not_taken_are_not_made_up() -> None:
    data = one_step(4)
    columns = {**data["episodes"].to_arrow().to_pydict(), "behavior_prob": [0.9] * 4}
    evidence = gather(
        so.read_episodes(columns), data["annotations"], {"e": HALF}, behavior=None, cell="state", weights="equal"
    )
    with pytest.raises(so.SupportError, match="those of others are not known"):
        evidence.behavior.lookup.annotated(slice(0, 1))


def test_ratios_that_do_not_average_one_are_told() -> None:
    """Few samples per state and true propensities: mean weights of actions that were not logged are not known."""
    from semiope.domains import sepsis

    world = sepsis.world()
    policy = world.policies["optimal"]
    episodes = world.sample(300, seed=0, propensities=True)
    annotations = world.annotate(episodes, policy)
    with pytest.warns(
        so.StatisticalWarning, match=r"ratios of c-pdis average 1\.\d+ where 1 is expected.*behavior='count'"
    ):
        so.evaluate(episodes, policy, annotations=annotations, estimators=["c-pdis"], gamma=0.99)
    counted = so.evaluate(
        episodes, policy, annotations=annotations, estimators=["c-pdis"], behavior="count", gamma=0.99
    )
    assert counted.warnings == []


def test_the_way_out_is_not_what_was_done_already() -> None:
    from semiope.domains import tree

    world = tree.tree(behavior=(1.0, 0.0))
    episodes = world.sample(100, seed=0)
    annotations = world.annotate(episodes, "uniform")
    with pytest.warns(so.StatisticalWarning, match="They are annotated: use estimators that use annotations"):
        so.evaluate(episodes, world.policies["uniform"], annotations=annotations, estimators=["pdis", "c-pdis"])
