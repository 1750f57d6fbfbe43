"""From what a user has to results: `so.evaluate`."""

from semiope.pipeline.clustered import clustered
from semiope.pipeline.compare import compare
from semiope.pipeline.diagnosis import Diagnosis, diagnose
from semiope.pipeline.evaluate import evaluate
from semiope.pipeline.refit import refitted
from semiope.pipeline.results import Results

__all__ = ["Diagnosis", "Results", "clustered", "compare", "diagnose", "evaluate", "refitted"]
