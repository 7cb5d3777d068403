"""evprof's stages in a trace of a run: what a stage launched counts as its own, whenever the device came to it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evprof.core.records import STAGES
from evprof.core.rows.blocks import Ints
from evprof.core.rows.trace_columns import TraceColumns
from evprof.metrics.traces.launches import Launches
from evprof.metrics.traces.roles import ANNOTATION, slice_roles, text_mask

MOST_STAGES = 10_000
"""Further ones are no run's."""


@dataclass(frozen=True)
class TraceStage:
    """One stage: where it lies on the trace's clock, and its device work as places in `Launches`."""

    name: str
    start_ns: int
    end_ns: int
    track: int
    kernels: int
    kernel_ns: int
    device_ns: int
    work: Ints

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns


def trace_stages(trace: TraceColumns, launched: Launches) -> tuple[TraceStage, ...]:
    """The stages in the order in which they began; none in traces of other programs."""
    slices, ends = trace.slices, trace.ends
    roles = slice_roles(trace.texts, slices.categories, slices.names)
    rows = np.flatnonzero((roles == ANNOTATION) & text_mask(trace.texts, STAGES.__contains__)[slices.names])
    rows = rows[np.lexsort((-ends[rows], slices.starts[rows]))][:MOST_STAGES]
    has_call = launched.calls >= 0
    waiting = np.flatnonzero(has_call)
    waiting = waiting[np.argsort(slices.starts[launched.calls[waiting]], kind="stable")]
    called = slices.starts[launched.calls[waiting]]
    found = []
    until: dict[int, int] = {}
    for row in rows.tolist():
        start, end, track = int(slices.starts[row]), int(ends[row]), int(slices.tracks[row])
        if start < until.get(track, start):
            continue  # a part of a stage that has a stage's name
        until[track] = end
        first, last = np.searchsorted(called, (start, end)).tolist()
        work = waiting[first:last]
        is_kernel = launched.is_kernel[work]
        lengths = launched.durations[work]
        found.append(
            TraceStage(
                trace.text(slices.names[row]),
                start,
                end,
                track,
                int(is_kernel.sum()),
                int(lengths[is_kernel].sum()),
                int(lengths.sum()),
                work,
            )
        )
    return tuple(found)
