"""What Figures 5, 11 and 12 and our own rows are made from, against a plain recursion written for this test."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from semiope._arrays import Booleans, Floats
from semiope.domains import sepsis
from semiope.paper import divergence, figures, sweeps, trials
from semiope.paper.divergence import Divergence, Trend
from semiope.paper.settings import TENTHS, Settings
from semiope.paper.sweeps import Curve, Sweep
from semiope.paper.trials import Dataset, returns

SETTINGS = Settings(seed=4)
POLICIES = (0, 7, 25)


class Plain:
    """A dataset as arrays (episodes, 20), and C-PDIS on them with pi_b+ counted per step and state."""

    def __init__(self, data: Dataset) -> None:
        episodes, world = data.episodes, sepsis.world()
        shape = (episodes.n_episodes, sepsis.HORIZON)
        self.state, self.action = np.full(shape, -1), np.full(shape, -1)
        self.reward = np.zeros(shape)
        row = np.repeat(np.arange(episodes.n_episodes), episodes.lengths)
        labels = np.array(episodes.states.words.to_pylist())
        self.state[row, episodes.step] = labels[episodes.state]
        known = np.array([*episodes.actions.words.to_pylist(), -1])
        self.action[row, episodes.step] = known[episodes.action]
        self.reward[row, episodes.step] = episodes.reward
        self.asked: Booleans = (self.action >= 0) & (np.arange(sepsis.HORIZON) < sepsis.HORIZON - 1)
        self.labels = {label: i for i, label in enumerate(episodes.labels.words.to_pylist())}
        self.policies = [policy.probs for policy in world.policies.values()]

    def placed(self, annotations: Any) -> tuple[Booleans, Floats]:
        """Where annotations are, and their values."""
        there, value = np.zeros(self.asked.shape, dtype=bool), np.zeros(self.asked.shape)
        words = annotations.labels.words.to_pylist()
        rows = np.array([self.labels[words[i]] for i in annotations.episode])
        there[rows, annotations.step] = True
        value[rows, annotations.step] = annotations.value
        return there, value

    def imputed(self, there: Booleans, value: Floats) -> tuple[Booleans, Floats]:
        """The mean of the values about the same state and (other) action, wherever one was to be asked."""
        pools: dict[tuple[int, int], list[float]] = {}
        for i, t in np.argwhere(there):
            pools.setdefault((self.state[i, t], self.action[i, t] ^ 1), []).append(value[i, t])
        filled, kept = value.copy(), there.copy()
        for i, t in np.argwhere(self.asked & ~there):
            pool = pools.get((self.state[i, t], self.action[i, t] ^ 1))
            if pool:
                filled[i, t], kept[i, t] = np.mean(pool), True
        return kept, filled

    def estimate(self, policy: int, there: Booleans, value: Floats) -> tuple[float, float, float]:
        pi, weight = self.policies[policy], np.where(there, 0.5, 1.0)
        sums = np.zeros((sepsis.HORIZON, sepsis.N_STATES, sepsis.N_ACTIONS))
        for i, t in np.argwhere(self.action >= 0):
            sums[t, self.state[i, t], self.action[i, t]] += weight[i, t]
            sums[t, self.state[i, t], self.action[i, t] ^ 1] += 1 - weight[i, t]
        total = sums.sum(axis=2, keepdims=True)
        augmented = np.divide(sums, total, out=np.zeros_like(sums), where=total > 0)
        v, m = np.zeros(len(self.state)), np.ones(len(self.state))
        for i in range(len(self.state)):
            for t in reversed(range(sepsis.HORIZON)):
                s, a = self.state[i, t], self.action[i, t]
                if s < 0:
                    continue
                if a < 0:
                    v[i] = self.reward[i, t] + sepsis.GAMMA * v[i]
                    continue
                f = weight[i, t] * pi[s, a] / augmented[t, s, a]
                k = 0.5 * pi[s, a ^ 1] / augmented[t, s, a ^ 1] if there[i, t] else 0.0
                v[i] = f * (self.reward[i, t] + sepsis.GAMMA * v[i]) + k * value[i, t]
                m[i] = f * m[i] + k
        return v.mean(), v.sum() / m.sum(), m.sum() ** 2 / (m**2).sum()


@pytest.fixture(scope="module")
def data() -> Dataset:
    return Dataset.of(SETTINGS, 1)


@pytest.fixture(scope="module")
def plain(data: Dataset) -> Plain:
    return Plain(data)


def answers(data: Dataset, plain: Plain, policy: int, std: float, share: float) -> tuple[Booleans, Floats]:
    table = list(returns().values())[policy]
    return plain.placed(data.ask(table, std=std, share=share))


def test_noise(data: Dataset, plain: Plain) -> None:
    found = trials.vary_noise(SETTINGS, 1)
    for name, share in (("all", 1.0), ("tenth", 0.1)):
        for policy, level in zip(POLICIES, (0, 4, 10), strict=True):
            expected = plain.estimate(policy, *answers(data, plain, policy, TENTHS[level], share))
            assert found[name][level, policy] == pytest.approx(expected, rel=1e-9)


def test_missing_answers(data: Dataset, plain: Plain) -> None:
    found = trials.vary_share(SETTINGS, 1)
    for std in trials.NOISES:
        for policy, level in zip(POLICIES, (1, 5, 9), strict=True):
            told = answers(data, plain, policy, std, TENTHS[level])
            assert found[f"{std} plain"][level, policy] == pytest.approx(plain.estimate(policy, *told), rel=1e-9)
            filled = plain.imputed(*told)
            assert found[f"{std} imputed"][level, policy] == pytest.approx(plain.estimate(policy, *filled), rel=1e-9)
        # Nobody asked is PDIS; everybody asked leaves nothing to impute, and is what the noise experiment has.
        nobody = np.zeros(plain.asked.shape, dtype=bool), np.zeros(plain.asked.shape)
        assert found[f"{std} plain"][0, 7] == pytest.approx(plain.estimate(7, *nobody), rel=1e-9)
        assert (found[f"{std} plain"][-1] == found[f"{std} imputed"][-1]).all()
        noisy = trials.vary_noise(SETTINGS, 1)["all"][TENTHS.index(std)]
        assert found[f"{std} plain"][-1] == pytest.approx(noisy, rel=1e-12)


def test_who_answers_at_one_share_answers_at_every_larger_one(data: Dataset, plain: Plain) -> None:
    fewer, value = answers(data, plain, 0, 0.5, 0.3)
    more, others = answers(data, plain, 0, 0.5, 0.6)
    assert (fewer <= more).all()
    assert fewer.sum() < more.sum() < plain.asked.sum()
    assert (value[fewer] == others[fewer]).all()
    everything, exact = answers(data, plain, 0, 0.0, 1.0)
    assert (everything == plain.asked).all()
    noise = [answers(data, plain, policy, 1.0, 1.0)[1] - answers(data, plain, policy, 0.0, 1.0)[1] for policy in (0, 9)]
    assert noise[0] == pytest.approx(noise[1], abs=1e-12)
    assert (exact != 0).any()


def test_rows_of_ours(data: Dataset) -> None:
    found = trials.extend(SETTINGS, 1)
    world = sepsis.world()
    today = world.annotate(data.episodes, "behavior")
    assert found["repaired"].shape == (26, 3)
    assert (
        np.abs(found["repaired"][:, 0] - trials.truths()).mean()
        < np.abs(data.estimate(trials.C_PDIS, today)[:, 0] - trials.truths()).mean()
    )
    assert found["optimal"][:, 2].max() < 900  # weights that are not equal
    assert not np.allclose(found["doubly robust"], data.estimate(trials.PDIS))
    for name in ("optimal", "doubly robust, annotated"):
        assert np.abs(found[name][:, 0] - trials.truths()).max() < 0.1
    first = data.episodes.state[data.episodes.offsets[:-1]]
    states = np.array(data.episodes.states.words.to_pylist())[first]
    for number, (policy, table) in enumerate(zip(world.policies.values(), returns().values(), strict=True)):
        expected = np.mean([table[0, s] @ policy.probs[s] for s in states])
        assert found["floor"][number] == pytest.approx((expected, expected, 1000))


def test_datasets_are_consecutive_blocks(data: Dataset) -> None:
    assert data.episodes.labels.words.to_pylist() == list(range(1000, 2000))
    assert Dataset.of(SETTINGS, 0).episodes.labels.words.to_pylist() == list(range(1000))


# Claims and figures ---------------------------------------------------------------------------------------------------


def curve(rmse: Floats, spearman: Floats | None = None) -> Curve:
    """A curve with two datasets around these means."""
    rank = 1 - rmse if spearman is None else spearman
    measures = {"rmse": rmse, "spearman": rank, "accuracy": 100 * rank}
    return Curve("x", {name: np.stack([v - 0.001, v + 0.001], axis=1) for name, v in measures.items()}, "k", "-", "o")


FALLING, FLAT = np.linspace(0.5, 0.1, 11), np.full(11, 0.5)


def held(claims: Any) -> list[bool]:
    return [bool(claim.holds) for claim in claims]


def test_claims_about_missing_answers_can_fail() -> None:
    baseline, better = curve(FLAT), FALLING - 0.05 * (np.array(1.0) != TENTHS)
    assert held(sweeps.share_claims(Sweep("share", baseline, [curve(FALLING), curve(better)]), 0.2)) == [True] * 4
    bump = FALLING.copy()
    bump[5] = bump[4] + 0.01
    assert (
        held(sweeps.share_claims(Sweep("share", baseline, [curve(bump), curve(bump - 0.01)]), 0.2))[:2] == [False] * 2
    )
    worse = Sweep("share", baseline, [curve(FALLING), curve(FALLING + 0.01)])
    assert held(sweeps.share_claims(worse, 0.2)) == [True, True, False, True]
    beaten = Sweep("share", curve(np.full(11, 0.05)), [curve(FALLING), curve(better)])
    assert held(sweeps.share_claims(beaten, 0.2))[3] is False


def test_claims_about_noise_can_fail() -> None:
    rising = FALLING[::-1]
    assert held(sweeps.noise_claims(Sweep("noise", curve(np.full(11, 0.6)), [curve(rising)]))) == [True, True]
    assert held(sweeps.noise_claims(Sweep("noise", curve(np.full(11, 0.4)), [curve(rising)]))) == [False, False]
    ranked = Sweep("noise", curve(np.full(11, 0.6)), [curve(rising, np.full(11, 0.3))])
    assert held(sweeps.noise_claims(ranked)) == [True, False]


def test_claims_about_divergence_can_fail() -> None:
    def found(*slopes: float) -> Divergence:
        names = [source for source, *_ in divergence.LINES]
        return Divergence(
            np.zeros(1), {n: Trend(np.zeros(1), 0.0, slope) for n, slope in zip(names, slopes, strict=True)}
        )

    assert held(divergence.claims(found(0.1, 0.08, 0.03, 0.0))) == [True, True]
    assert held(divergence.claims(found(0.1, -0.08, 0.03, 0.0))) == [False, False]
    assert held(divergence.claims(found(0.1, 0.02, 0.03, 0.0))) == [True, False]


def test_lines_and_bands_are_means_and_standard_deviations() -> None:
    sweep = Sweep("share", curve(FLAT), [curve(FALLING), curve(FALLING - 0.05)])
    with figures.styled():
        _, axes = figures.new(3, 1, height=3)
        sweeps.draw(list(axes[:, 0]), sweep)
    top = axes[0, 0]
    assert top.lines[1].get_ydata() == pytest.approx(FALLING)
    band = top.collections[1].get_paths()[0].vertices[:, 1]
    assert (band.max(), band.min()) == pytest.approx((FALLING[0] + 0.001, FALLING[-1] - 0.001))
    assert top.get_ylim() == (0.0, 0.15)
    assert sweeps.rows(sweep)[11]["rmse"] == pytest.approx((FALLING[0], 0.001))
