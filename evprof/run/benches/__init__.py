"""Measurements of readers and decoders beside the libraries people know."""
