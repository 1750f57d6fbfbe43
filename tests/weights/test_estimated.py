"""Weights by variances that are estimated from the data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import semiope as so
from semiope.data.logbook import Logbook
from semiope.domains import bandit, sepsis
from semiope.estimate.evidence import gather
from semiope.estimate.problem import Problem
from semiope.estimate.weighing import reweighed
from semiope.models.counted import Counted
from semiope.weights.estimated import Moments, _factors
from semiope.weights.optimal import optimal_factors, solve_each
from semiope.weights.split import SplitWeights
from tests.contract.worlds import enumerate_mdp
from tests.repair.measure import rmse
from tests.weights.test_optimal import SETTINGS, random_problem, setting_of, variance_of

pytestmark = pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")


def factors_of(problem: Problem, pb: Any, fold: int) -> Any:
    """u by action taken and action that the samples of one fold are given, on the scale of u."""
    logbook, split = problem.evidence.logbook, problem.evidence.split_weights
    rows = np.flatnonzero(problem.modelled.study.fold_of_row == fold)
    u = np.zeros((len(pb), len(pb)))
    taken = logbook.episodes.action
    u[taken[rows], taken[rows]] = split.taken[rows]
    entries = np.isin(logbook.annotations.row, rows)
    row = logbook.annotations.row[entries]
    u[taken[row], logbook.annotations.action[entries]] = split.annotated[entries]
    return u / (pb @ u)


@pytest.mark.parametrize("name", SETTINGS)
def test_within_five_percent_of_the_least_variance(name: str) -> None:
    """1000 samples of the paper's settings: the exact variance of a sample with the weights found."""
    pb, pe, y, vr, vg = setting_of(name)
    least = variance_of(optimal_factors([pb], [pe], [y], [vr], [vg])[0], pb, pe, y, vr, vg)
    world = bandit.one_state(y.tolist(), pb.tolist(), reward_std=np.sqrt(vr)[None])
    policy = world.mdp.policy(np.array([pe]))
    noise = so.Annotator(std=float(np.sqrt(vg[0])))
    variances = []
    for k in range(20):
        episodes = world.sample(1000, seed=3, first=1000 * k)
        annotations = so.annotate(episodes, world.mdp, policy, annotators=noise, seed=k)
        evidence = gather(episodes, annotations, {"e": policy}, behavior=world.behavior, cell="state", weights="equal")
        found = reweighed(Problem.of("e", policy, evidence, 1.0, Counted()), "optimal")
        variances += [variance_of(factors_of(found, pb, fold), pb, pe, y, vr, vg) for fold in range(5)]
    assert len(variances) == 100
    assert max(variances) < 1.05 * least


def test_any_factors_fixed_beforehand_leave_estimates_unbiased() -> None:
    """Optimal ones for random moments, and for inverse variances: weights that do not sum to one."""
    shape = {"horizon": 2, "n_states": 2, "n_actions": 3}
    mdp = enumerate_mdp(4, **shape, gamma=0.9, annotated="each or not", unsupported=False)
    pb, pe = mdp.logs.behavior, mdp.logs.evaluation
    _, _, y, vr, vg = random_problem(5, 6)
    tables = [table.reshape(2, 3) for table in (y, vr, vg)]
    inverse = 1 / np.where(np.eye(3, dtype=bool), tables[1][:, None, :], tables[2][:, None, :])
    for u in (optimal_factors(pb, pe, *tables), inverse):

        def factors(logbook: Logbook, u: Any = u) -> SplitWeights:
            state, taken = logbook.episodes.state, logbook.episodes.action
            row, action = logbook.annotations.row, logbook.annotations.action
            return SplitWeights(u[state, taken, taken], u[state[row], taken[row], action])

        for cell in ("state", "step,state"):
            names = ["c-is", "c-pdis"]
            for name, estimate in mdp.logs.evaluate(names, weights=factors, cell=cell).items():
                assert mdp.probability @ estimate.values == pytest.approx(mdp.value, abs=1e-10), name


