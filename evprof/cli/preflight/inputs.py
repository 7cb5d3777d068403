"""Whether a sample's files are what they are given as, can be read, and reach as far as the sample asks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from evprof.core.errors import UserError
from evprof.core.sample import Sample

_MOST_READ = 16 << 20
"""Bytes of a recording whose first events are read; of larger ones the header must do."""


def check_sample(sample: Sample) -> None:
    """Raises UserError for a recording or video that cannot be read, is the other kind, or ends before the clip."""
    if sample.events_path is not None:
        _as_kind("events", sample.events_path, lambda: _check_events(sample))
    if sample.video_path is not None:
        _as_kind("video", sample.video_path, lambda: _check_video(sample))


def _as_kind(kind: str, path: str, check: Callable[[], None]) -> None:
    """Where a file cannot be read as what it was given as, what it is instead is worth more than why not."""
    from evprof.loaders.probe import probe

    try:
        check()
    except UserError:
        try:
            found = probe(path)
        except UserError:
            found = ""
        if found and found != kind:
            raise UserError(_other_kind(kind, path, found)) from None
        raise


def _other_kind(kind: str, path: str, found: str) -> str:
    what = {"events": "an event recording", "video": "a video", "sequence": "a folder with events and video"}
    told = what.get(found, f"a {found}")
    option = {"events": "--events", "video": "--video", "sequence": "--sample"}.get(found)
    better = {
        "session": "evprof show reads it",
        "manifest": "evprof suite takes lists of samples",
        "checkpoint": "--draft and --target take models",
        "legacy": "evprof import reads it",
        "trace": "name an event recording or a video",
    }
    end = f"did you mean {option}?" if option else f"{better[found]}."
    return f"--{kind}: '{path}' is {told}; {end}"


def _check_events(sample: Sample) -> None:
    from evprof.loaders.clips import check_clip
    from evprof.loaders.events.opening import open_recording
    from evprof.loaders.pictures.frame_folder import is_frame_set
    from evprof.loaders.probe import probe

    path = str(sample.events_path)
    if Path(path).is_dir() or is_frame_set(path):
        if (found := probe(path)) != "events":
            raise UserError(_other_kind("events", path, found))
        return
    with open_recording(path) as recording:
        check_clip(recording, sample)
        if Path(path).stat().st_size <= _MOST_READ:
            next(iter(recording.chunks()), None)


def _check_video(sample: Sample) -> None:
    from evprof.loaders.clips import clip_frames
    from evprof.loaders.videos.opening import open_video

    with open_video(str(sample.video_path), sample.video_times_path) as video:
        clip_frames(video, sample, 1)
