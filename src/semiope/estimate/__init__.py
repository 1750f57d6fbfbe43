"""From prepared evidence to estimates: one short function an estimator, one recursion for all."""
