"""Sections about speculation."""
