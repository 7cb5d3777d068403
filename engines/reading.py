"""Stage load: a sample's events or video frames brought onto the host; it knows no tensor and no model."""

from __future__ import annotations

from engines.model import HostInputs
from engines.timing import StageClock
from evprof.core.errors import USAGE, UserError
from evprof.core.events import EventArray
from evprof.core.sample import Sample

SPAN_LIMIT_US = 100_000
"""EventGPT was made for 50 ms and its own program refuses 100 ms and more; longer recordings run with a warning."""


def read_events(sample: Sample, count: int | None, default: int, spans: StageClock) -> HostInputs:
    """The sample's event recording, or its folder of PNG event frames.

    Of a folder, `count` frames (or `default`, when it has that many) are taken at even distances.
    """
    from evprof.loaders.events import open_events

    path = sample.events_path
    if path is None:
        raise UserError("This model reads events and the sample has none; add --events PATH.", exit_code=USAGE)
    with spans.child("read events") as span:
        opened = open_events(path)
        if isinstance(opened, EventArray):
            for name in ("x", "y", "t_us", "p"):
                span.output(name, getattr(opened, name))
            return HostInputs(path, events=opened, warnings=_span_warnings(path, opened))
        pictures = list(opened)
        if count is not None and count > len(pictures):
            raise UserError(
                f"{path} holds {len(pictures)} event frames, fewer than the {count} asked for; lower --event-frames."
            )
        wanted = min(count or default, len(pictures))
        chosen = [round(index * (len(pictures) - 1) / max(wanted - 1, 1)) for index in range(wanted)]
        for index in chosen:
            span.output(f"frame {index}", pictures[index])
    return HostInputs(
        path,
        pictures=tuple(pictures[index] for index in chosen),
        times_us=tuple((0, 0) for _ in chosen),
        labels=tuple(f"event frame {index + 1}" for index in chosen),
    )


def read_video(sample: Sample, count: int, spans: StageClock) -> HostInputs:
    """`count` uniformly sampled frames of the sample's video, with their times."""
    from evprof.loaders.video import read_video_frames

    path = sample.video_path
    if path is None:
        raise UserError("This model reads video and the sample has none; add --video PATH.", exit_code=USAGE)
    with spans.child("demux+decode") as span:
        video = read_video_frames(path, count)
        for index, picture in zip(video.indices, video.frames, strict=True):
            span.output(f"frame {int(index)}", picture)
    return HostInputs(
        path,
        pictures=tuple(video.frames),
        times_us=tuple((int(time_us), int(time_us)) for time_us in video.times_us),
        labels=tuple(f"video frame {int(index)}" for index in video.indices),
    )


def _span_warnings(path: str, events: EventArray) -> tuple[str, ...]:
    duration_us = events.duration_us
    if duration_us is None or duration_us < SPAN_LIMIT_US:
        return ()
    return (
        f"{path} spans {duration_us / 1000:.1f} ms; EventGPT was trained on 50 ms and its own program refuses 100 ms "
        "or more, so the answer may be poor.",
    )
