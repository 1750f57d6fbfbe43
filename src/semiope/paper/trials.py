"""What the paper's sepsis experiments do with one dataset: estimates of the 26 policies, as arrays (policies, 3).

The three are the ordinary estimate, the weighted one and the effective sample size. Each function is one piece of work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import pyarrow.compute as pc

from semiope._arrays import Floats, frozen
from semiope.data.annotations import Annotations
from semiope.data.episodes import Episodes, read_episodes
from semiope.data.tables import read_table
from semiope.domains import sepsis
from semiope.domains.annotators import Annotator, annotate
from semiope.errors import quietly
from semiope.estimate.evidence import Evidence, gather
from semiope.estimate.passes import episode_values
from semiope.estimate.problem import Problem
from semiope.estimate.registry import ESTIMATORS
from semiope.estimate.result import Estimate
from semiope.models.counted import Counted
from semiope.models.places import places_of_rows
from semiope.models.records import Records
from semiope.paper.settings import EPISODES, TENTHS, Settings
from semiope.pipeline import Results, evaluate
from semiope.policies.policy import Policy
from semiope.repair.fill import answered
from semiope.repair.impute import imputation

SHARE = 0.1
NOISES = (0.2, 1.0)
PDIS, C_PDIS = ("pdis", "pdwis"), ("c-pdis", "c-pdwis")
SOFTENED = 0.01


def compare(settings: Settings, number: int) -> dict[str, Any]:
    """The rows of Tables 2 and 5; also the policy that made the logs, for the figure over KL divergence."""
    data = Dataset.of(settings, number)
    today = {"behavior": sepsis.world().behavior}
    of_optimal, of_today = data.ask(sepsis.world().policies["optimal"]), data.ask(sepsis.world().behavior)
    of_each = data.ask(returns())
    found = {
        "pdis": data.estimate(PDIS),
        "c*-pdis (G=Qe)": data.estimate(C_PDIS, of_each),
        "c*-pdis (G=Qb)": data.estimate(C_PDIS, of_today),
        "c*-pdis (G=Qb->Qe)": data.estimate(C_PDIS, of_today, repair="convert:authors"),
        "on-policy pdis": data.estimate(PDIS, policies=today),
        "on-policy c*-pdis": data.estimate(C_PDIS, of_today, policies=today),
    }
    soft = {name: policy.soften(SOFTENED) for name, policy in sepsis.world().policies.items()}
    for about, answers in (("Q*", of_optimal), ("Qe", of_each)):
        for form in ("naive-unweighted", "naive-weighted"):
            pair = form, f"{form}-wis"
            found[f"{form} {about}"] = data.estimate(pair, answers, policies=soft, cell="state")
    states = sepsis.world().mdp.states.positions_of(data.episodes.states)[data.episodes.state]
    visits = np.bincount(states, minlength=sepsis.N_STATES)
    return {**found, "mean return": data.mean_return, "visits": visits}


def extend(settings: Settings, number: int) -> dict[str, Any]:
    """Rows beyond the paper: repaired, optimally weighted, doubly robust, and the floor."""
    data = Dataset.of(settings, number)
    of_today, of_each = data.ask(sepsis.world().behavior), data.ask(returns())
    return {
        "repaired": data.estimate(C_PDIS, of_today, repair="convert"),
        "optimal": data.estimate(C_PDIS, of_each, weights="optimal"),
        "doubly robust": data.estimate(("dr", "wdr")),
        "doubly robust, annotated": data.estimate(("dm-is+", "dm-is+"), of_each),
        "floor": data.floor(),
    }


def vary_noise(settings: Settings, number: int) -> dict[str, Any]:
    """C*-PDIS with noisy answers: to all questions, and to a tenth of them; (levels, policies, 3)."""
    data = Dataset.of(settings, number)
    some = data.answers(1.0), data.answers(SHARE)
    return {
        name: np.array([answers.estimate(std) for std in TENTHS])
        for name, answers in zip(("all", "tenth"), some, strict=True)
    }


def vary_share(settings: Settings, number: int) -> dict[str, Any]:
    """C*-PDIS with answers to a share of the questions, as they are and imputed, at two noises; as `vary_noise`."""
    data = Dataset.of(settings, number)
    nobody = data.estimate(PDIS)
    found: dict[str, list[Floats]] = {f"{std} {form}": [nobody] for std in NOISES for form in ("plain", "imputed")}
    for share in TENTHS[1:]:
        answers = data.answers(share)
        for form, these in (("plain", answers), ("imputed", answers.imputed())):
            for std in NOISES:
                found[f"{std} {form}"].append(these.estimate(std))
    return {name: np.array(levels) for name, levels in found.items()}


@cache
def returns() -> dict[str, Floats]:
    """Q of each of the 26 policies."""
    world = sepsis.world()
    return {name: frozen(world.mdp.action_values(policy)) for name, policy in world.policies.items()}


@cache
def truths() -> Floats:
    """True values of the 26 policies."""
    return frozen(np.array([sepsis.world().mdp.value(policy) for policy in sepsis.world().policies.values()]))


@cache
def table_of(path: str, digest: str) -> Any:
    """The table of all datasets, read once a process; the digest of its content tells a changed file."""
    return read_table(path, "--episodes")


@dataclass(frozen=True, eq=False)
class Dataset:
    """One dataset, and the seed of what experts answer about it."""

    episodes: Episodes
    seed: int

    @classmethod
    def of(cls, settings: Settings, number: int) -> Dataset:
        """A block of the simulator's stream of episodes or, from a file, those of one `run`."""
        seed = int(np.random.SeedSequence([settings.seed, number]).generate_state(1)[0])
        if settings.episodes is None:
            return cls(sepsis.world().sample(EPISODES, seed=settings.seed, first=EPISODES * number), seed)
        table = table_of(settings.episodes, settings.digest)
        run = pc.unique(table["run"]).sort()[number]
        return cls(read_episodes(table.filter(pc.equal(table["run"], run)).drop_columns(["run"])), seed)

    @property
    def mean_return(self) -> float:
        """Of the logged episodes: what a policy must reach to be called better."""
        return float(np.sum(sepsis.GAMMA**self.episodes.step * self.episodes.reward) / self.episodes.n_episodes)

    def ask(self, known: Any, *, std: float = 0.0, share: float = 1.0) -> Any:
        """Annotations of all decisions but one at the last step, which is only reached by truncated episodes.

        As by `annotate`, from a policy or a table of returns, or from several by name.
        """
        early = (np.arange(sepsis.HORIZON) < sepsis.HORIZON - 1)[:, None, None]
        ratio = np.broadcast_to(share * early, (sepsis.HORIZON, sepsis.N_STATES, sepsis.N_ACTIONS))
        expert = Annotator(std=std, ratio=ratio)
        world = sepsis.world()
        return annotate(self.episodes, world.mdp, known, askable=world.askable, annotators=expert, seed=self.seed)

    def estimate(
        self, pair: tuple[str, str], annotations: Any = None, *, policies: Mapping[str, Policy] | None = None,
        cell: str = "step,state", repair: str | None = None, weights: str = "equal",
    ) -> Floats:  # fmt: skip
        """Ordinary and weighted estimates by two estimators, and the effective sample size of the first."""
        chosen = sepsis.world().policies if policies is None else policies
        with quietly():
            found = evaluate(
                self.episodes, chosen, annotations=annotations, estimators=pair, cell=cell, gamma=sepsis.GAMMA,
                repair=repair, weights=weights,
            )  # fmt: skip
        return np.array([_three(results, *pair) for results in found.values()])

    def answers(self, share: float) -> Answers:
        """What experts say about this share of the questions, for all policies."""
        exact = self.ask(returns(), share=share)
        first = next(iter(exact.values()))
        noise = self.ask(np.zeros_like(next(iter(returns().values()))), std=1.0, share=share).value
        return Answers(self.episodes, first, np.array([one.value for one in exact.values()]), noise)

    def floor(self) -> Floats:
        """What remains if everything but the initial states is known: the mean of their true values."""
        rows = places_of_rows(sepsis.world().mdp, self.episodes)
        first = rows.state[self.episodes.offsets[:-1]]
        n = self.episodes.n_episodes
        means = [
            float((table[0] * policy.probs).sum(axis=1)[first].mean())
            for table, policy in zip(returns().values(), sepsis.world().policies.values(), strict=True)
        ]
        return np.array([(mean, mean, n) for mean in means])


