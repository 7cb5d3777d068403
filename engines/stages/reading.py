"""Stage load: a sample's events or video frames brought onto the host; it knows no tensor and no model."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from engines.measuring.timing import OpenSpan, StageClock
from engines.stages.model import EVENTS, VIDEO, HostInputs
from evprof.core.errors import USAGE, UserError
from evprof.core.events import EventArray
from evprof.core.run_info import LoadingFacts
from evprof.core.sample import Sample
from evprof.loaders.clips import clip_events, rectified, video_window
from evprof.loaders.videos.opening import open_video
from evprof.loaders.videos.source import PILLOW

OFF = "off"

SPAN_LIMIT_US = 100_000
"""EventGPT was made for 50 ms and its own program refuses 100 ms and more; longer recordings run with a warning."""


def import_readers() -> None:
    for name in ("av", "PIL.Image"):
        with suppress(ImportError):
            importlib.import_module(name)
    for name in (
        "evprof.loaders.events.opening",
        "evprof.loaders.pictures.frame_folder",
        "evprof.loaders.pictures.render",
        "evprof.loaders.videos.file",
        "evprof.loaders.videos.folder",
    ):
        importlib.import_module(name)


def import_reader_of(path: str) -> None:
    """Imports the reader of a recording and its libraries, so that stage load does not pay for it."""
    from evprof.loaders.events.opening import form_of

    with suppress(OSError, ValueError, UserError):
        form = form_of(path)
        for name in (form.module, *_LIBRARIES.get(form.name, ())):
            with suppress(ImportError):
                importlib.import_module(name)
        if form.name == "h5":
            from evprof.loaders.events.hdf5.filters import register_filters

            with suppress(ImportError):
                register_filters()


_LIBRARIES = {
    "h5": ("h5py", "evprof.loaders.events.rectification"),
    "aedat4": ("lz4.frame", "backports.zstd"),
    "rosbag1": ("lz4.frame",),
}


def files_of(sample: Sample, kinds: Iterable[str]) -> list[str]:
    paths: list[str | None] = []
    if EVENTS in kinds:
        paths += [sample.events_path, sample.rectify_path]
    if VIDEO in kinds:
        paths += [sample.video_path, sample.video_times_path]
    return [path for path in paths if path is not None]


def read_events(sample: Sample, count: int | None, spans: StageClock) -> HostInputs:
    from evprof.loaders.pictures.frame_folder import is_frame_set

    path = sample.events_path
    if path is None:
        raise UserError("This model reads events and the sample has none; add --events PATH.", exit_code=USAGE)
    if Path(path).is_dir() or is_frame_set(path):
        return _read_frames(path, count, spans)
    from evprof.loaders.events.opening import form_of

    with ExitStack() as opened:
        with spans.child("open"):
            form = form_of(path)
            recording = opened.enter_context(form.open(path))
        with spans.child("read") as span:
            events = clip_events(recording, sample)
            _note_events(span, events)
        # The format's name and not the recording's own: what else that tells of itself may take as long as reading it.
        loading = LoadingFacts(recording.bytes_read, events=len(events), decoder=form.name)
        if sample.rectify_path is not None:
            with spans.child("rectify") as span:
                events = rectified(events, sample)
                _note_events(span, events)
            loading = replace(loading, bytes_read=recording.bytes_read + _sizes([Path(sample.rectify_path)]))
    return HostInputs(path, EVENTS, events=events, loading=loading)


_problems: dict[tuple[str, int, int], tuple[str, ...]] = {}


def recording_problems(path: str) -> tuple[str, ...]:
    from evprof.loaders.events.opening import open_recording

    try:
        status = Path(path).stat()
        if not Path(path).is_file():
            return ()
        key = (path, status.st_size, status.st_mtime_ns)
        if key not in _problems:
            with open_recording(path) as recording:
                _problems[key] = recording.info.problems
    except (OSError, ValueError, UserError):
        return ()
    return _problems[key]


def _note_events(span: OpenSpan, events: EventArray) -> None:
    for name in ("x", "y", "t_us", "p"):
        span.output(name, getattr(events, name))


def _read_frames(path: str, count: int | None, spans: StageClock) -> HostInputs:
    from evprof.loaders.pictures.frame_folder import load_event_frames

    with spans.child("read") as span:
        opened = load_event_frames(path, count)
        for index, picture in enumerate(opened.frames):
            span.output(f"event frame {index + 1}", picture)
    return HostInputs(
        path,
        EVENTS,
        pictures=tuple(opened.frames),
        # Nothing says when a ready-made picture's events happened.
        times_us=tuple((0, 0) for _ in opened.frames),
        labels=tuple(found.name for found in opened.paths),
        loading=LoadingFacts(_sizes(opened.paths), frames=len(set(opened.paths)), decoder=PILLOW),
    )


def _sizes(paths: Iterable[Path]) -> int:
    return sum(path.stat().st_size for path in set(paths))


def read_video(sample: Sample, count: int, spans: StageClock) -> HostInputs:
    path = sample.video_path
    if path is None:
        raise UserError("This model reads video and the sample has none; add --video PATH.", exit_code=USAGE)
    with ExitStack() as opened:
        with spans.child("open"):
            source = opened.enter_context(open_video(path, sample.video_times_path))
        with spans.child("demux"):
            source.index()
        source.parts = _Parts(spans)
        video = source.read_uniform(count, video_window(sample))
        loading = LoadingFacts(source.bytes_read, frames=len(set(video.indices)), decoder=video.decoder)
    frames = list(zip(video.indices, video.times_us, strict=True))
    return HostInputs(
        path,
        VIDEO,
        pictures=tuple(video.frames),
        times_us=tuple((time_us, time_us) for time_us in video.times_us),
        labels=tuple(f"frame {index} at {time_us / 1000:.0f} ms" for index, time_us in frames),
        loading=loading,
    )


class _Parts:
    def __init__(self, spans: StageClock) -> None:
        self._spans = spans

    def part(self, name: str) -> AbstractContextManager[Any]:
        return self._spans.child(name)


def span_warnings(host: HostInputs) -> tuple[str, ...]:
    """One sentence when a recording is longer than EventGPT was made for."""
    duration_us = host.events.duration_us if host.events is not None else None
    if duration_us is None or duration_us < SPAN_LIMIT_US:
        return ()
    return (
        f"{host.path} spans {duration_us / 1000:.1f} ms; EventGPT was trained on 50 ms and its own program refuses "
        "100 ms or more, so the answer may be poor.",
    )
