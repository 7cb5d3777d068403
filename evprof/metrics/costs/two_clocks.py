"""The parts of a scene that a model was shown, on the sample's clock."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from evprof.core.records import FrameRecord
from evprof.core.run_log import RunLog


class SensorSpan(NamedTuple):
    """From when to when, in µs on the sample's clock."""

    start_us: int
    stop_us: int


def slices_of(run: RunLog, role: str, records: Collection[FrameRecord] | None = None) -> list[SensorSpan]:
    """When each picture that a model was shown was sensed; `records` are those of them that are meant, by default all.

    Videos count from their first frame. Recordings have clocks of their own, and a run tells of a clip what was in it:
    its first event stands for the clip's beginning.
    """
    from evprof.metrics.configurations.settings_text import kind_read

    shown = run.frames.get(role, [])
    if not shown:
        return []
    sample = run.info.sample
    if kind_read(run, role) == "video":
        shift = sample.video_offset_us
    else:
        shift = (sample.start_us or 0) - min(record.start_us for record in shown)
    meant = shown if records is None else records
    return [SensorSpan(record.start_us + shift, record.end_us + shift) for record in meant]


def slice_at(slices: list[SensorSpan], position_us: int) -> int | None:
    """The picture at a moment; the first one before any began, None without pictures."""
    begun = sum(one.start_us <= position_us for one in slices)
    return max(0, begun - 1) if slices else None
