"""Fitted Q evaluation and doubly robust estimates by d3rlpy and SCOPE-RL, of a log that another script wrote.

    python benchmarks/peers_runner.py LOG.npz FOUND.json [--steps 10000] [--rates 0.0001,0.001]

For the environment in which d3rlpy and SCOPE-RL are installed: this file needs them, numpy and torch, and not semiope.
`peers_features.py` writes the log, calls this, and reads values and seconds from the JSON. A library that cannot be
imported is named there under "missing", with the reason.

Both libraries get the same rows. SCOPE-RL wants all episodes to be of the same length: rows after the end have a reward
of 0, a ratio of 1 and a Q of 0, and so add nothing. Its networks are fitted to the logged rows alone.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

NAME = "policy"


class Logs(NamedTuple):
    """Rows in order of episode and step: what a network sees (features and the step), and what was done.

    `end` flags the last row of an episode. `pscore` is the probability of the action taken under the behavior policy,
    `probs` (n_rows, n_actions) are those of the policy to evaluate.
    """

    observation: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    end: np.ndarray
    pscore: np.ndarray
    probs: np.ndarray
    gamma: float
    seed: int

    @classmethod
    def read(cls, path: Path) -> Logs:
        """The log in a file of numpy arrays."""
        with np.load(path) as found:
            columns = {name: found[name] for name in cls._fields}
        columns |= {"gamma": float(columns["gamma"]), "seed": int(columns["seed"])}
        columns["observation"] = np.ascontiguousarray(columns["observation"], dtype=np.float32)
        return cls(**columns)

    @property
    def first(self) -> np.ndarray:
        """Rows at which episodes start."""
        return np.append(0, np.flatnonzero(self.end)[:-1] + 1)


def timed(compute: Callable[[], Any]) -> tuple[Any, float]:
    """What comes out, and the seconds of processor time it took: other work on the machine does not count."""
    started = time.process_time()
    found = compute()
    return found, time.process_time() - started


def policy_of(logs: Logs) -> Any:
    """The policy as an algorithm of d3rlpy, known where the logs need it: at the rows themselves.

    Fitted Q evaluation asks for "best" actions in the states that follow. They are drawn from the policy's
    probabilities anew each time, so that the mean of its targets is that of a policy that is not deterministic.
    """
    import torch
    from d3rlpy import ActionSpace, Modules
    from d3rlpy.algos import DiscreteRandomPolicyConfig, QLearningAlgoBase, QLearningAlgoImplBase

    # After the end d3rlpy has zeros, and does not use what follows: any row will do. All others have to be known.
    rows = {np.zeros_like(logs.observation[0]).tobytes(): 0}
    rows |= {row.tobytes(): k for k, row in enumerate(logs.observation)}
    cumulative = torch.from_numpy(logs.probs.cumsum(axis=1))
    n_actions = logs.probs.shape[1]

    class Impl(QLearningAlgoImplBase):
        def inner_update(self, batch: Any, grad_step: int) -> dict[str, float]:
            raise NotImplementedError

        def inner_predict_best_action(self, x: torch.Tensor) -> torch.Tensor:
            known = [rows[row.tobytes()] for row in x.numpy()]
            drawn = torch.rand(len(known), 1, dtype=torch.float64)
            return (drawn > cumulative[known]).sum(dim=1).clamp(max=n_actions - 1)

        inner_sample_action = inner_predict_best_action

        def inner_predict_value(self, x: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
            raise NotImplementedError

    class Known(QLearningAlgoBase):
        def inner_create_impl(self, observation_shape: Any, action_size: int) -> None:
            """Nothing is learned."""

        def get_action_type(self) -> Any:
            return ActionSpace.DISCRETE

    shape = logs.observation.shape[1:]
    return Known(DiscreteRandomPolicyConfig(), False, False, Impl(shape, n_actions, Modules(), "cpu:0"))


def by_d3rlpy(logs: Logs, steps: int, rate: float) -> dict[str, tuple[float, float]]:
    """Value by `DiscreteFQE` with its default network, and seconds; actions at the start are not drawn but weighed."""
    import d3rlpy

    d3rlpy.seed(logs.seed)
    policy, n_actions = policy_of(logs), logs.probs.shape[1]

    def value() -> float:
        dataset = d3rlpy.dataset.MDPDataset(
            logs.observation, logs.action, logs.reward, logs.end.astype(np.float32), action_size=n_actions,
            action_space=d3rlpy.ActionSpace.DISCRETE,
        )  # fmt: skip
        fqe = d3rlpy.ope.DiscreteFQE(policy, d3rlpy.ope.FQEConfig(gamma=logs.gamma, learning_rate=rate))
        quiet = d3rlpy.logging.NoopAdapterFactory()
        fqe.fit(dataset, n_steps=steps, show_progress=False, logger_adapter=quiet)
        x, action = np.repeat(logs.observation[logs.first], n_actions, axis=0), np.arange(n_actions)
        q = fqe.predict_value(x, np.tile(action, len(logs.first))).reshape(-1, n_actions)
        return float((q * logs.probs[logs.first]).sum(axis=1).mean())

    return {"FQE": timed(value)}


def by_scope_rl(logs: Logs, steps: int, rate: float) -> dict[str, tuple[float, float]]:
    """Values by estimators of SCOPE-RL with its own settings of fitted Q evaluation, and seconds."""
    import d3rlpy
    from d3rlpy.models.encoders import VectorEncoderFactory
    from d3rlpy.models.q_functions import MeanQFunctionFactory
    from scope_rl.ope import CreateOPEInput, OffPolicyEvaluation
    from scope_rl.ope import discrete as estimators
    from scope_rl.policy import BaseHead

    class Head(BaseHead):
        def __init__(self, base_policy: Any) -> None:
            self.base_policy, self.name, self.action_type = base_policy, NAME, "discrete"

        def calc_action_choice_probability(self, x: np.ndarray) -> np.ndarray:
            assert len(x) == len(logs.probs)
            return logs.probs

        def sample_action_and_output_pscore(self, x: np.ndarray) -> Any:
            raise NotImplementedError

        def calc_pscore_given_action(self, x: np.ndarray, action: np.ndarray) -> Any:
            raise NotImplementedError

    d3rlpy.seed(logs.seed)
    # Its defaults, written out because there is no way to give the learning rate alone.
    network = {"encoder_factory": VectorEncoderFactory(hidden_units=[100]), "q_func_factory": MeanQFunctionFactory()}
    inputs = CreateOPEInput(model_args={"fqe": {**network, "learning_rate": rate}}, gamma=logs.gamma, device="cpu:0")
    head = Head(policy_of(logs))

    def fitted() -> np.ndarray:
        # As one long trajectory with ends in it: all rows are logged ones, and networks see where episodes end.
        whole = logged_dataset(logs, logs.end.astype(float), 1)
        found = inputs.obtain_whole_inputs(
            whole, evaluation_policies=[head], require_value_prediction=True, n_steps=steps, random_state=logs.seed
        )
        return found[NAME]["state_action_value_prediction"]

    q, fit_seconds = timed(fitted)
    padded, filled = rectangle(logs, q)
    found = {}
    for label, name, seconds in (
        ("dm", "DirectMethod", fit_seconds), ("dr", "DoublyRobust", fit_seconds),
        ("sndr", "SelfNormalizedDR", fit_seconds), ("pdis", "PerDecisionImportanceSampling", 0.0),
    ):  # fmt: skip
        # Its default drops the reward of the step at which an episode is done, not only those after it.
        ope = OffPolicyEvaluation(padded, ope_estimators=[getattr(estimators, name)()], disable_reward_after_done=False)
        value, more = timed(lambda ope=ope: ope.estimate_policy_value({NAME: filled}))
        found[label] = float(value[NAME][label]), seconds + more
    return found


def logged_dataset(logs: Logs, done: np.ndarray, n_trajectories: int) -> dict[str, Any]:
    """Rows as SCOPE-RL wants them: so many trajectories of the same length, one after the other."""
    size, n_actions = logs.probs.shape
    return {
        "size": size, "n_trajectories": n_trajectories, "step_per_trajectory": size // n_trajectories,
        "action_type": "discrete", "n_actions": n_actions, "action_dim": None, "action_keys": None,
        "action_meaning": None, "state_dim": logs.observation.shape[1], "state_keys": None, "state": logs.observation,
        "action": logs.action, "reward": logs.reward, "done": done, "terminal": done, "info": {},
        "pscore": logs.pscore, "behavior_policy": "behavior", "dataset_id": 0,
    }  # fmt: skip


def rectangle(logs: Logs, q: np.ndarray) -> tuple[dict[str, Any], dict[str, Any]]:
    """The log and the inputs of estimators with rows after the end of each episode that add nothing."""
    first = logs.first
    length = np.diff(np.append(first, len(logs.end)))
    longest, n_actions = int(length.max()), logs.probs.shape[1]
    episode = np.repeat(np.arange(len(first)), length)
    place = episode * longest + np.arange(len(episode)) - first[episode]

    def padded(column: np.ndarray, filling: float) -> np.ndarray:
        wide = np.full((len(first) * longest, *column.shape[1:]), filling, dtype=column.dtype)
        wide[place] = column
        return wide

    probs = padded(logs.probs, 1 / n_actions)
    wide = logs._replace(
        observation=padded(logs.observation, 0.0), action=padded(logs.action, 0), reward=padded(logs.reward, 0.0),
        end=padded(logs.end, 0), pscore=padded(logs.pscore, 1 / n_actions), probs=probs,
    )  # fmt: skip
    value = padded(q, 0.0)
    filled = {
        "evaluation_policy_action_dist": probs, "evaluation_policy_action": None,
        "state_action_value_prediction": value,
        "initial_state_value_prediction": (probs * value).sum(axis=1)[::longest],
        "state_action_marginal_importance_weight": None, "state_marginal_importance_weight": None,
        "on_policy_policy_value": None, "gamma": logs.gamma, "behavior_policy": "behavior",
        "evaluation_policy": NAME, "dataset_id": 0,
    }  # fmt: skip
    return logged_dataset(wide, wide.end.astype(float), len(first)), filled


PEERS: dict[str, tuple[str, Callable[[Logs, int, float], dict[str, tuple[float, float]]]]] = {
    "d3rlpy": ("d3rlpy", by_d3rlpy),
    "SCOPE-RL": ("scope_rl", by_scope_rl),
}


def main() -> None:
    """Read the log, and write what each library makes of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", type=Path)
    parser.add_argument("found", type=Path)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--rates", default="0.0001", help="learning rates; each library's default is 0.0001")
    given = parser.parse_args()
    logs = Logs.read(given.log)
    versions, found, missing = {"Python": sys.version.split()[0]}, {}, {}
    for peer, (module, estimate) in PEERS.items():
        try:
            torch = import_module("torch")
            torch.set_num_threads(1)
            versions |= {"torch": str(torch.__version__), peer: str(import_module(module).__version__)}
            values = {rate: estimate(logs, given.steps, float(rate)) for rate in given.rates.split(",")}
        except ImportError as error:
            missing[peer] = str(error)
            continue
        for rate, by_label in values.items():
            for label, (value, seconds) in by_label.items():
                name = f"{peer} {label}" + ("" if label == "pdis" else f", rate {rate}")  # pdis learns nothing
                found[name] = {"value": value, "seconds": seconds}
    text = json.dumps({"versions": versions, "missing": missing, "found": found}, indent=1)
    given.found.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
