"""Tables 1, 3 and 4: bias, std and RMSE of estimates from one sample of a bandit, drawn, exact, and as printed.

The paper has 1000 estimates a cell. We draw more, so that what differs is the paper's own scatter, and put the exact
figures beside them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from semiope._arrays import Floats
from semiope.diagnostics import theory
from semiope.domains import bandit
from semiope.domains.annotators import Annotator
from semiope.domains.world import World
from semiope.errors import quietly
from semiope.paper.measures import printed
from semiope.paper.pages import Block, Claim, Heading, Made, Points, Table
from semiope.paper.pieces import Piece, Pieces
from semiope.paper.settings import WITHIN, Settings
from semiope.pipeline import evaluate
from semiope.weights.moments import WeightMoments

THEIR_DRAWS, OUR_DRAWS, QUICK_DRAWS = 1000, 100_000, 10_000
METRICS = ("bias", "std", "rmse")
POOLED = (
    "Each estimate is from one sample. The naive baseline pools logged and annotated samples; in s1 the pooled "
    "behaviour policy is one half each."
)


class Triple(NamedTuple):
    """Of one estimator."""

    bias: float
    std: float
    rmse: float


class Cell(NamedTuple):
    """An estimator in a cell of a table, by the probabilities of the policies in s1, and what is printed of it."""

    reward_means: tuple[float, ...]
    pi_b: tuple[float, ...]
    pi_e: tuple[float, ...]
    estimator: str
    printed: Triple
    digits: int

    @property
    def rounding(self) -> float:
        """Half of the last digit printed."""
        return 0.5 * 10.0**-self.digits


@cache
def cells(table: str) -> tuple[Cell, ...]:
    """All of a table."""
    return tuple(
        Cell(
            _numbers(row["reward_means"]),
            _numbers(row["pi_b"]),
            _numbers(row["pi_e"]),
            row["estimator"],
            Triple(*(float(row[metric]) for metric in METRICS)),
            len(row["std"].partition(".")[2]),
        )
        for row in printed(table)
    )


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(map(float, text.split()))


def world_of(table: str, cell: Cell) -> World:
    """The bandit of a cell: one state in Table 4; s2 pays 1 in Table 1 and 0 in Table 3."""
    return _built(table, cell.reward_means, cell.pi_b)


@cache
def _built(table: str, reward_means: tuple[float, ...], behavior: tuple[float, ...]) -> World:
    if table == "table4":
        return bandit.one_state(reward_means, behavior)
    return bandit.two_state(reward_means, behavior, other_mean=1.0 if table == "table1" else 0.0)


# Exact ---------------------------------------------------------------------------------------------------------------


def exact(world: World, evaluation: Any, estimator: str) -> Triple:
    """From theory."""
    weights = WeightMoments.equal(world.askable)
    setting = theory.Setting.of(world.mdp, world.behavior, evaluation, weights=weights, annotation_std=bandit.PAPER_STD)
    if estimator == "naive":
        draw = theory.naive_is(setting, world.askable)
        bias, variance = draw.bias, draw.variance
    elif estimator == "is":
        bias, variance = theory.bias_is(setting), theory.variance_is(setting).total
    else:
        bias, variance = theory.bias_c_is(setting).total, theory.variance_c_is(setting).total
    return Triple(bias, variance**0.5, (bias**2 + variance) ** 0.5)


class Component(NamedTuple):
    """With this chance, the estimate from one sample is normal with this mean and variance."""

    chance: float
    mean: float
    variance: float


def mixture(world: World, evaluation: Any, estimator: str) -> list[Component]:
    """The estimate from one sample, straight from the definitions: for its higher moments."""
    mdp, var = world.mdp, bandit.PAPER_STD**2
    probs = np.array(evaluation)
    found = []
    for s in range(mdp.n_states):
        told = world.askable[s].any()
        for a in range(2):
            chance = mdp.initial[s] * world.behavior.probs[s, a]
            if not chance:
                continue
            if estimator == "is" or not told:
                ratio = probs[s, a] / world.behavior.probs[s, a]
                found.append(Component(chance, ratio * mdp.reward[s, a], ratio**2 * var))
            elif estimator == "c*-is":
                found.append(Component(chance, float(probs[s] @ mdp.reward[s]), float((probs[s] ** 2).sum() * var)))
            else:  # naive: both actions become samples, and the pooled behaviour is one half each
                pooled = 2 * probs[s]
                found += [Component(chance, pooled[i] * mdp.reward[s, i], pooled[i] ** 2 * var) for i in range(2)]
    total = sum(one.chance for one in found)
    return [one._replace(chance=one.chance / total) for one in found]


def moment(components: Sequence[Component], centre: float, power: int) -> float:
    """Mean of (x - centre)^power, for power 1, 2 or 4."""
    total = 0.0
    for chance, mean, variance in components:
        d = mean - centre
        total += chance * {1: d, 2: d**2 + variance, 4: d**4 + 6 * d**2 * variance + 3 * variance**2}[power]
    return total


def standard_errors(components: Sequence[Component], value: float, draws: int) -> Triple:
    """Of bias, std and RMSE over so many draws; of the last two by the delta method."""
    mean = moment(components, 0.0, 1)
    errors = [(moment(components, mean, 2) / draws) ** 0.5]
    for centre in (mean, value):
        second, fourth = moment(components, centre, 2), moment(components, centre, 4)
        errors.append((max(0.0, fourth - second**2) / draws / 4 / second) ** 0.5 if second else 0.0)
    return Triple(*errors)


# Drawn ---------------------------------------------------------------------------------------------------------------


def draws_of(settings: Settings) -> int:
    """How many samples a bandit is asked for."""
    return QUICK_DRAWS if settings.quick else OUR_DRAWS


def draw(settings: Settings, number: int) -> dict[str, Floats]:
    """Simulated triples of all cells of a table, (cells, 3); cells of one bandit share its samples."""
    table = f"table{number}"
    found = []
    for _, group in groupby(cells(table), lambda cell: (cell.reward_means, cell.pi_b)):
        found += list(_drawn(table, list(group), draws_of(settings), settings.seed))
    return {"triples": np.array(found)}


def _drawn(table: str, group: Sequence[Cell], draws: int, seed: int) -> Iterator[Triple]:
    world = world_of(table, group[0])
    policies = {bandit.name_of(cell.pi_e): bandit.in_s1(cell.pi_e, n_states=world.mdp.n_states) for cell in group}
    episodes = world.sample(draws, seed=seed)
    annotations = world.annotate(episodes, world.behavior, annotators=Annotator(std=bandit.PAPER_STD), seed=seed)
    with quietly():
        results = evaluate(
            episodes, {name: world.policy(probs) for name, probs in policies.items()}, annotations=annotations,
            behavior=world.behavior, estimators=["is", "c*-is"],
        )  # fmt: skip
    told = world.mdp.states.positions_of(episodes.states)[episodes.state]
    row = episodes.rows_of(annotations.labels, annotations.episode, annotations.step, "annotations")
    acted = world.mdp.actions.positions_of(episodes.actions)[episodes.action]
    asked = world.mdp.actions.positions_of(annotations.actions)[annotations.action]
    state, action = np.append(told, told[row]), np.append(acted, asked)
    outcome = np.append(episodes.reward, annotations.value)
    counts = np.zeros((world.mdp.n_states, 2))
    np.add.at(counts, (state, action), 1)
    pooled = counts / counts.sum(axis=1, keepdims=True)
    for cell in group:
        name = bandit.name_of(cell.pi_e)
        if cell.estimator == "naive":
            values = np.array(policies[name])[state, action] / pooled[state, action] * outcome
        else:
            values = results[name][cell.estimator].values
        off = values - world.mdp.value(policies[name])
        yield Triple(float(off.mean()), float(off.std()), float(np.sqrt(np.mean(off**2))))


# Page ----------------------------------------------------------------------------------------------------------------


def pieces(table: str, settings: Settings) -> list[Piece]:
    """What a table needs."""
    return [Piece(draw, int(table.removeprefix("table")), cost=2.0)]


def make(table: str, title: str, notes: Sequence[str], settings: Settings, found: Pieces) -> Made:
    """The table: drawn, exact, as printed, and how far drawn and printed are apart."""
    [piece] = pieces(table, settings)
    rows, shown, excess = [], [], []
    for cell, triple in zip(cells(table), found[piece]["triples"], strict=True):
        world = world_of(table, cell)
        evaluation = bandit.in_s1(cell.pi_e, n_states=world.mdp.n_states)
        known = exact(world, evaluation, cell.estimator)
        spread = mixture(world, evaluation, cell.estimator)
        value = world.mdp.value(evaluation)
        theirs = standard_errors(spread, value, THEIR_DRAWS)
        errors = np.hypot(theirs, standard_errors(spread, value, draws_of(settings)))
        beyond = np.maximum(0.0, np.abs(triple - np.array(cell.printed)) - cell.rounding)
        far = np.divide(beyond, errors, out=np.where(beyond > 1e-12, np.inf, 0.0), where=errors > 0)
        excess.append(far)
        drawn = Triple(*map(float, triple))
        where = {"reward_means": list(cell.reward_means), "pi_b": list(cell.pi_b), "pi_e": list(cell.pi_e)}
        rows.append(
            where
            | {
                "estimator": cell.estimator,
                **drawn._asdict(),
                "exact": known._asdict(),
                "paper": cell.printed._asdict(),
            }
        )
        shown.append((cell.reward_means, (
            _policy(cell.pi_b), _policy(cell.pi_e), f"`{cell.estimator}`",
            *(_triple(one, cell.digits + 1) for one in (drawn, known)), _triple(cell.printed, cell.digits),
            f"{far.max():.2f}",
        )))  # fmt: skip
    largest = float(np.max(excess))
    text = f"all {3 * len(rows)} numbers lie within rounding and {WITHIN:g} Monte-Carlo standard errors of the paper's"
    blocks: list[Block] = [
        f"(bias, std, RMSE) of estimates from one sample: over {draws_of(settings):,} of them, exact, and as printed "
        f"over {THEIR_DRAWS:,}. The last column is the largest of the three differences between drawn and printed, "
        "beyond rounding, in standard errors."
    ]
    for means, group in groupby(shown, lambda one: one[0]):
        blocks.append(Heading(f"Mean rewards {means[0]:g} and {means[1]:g}"))
        headings = ("pi_b", "pi_e", "estimator", "ours", "exact", "paper", "apart")
        blocks.append(Table(headings, [cells for _, cells in group], words=3))
    blocks += [Heading("Notes"), Points(notes)]
    return Made(title, rows, blocks, [Claim(f"{text} (largest: {largest:.2f})", largest <= WITHIN)])


def _policy(probs: Sequence[float]) -> str:
    return "[" + ", ".join(f"{prob:g}" for prob in probs) + "]"


def _triple(triple: Triple, digits: int) -> str:
    return ", ".join(f"{number:.{digits}f}".replace(f"-{0:.{digits}f}", f"{0:.{digits}f}") for number in triple)
