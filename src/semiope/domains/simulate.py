"""A world's data as files: episodes, policies, annotations and the truth, ready for `semiope evaluate`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa

from semiope._files import write_folder
from semiope._random import Seed
from semiope.data.tables import write_table
from semiope.domains.annotators import Annotator
from semiope.domains.world import World
from semiope.errors import OptionError, nearest

Progress = Callable[[int, int], None]
DOMAINS = ("sepsis", "bandit", "tree")
FORMATS = ("parquet", "csv", "feather")


def world_of(domain: str) -> World:
    """A world by its name, with the paper's settings where it has some."""
    if domain == "sepsis":
        from semiope.domains import sepsis

        return sepsis.world()
    if domain == "bandit":
        from semiope.domains import bandit

        return bandit.two_state()
    if domain == "tree":
        from semiope.domains import tree

        return tree.tree()
    raise OptionError(f"{domain!r} is no domain.{nearest(domain, DOMAINS)} Known: {', '.join(DOMAINS)}.")


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
) -> list[Path]:
    """Write a dataset to a new or empty folder, whole or not at all, and return the files.

    `policies` are names of the world's policies to evaluate (default: all). Annotators have each policy's own returns
    in mind or, with `annotate_under` "behavior", those of the behaviour policy. `propensities`: log the probability of
    the action taken; without it `semiope evaluate` counts, as the paper does.
    """
    if suffix not in FORMATS:
        raise OptionError(f"format: {suffix!r} is not known.{nearest(suffix, FORMATS)} Use {', '.join(FORMATS)}.")
    if annotate_under not in ("evaluation", "behavior"):
        raise OptionError(f"annotate: {annotate_under!r} is neither 'evaluation' nor 'behavior'.")
    chosen = {name: world.policy(name) for name in policies or world.policies}
    total = (1 + len(chosen)) * n_episodes

    def report(done: int) -> None:
        if progress is not None:
            progress(done, total)

    def annotate(name: str, place: int, path: Path) -> None:
        policy = chosen[name] if annotate_under == "evaluation" else world.behavior
        write_table(world.annotate(episodes, policy, annotators=annotators, seed=seed).to_arrow(), path)
        report((2 + place) * n_episodes)

    episodes = world.sample(n_episodes, seed=seed, propensities=propensities, progress=lambda done, _: report(done))
    tables = {"episodes": episodes.to_arrow(), "behavior": world.behavior.to_arrow(), "states": world.glossary()}
    tables["truth"] = pa.table(
        {
            "policy": ["behavior", *chosen],
            "value": [world.mdp.value(policy) for policy in (world.behavior, *chosen.values())],
            "initial_std": [world.mdp.initial_std(policy) for policy in (world.behavior, *chosen.values())],
        }
    )
    tables |= {f"policies/{name}": policy.to_arrow() for name, policy in chosen.items()}
    writers = {f"{name}.{suffix}": partial(write_table, table) for name, table in tables.items()}
    writers |= {f"annotations/{name}.{suffix}": partial(annotate, name, i) for i, name in enumerate(chosen)}
    return write_folder(folder, writers)
