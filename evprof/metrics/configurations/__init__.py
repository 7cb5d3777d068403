"""Runs gathered into configurations, and the baselines they are compared with."""
