"""Ten thousand steps with ratios of 3 or 1/3: products leave float64's range, ratios of sums stay right."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import semiope as so

T = 10_000
BEHAVIOR, EVALUATION = np.array([0.25, 0.75]), np.array([0.75, 0.25])

pytestmark = pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")

Actions = NDArray[np.int64]
Floats = NDArray[np.float64]


def make_actions(kind: str) -> Actions:
    """Action 0 has ratio 3, action 1 has ratio 1/3."""
    rng = np.random.default_rng(3)
    up, down = np.zeros(T, dtype=np.int64), np.ones(T, dtype=np.int64)
    rows = {
        "all three": [up, up],
        "all a third": [down, down],
        "apart": [up, down],
        "apart, small first": [down, up, down],
        "down, then up": [
            np.concatenate([up[: T // 2], down[T // 2 :]]),
            np.concatenate([down[: T // 2], up[T // 2 :]]),
        ],
        "mixed": list(rng.integers(0, 2, size=(5, T))),
        "leaning": list((rng.random((5, T)) < 0.3).astype(np.int64)),
    }[kind]
    return np.stack(rows)


def evaluate(actions: Actions, reward: Floats, lengths: Actions | None = None, **options: Any) -> so.Results:
    episode, step = np.nonzero(np.arange(T) < (np.full(len(actions), T) if lengths is None else lengths)[:, None])
    episodes = so.Episodes.from_arrays(
        episode=episode, step=step, state=0 * step, action=actions[episode, step], reward=reward[episode, step]
    )
    behavior, evaluation = so.Policy.from_table([BEHAVIOR]), so.Policy.from_table([EVALUATION])
    found: so.Results = so.evaluate(episodes, evaluation, behavior=behavior, **options)
    return found


def exact(f: list[list[Decimal]], reward: Floats, gamma: float, whole: bool, c: Floats, k: Floats) -> float:
    """Sum of v over sum of m, in decimals of sixty digits and unbounded exponent."""
    totals = [Decimal(0), Decimal(0)]
    for i, factors in enumerate(f):
        v, m = Decimal(0), Decimal(1)
        for t in range(T - 1, -1, -1):
            r = Decimal(float(reward[i, t]))
            v = factors[t] * ((m if whole else 1) * r + Decimal(gamma) * v) + Decimal(float(c[i, t]))
            m = factors[t] * m + Decimal(float(k[i, t]))
        totals[0] += v
        totals[1] += m
    return float(totals[0] / totals[1])


@pytest.mark.parametrize(
    "kind", ["all three", "all a third", "apart", "apart, small first", "down, then up", "mixed", "leaning"]
)
@pytest.mark.parametrize("gamma", [1.0, 0.999])
def test_wis_and_pdwis(kind: str, gamma: float) -> None:
    actions = make_actions(kind)
    # Rewards at the end only where products so far dwarf the whole ones: else the true ratio is beyond float64.
    reward = np.random.default_rng(5).normal(1, 1, size=actions.shape)
    if kind in ("all a third", "down, then up"):
        reward[:, :-100] = 0.0
    found = evaluate(actions, reward, gamma=gamma, estimators=["wis", "pdwis", "is"])
    with localcontext() as context:
        context.prec, context.Emax, context.Emin = 60, 10**9, -(10**9)
        nothing = np.zeros(actions.shape)
        f = [[Decimal(3) if a == 0 else 1 / Decimal(3) for a in row] for row in actions]
        for name, whole in (("wis", True), ("pdwis", False)):
            expected = exact(f, reward, gamma, whole, nothing, nothing)
            assert math.isfinite(expected)
            assert found[name].value == pytest.approx(expected, rel=1e-9)
        shares = [math.prod(row) for row in f]
        largest = max(shares)
        m = np.array([float(share / largest) for share in shares])
    assert found["wis"].ess == pytest.approx(m.sum() ** 2 / (m**2).sum(), rel=1e-9)
    # wis weighs each return by its share of the ratios, so that its error needs no large numbers.
    returns = reward @ gamma ** np.arange(T)
    residuals = m * (returns - found["wis"].value) / m.mean()
    n = len(actions)
    error = math.sqrt((residuals**2).sum() / (n * (n - 1)))
    assert found["wis"].std_error == pytest.approx(error, rel=1e-7, abs=1e-9)
    low, high = found["wis"].interval(method="normal")
    expected_interval = found["wis"].value - 1.959964 * error, found["wis"].value + 1.959964 * error
    assert (low, high) == pytest.approx(expected_interval, rel=1e-7)


@pytest.mark.parametrize("kind", ["all three", "all a third", "apart", "apart, small first", "mixed", "leaning"])
def test_c_pdwis(kind: str) -> None:
    actions = make_actions(kind)
    rng = np.random.default_rng(11)
    reward = rng.normal(1, 1, size=actions.shape)
    asked = rng.random(actions.shape) < 0.01
    episode, step = np.nonzero(asked)
    value = rng.normal(2, 1, size=len(step))
    annotations = so.Annotations.from_arrays(episode=episode, step=step, action=1 - actions[asked], value=value)
    found = evaluate(actions, reward, annotations=annotations, estimators=["c-pdwis", "c-wis"], gamma=0.999)
    augmented, f, share = by_definition(actions, asked)
    c = np.zeros(actions.shape)
    c[asked] = share[asked] * value
    assert augmented.sum() == pytest.approx(1)
    with localcontext() as context:
        context.prec, context.Emax, context.Emin = 60, 10**9, -(10**9)
        factors = [[Decimal(float(x)) for x in row] for row in f]
        for name, whole in (("c-pdwis", False), ("c-wis", True)):
            assert found[name].value == pytest.approx(exact(factors, reward, 0.999, whole, c, share), rel=1e-9)


def by_definition(actions: Actions, asked: NDArray[np.bool_]) -> tuple[Floats, Floats, Floats]:
    """pi_b+ by Definition 1 in the one state, then w rho of the actions taken and of those annotated."""
    weight = np.where(asked, 0.5, 1.0)
    augmented = np.zeros(2)
    for taken in (0, 1):
        here = actions == taken
        own = weight[here].mean() if here.any() else 1.0
        augmented[taken] += BEHAVIOR[taken] * own
        augmented[1 - taken] += BEHAVIOR[taken] * (1 - own)
    ratio = EVALUATION / augmented
    return augmented, weight * ratio[actions], np.where(asked, 0.5 * ratio[1 - actions], 0.0)


@pytest.mark.parametrize(
    "kind", ["all three", "all a third", "apart", "apart, small first", "down, then up", "mixed", "leaning"]
)
@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_normalisers_per_step(kind: str, ragged: bool, reverse: bool) -> None:
    actions = make_actions(kind)[:: -1 if reverse else 1]
    reward = np.random.default_rng(5).normal(1, 1, size=actions.shape)
    lengths = np.arange(len(actions), 0, -1) * T // len(actions) if ragged else np.full(len(actions), T)
    found = evaluate(actions, reward, lengths, estimators=["pdwis-step", "pdwis-alive"], gamma=0.999)
    with localcontext() as context:
        context.prec, context.Emax, context.Emin = 60, 10**9, -(10**9)
        gamma = Decimal(float("0.999"))
        ratio, expected = [Decimal(1)] * len(actions), {"pdwis-step": Decimal(0), "pdwis-alive": Decimal(0)}
        for t in range(T):
            alive = [i for i in range(len(actions)) if t < lengths[i]]
            for i in alive:
                ratio[i] *= Decimal(3) if actions[i, t] == 0 else 1 / Decimal(3)
            rewards = sum((ratio[i] * Decimal(float(reward[i, t])) for i in alive), start=Decimal(0))
            reached = sum((ratio[i] for i in alive), start=Decimal(0))
            expected["pdwis-step"] += gamma**t * rewards / sum(ratio, start=Decimal(0))
            expected["pdwis-alive"] += gamma**t * rewards / reached * len(alive) / len(ratio)
    for name, value in expected.items():
        assert found[name].value == pytest.approx(float(value), rel=1e-9)
        assert math.isfinite(found[name].std_error)


def test_single_ratios_may_be_extreme() -> None:
    """Propensities of 1e-200: three such ratios leave the range, the self-normalised estimate does not."""
    columns: dict[str, Any] = {
        "episode": [0, 0, 0, 1, 1, 1],
        "step": [0, 1, 2] * 2,
        "state": [0] * 6,
        "action": [0] * 6,
    }
    columns |= {"reward": [1.0, 2.0, 3.0, 5.0, 6.0, 7.0], "behavior_prob": [1e-200] * 3 + [2e-200] * 3}
    found = so.evaluate(columns, so.Policy.from_table([[1.0]]), estimators=["wis", "pdwis"])
    assert found["wis"].value == pytest.approx((8 * 6 + 18) / 9, rel=1e-12)
    assert found["pdwis"].value == pytest.approx((8 * 3 + 7) / 9, rel=1e-12)


A, B, NEVER = 0, 1, 2


def three_actions(
    paths: list[list[int]], last_rewards: list[float], behavior: list[float], **options: Any
) -> so.Results:
    """Episodes as lists of actions with a reward at the end, for a policy that never takes the third action."""
    columns = {"episode": [i for i, path in enumerate(paths) for _ in path]}
    columns |= {"step": [t for path in paths for t in range(len(path))], "action": [a for path in paths for a in path]}
    columns["state"] = [0] * len(columns["step"])
    rewards = [r * (t == len(path) - 1) for path, r in zip(paths, last_rewards, strict=True) for t in range(len(path))]
    evaluation = so.Policy.from_table([[0.75, 0.25, 0.0]])
    found: so.Results = so.evaluate(
        {**columns, "reward": rewards}, evaluation, behavior=so.Policy.from_table([behavior]), **options
    )
    return found


def test_an_annotation_where_the_policy_leaves_a_path_that_overflows() -> None:
    """The factor is 0 and the episode's future has overflowed: only the annotation is left."""
    annotations = {"episode": [0, 1], "step": [0, 0], "action": [A, A], "value": [7.0, 7.0]}
    found = three_actions(
        [[NEVER, *[A] * 830]] * 2, [0.0, 0.0], [0.25, 0.7, 0.05], annotations=annotations,
        estimators=["c-pdwis", "c-wis", "c-is", "c-pdis", "naive-weighted"],
    )  # fmt: skip
    assert found["c-pdwis"].value == pytest.approx(7.0)
    assert found["c-wis"].value == pytest.approx(7.0)
    assert found["c-is"].value == pytest.approx(found["c-pdis"].value)
    assert found["naive-weighted"].ess == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("paths", "rewards", "behavior", "expected"),
    [
        ([[A] * 100, [B] * 100], [1.0, 5.0], [0.25, 0.75, 0.0], 1.0),
        ([[B] * 1000, [NEVER, *[B] * 999]], [1.0, 1.0], [0.2, 0.7, 0.1], 1.0),
        ([[NEVER, *[B] * 999], [B] * 1000], [1.0, 1.0], [0.2, 0.7, 0.1], 1.0),
        ([[B] * 700] * 2, [1.0, 3.0], [0.25, 0.75, 0.0], 2.0),
        ([[*[A] * 650, NEVER, *[A] * 99], [B] * 750], [3.0, 1.0], [0.25, 0.7, 0.05], 1.0),
        ([[*[A] * 900, NEVER, *[A] * 99], [B] * 1000], [3.0, 1.0], [0.25, 0.7, 0.05], 1.0),
    ],
)
def test_steps_at_which_ratios_vanish_or_drop(
    paths: list[list[int]], rewards: list[float], behavior: list[float], expected: float
) -> None:
    found = three_actions(paths, rewards, behavior, estimators=["pdwis-step", "pdwis-alive", "wis"])
    for name in found:
        assert found[name].value == pytest.approx(expected), name


