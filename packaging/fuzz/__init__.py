"""Feeds every parser damaged files, each in a process with limits; see `run`. Not installed."""
