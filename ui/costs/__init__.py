"""Panels on what tokens cost: the KV cache by origin, frames in time and bytes, and how stages grow."""
