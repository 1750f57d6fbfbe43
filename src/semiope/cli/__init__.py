"""The command line: parse, call, print. Exit status 0 done, 2 bad input, 1 anything unexpected."""

from semiope.cli import evaluate, plan, worlds
from semiope.cli.app import app, main

__all__ = ["app", "evaluate", "main", "plan", "worlds"]
