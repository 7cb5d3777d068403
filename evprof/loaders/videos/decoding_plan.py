"""Which stretches of a video are decoded to get some of its frames, and by how many decoders at once.

Arithmetic on a frame table; it opens nothing.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from evprof.loaders.videos.frame_table import FrameTable

MAX_DECODERS = 8
MAX_THREADS = 16
"""FFmpeg's own bound for one decoder."""

DECODERS_BYTES = 512 << 20
"""Most that the pictures inside of all decoders may take."""

_PICTURES_INSIDE = 20
"""Of one decoder: references, pictures held back, one per thread."""

WORTH_PIXELS = 4 << 20
"""Decoding fewer pixels than this takes less time than opening the file once more."""

_FRAMES_PER_THREAD = 4
"""Shorter runs leave a frame thread idle for most of its life, and make it decode what nobody asked for."""


@dataclass(frozen=True)
class DecodingRun:
    """Decode from key frame `start` on until the last of `targets` (ascending), which are kept."""

    start: int
    targets: tuple[int, ...]

    @property
    def frames(self) -> int:
        """Frames to be decoded."""
        return self.targets[-1] - self.start + 1


def plan_runs(table: FrameTable, targets: Sequence[int]) -> list[DecodingRun]:
    """Runs that pass the fewest frames: a new one starts only where a key frame lies behind the place reached.

    `targets` ascend without repeats. A file without usable times has a single run, from its start.
    """
    runs: list[DecodingRun] = []
    for target in targets:
        key = table.key_before(target) if table.is_timed else 0
        # What is inside the decoder by now is lost in a seek.
        if runs and key - runs[-1].targets[-1] <= table.reorder_frames + 1:
            runs[-1] = DecodingRun(runs[-1].start, (*runs[-1].targets, target))
        else:
            runs.append(DecodingRun(key, (target,)))
    return runs


def decoders_for(runs: Sequence[DecodingRun], pixels: int, threads: int) -> int:
    """How many decoders share the runs: as many as keep all of them busy, within threads and memory.

    One decoder with many threads serves a single long run; several with few serve many runs better, because each
    seek leaves frame threads with half-done work that is thrown away.
    """
    total = sum(run.frames for run in runs)
    longest = max(run.frames for run in runs)
    return max(
        1,
        min(
            threads,
            MAX_DECODERS,
            total // longest,
            total * pixels // WORTH_PIXELS,
            DECODERS_BYTES // max(1, pixels * 3 // 2 * _PICTURES_INSIDE),
        ),
    )


def threads_for(runs: Sequence[DecodingRun], decoders: int, threads: int) -> int:
    """Threads of each decoder: its share, but no more than its longest run can feed."""
    longest = max(run.frames for run in runs)
    return max(1, min(threads // decoders, longest // _FRAMES_PER_THREAD, MAX_THREADS))


def usable_threads() -> int:
    """Processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
