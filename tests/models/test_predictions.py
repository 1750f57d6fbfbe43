"""Predictions from outside: they count as far as annotations bear them out, and never bias a corrected estimate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import semiope as so
from semiope.errors import quietly

N, GOOD = 600, 0.05


def bandit(seed: int) -> tuple[dict[str, Any], so.Policy, so.Annotations, dict[str, Any], float]:
    """One decision with a context that no column tells; a tenth of the questions asked; predictions know it."""
    rng = np.random.default_rng(seed)
    context, action = rng.normal(size=N), rng.integers(2, size=N)
    truth = np.stack([context, 1 + 2 * context], axis=1)
    rows = {
        "episode": np.arange(N), "step": np.zeros(N, int), "state": np.zeros(N, int), "action": action,
        "reward": truth[np.arange(N), action],
    }  # fmt: skip
    asked = np.flatnonzero(rng.random(N) < 0.1)
    annotations = so.Annotations.from_arrays(
        episode=asked, step=0 * asked, action=1 - action[asked],
        value=truth[asked, 1 - action[asked]] + 0.1 * rng.normal(size=len(asked)),
    )  # fmt: skip
    predictions = {
        "episode": np.arange(N), "step": np.zeros(N, int), "action": 1 - action,
        "value": 5.0 + truth[np.arange(N), 1 - action] + GOOD * rng.normal(size=N),
    }  # fmt: skip
    return rows, so.Policy.from_table([[0.0, 1.0]]), annotations, predictions, 1.0


def evaluate(seed: int, predictions: Any = None, **options: Any) -> so.Results:
    rows, policy, annotations, _, _ = bandit(seed)
    with quietly():
        found: so.Results = so.evaluate(
            rows, policy, annotations=annotations, predictions=predictions, estimators=["pp-pdis", "pp-dr"], **options
        )
    return found


def test_good_predictions_narrow_the_interval() -> None:
    """They are all five too high, which annotations of other folds take off."""
    predictions, truth = bandit(1)[3:]
    alone, helped = evaluate(1)["pp-pdis"], evaluate(1, predictions)["pp-pdis"]
    assert helped.std_error < 0.6 * alone.std_error
    assert abs(helped.value - truth) < 4 * helped.std_error


def test_noise_counts_nothing() -> None:
    predictions = bandit(2)[3]
    noise = {**predictions, "value": 10 * np.random.default_rng(0).normal(size=N)}
    assert evaluate(2, noise)["pp-pdis"].std_error < 1.1 * evaluate(2)["pp-pdis"].std_error


def test_whatever_they_say_estimates_are_unbiased() -> None:
    """40 datasets, predictions wrong by the square of the outcome: the mean error is within 4 of its errors."""
    off = []
    for seed in range(40):
        rows, _, _, predictions, truth = bandit(seed)
        wrong = {**predictions, "value": predictions["value"] + 3 * rows["reward"] ** 2}
        off.append(evaluate(seed, wrong)["pp-pdis"].value - truth)
    assert abs(np.mean(off)) < 4 * np.std(off) / np.sqrt(len(off))


def test_several_policies_have_their_own() -> None:
    rows, policy, annotations, predictions, _ = bandit(3)
    both = {"one": policy, "two": policy}
    with quietly():
        found = so.evaluate(
            rows, both, annotations=annotations, predictions={"one": predictions}, estimators=["pp-pdis"]
        )
    assert found["one"]["pp-pdis"].std_error < 0.6 * found["two"]["pp-pdis"].std_error


def test_what_is_missing_is_noted() -> None:
    rows, policy, annotations, predictions, _ = bandit(4)
    some = {name: column[: N // 2] for name, column in predictions.items()}
    with quietly():
        found = so.evaluate(rows, policy, annotations=annotations, predictions=some)
    assert any("predictions are missing" in note for note in found.diagnostics["notes"])
    assert not any("predictions are missing" in note for note in evaluate(4, predictions).diagnostics["notes"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"episode": np.arange(N) + 5}, "predictions"),
        ({"step": np.ones(N, int)}, "predictions"),
        ({"action": np.full(N, 7)}, "nobody else knows an action 7"),
        ({"action": np.full(N, "left")}, "its actions are strings"),
        ({"value": np.full(N, np.nan)}, "predictions: column 'value'"),
        ({"episode": np.zeros(N, int)}, "predictions"),
    ],
)
def test_bad_predictions(change: dict[str, Any], message: str) -> None:
    predictions = {**bandit(5)[3], **change}
    with pytest.raises(so.SemiopeError, match=message):
        evaluate(5, predictions)


def test_predictions_need_annotations_and_a_policy() -> None:
    rows, policy, annotations, predictions, _ = bandit(6)
    with pytest.raises(so.OptionError, match="nothing tells how good they are"):
        so.evaluate(rows, policy, predictions=predictions)
    with quietly(), pytest.raises(so.OptionError, match="no policy called 'tow'"):
        so.evaluate(rows, {"two": policy}, annotations=annotations, predictions={"tow": predictions})
    with quietly(), pytest.raises(so.SchemaError, match="episode"):
        so.evaluate(rows, policy, annotations=annotations, predictions={"state": [0], "action": [1], "value": [0.0]})


def test_over_several_steps_noise_does_not_bias_the_headline() -> None:
    """The behavior policy itself over ten steps, predictions that are noise: 20 datasets, within 4 standard errors."""
    off, widths = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        n, steps = 150, 10
        state = rng.integers(3, size=(n, steps))
        action = rng.integers(2, size=(n, steps))
        reward = 0.2 * action + 0.1 * state + 0.3 * rng.normal(size=(n, steps))
        episode, step = (column.ravel() for column in np.indices((n, steps)))
        rows = {
            "episode": episode, "step": step, "state": state.ravel(), "action": action.ravel(),
            "reward": reward.ravel(),
        }  # fmt: skip
        left = (steps - 1 - step) * 0.2
        asked = np.flatnonzero(rng.random(n * steps) < 0.15)
        value = 0.2 * (1 - rows["action"]) + 0.1 * rows["state"] + left
        annotations = so.Annotations.from_arrays(
            episode=episode[asked], step=step[asked], action=1 - rows["action"][asked], value=value[asked]
        )
        noise = {"episode": episode, "step": step, "action": 1 - rows["action"], "value": rng.normal(size=n * steps)}
        with quietly():
            found = so.evaluate(rows, so.Policy.from_table(np.full((3, 2), 0.5)), annotations=annotations,
                                predictions=noise, estimators=["pp-dr", "dm+-is"])  # fmt: skip
        off.append([found[name].value - 2.0 for name in ("pp-dr", "dm+-is")])
        widths.append(np.ptp(found["pp-dr"].interval()))
    mean, error = np.mean(off, axis=0), np.std(off, axis=0, ddof=1) / np.sqrt(len(off))
    assert (np.abs(mean) < 4 * error).all()
    assert np.median(widths) < 0.6