def test_answers_that_may_be_missing() -> None:
    """With q = p u, the variance over samples and over which answers are there is that of the programme in q."""
    pb, pe, y, vr, vg = random_problem(11, 3)
    chance = np.array([[1.0, 0.3, 0.6], [0.5, 1.0, 0.2], [0.9, 0.4, 1.0]])
    scatter = (np.where(np.eye(3, dtype=bool), vr, vg) + (1 - chance) * y**2) / chance

    def exact(u: Any) -> float:
        mean = second = 0.0
        for a in range(3):
            for there in np.ndindex(2, 2, 2):
                flags = np.array(there) == 1
                weight = pb[a] * np.prod(np.where(flags, chance[a], 1 - chance[a]))
                z = u[a] * pe * flags
                mean += weight * (z @ y)
                second += weight * ((z @ y) ** 2 + z**2 @ np.where(np.arange(3) == a, vr, vg))
        assert mean == pytest.approx(pe @ y)
        return float(second - mean**2)

    q = solve_each(pb[None], pe[None], y[None], scatter[None], np.ones((1, 3, 3), dtype=bool))
    least = exact(q[0] / chance)
    rng = np.random.default_rng(1)
    for _ in range(200):
        other = q[0] * rng.uniform(0.8, 1.2, size=(3, 3)) + 0.05 * rng.random((3, 3))
        assert exact(other / (pb @ other) / chance) >= least - 1e-12


@pytest.mark.parametrize("kind", ["optimal", "inverse-variance"])
def test_fewer_errors_on_sepsis(kind: str) -> None:
    """A tenth annotated: equal weights vary from sample to sample and pay for it; on each of four datasets."""
    world = sepsis.world()
    policies = {name: world.policies[name] for name in list(world.policies)[::5]}
    found: dict[str, list[float]] = {"equal": [], kind: []}
    for k in range(4):
        episodes = world.sample(1000, seed=6, first=1000 * k)
        answers = world.annotate(episodes, policies, annotators=so.Annotator(std=0.2, ratio=0.1), seed=k)
        for weights, errors in found.items():
            errors.append(rmse(world, policies, episodes, answers, None, weights=weights))
    assert (np.array(found[kind]) < np.array(found["equal"])).all()


def test_answers_that_say_how_much_they_scatter() -> None:
    """`std` counts, not what the answers of one cell look like."""
    world = bandit.one_state((1.0, 2.0), (0.5, 0.5), reward_std=1.0)
    policy = world.policies["0.1-0.9"]
    episodes = world.sample(400, seed=1)
    answers = world.annotate(episodes, policy, annotators=so.Annotator(std=0.1), seed=1)
    values = []
    for std in (1e-3, 1e3):
        told = so.Annotations.from_arrow(answers.to_arrow().append_column("std", [np.full(len(answers), std)]))
        found = so.evaluate(
            episodes, policy, annotations=told, weights="inverse-variance", estimators=["c-pdis", "pdis"]
        )
        values.append(found)
    assert values[1]["c-pdis"].value == pytest.approx(values[1]["pdis"].value, abs=1e-3)
    row = episodes.rows_of(answers.labels, answers.episode, answers.step, "answers")
    told_of = [float(answers.value[answers.actions.decode(answers.action).to_numpy(zero_copy_only=False) == a].mean())
               for a in world.mdp.actions.words.to_pylist()]  # fmt: skip
    assert len(row) == 400
    assert values[0]["c-pdis"].value == pytest.approx(0.1 * told_of[0] + 0.9 * told_of[1], abs=1e-3)


def test_one_policy_after_the_other_or_all_at_once() -> None:
    world = sepsis.world()
    names = list(world.policies)[:2]
    policies = {name: world.policies[name] for name in names}
    episodes = world.sample(200, seed=1)
    answers = world.annotate(episodes, policies, seed=1)
    options: dict[str, Any] = {"weights": "optimal", "estimators": ["c-pdis", "dm+-is+"], "gamma": 0.99}
    together = so.evaluate(episodes, policies, annotations=answers, **options)
    for name in names:
        alone = so.evaluate(episodes, policies[name], annotations=answers[name], **options)
        for estimator in alone:
            assert alone[estimator].value == together[name][estimator].value
    assert together[names[0]].settings["weights"] == "optimal"


