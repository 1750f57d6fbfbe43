"""Evaluation from end to end, and what evaluates again: comparison, diagnosis, rehearsal."""

from semiope.pipeline.clustered import clustered
from semiope.pipeline.compare import compare
from semiope.pipeline.diagnosis import diagnose
from semiope.pipeline.evaluate import evaluate
from semiope.pipeline.refit import refitted
from semiope.pipeline.rehearse import rehearse
from semiope.pipeline.results import Results
from semiope.pipeline.trust import tipping_point

__all__ = ["Results", "clustered", "compare", "diagnose", "evaluate", "refitted", "rehearse", "tipping_point"]
