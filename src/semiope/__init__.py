"""semiope: semi-offline policy evaluation, from logged episodes and counterfactual annotations.

`import semiope as so` is cheap: what is heavy loads when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from semiope._version import __version__
from semiope.domains.registration import register_when_loaded

if TYPE_CHECKING:
    from semiope.data.annotations import Annotations, read_annotations
    from semiope.data.episodes import Episodes, read_episodes
    from semiope.domains.annotators import Annotator, annotate
    from semiope.errors import (
        MissingExtraError,
        NotEstimatedError,
        OptionError,
        OutputError,
        SchemaError,
        SemiopeError,
        StatisticalWarning,
        SupportError,
    )
    from semiope.estimate.registry import ALIASES, ESTIMATORS
    from semiope.estimate.result import Estimate
    from semiope.models.behavior_model import FittedBehavior, fit_behavior
    from semiope.models.empirical import empirical_mdp
    from semiope.models.fitted import FittedQ
    from semiope.models.tabular import TabularMDP
    from semiope.pipeline import Results, clustered, compare, diagnose, evaluate, refitted, rehearse, tipping_point
    from semiope.planning.plan import plan
    from semiope.planning.result import Plan
    from semiope.policies.array import FeaturePolicy
    from semiope.policies.behavior import estimate_behavior
    from semiope.policies.policy import Policy, RowPolicy, read_policy
    from semiope.reporting import plot
    from semiope.reporting.report import report
    from semiope.uncertainty.scores import scores

_HOME = {
    "Annotations": "data.annotations",
    "read_annotations": "data.annotations",
    "Episodes": "data.episodes",
    "read_episodes": "data.episodes",
    "Annotator": "domains.annotators",
    "annotate": "domains.annotators",
    "MissingExtraError": "errors",
    "NotEstimatedError": "errors",
    "OptionError": "errors",
    "OutputError": "errors",
    "SchemaError": "errors",
    "SemiopeError": "errors",
    "StatisticalWarning": "errors",
    "SupportError": "errors",
    "ALIASES": "estimate.registry",
    "ESTIMATORS": "estimate.registry",
    "Estimate": "estimate.result",
    "empirical_mdp": "models.empirical",
    "FittedQ": "models.fitted",
    "TabularMDP": "models.tabular",
    "Results": "pipeline",
    "Plan": "planning.result",
    "plan": "planning.plan",
    "report": "reporting.report",
    "plot": "reporting.plot",
    "clustered": "pipeline",
    "compare": "pipeline",
    "diagnose": "pipeline",
    "refitted": "pipeline",
    "rehearse": "pipeline",
    "tipping_point": "pipeline",
    "evaluate": "pipeline",
    "scores": "uncertainty.scores",
    "estimate_behavior": "policies.behavior",
    "Policy": "policies.policy",
    "RowPolicy": "policies.policy",
    "read_policy": "policies.policy",
    "FeaturePolicy": "policies.array",
    "fit_behavior": "models.behavior_model",
    "FittedBehavior": "models.behavior_model",
}

__all__ = [
    "ALIASES",
    "ESTIMATORS",
    "Annotations",
    "Annotator",
    "Episodes",
    "Estimate",
    "FeaturePolicy",
    "FittedBehavior",
    "FittedQ",
    "MissingExtraError",
    "NotEstimatedError",
    "OptionError",
    "OutputError",
    "Plan",
    "Policy",
    "Results",
    "RowPolicy",
    "SchemaError",
    "SemiopeError",
    "StatisticalWarning",
    "SupportError",
    "TabularMDP",
    "__version__",
    "annotate",
    "clustered",
    "compare",
    "diagnose",
    "empirical_mdp",
    "estimate_behavior",
    "evaluate",
    "fit_behavior",
    "plan",
    "plot",
    "read_annotations",
    "read_episodes",
    "read_policy",
    "refitted",
    "rehearse",
    "report",
    "scores",
    "tipping_point",
]

register_when_loaded()


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'semiope' has no attribute {name!r}")
    home = importlib.import_module(f"semiope.{_HOME[name]}")
    value = home if name == "plot" else getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
