"""Defects of evprof: caught, written down, and told without losing the window."""
