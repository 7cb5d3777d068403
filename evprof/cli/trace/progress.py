"""What a person sees while a trace is read: how far it is, and early what its first part says."""

from __future__ import annotations

import time
from pathlib import Path

from evprof.cli.terminal.console import Console
from evprof.cli.terminal.progress import Progress
from evprof.core.units import ms_text, percent_text
from evprof.loaders.traces.reading import TraceProgress, trace_size
from evprof.metrics.traces.analysis import TraceAnalysis

FIRST_LOOK_S = 3.0
"""After so long the overview of what was read is told; then after twice as long, and so on."""

_LONG_BYTES = 64 << 20
"""Shorter traces are read before anybody wonders."""


class TraceBar(Progress):
    """Counts the bytes of a trace's file."""

    kept = "nothing"

    def __init__(self, console: Console, path: str) -> None:
        super().__init__(console, f"reading {Path(path).name}")
        size = trace_size(path)
        self._is_long = size.text_bytes >= _LONG_BYTES
        self._next_look = time.monotonic() + FIRST_LOOK_S
        self._wait = FIRST_LOOK_S
        self.start(size.file_bytes)
        if self._is_long:
            self.say(
                f"{path}: about {size.entries:,} entries in {size.text_bytes / 1e6:,.0f} MB of text; its columns take "
                f"about {size.memory_bytes / 1e6:,.0f} MB"
            )

    def look(self, progress: TraceProgress) -> None:
        """Draws a few times a second, and tells an overview after some seconds."""
        if not self._is_long:
            return
        self.reach(progress.read_bytes, f"{progress.entries:,} entries")
        now = time.monotonic()
        if now >= self._next_look and progress.read_bytes < progress.file_bytes:
            self._wait *= 2
            self._next_look = now + self._wait
            self.say(f"so far ({percent_text(progress.read_bytes / progress.file_bytes)} read): {_overview(progress)}")


def _overview(progress: TraceProgress) -> str:
    seen = TraceAnalysis(progress.so_far()).overview
    if seen is None:
        return f"{progress.entries:,} entries"
    found = sorted((one for one in seen.categories if one.ns), key=lambda one: -one.ns)
    shares = ", ".join(f"{one.name} {percent_text(one.share or 0, 1)}" for one in found)
    return f"{len(seen.steps):,} steps in {ms_text(seen.wall_ns / 1e6)}: {shares}"
