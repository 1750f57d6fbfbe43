"""A world's data as files: episodes, policies, annotations and the truth, ready for `semiope evaluate`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from semiope._files import check_new_folder, write_folder
from semiope._options import Progress, check_count
from semiope._random import Seed, generator
from semiope._version import __version__
from semiope.data.tables import write_table
from semiope.domains.annotators import Annotator
from semiope.domains.world import World
from semiope.errors import OptionError, nearest
from semiope.policies.policy import Policy

FORMATS = ("parquet", "csv", "feather")


def _sepsis() -> World:
    from semiope.domains import sepsis

    return sepsis.world()


def _bandit() -> World:
    from semiope.domains import bandit

    return bandit.two_state()


def _tree() -> World:
    from semiope.domains import tree

    return tree.tree()


DOMAINS: dict[str, Callable[[], World]] = {"sepsis": _sepsis, "bandit": _bandit, "tree": _tree}


class Dataset(NamedTuple):
    """Where a simulated dataset was written, and how to evaluate the first of its policies."""

    files: list[Path]
    command: list[str]


def world_of(domain: str) -> World:
    """A world by its name, with the paper's settings where it has some."""
    if domain not in DOMAINS:
        raise OptionError(f"{domain!r} is no domain.{nearest(domain, DOMAINS)} Known: {', '.join(DOMAINS)}.")
    return DOMAINS[domain]()


def simulate(
    world: World,
    folder: Path,
    n_episodes: int,
    *,
    seed: Seed = 0,
    policies: Sequence[str] = (),
    annotators: Sequence[Annotator] = (),
    annotate_under: str = "evaluation",
    propensities: bool = False,
    suffix: str = "parquet",
    progress: Progress | None = None,
) -> Dataset:
    """Write a dataset to a new or empty folder, whole or not at all.

    `policies` are names of the world's policies to evaluate (default: all). Annotators have each policy's own returns
    in mind or, with `annotate_under` "behavior", those of the behaviour policy. `propensities`: log the probability of
    the action taken; without it `semiope evaluate` counts, as the paper does.
    """
    folder = Path(folder)
    check_new_folder(folder)
    if suffix not in FORMATS:
        raise OptionError(f"format: {suffix!r} is not known.{nearest(suffix, FORMATS)} Use {', '.join(FORMATS)}.")
    if annotate_under not in ("evaluation", "behavior"):
        raise OptionError(f"annotate: {annotate_under!r} is neither 'evaluation' nor 'behavior'.")
    number = int(generator(seed).integers(2**63)) if isinstance(seed, np.random.Generator) else seed
    chosen = {name: world.policy(name) for name in policies or world.policies}
    wrong = [name for name in chosen if name.startswith(".") or set(name) & set("/\\\0")]
    if wrong:
        raise OptionError(f"policies: {wrong[0]!r} is a name that no file can have. Rename the policy.")
    total = (1 + len(chosen)) * check_count(n_episodes, "episodes")

    def report(done: int) -> None:
        if progress is not None:
            progress(done, total)

    def annotate(name: str, place: int, path: Path) -> None:
        policy = chosen[name] if annotate_under == "evaluation" else world.behavior
        write_table(world.annotate(episodes, policy, annotators=annotators, seed=number).to_arrow(), path)
        report((2 + place) * n_episodes)

    episodes = world.sample(n_episodes, seed=number, propensities=propensities, progress=lambda done, _: report(done))
    tables = {"episodes": episodes.to_arrow(), "behavior": world.behavior.to_arrow(), **world.glossary()}
    tables["truth"] = _truth(world, {"behavior": world.behavior, **chosen})
    tables |= {f"policies/{name}": policy.to_arrow() for name, policy in chosen.items()}
    writers: dict[str, Callable[[Path], object]] = {
        f"{name}.{suffix}": partial(write_table, table) for name, table in tables.items()
    }
    writers |= {f"annotations/{name}.{suffix}": partial(annotate, name, i) for i, name in enumerate(chosen)}
    told = {"annotators": [_described(one) for one in annotators or [Annotator()]], "annotated_for": annotate_under}
    about = {
        "semiope": __version__, "world": world.name, "episodes": n_episodes, "seed": number, "gamma": world.mdp.gamma,
        "horizon": world.mdp.horizon, **told, "propensities": propensities,
    }  # fmt: skip
    writers["about.json"] = partial(Path.write_text, data=json.dumps(about, indent=1) + "\n")
    files = write_folder(folder, writers)
    first = next(iter(chosen))
    command = ["semiope", "evaluate", str(folder / f"episodes.{suffix}")]
    for option, kind in (("--policy", "policies"), ("--annotations", "annotations")):
        command += [option, str(folder / kind / f"{first}.{suffix}")]
    return Dataset(files, [*command, "--gamma", f"{world.mdp.gamma:g}"])


def _truth(world: World, policies: dict[str, Policy]) -> pa.Table:
    return pa.table(
        {
            "policy": list(policies),
            "value": [world.mdp.value(policy) for policy in policies.values()],
            "initial_std": [world.mdp.initial_std(policy) for policy in policies.values()],
        }
    )


def _described(annotator: Annotator) -> dict[str, Any]:
    return {name: np.asarray(value).tolist() for name, value in asdict(annotator).items() if value is not None}
