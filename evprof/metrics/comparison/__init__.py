"""Configurations side by side."""
