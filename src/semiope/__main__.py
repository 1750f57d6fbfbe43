"""`python -m semiope` is the command line."""

from semiope.cli import main

main()
