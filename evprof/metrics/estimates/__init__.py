"""Means, ratios and differences of runs, with intervals."""
