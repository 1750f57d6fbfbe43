"""Figures that SCOPE-RL, obp, RLlib, COBS and the authors' code computed from the same small inputs, to 1e-8."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

import semiope as so
from tests.conftest import reference

pytestmark = pytest.mark.filterwarnings("ignore::semiope.StatisticalWarning")


class Peer(NamedTuple):
    episodes: so.Episodes
    annotations: so.Annotations | None
    behavior: so.Policy
    evaluation: so.Policy
    gamma: float


def load(name: str) -> Peer:
    with np.load(reference(f"peers/{name}.npz")) as file:
        data: dict[str, NDArray[Any]] = dict(file)
    if data["state"].ndim == 1:
        data |= {column: data[column][:, None] for column in ("state", "action", "reward")}
    n, horizon = data["state"].shape
    length = data.get("length", np.full(n, horizon))
    episode, step = np.nonzero(np.arange(horizon) < length[:, None])
    columns = {column: data[column][episode, step] for column in ("state", "action", "reward")}
    annotations = None
    if "annotated" in data:
        where = np.nonzero(data["annotated"])
        annotations = so.Annotations.from_arrays(
            episode=where[0], step=where[1], action=where[2], value=data["annotation"][where]
        )
    return Peer(
        so.Episodes.from_arrays(episode=episode, step=step, **columns),
        annotations,
        so.Policy.from_table(data["pi_b"]),
        so.Policy.from_table(data["pi_e"]),
        float(data.get("gamma", np.array(1.0))),
    )


SEQUENTIAL = {
    ("SCOPE-RL 0.2.1", "TIS"): "tis",
    ("SCOPE-RL 0.2.1", "SNTIS"): "sntis",
    ("SCOPE-RL 0.2.1", "PDIS"): "pdis",
    ("SCOPE-RL 0.2.1", "SNPDIS"): "snpdis",
    ("RLlib 2.60", "ImportanceSampling"): "pdis",
    ("RLlib 2.60", "WeightedImportanceSampling"): "pdwis-alive",
    ("COBS", "IS"): "is",
    ("COBS", "PDIS"): "pdis",
    ("COBS", "WIS"): "wis",
    ("COBS", "PDWIS"): "pdwis-step",
}
WITH_A_MODEL = {"DM": "dm", "DR": "dr", "SNDR": "sndr"}
BANDIT = {key: name for key, name in SEQUENTIAL.items() if key[0].startswith("SCOPE")}
BANDIT |= {("obp 0.5.7", "IPW"): "ipw", ("obp 0.5.7", "SNIPW"): "snips"}
FIGURES = [(data, *key, name) for data in ("seq_fixed", "seq_varlen") for key, name in SEQUENTIAL.items()]
FIGURES += [("bandit", *key, name) for key, name in BANDIT.items()]


@pytest.mark.parametrize(("data", "library", "figure", "name"), FIGURES)
def test_logs_alone(data: str, library: str, figure: str, name: str, peers: dict[str, Any]) -> None:
    peer = load(data)
    found = so.evaluate(peer.episodes, peer.evaluation, behavior=peer.behavior, estimators=[name], gamma=peer.gamma)
    # SCOPE-RL adds 1e-10 to its normalisers.
    assert found[name].value == pytest.approx(peers[data][library][figure], rel=0, abs=1e-8)


@pytest.mark.parametrize(("figure", "name"), WITH_A_MODEL.items())
@pytest.mark.parametrize(
    ("data", "library"),
    [(data, "SCOPE-RL 0.2.1") for data in ("seq_fixed", "seq_varlen", "bandit")] + [("bandit", "obp 0.5.7")],
)
def test_a_model_given(data: str, library: str, figure: str, name: str, peers: dict[str, Any]) -> None:
    peer = load(data)
    with np.load(reference(f"peers/{data}.npz")) as file:
        model = file["q_hat"]
    found = so.evaluate(
        peer.episodes, peer.evaluation, behavior=peer.behavior, estimators=[name], gamma=peer.gamma, model=model
    )
    assert found[name].value == pytest.approx(peers[data][library][figure], rel=0, abs=1e-8)


@pytest.mark.parametrize(
    ("data", "figure", "known", "names"),
    [
        ("seq_fixed", "PDIS_pib_known", True, ["pdis", "pdwis"]),
        ("seq_annotated", "PDIS_pib_known", True, ["pdis", "pdwis"]),
        ("seq_annotated", "PDIS_pib_empirical", False, ["pdis", "pdwis"]),
        ("seq_annotated", "C-PDIS_equalweights_pibplus_empirical", False, ["c-pdis", "c-pdwis"]),
    ],
)
def test_authors_code(data: str, figure: str, known: bool, names: list[str], peers: dict[str, Any]) -> None:
    peer = load(data)
    expected = peers[data]["authors' code"][figure]
    found = so.evaluate(
        peer.episodes,
        peer.evaluation,
        annotations=peer.annotations,
        behavior=peer.behavior if known else None,
        cell="step,state",
        estimators=names,
        gamma=peer.gamma,
    )
    figures = [found[names[0]].value, found[names[1]].value, found[names[0]].ess]
    assert figures == pytest.approx([expected[key] for key in ("is_value", "wis_value", "ESS1")], rel=0, abs=1e-8)
