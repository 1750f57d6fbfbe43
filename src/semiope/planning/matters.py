"""What matters: the questions on which estimates hang, and by how much.

With every needed answer there, the value of a policy is estimated (C*-PDIS) by the mean over episodes of

    sum over t of  P_t ( pi_e(a_t|s_t) r_t + sum over actions a not taken of pi_e(a|s_t) g_t(a) ),

P_t = gamma^t pi_e(a_0|s_0) ... pi_e(a_(t-1)|s_(t-1)): how much of the estimate still passes through step t. So an
answer g_t(a) enters with P_t pi_e(a|s_t) / n. For a deterministic policy that is nothing but at the first step at which
an episode leaves it. Answers about the same step, state and action say the same: they form a cell.

Where nobody is asked, a model says what the answer would be, and answers enter through it, wherever they are given: if
they are about today's policy, other answers are turned to the policy by them; if they are about the policy and a pair
never logged, they say what becomes of paths that lead there.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from semiope._arrays import Floats, Integers
from semiope._memory import refuse_beyond_memory
from semiope.data.labels import number
from semiope.data.logbook import Logbook
from semiope.models.places import Places
from semiope.planning.case import Case, Records
from semiope.planning.convert import leading_to, turning_errors
from semiope.planning.influence import influences
from semiope.planning.level import resting_on
from semiope.policies.cells import cells_of
from semiope.policies.lookup import everything
from semiope.policies.policy import AnyPolicy


@dataclass(frozen=True, eq=False)
class Matters:
    """Questions (rows and actions, sorted by both) that matter to a policy, the cell of each, and what hangs on it.

    `share` is what each policy's estimate has of each answer, (n_policies, n_questions), `kept` what it has of the
    rewards of each episode, (n_policies, n_episodes); both without 1 / n. `cells` are the distinct places, in order.
    `through` is what estimates have of each cell's answer through what the model makes of it, (n_policies, n_cells).
    `chosen` is how likely the policies choose each action in each row, their mean, (n_rows, n_actions).
    """

    logbook: Logbook
    names: list[str]
    row: Integers
    action: Integers
    share: Floats
    kept: Floats
    cell: Integers
    cells: Places
    chosen: Floats
    through: Floats

    @property
    def n_policies(self) -> int:
        """Number of policies."""
        return len(self.names)

    @cached_property
    def episode(self) -> Integers:
        """The episode of each question."""
        return self.logbook.episodes.episode_of(self.row)

    @property
    def digest(self) -> str:
        """The same for the same logs and policies, as far as anything hangs on them; answers do not change it."""
        found, label = hashlib.sha256(), self.logbook.actions.numbers[self.action]
        order = np.lexsort((label, self.row))
        for part in (self.row[order], label[order], np.round(1e6 * self.share[:, order])):
            found.update(np.ascontiguousarray(part, dtype=np.int64).tobytes())
        return found.hexdigest()[:16]

    @cached_property
    def direct(self) -> Integers:
        """Places of the questions whose answers are in an estimate themselves."""
        return np.flatnonzero(np.count_nonzero(self.share, axis=0))

    @cached_property
    def own_mass(self) -> Floats:
        """What each policy's estimate has of the answer of each cell itself, (n_policies, n_cells)."""
        n, n_cells = self.logbook.episodes.n_episodes, len(self.cells.step)
        return np.stack([np.bincount(self.cell, weights=own, minlength=n_cells) / n for own in self.share])

    @property
    def mass(self) -> Floats:
        """What each policy's estimate has of the answer of each cell in all, (n_policies, n_cells)."""
        return self.own_mass + self.through

    def mass_left(self, cases: Sequence[Case], modelled: Floats) -> Floats:
        """The same, where the model says no more than this share of each cell's answer: the rest was told."""
        at, found = self.places(cases[0].records), self.own_mass.copy()
        for k, (case, mass) in enumerate(zip(cases, self._masses(cases[0].records, modelled), strict=True)):
            found[k] += at.read(_passed_on(case, mass))
        return found

    def counting_errors(self, cases: Sequence[Case], returns: Floats) -> Floats:
        """The covariance of estimates by the model because what follows pairs was counted, (n_policies, n_policies).

        If answers are about today's policy, that of what turns them to the policies. Else the model's returns of a pair
        rest on all pairs through which the policy goes on. If of n episodes a share O passes through a pair in the
        estimate, and it was logged k times, it adds O^2 / k of the variance of what follows it at once; as much as
        pairs alone have of it if as many were logged as pass, O / n. What is more than that is counted here.

        `returns` are those of what answers speak of, as logs and answers have them.
        """
        records = cases[0].records
        masses, n = self._masses(records, np.ones(len(self.cells.step))), records.episodes.n_episodes
        if cases[0].about_today:
            return turning_errors(cases, masses, returns)
        counts, found = np.maximum(records.empirical.counts, 1.0), np.zeros((len(cases), len(cases)))
        for k, (case, mass) in enumerate(zip(cases, masses, strict=True)):
            passing = resting_on(case, mass)[1]
            each = records.innovations * np.maximum(passing**2 / counts - passing / n, 0.0)
            found[k, k] = math.fsum(each.ravel())  # whatever the order of states
        return found

    def places(self, records: Records) -> Places:
        """Where the cells lie in the model."""
        ids = records.empirical.mdp.actions.positions_of(self.logbook.actions)
        return Places(self.cells.step, self.cells.state, ids[self.cells.action])

    def _masses(self, records: Records, share: Floats) -> Iterator[Floats]:
        """What each estimate has of answers of which the model gives a share, (horizon, n_states, n_actions)."""
        at = self.places(records)
        for own in self.own_mass:
            mass = np.zeros_like(records.behavior_returns)
            mass[at] = own * share
            yield mass

    def values(self, policy: int, answers: Floats) -> Floats:
        """The estimate that each episode gives, if these are the answers of the cells."""
        told = np.bincount(self.episode, weights=self.share[policy] * answers[self.cell], minlength=self.kept.shape[1])
        found: Floats = self.kept[policy] + told
        return found

    def cell_at(self, step: Integers, state: Integers, action: Integers) -> Integers:
        """The cell of each of these places, -1 where nothing hangs on it."""
        return _found(self._code(*self.cells), self._code(step, state, action))

    def _code(self, step: Integers, state: Integers, action: Integers) -> Integers:
        n_states, n_actions = len(self.logbook.episodes.states), len(self.logbook.actions)
        found: Integers = (step.astype(np.int64) * n_states + state) * n_actions + action
        return found

    def position(self, row: Integers, action: Integers) -> Integers:
        """Where these questions are among those that matter, -1 where they do not."""
        code = self.row.astype(np.int64) * len(self.logbook.actions) + self.action
        wanted = row.astype(np.int64) * len(self.logbook.actions) + action
        return _found(code, wanted)


