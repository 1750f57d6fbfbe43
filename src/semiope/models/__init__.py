"""What would happen: models in which values are known exactly."""
