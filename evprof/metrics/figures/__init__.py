"""Figures of one run."""
