"""Sensor time and compute time: which part of a scene a model was shown, and when it worked on it."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from evprof.core.records import FrameRecord
from evprof.core.run_log import RunLog


class SensorSpan(NamedTuple):
    """From when to when, in µs on the sample's clock."""

    start_us: int
    stop_us: int


class Passage(NamedTuple):
    """When a model worked on what it was shown, in absolute ns: every picture passes in one batch.

    From the beginning of the first stage that took it in to the end of the one that encoded it; from `seen_ns` on, the
    end of the prefill, tokens could know of it. None is what has not happened, or was not measured by itself.
    """

    start_ns: int
    encoded_ns: int | None
    seen_ns: int | None


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
    """The picture on show at a moment; the first one before any began, None without pictures."""
    found = None
    for index, one in enumerate(slices):
        if found is None or one.start_us <= position_us:
            found = index
    return found


def passage_of(run: RunLog, role: str) -> Passage | None:
    """When a model's pictures went through it; None before they did, or where only a whole was measured."""
    first = next((span for name in ("preprocess", "vision") if (span := run.stage(name, role)) is not None), None)
    if first is None:
        return None
    vision, prefill = run.stage("vision", role), run.stage("prefill", role)
    return Passage(
        first.start_ns, None if vision is None else vision.end_ns, None if prefill is None else prefill.end_ns
    )
