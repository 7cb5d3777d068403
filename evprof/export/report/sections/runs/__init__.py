"""Sections about the runs and their answers."""
