"""Measures the window itself."""
