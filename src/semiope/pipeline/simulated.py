"""A world fitted to logs and annotations, from which datasets like them are drawn: the truth of each is known.

The world is the MDP counted from the logs with Bellman errors drawn from their posterior distribution, given logs and
annotations (`models/annotation_model.py`): what is well known is nearly the same in all draws; what nobody knows, such
as pairs never logged, goes from hopeful to grim. In each draw, the behavior policy acts as often as it did, questions
are asked in the way that they were, and annotators have the noise and the differences that the annotations show. What
all annotators share is not known, and is 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from semiope._arrays import Booleans, Floats, Integers, frozen, runs
from semiope.data.annotations import Annotations
from semiope.data.episodes import Episodes
from semiope.errors import OptionError
from semiope.models.annotation_model import AnnotationModel, fit
from semiope.models.bellman import BellmanModel
from semiope.models.counted import Counted, annotated_in, behavior_model, can_be_counted
from semiope.models.empirical import Empirical
from semiope.models.folds import deal
from semiope.models.tabular import TabularMDP
from semiope.models.transitions import Transitions
from semiope.pipeline.results import Results
from semiope.policies.policy import Policy
from semiope.repair.case import Case
from semiope.repair.kinds import as_returns
from semiope.repair.steps import converts
from semiope.weights.inclusion import Questioning, Questions, questioning

# Correlations above this are those of whole episodes.
WHOLE = 1 - 1e-6


class Drawn(NamedTuple):
    """A dataset, and the true value of the policy in the world that it comes from."""

    episodes: Episodes
    annotations: Annotations
    truth: float


@dataclass(frozen=True, eq=False)
class SimulatedWorld:
    """A world like the data of some results.

    `mdp` is the counted MDP with all pairs available; `evaluation` and `spoken_of` are the policy and the one that
    annotations speak of, in it; `behavior` is who collects logs, (n_states, n_actions), or so for each step.
    """

    case: Case
    annotations: Annotations
    mdp: TabularMDP
    evaluation: BellmanModel
    spoken_of: BellmanModel
    fitted: AnnotationModel
    behavior: Floats
    asking: Questioning

    @classmethod
    def like(cls, results: Results) -> SimulatedWorld:
        """Fit a world to the data of these results."""
        run, problem = results.origin, results.origin.weighed.problem
        if run.annotations is None or not len(problem.annotations.row):
            raise OptionError("rehearse: there are no annotations of actions not taken, and nothing to rehearse.")
        words = tuple(problem.evidence.logbook.actions.words.to_pylist())
        case = Case(run.episodes, words, run.policy, results.policy, problem.gamma, run.options["model"])
        _refuse_by_row(results, case)
        annotations, _ = as_returns(run.annotations, case)
        study, counted = case.study(annotations), Counted(folds=None)
        records, model = counted.records(study, 0), counted.model(study, 0)
        assert records is not None
        assert model is not None
        about = behavior_model(records) if converts(results.settings["repair"]) else model
        fitted = fit(about, annotated_in(study, about), study.n_annotators)
        bound = case.policy.bind(study.logbook, problem.evidence.cells, f"policy {case.name!r}")
        asking = questioning(study.logbook, bound, deal(run.episodes.n_episodes))
        mdp = all_available(records.empirical, records.behavior)
        # Nothing is decided in states without a decision, but probabilities sum to 1 there as well.
        behavior = np.where(mdp.terminal[:, None], 1 / mdp.n_actions, records.behavior)
        if isinstance(run.options["behavior"], Policy):
            given = mdp.look_up(run.options["behavior"], "behavior")
            behavior = np.where(given.any(axis=2, keepdims=True), given, behavior)
            behavior = behavior[0] if len(behavior) == 1 else behavior
        return cls(case, annotations, mdp, model, about, fitted, behavior, asking)

    def draw(self, rng: np.random.Generator) -> Drawn:
        """Draw a world, and a dataset of as many episodes from it."""
        errors = np.where(self.mdp.terminal[:, None], 0.0, self.fitted.draw(rng))
        mdp = replace(self.mdp, reward=frozen(self.mdp.reward + errors))
        episodes = mdp.sample(
            self.behavior, self.case.episodes.n_episodes, seed=int(rng.integers(2**62)),
            propensities=self.case.episodes.behavior_prob is not None,
        )  # fmt: skip
        _, truth = mdp.solved(self.evaluation.policy)
        returns, _ = mdp.solved(self.spoken_of.policy)
        return Drawn(episodes, self._annotated(episodes, returns, rng), truth)

    def _annotated(self, episodes: Episodes, returns: Floats, rng: np.random.Generator) -> Annotations:
        """Ask as the questions were asked, and let annotators answer with these returns in mind."""
        states, actions = self.mdp.states.positions_of(episodes.states), self.mdp.actions.positions_of(episodes.actions)
        row, action = (
            column.ravel()
            for column in np.meshgrid(np.arange(episodes.n_steps), np.arange(self.mdp.n_actions), indexing="ij")
        )
        step, state = episodes.step[row].astype(np.int64), states[episodes.state[row]].astype(np.int64)
        taken = actions[episodes.action[row]].astype(np.int64)
        every = Questions(np.zeros(len(row), np.int64), step, state, taken, action)
        policy = self.evaluation.policy
        needed = policy[np.minimum(step, len(policy) - 1), state, action] > 0
        prob = np.where(action == taken, self.asking.taken, self.asking.prob_of(every, needed))
        chance = _within_episodes(prob, episodes.episode_of(row), episodes.n_episodes, self.asking.correlation, rng)
        asked = np.flatnonzero(rng.random(len(row)) < chance)
        if not (action[asked] != taken[asked]).any():  # nobody evaluates a policy from nothing
            asked = np.append(asked, rng.choice(np.flatnonzero((action != taken) & (prob > 0))))
        which, columns = self._responses(len(asked), rng)
        asked = asked[which]
        value = returns[step[asked], state[asked], action[asked]] + columns.pop("off")
        if self.annotations.inclusion_prob is not None:
            columns["inclusion_prob"] = np.maximum(prob[asked], np.finfo(float).tiny)
        return Annotations.from_arrays(
            episode=episodes.labels.decode(episodes.episode_of(row[asked])), step=step[asked],
            action=self.mdp.actions.words.take(pa.array(action[asked])), value=value, **columns,
        )  # fmt: skip

    def _responses(self, n: int, rng: np.random.Generator) -> tuple[Integers, dict[str, Any]]:
        """Who answers each of n questions, and how far off: as often, and as surely, as some question was answered."""
        given, known = self.fitted.system.given, self.fitted.variances
        annotations = self.case.study(self.annotations).logbook.annotations
        responses = annotations.responses
        starts = np.searchsorted(responses.place, np.arange(len(annotations.row) + 1))
        like = rng.integers(len(annotations.row), size=n)
        times = np.diff(starts)[like]
        chosen = runs(starts[:-1][like], times)
        n_annotators = len(known.noise) - 1
        offset = np.append(math.sqrt(known.offsets) * rng.normal(size=n_annotators), 0.0)
        noise = np.sqrt(known.noise[given.annotator % (n_annotators + 1)] * given.scale)[chosen]
        who = given.annotator[chosen]
        columns: dict[str, Any] = {"off": known.unit * (offset[who] + noise * rng.normal(size=len(chosen)))}
        if n_annotators:
            columns["annotator"] = pa.array([None if j < 0 else f"annotator {j + 1}" for j in who], pa.string())
        if responses.std is not None:
            columns["std"] = responses.std[chosen]
        if annotations.weight is not None:
            columns["weight"] = annotations.weight[responses.place[chosen]] / np.repeat(times, times)
        return np.repeat(np.arange(n), times), columns


def _refuse_by_row(results: Results, case: Case) -> None:
    """Fail where something was given row by row, or states do not recur: no other episodes can be drawn then."""
    if not can_be_counted(case.study(None)):
        raise OptionError(
            "rehearse: other episodes are drawn from a model counted over states, and it needs a policy over states "
            "that recur. Group states, and give the policy by state."
        )
    options = results.origin.options
    for name in ("behavior", "model"):
        if hasattr(options[name], "resampled") and not isinstance(options[name], Policy):
            raise OptionError(f"rehearse: {name} is given row by row, and says nothing of other episodes.")


def all_available(empirical: Empirical, behavior: Floats) -> TabularMDP:
    """The counted MDP, in which a pair never logged pays and leads to what the behavior policy does in its state."""
    mdp, t = empirical.mdp, empirical.mdp.transitions
    pair = np.repeat(np.arange(len(t.offsets) - 1), np.diff(t.offsets))
    state, action = np.divmod(pair, mdp.n_actions)
    # What follows a state under the behavior policy; END is -1.
    code, place = np.unique(state * (mdp.n_states + 1) + t.following + 1, return_inverse=True)
    prob = np.bincount(place, weights=behavior[state, action] * t.prob)
    of_state, following = np.divmod(code, mdp.n_states + 1)
    starts = np.searchsorted(of_state, np.arange(mdp.n_states + 1))
    missing: Booleans = ~mdp.available & ~mdp.terminal[:, None]
    new_state, new_action = np.nonzero(missing)
    times = np.diff(starts)[new_state]
    entry = runs(starts[:-1][new_state], times)
    usual = (behavior * mdp.reward).sum(axis=1, keepdims=True)
    varied = np.sqrt((behavior * mdp.reward_std**2).sum(axis=1, keepdims=True))
    transitions = Transitions.of(
        np.concatenate([state, np.repeat(new_state, times)]), np.concatenate([action, np.repeat(new_action, times)]),
        np.concatenate([t.following, following[entry] - 1]), np.concatenate([t.prob, prob[entry]]), mdp.states,
        mdp.actions,
    )  # fmt: skip
    return replace(
        mdp, transitions=transitions, reward=frozen(np.where(missing, usual, mdp.reward)),
        reward_std=frozen(np.where(missing, varied, mdp.reward_std)), available=frozen(mdp.available | missing),
    )  # fmt: skip


def _within_episodes(prob: Floats, episode: Integers, n: int, correlation: float, rng: np.random.Generator) -> Floats:
    """How likely each question is, given its episode: beta distributed around `prob`, so that two are correlated."""
    if not correlation > 0:
        return prob
    from scipy.special import betaincinv

    level = rng.random(n)[episode]
    if correlation > WHOLE:
        return (level < prob).astype(np.float64)
    left = (1 - correlation) / correlation
    inside = (prob > 0) & (prob < 1)
    found = prob.copy()
    found[inside] = betaincinv(prob[inside] * left, (1 - prob[inside]) * left, level[inside])
    return found
