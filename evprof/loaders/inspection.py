"""Recordings, videos and sequences as the documents of `evprof inspect`; what was not found out is None."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evprof.core.events import EventArray
from evprof.loaders.events.opening import open_recording
from evprof.loaders.events.recording import EventRecording
from evprof.loaders.pictures.frame_folder import EventFrames, is_frame_set, load_event_frames
from evprof.loaders.pictures.render import EVENTGPT_FRAMES
from evprof.loaders.sequences.sequence import open_sequence
from evprof.loaders.videos.opening import open_video

MOST_SURVEYED = 20_000_000
"""Events after which reading on would keep a person waiting."""

_TRUSTED_SPAN_US = 100_000


@dataclass
class EventSurvey:
    """What the events seen so far are; `is_whole` once the recording was read to its end."""

    events: int = 0
    positive: int = 0
    width: int = 0
    height: int = 0
    t_min_us: int | None = None
    t_max_us: int | None = None
    is_sorted: bool = True
    is_whole: bool = False
    _last_us: int | None = None

    def add(self, events: EventArray) -> None:
        first, last = int(events.t_us[0]), int(events.t_us[-1])
        low, high = int(events.t_us.min()), int(events.t_us.max())
        self.is_sorted = self.is_sorted and events.is_sorted and (self._last_us is None or first >= self._last_us)
        self._last_us = last
        self.events += len(events)
        self.positive += int(events.p.sum(dtype="int64"))
        self.width, self.height = max(self.width, events.width), max(self.height, events.height)
        self.t_min_us = low if self.t_min_us is None else min(self.t_min_us, low)
        self.t_max_us = high if self.t_max_us is None else max(self.t_max_us, high)

    @property
    def duration_us(self) -> int | None:
        return None if self.t_min_us is None or self.t_max_us is None else self.t_max_us - self.t_min_us

    def problems(self) -> list[str]:
        if not self.events:
            return ["The recording holds no events."]
        problems: list[str] = []
        duration_us = self.duration_us or 0
        if not self.is_sorted:
            problems.append("The events are not in time order; event frames are cut in file order, as EventGPT does.")
        if duration_us >= _TRUSTED_SPAN_US:
            problems.append(
                f"The recording spans {duration_us / 1000:.1f} ms; EventGPT was made for 50 ms and its own code "
                "refuses 100 ms or more."
            )
        if duration_us == 0:
            problems.append("All events carry the same time.")
        if self.events < EVENTGPT_FRAMES:
            problems.append(f"{self.events:,} events are too few for EventGPT's {EVENTGPT_FRAMES} event frames.")
        return problems


def survey(recording: EventRecording, most: int = MOST_SURVEYED) -> EventSurvey:
    found = EventSurvey()
    for chunk in recording.chunks():
        if found.events >= most:
            return found
        found.add(chunk)
    found.is_whole = True
    return found


def inspect_events(path: str | Path) -> dict[str, Any]:
    """The `inspect` document of an event recording or a folder of event frames. Raises UserError.

    Long recordings are not read through: the document has what they say of themselves, and None for the rest.
    """
    if Path(path).is_dir() or is_frame_set(path):
        return _of_frames(path, load_event_frames(path))
    found = EventSurvey()
    with open_recording(path) as recording:
        info = recording.info
        is_long = info.events is not None and info.events > MOST_SURVEYED
        if not is_long:
            found = survey(recording)
            info = recording.info
    problems = list(info.problems)
    if found.is_whole:
        problems += found.problems()
    elif not is_long:
        problems.append(f"Only the first {found.events:,} events were looked at.")
    low, high = (found.t_min_us, found.t_max_us) if found.is_whole else (info.t_min_us, info.t_max_us)
    return _document(path, "events", problems) | {
        "format": info.format,
        "events": found.events if found.is_whole else info.events,
        "width": info.width or (found.width if found.is_whole else None),
        "height": info.height or (found.height if found.is_whole else None),
        "duration_us": None if low is None or high is None else high - low,
        "t_min_us": low,
        "t_max_us": high,
        "positive_fraction": found.positive / found.events if found.is_whole and found.events else None,
        **({"details": dict(info.details)} if info.details else {}),
    }


def _of_frames(path: str | Path, source: EventFrames) -> dict[str, Any]:
    sizes = {frame.shape[:2] for frame in source.frames}
    problems = [] if len(sizes) == 1 else [f"The event frames have {len(sizes)} different sizes."]
    unknown = dict.fromkeys(("duration_us", "t_min_us", "t_max_us", "positive_fraction"))
    return _document(path, "events", problems) | {
        "format": "frames",
        "events": None,
        "width": max(width for _, width in sizes),
        "height": max(height for height, _ in sizes),
        **unknown,
        "frames": len(source.frames),
    }


def inspect_video(path: str | Path, times_path: str | Path | None = None) -> dict[str, Any]:
    """The `inspect` document of a video or a folder of pictures. Raises UserError."""
    with open_video(path, times_path) as video:
        video.index()
        info = video.info()
    single = [] if info.frames > 1 else ["The video holds a single frame; every sampled frame will be this one."]
    return _document(path, "video", [*single, *info.problems]) | {
        "codec": info.codec,
        "frames": info.frames,
        "width": info.width,
        "height": info.height,
        "duration_ms": info.duration_ms,
        "gop_frames": info.gop_frames,
    }


def inspect_sequence(path: str | Path) -> dict[str, Any]:
    """The `inspect` document of a folder with a recording and its video: both halves and their clocks."""
    found = open_sequence(path)
    events = inspect_events(found.events_path)
    video = None if found.video_path is None else inspect_video(found.video_path, found.video_times_path)
    clock = found.clock
    common = clock.common_us if found.video_path is not None else None
    halves = (("events", events), ("video", video))
    told = [f"{name}: {sentence}" for name, half in halves if half for sentence in half["problems"]]
    return _document(path, "sequence", [*clock.problems, *told]) | {
        "name": found.name,
        "events": events,
        "video": video,
        "video_offset_ms": clock.offset_us / 1000 if video is not None else None,
        "offset_is_exact": clock.is_exact,
        "common_start_ms": None if common is None else common[0] / 1000,
        "common_duration_ms": None if common is None else (common[1] - common[0]) / 1000,
        "video_times": found.video_times_path,
        "rectify": found.rectify_path,
    }


def _document(path: str | Path, kind: str, problems: list[str]) -> dict[str, Any]:
    return {"schema_version": 1, "path": str(path), "kind": kind, "problems": problems}