def test_an_episode_that_ends_early_beside_one_that_shrinks() -> None:
    found = three_actions([[A] * 700, [B] * 710], [0.0, 1.0], [0.25, 0.75, 0.0], estimators=["pdwis-alive"])
    assert found["pdwis-alive"].value == pytest.approx(0.5)


def test_episodes_of_all_sizes_that_end_together() -> None:
    """Ratios 3^-190 and 3^190 end where a third goes on: it then shares its steps with the second alone."""
    found = three_actions(
        [[B] * 190, [A] * 190, [A] * 191], [5.0, 4.0, 1.0], [0.25, 0.75, 0.0], estimators="pdwis-step"
    )
    assert found["pdwis-step"].value == pytest.approx(4.0 / 2 + 3 / (3 + 1), rel=1e-9)


def test_effective_samples_beyond_the_range() -> None:
    found = three_actions([[A] * 700, *[[B] * 700] * 9], [1.0] * 10, [0.1, 0.9, 0.0], estimators="naive-unweighted")
    assert found["naive-unweighted"].per_episode.normalizer_exponent > 0
    assert found["naive-unweighted"].ess == pytest.approx(1.0)


def test_single_ratios_may_be_tiny() -> None:
    columns: dict[str, Any] = {"episode": [0, 0, 1, 1], "step": [0, 1] * 2, "state": [0] * 4, "action": [0] * 4}
    columns |= {"reward": [0.0, 1.0, 0.0, 3.0]}
    policy = so.Policy.from_table([[1e-250, 1 - 1e-250]])
    found = so.evaluate(columns, policy, estimators=["wis", "pdwis", "pdwis-step"])
    for name in found:
        assert found[name].value == pytest.approx(2.0), name


def test_an_ordinary_estimate_beyond_float64_is_said_to_be_so() -> None:
    actions = make_actions("all three")
    with pytest.warns(so.StatisticalWarning, match="exceeds the range of numbers"):
        found = evaluate(actions, np.ones(actions.shape), estimators=["is"])
    assert found["is"].value == math.inf
