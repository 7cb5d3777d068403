"""Readers of videos: exact frames by number and by time."""
