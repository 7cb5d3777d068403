"""Clocks and counters of a run: spans, peak memory of stages, disk reads, the torch profiler."""
