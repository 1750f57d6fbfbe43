"""Intervals from per-episode numerators and denominators, whatever estimator they come from."""
