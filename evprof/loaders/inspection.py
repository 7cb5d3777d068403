"""Recordings, videos and sequences as the documents of `evprof inspect`; what was not found out is None."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evprof.loaders.event_survey import MOST_SURVEYED, survey
from evprof.loaders.events.opening import open_recording
from evprof.loaders.events.recording import RecordingInfo
from evprof.loaders.pictures.frame_folder import EventFrames, is_frame_set, load_event_frames
from evprof.loaders.sequences.sequence import open_sequence
from evprof.loaders.videos.opening import open_video


def inspect_events(path: str | Path) -> dict[str, Any]:
    """The `inspect` document of an event recording or a folder of event frames. Raises UserError.

    Long recordings are not read through: what they say of themselves stands there, and None for the rest.
    """
    if Path(path).is_dir() or is_frame_set(path):
        return _of_frames(path, load_event_frames(path))
    with open_recording(path) as recording:
        info = recording.info
        if info.events is not None and info.events > MOST_SURVEYED:
            return _document(path, "events", list(info.problems)) | _of_info(info) | _details(info)
        found = survey(recording)
        info = recording.info
    if not found.is_whole:
        cut = f"Only the first {found.events:,} events were looked at."
        return _document(path, "events", [*info.problems, cut]) | _of_info(info) | _details(info)
    document = _document(path, "events", [*info.problems, *found.problems()]) | {
        "format": info.format,
        "events": found.events,
        "width": info.width or found.width,
        "height": info.height or found.height,
        "duration_us": found.duration_us,
        "t_min_us": found.t_min_us,
        "t_max_us": found.t_max_us,
        "positive_fraction": found.positive / found.events if found.events else None,
    }
    return document | _details(info)


def _of_info(info: RecordingInfo) -> dict[str, Any]:
    is_timed = info.t_min_us is not None and info.t_max_us is not None
    return {
        "format": info.format,
        "events": info.events,
        "width": info.width,
        "height": info.height,
        "duration_us": (info.t_max_us or 0) - (info.t_min_us or 0) if is_timed else None,
        "t_min_us": info.t_min_us,
        "t_max_us": info.t_max_us,
        "positive_fraction": None,
    }


def _details(info: RecordingInfo) -> dict[str, Any]:
    return {"details": dict(info.details)} if info.details else {}


def _of_frames(path: str | Path, source: EventFrames) -> dict[str, Any]:
    sizes = {frame.shape[:2] for frame in source.frames}
    problems = [] if len(sizes) == 1 else [f"The event frames have {len(sizes)} different sizes."]
    return _document(path, "events", problems) | {
        "format": "frames",
        "events": None,
        "width": max(frame.shape[1] for frame in source.frames),
        "height": max(frame.shape[0] for frame in source.frames),
        "duration_us": None,
        "t_min_us": None,
        "t_max_us": None,
        "positive_fraction": None,
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
