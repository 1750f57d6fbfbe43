"""What `semiope bench` measures: time and memory as ratios within one run, beside the bars they must stay under."""

from __future__ import annotations

from semiope.bench.measure import Measurement, measure, print_measurements

__all__ = ["Measurement", "measure", "print_measurements"]
