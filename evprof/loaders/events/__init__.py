"""Readers of event recordings: one file per format, one recording interface for all."""
