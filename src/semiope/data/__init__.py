"""What was logged and what was annotated."""