def _found(known: Integers, wanted: Integers) -> Integers:
    """Where each wanted number is among those known, in order, -1 where it is not."""
    found = np.minimum(np.searchsorted(known, wanted), max(len(known) - 1, 0))
    return np.where(known[found] == wanted, found, -1) if len(known) else np.full(len(wanted), -1)


def what_matters(
    logbook: Logbook,
    policies: Mapping[str, AnyPolicy],
    gamma: float,
    records: Records | None = None,
    *,
    about_today: bool = False,
) -> Matters:
    """Look for every question on which an estimate hangs.

    `records` hold the model counted from the logs, if there is one; `about_today`: by it, answers about today's policy
    are turned into the policies' own.
    """
    episodes, n_actions = logbook.episodes, len(logbook.actions)
    refuse_beyond_memory(
        40.0 * episodes.n_steps * n_actions * len(policies), "the questions of a plan", "Plan with fewer episodes."
    )
    everywhere = cells_of(episodes, "state")
    shares, others, kept = [], [], np.empty((len(policies), episodes.n_episodes))
    chosen = np.zeros((episodes.n_steps, n_actions))
    for k, (name, policy) in enumerate(policies.items()):
        probs = everything(policy.bind(logbook, everywhere, f"policy {name!r}"), logbook)
        probs[episodes.action < 0] = 0.0  # nothing was to be decided, and the policy may be silent
        chosen += probs / len(policies)
        share, kept[k] = influences(episodes, probs, gamma)
        shares.append(share)
        if records is not None:
            others.append(_through_model(logbook, Case(records, policy, name, about_today), share))
    matter = np.zeros((episodes.n_steps, n_actions), dtype=np.bool_)
    for table in [*shares, *others]:
        matter |= table != 0
    row, action = np.nonzero(matter)
    n_states = len(episodes.states)
    code = (episodes.step[row].astype(np.int64) * n_states + episodes.state[row]) * n_actions + action
    cell, distinct = number(code) if len(code) else (code, code)
    cells = Places(distinct // (n_states * n_actions), distinct // n_actions % n_states, distinct % n_actions)
    share = np.stack([table[row, action] for table in shares])
    through = np.zeros((len(policies), len(distinct)))
    for k, table in enumerate(others):
        through[k, cell] = table[row, action]
    return Matters(logbook, list(policies), row, action, share, kept, cell, cells, chosen, through)


def _through_model(logbook: Logbook, case: Case, share: Floats) -> Floats:
    """What an estimate has of the answer of each cell through the model, for each row and action not taken."""
    rows, ids = case.records.rows, case.records.empirical.mdp.actions.positions_of(logbook.actions)
    mass = np.zeros_like(case.records.behavior_returns)
    for action, own in zip(ids.tolist(), share.T, strict=True):
        np.add.at(mass[:, :, action], (rows.step, rows.state), own / logbook.episodes.n_episodes)
    found: Floats = _passed_on(case, mass)[rows.step, rows.state][:, ids]
    found[np.arange(len(found)), np.maximum(logbook.episodes.action, 0)] = 0.0
    found[logbook.episodes.action < 0] = 0.0
    return found


def _passed_on(case: Case, mass: Floats) -> Floats:
    """What hangs on each answer through the model, (horizon, n_states, n_actions), if `mass` does by itself."""
    return leading_to(case, mass) if case.about_today else at_steps_logged(resting_on(case, mass)[0], case.records.rows)


def at_steps_logged(mass: Floats, rows: Places) -> Floats:
    """What hangs on pairs at steps where nobody came, put evenly on those where somebody did and can be asked."""
    came = np.zeros(mass.shape[:2], dtype=np.bool_)
    decided = rows.action >= 0
    came[rows.step[decided], rows.state[decided]] = True
    elsewhere = np.where(came[:, :, None], 0.0, mass).sum(axis=0)
    found: Floats = np.where(came[:, :, None], mass + elsewhere / np.maximum(came.sum(axis=0), 1)[:, None], 0.0)
    return found
