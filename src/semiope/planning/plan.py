"""so.plan: which questions to ask next, under a budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from semiope.data.asked import read_asked
from semiope.data.episodes import Episodes, read_episodes
from semiope.errors import OptionError
from semiope.pipeline.inputs import read_answers, read_behavior, read_outcomes, read_policies
from semiope.planning.blind import RATES
from semiope.planning.knowledge import read
from semiope.planning.planner import Planner
from semiope.planning.questions import Cost, experts_of
from semiope.planning.random_plan import RandomPlanner, plan_at_random
from semiope.planning.result import Plan
from semiope.planning.wishes import Wishes
from semiope.policies.policy import Policy


def plan(
    episodes: Any,
    policy: Any,
    budget: float | None = None,
    *,
    annotations: Any = None,
    batch: float | None = None,
    about: str | None = None,
    goal: str = "difference",
    gamma: float = 1.0,
    noise: float | None = None,
    cost: Cost = None,
    experts: int | str | Sequence[str] = 1,
    overlap: float = 0.0,
    shared_by: int = 2,
    per_episode: int | None = None,
    per_expert: int | None = None,
    decoys: float | None = None,
    alpha: float = 0.05,
    least_gain: float = 0.01,
    target_width: float | None = None,
    earlier: Any = (),
    design: str | None = None,
    behavior: Any = None,
    features: Sequence[str] | str | None = None,
    model: Any = None,
    seed: int = 0,
) -> Plan:
    """Choose the questions worth asking next; keeping experts blind, and with a reason to stop when there is one.

    Parameters
    ----------
    episodes, policy
        As for `evaluate`; several policies are a dict by name.
    budget
        How many answers to questions that matter are wanted in all, those so far included (a question that two experts
        are asked counts twice); with `cost`, what they may cost. Decoys come on top.
    annotations
        Answers so far, to this plan's questions or to any.
    batch
        How many to ask now (default: all that the budget leaves).
    about
        What experts tell: returns under the "policy" evaluated, or under usual care ("behavior"), which serve several
        policies. Default: the policy's; with several policies and design="best", the behavior policy's.
    goal
        "value" of each policy, "difference" to today's policy, or "ranking" of them all.
    gamma
        Discount factor.
    noise
        Standard deviation of an expert's answer. Default: found from answers so far; before, a guess from the logs.
    cost
        Of a question: a number, a column of the episodes, or a function of a table of episode, step, action, state.
        Default: 1.
    experts, overlap, shared_by
        Names or number of experts, and what share of questions is asked to how many of them.
    per_episode, per_expert
        The most questions about an episode, and in an expert's batch.
    decoys
        How many questions that are not needed go with each that is, so that experts do not learn the policy. Default:
        1 for one policy, 1.25 for several.
    alpha, least_gain
        Stop when all decisions are settled at this error rate, or when the batch would make the expected error smaller
        by less than this share.
    target_width
        Instead of a budget: ask as many as it takes for intervals (of level 1 - alpha) this wide, of differences to
        today's policy or, with goal "value", of values.
    earlier
        Earlier batches (plans, their sealed tables, or their folder): answers to other questions are noted as chosen by
        others.
    design
        How questions are chosen. "random": drawn with known probabilities, larger where an estimate depends more on the
        annotation; estimates are then unbiased whatever a model predicts, and bounds hold at all looks. "best": those
        that take most off the error which an annotation model counted from states expects. Default: "best" where all
        policies are tables over states, else "random".
    behavior, features, model
        As for `evaluate`, by which annotations so far are evaluated (design "random").
    seed
        Of decoys, of who is asked what, and of the order; the same seed gives the same plan.
    """
    episodes = episodes if isinstance(episodes, Episodes) else read_episodes(episodes, features=features)
    episodes = episodes if features is None else episodes.with_features(features)
    policies = read_policies(policy, episodes)
    tables = episodes.has_states and all(isinstance(one, Policy) for one in policies.values())
    design = ("best" if tables else "random") if design is None else design
    if about is None:
        about = "policy" if len(policies) == 1 or design == "random" else "behavior"
    decoys = RATES[len(policies) > 1] if decoys is None else decoys
    wishes = Wishes(
        budget=budget, batch=batch, about=about, goal=goal, gamma=gamma, noise=noise, cost=cost,
        experts=experts_of(experts), overlap=overlap, shared_by=shared_by, per_episode=per_episode,
        per_expert=per_expert, decoys=decoys, alpha=alpha, least_gain=least_gain, target_width=target_width, seed=seed,
        design=design,
    )  # fmt: skip
    if wishes.design == "random":
        # Read once, so that what is fitted to the logs is fitted once, whatever annotations come in.
        outcomes = read_outcomes("auto" if model is None else model, None, policies, episodes)
        evaluation = {"behavior": read_behavior(behavior, episodes), "model": outcomes}
        given = read_answers(annotations, policies)
        return plan_at_random(RandomPlanner(episodes, policies, given, wishes, read_asked(earlier), evaluation))
    if not episodes.has_states:
        raise OptionError(
            "design: 'best' chooses by what states have in common, and the episodes have features and no states. Use "
            "design='random'."
        )
    if behavior is not None or model is not None:
        raise OptionError("design: 'best' has a model of its own and takes no behavior= or model=. Use 'random'.")
    if wishes.about == "policy" and len(policies) > 1:
        raise OptionError(
            "about: an answer about returns under one policy says nothing of another. Plan each policy on its own, or "
            "let experts answer for usual care (about='behavior')."
        )
    return Planner(episodes, policies, read(annotations, policies), wishes, read_asked(earlier)).plan()
