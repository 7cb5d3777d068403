"""Sections about imported results and earlier claims."""
