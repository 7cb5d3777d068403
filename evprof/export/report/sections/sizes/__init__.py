"""Sections about models and machines."""
