"""The distributions window."""
