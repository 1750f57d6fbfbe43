"""Worlds with known answers."""
