"""From what a user has to results: `so.evaluate`."""

from semiope.pipeline.evaluate import evaluate
from semiope.pipeline.results import Results

__all__ = ["Results", "evaluate"]
