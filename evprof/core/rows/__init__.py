"""Rows of a run as columns: what they hold, and spans put together from their records."""