@pytest.mark.parametrize("kind", ["optimal", "inverse-variance"])
@pytest.mark.parametrize(
    ("rewards", "value", "std"),
    [
        (1.0, 2.0, None),  # nothing scatters
        (0.0, 0.0, None),
        (1e-200, 2e-200, None),
        (1e200, -1e200, None),
        (1.0, 2.0, 1e200),
        (1.0, 2.0, 1e-200),
    ],
)
def test_extremes_come_to_a_number(kind: str, rewards: float, value: float, std: float | None) -> None:
    """Policy c: what was told of it, whatever the weights; warnings are errors here."""
    n = 40
    episodes = so.Episodes.from_arrays(
        episode=range(n), step=[0] * n, state=["s"] * n, action=["a", "b"] * (n // 2), reward=[rewards] * n
    )
    policy = so.Policy.from_arrow({"state": ["s"], "action": ["c"], "prob": [1.0]})
    more = {} if std is None else {"std": [std] * n}
    answers = so.Annotations.from_arrays(episode=range(n), step=[0] * n, action=["c"] * n, value=[value] * n, **more)
    found = so.evaluate(episodes, policy, annotations=answers, weights=kind, estimators=["c-pdis", "c-pdwis", "dm+"])
    for name in ("c-pdis", "c-pdwis"):
        assert found[name].value == pytest.approx(value, rel=1e-9), name
    assert np.isfinite(found["dm+"].value)


def test_factors_come_from_the_programme_with_missing_answers() -> None:
    """`_factors` itself: q = p u of least variance, divided by p; for a critic, with means of zero."""
    pb, pe, y, vr, vg = random_problem(11, 3)
    chance = np.array([[1.0, 0.3, 0.6], [0.5, 1.0, 0.2], [0.9, 0.4, 1.0]])
    variance = np.where(np.eye(3, dtype=bool), vr, vg)
    moments = Moments(pb[None], pe[None], y[None], variance[None], chance[None])
    u = _factors("optimal", moments)[0]
    scatter = (variance + (1 - chance) * y**2) / chance
    expected = solve_each(pb[None], pe[None], y[None], scatter[None], np.ones((1, 3, 3), dtype=bool))
    assert u == pytest.approx(expected[0] / chance)
    assert pb @ (chance * u) == pytest.approx(np.ones(3))
    inverse = _factors("inverse-variance", moments)[0]
    assert inverse * chance == pytest.approx((1 / scatter) / (pb @ (1 / scatter)))
    centred = _factors("optimal", moments._replace(mean=np.zeros((1, 3))))[0]
    assert centred == pytest.approx(_factors("inverse-variance", moments._replace(mean=np.zeros((1, 3))))[0], rel=1e-6)


def test_with_a_critic_means_do_not_count() -> None:
    """The same data with everything 100 higher: a critic takes it off, and its weights stay as they are."""
    world = bandit.one_state((1.0, 2.0), (0.5, 0.5), reward_std=1.0)
    policy = world.policies["0.1-0.9"]
    episodes = world.sample(400, seed=1)
    answers = world.annotate(episodes, policy, annotators=so.Annotator(std=0.3, ratio=0.5), seed=1)
    errors = []
    for level in (0.0, 100.0):
        higher = replace(episodes, reward=episodes.reward + level)
        told = replace(answers, value=answers.value + level)
        found = so.evaluate(higher, policy, annotations=told, weights="optimal", estimators=["dm+-is+"])["dm+-is+"]
        errors.append((found.value - level, found.std_error))
    assert errors[0] == pytest.approx(errors[1], rel=1e-6)


def test_no_weight_on_answers_that_never_come() -> None:
    """No annotations in state 0: there, all weight stays with what was logged."""
    rng = np.random.default_rng(2)
    n = 600
    state, action = rng.integers(3, size=n), rng.integers(3, size=n)
    reward = rng.normal(size=n) + action + state
    episodes = so.Episodes.from_arrays(episode=range(n), step=[0] * n, state=state, action=action, reward=reward)
    policy = so.Policy.from_table(np.tile([0.1, 0.2, 0.7], (3, 1)))
    row, other = np.nonzero((action[:, None] != np.arange(3)) & (state[:, None] > 0))
    answers = so.Annotations.from_arrays(
        episode=row,
        step=np.zeros(len(row), dtype=int),
        action=other,
        value=other + state[row] + 0.1 * rng.normal(size=len(row)),
    )
    found = so.evaluate(episodes, policy, annotations=answers, weights="optimal", estimators=["c-pdis", "pdis"])
    first = state == 0
    assert found["c-pdis"].values[first] == pytest.approx(found["pdis"].values[first])
    assert found["c-pdis"].normalizers.mean() == pytest.approx(1.0)
    assert found["c-pdis"].value == pytest.approx(float((0.2 + 1.4) + state.mean()), abs=0.15)
