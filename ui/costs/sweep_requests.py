"""What the empty scaling ribbon offers: the same request with several numbers of frames, each repeated."""

from __future__ import annotations

from dataclasses import replace

from evprof.core.request import RunRequest
from evprof.core.vocabulary.modes import SIDE_BY_SIDE, mode_of

SWEEP_FRAMES = (2, 4, 8)
"""Numbers of frames; three of them tell a line from a curve."""

SWEEP_REPEATS = 3
"""So many runs each have an interval."""


def sweep_requests(request: RunRequest) -> list[RunRequest]:
    """The request once for each of SWEEP_FRAMES; speculation is left out: its stages are no single model's."""
    mode = SIDE_BY_SIDE if mode_of(request.mode).is_paired else request.mode
    return [
        replace(
            request,
            mode=mode,
            settings=replace(request.settings, frames=frames, event_frames=frames),
            repeat=SWEEP_REPEATS,
            warmup=None,
            trace=None,
        )
        for frames in SWEEP_FRAMES
    ]
