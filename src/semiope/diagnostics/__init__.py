"""Whether to trust an estimate."""
