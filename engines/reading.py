"""Stage load: a sample's events or video frames brought onto the host; it knows no tensor and no model."""

from __future__ import annotations

import importlib

from engines.model import EVENTS, VIDEO, HostInputs
from engines.timing import StageClock
from evprof.core.errors import USAGE, UserError
from evprof.core.events import EventArray
from evprof.core.sample import Sample

SPAN_LIMIT_US = 100_000
"""EventGPT was made for 50 ms and its own program refuses 100 ms and more; longer recordings run with a warning."""


def import_readers() -> None:
    """Imports what reading needs, so that the first run's stage load times reading and not Python's imports."""
    for name in (
        "av",
        "PIL.Image",
        "evprof.loaders.events.opening",
        "evprof.loaders.pictures.render",
        "evprof.loaders.videos.file",
    ):
        importlib.import_module(name)


def read_input(
    kind: str, sample: Sample, spans: StageClock, *, event_frames: int | None, video_frames: int
) -> HostInputs:
    """The half of the sample that `kind` names: see `read_events` and `read_video`."""
    if kind == EVENTS:
        return read_events(sample, event_frames, spans)
    return read_video(sample, video_frames, spans)


def read_events(sample: Sample, count: int | None, spans: StageClock) -> HostInputs:
    """The sample's event recording, or its folder of PNG event frames: all of them, or `count` spread evenly."""
    from evprof.loaders.events.opening import open_events

    path = sample.events_path
    if path is None:
        raise UserError("This model reads events and the sample has none; add --events PATH.", exit_code=USAGE)
    with spans.child("read events") as span:
        opened = open_events(path, count)
        if isinstance(opened, EventArray):
            for name in ("x", "y", "t_us", "p"):
                span.output(name, getattr(opened, name))
        else:
            for index, picture in enumerate(opened.frames):
                span.output(f"event frame {index + 1}", picture)
    if isinstance(opened, EventArray):
        return HostInputs(path, EVENTS, events=opened)
    return HostInputs(
        path,
        EVENTS,
        pictures=tuple(opened.frames),
        # Nothing says when a ready-made picture's events happened.
        times_us=tuple((0, 0) for _ in opened.frames),
        labels=tuple(found.name for found in opened.paths),
    )


def read_video(sample: Sample, count: int, spans: StageClock) -> HostInputs:
    """`count` uniformly sampled frames of the sample's video, with their times."""
    from evprof.loaders.videos.file import VideoFile

    path = sample.video_path
    if path is None:
        raise UserError("This model reads video and the sample has none; add --video PATH.", exit_code=USAGE)
    with VideoFile(path) as file:
        with spans.child("demux"):
            file.index()
        with spans.child("decode frames") as span:
            video = file.read_uniform(count)
            for index, picture in zip(video.indices, video.frames, strict=True):
                span.output(f"frame {index}", picture)
    return HostInputs(
        path,
        VIDEO,
        pictures=tuple(video.frames),
        times_us=tuple((time_us, time_us) for time_us in video.times_us),
        labels=tuple(
            f"frame {index} at {time_us / 1000:.0f} ms"
            for index, time_us in zip(video.indices, video.times_us, strict=True)
        ),
    )


def span_warnings(host: HostInputs) -> tuple[str, ...]:
    """One sentence when a recording is longer than EventGPT was made for."""
    duration_us = host.events.duration_us if host.events is not None else None
    if duration_us is None or duration_us < SPAN_LIMIT_US:
        return ()
    return (
        f"{host.path} spans {duration_us / 1000:.1f} ms; EventGPT was trained on 50 ms and its own program refuses "
        "100 ms or more, so the answer may be poor.",
    )
