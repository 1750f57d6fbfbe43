"""Policies as ONNX files: classifiers that were exported, and run without the code that made them.

A pickle is never read: whoever made it could run any code here. An ONNX file holds arithmetic alone.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from semiope._arrays import Floats
from semiope._extras import need
from semiope._files import exists
from semiope.data.episodes import Episodes
from semiope.errors import OptionError, SchemaError, nearest
from semiope.policies.array import FeaturePolicy

PICKLES = (".pkl", ".pickle", ".joblib", ".dill", ".cloudpickle", ".sav", ".pt", ".pth")
FLOATS = {"tensor(float)": np.float32, "tensor(double)": np.float64}
LABELS = ("tensor(int64)", "tensor(int32)", "tensor(string)")
# A list of dicts from labels to probabilities, as skl2onnx writes them with its option zipmap.
MAPS = ("seq(map(int64,tensor(float)))", "seq(map(string,tensor(float)))")
# Where the largest probability is ahead by less, rounding decides which label a file gives.
CLOSE = 1e-4


def is_model_file(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a model by its suffix: an ONNX file, or a pickle, which is refused when it is read."""
    return Path(path).suffix.lower() in (".onnx", *PICKLES)


def read_onnx(path: str | os.PathLike[str], episodes: Episodes, name: str = "policy") -> FeaturePolicy:
    """Open an ONNX file that takes a matrix of features and gives the probability of each action.

    Where the file names the classes of its probabilities (a list of maps, ZipMap), these are the actions. Else columns
    are in the order of `episodes.actions`, and an output of labels, if there is one, is held against that.

    Parameters
    ----------
    path
        The file, as skl2onnx and others write it.
    episodes
        With features, in the order of the columns that the file takes.
    name
        What the policy is called in messages.

    Raises
    ------
    OptionError
        If the file is a pickle, or its inputs and outputs are not those of a classifier of these features.
    MissingExtraError
        Without onnxruntime.
    """
    file = Path(path)
    if file.suffix.lower() in PICKLES:
        raise OptionError(
            f"{name}: {file} is a pickle, and reading one runs whatever code it holds. Export the model as .onnx (for "
            "scikit-learn with skl2onnx), or write its probabilities as a table of episode, step, action, prob; in "
            "Python, load it yourself and give the object."
        )
    if not exists(file):
        siblings = [other.name for other in file.parent.iterdir()] if exists(file.parent) else []
        raise SchemaError(f"{name}: {file} does not exist.{nearest(file.name, siblings)}")
    if episodes.features is None:
        raise OptionError(
            f"{name}: {file} is a function of features, and the episodes have none. Name them: "
            "so.read_episodes(..., features=[...]) (--features)."
        )
    runtime = need("onnxruntime", "onnx", "A policy as an ONNX file")
    options = runtime.SessionOptions()
    options.log_severity_level = 4  # errors arrive as exceptions
    try:
        session = runtime.InferenceSession(os.fspath(file), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise SchemaError(f"{name}: cannot read {file} as ONNX: {_in_a_line(error)}") from None
    model = _Model(session, file.name, episodes, name)
    return FeaturePolicy(model, actions=model.classes)


class _Model:
    """A session as a function from features to probabilities."""

    def __init__(self, session: Any, file: str, episodes: Episodes, name: str) -> None:
        assert episodes.features is not None
        self.session, self.__name__, self.name = session, file, name
        self.actions = [str(word) for word in episodes.actions.words.to_pylist()]
        self.input = self._only_input(episodes)
        self.probabilities = self._only_probabilities()
        labels = [out for out in session.get_outputs() if out.type in LABELS]
        self.labels = labels[0] if len(labels) == 1 and self.probabilities.type not in MAPS else None
        self.classes: list[int | str] | None = None
        if self.probabilities.type in MAPS:
            self.classes = sorted(self._run(episodes.features.matrix[:1])[0][0])

    def __call__(self, x: Floats) -> Any:
        """Return the probability of every class, (n, n_classes)."""
        found = self._run(x)
        if self.classes is not None:
            return np.array([[row[label] for label in self.classes] for row in found[0]], dtype=np.float64)
        probs = np.asarray(found[0], dtype=np.float64)
        if self.labels is not None and probs.shape == (len(x), len(self.actions)):
            self._compare(probs, found[1])
        return probs

    def _run(self, x: Floats) -> list[Any]:
        """Probabilities, and labels if they are there."""
        wanted = [self.probabilities.name, *([] if self.labels is None else [self.labels.name])]
        given = {self.input.name: np.ascontiguousarray(x, dtype=FLOATS[self.input.type])}
        try:
            found: list[Any] = self.session.run(wanted, given)
        except Exception as error:
            raise OptionError(
                f"{self.name}: {self.__name__} failed on features of shape {x.shape}: {_in_a_line(error)}"
            ) from error
        return found

    def _only_input(self, episodes: Episodes) -> Any:
        assert episodes.features is not None
        inputs, names = self.session.get_inputs(), episodes.features.names
        if len(inputs) != 1 or inputs[0].type not in FLOATS or len(inputs[0].shape) != 2:
            listed = ", ".join(f"{one.name} ({one.type} {one.shape})" for one in inputs[:6])
            raise OptionError(
                f"{self.name}: {self.__name__} takes {listed}. It must take one matrix of numbers (rows, features)."
            )
        width = inputs[0].shape[1]
        if isinstance(width, int) and width != len(names):
            raise OptionError(
                f"{self.name}: {self.__name__} takes {width} features, and the episodes have {len(names)}: "
                f"{', '.join(names)}. Name the same features, in the same order."
            )
        return inputs[0]

    def _only_probabilities(self) -> Any:
        outputs = self.session.get_outputs()
        able = [out for out in outputs if out.type in MAPS or (out.type in FLOATS and len(out.shape) == 2)]
        if len(able) > 1:
            able = [out for out in able if "prob" in out.name.lower()]
        if len(able) != 1:
            listed = ", ".join(f"{out.name} ({out.type})" for out in outputs[:6])
            raise OptionError(
                f"{self.name}: {self.__name__} gives {listed}. One output must be the probabilities of actions, (rows, "
                "actions); of several, the one with 'prob' in its name."
            )
        return able[0]

    def _compare(self, probs: Floats, labels: Any) -> None:
        """Fail where the label of the largest probability is not the action of its column."""
        top = probs.argmax(axis=1)
        second = np.partition(probs, -2, axis=1)[:, -2] if probs.shape[1] > 1 else np.zeros(len(probs))
        said = np.asarray(labels).reshape(len(probs)).astype(str)
        wrong = (said != np.array(self.actions)[top]) & (probs.max(axis=1) - second > CLOSE)
        if wrong.any():
            first = int(np.argmax(wrong))
            raise OptionError(
                f"{self.name}: {self.__name__} calls the class of its column {top[first]} {str(said[first])!r}, and "
                f"the actions of the logs are {', '.join(map(repr, self.actions[:8]))}. Use the same labels in both, "
                "or export with maps of labels (zipmap)."
            )


def _in_a_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
