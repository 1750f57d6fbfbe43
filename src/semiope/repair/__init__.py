"""Making imperfect annotations usable."""