@dataclass(frozen=True, eq=False)
class Answers:
    """Answers to the same questions for all policies: exact ones (policies, answers), and noise of std 1.

    Who was asked what decides on weights and ratios; values come in only at the end. So `evaluate`, which takes each
    table of annotations on its own, is not needed: the evidence is gathered once, and its values are exchanged.
    """

    episodes: Episodes
    annotations: Annotations
    exact: Floats
    noise: Floats

    def estimate(self, std: float) -> Floats:
        """C-PDIS and its weighted form, if answers scatter by this much."""
        return np.array([
            self._estimate(problem, exact + std * self.noise)
            for problem, exact in zip(self._problems, self.exact, strict=True)
        ])  # fmt: skip

    def imputed(self) -> Answers:
        """With answers filled in as the mean of those about the same state and action; not at the last step."""
        labels = tuple(sepsis.world().mdp.actions.words.to_pylist())
        records = Records(self.episodes, labels, sepsis.GAMMA)
        plan = imputation(self.annotations, records, rows=self.episodes.step < sepsis.HORIZON - 1)
        exact = np.array([plan.fill(values) for values in self.exact])
        filled = answered(self.episodes, records.empirical.mdp.actions, plan.asked, exact[0])
        return Answers(self.episodes, filled, exact, plan.fill(self.noise))

    @cached_property
    def _evidence(self) -> Evidence:
        return gather(
            self.episodes, self.annotations, sepsis.world().policies, behavior=None, cell="step,state", weights="equal"
        )

    @cached_property
    def _problems(self) -> list[Problem]:
        policies = sepsis.world().policies
        return [Problem.of(name, one, self._evidence, sepsis.GAMMA, Counted()) for name, one in policies.items()]

    def _estimate(self, problem: Problem, value: Floats) -> tuple[float, float, float]:
        problem = problem.with_values(value)
        values = episode_values(problem, ESTIMATORS["c-pdis"].recipe)
        ordinary = Estimate(problem.name, "c-pdis", values)
        weighted = Estimate(problem.name, "c-pdwis", values, self_normalized=True)
        return ordinary.value, weighted.value, ordinary.ess


def _three(results: Results, ordinary: str, weighted: str) -> tuple[float, float, float]:
    return results[ordinary].value, results[weighted].value, results[ordinary].ess
