"""Says what a path holds, by content and not by suffix, and describes recordings and videos for `evprof inspect`."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Any

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.events.formats import format_of
from evprof.loaders.events.frames import EventFrames, frame_paths, is_frame_set, load_event_frames
from evprof.loaders.events.opening import EventSource, first_bytes, open_events, open_recording, read_events
from evprof.loaders.legacy.family import is_legacy
from evprof.loaders.manifests.manifest import is_manifest
from evprof.loaders.pictures.png import encode_png
from evprof.loaders.pictures.render import EVENTGPT_FRAMES, render_event_frames
from evprof.loaders.videos.file import VideoFile, probe_video

KINDS = ("events", "video", "manifest", "checkpoint", "session", "trace", "legacy")

ACCEPTED = (
    "event recordings (.npy, .npz, a folder of PNG event frames), videos, lists of samples (CSV, JSON or TOML with "
    "columns events and video, or EventGPT's instruction JSON), checkpoint folders (with a config.json), "
    "sessions (.evprof), torch traces (.pt.trace.json, .gz) and result files of earlier scripts (.json)"
)
"""What `probe` can tell apart, for sentences."""

_VIDEO_SUFFIXES = frozenset({".avi", ".h264", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".ts", ".webm", ".wmv"})

VIDEO_FRAMES = 8
"""Video-LLaVA's number of frames."""

SQLITE_MAGIC = b"SQLite format 3\x00"

_TRUSTED_SPAN_US = 100_000


def probe(path: str | Path, *, session_id: int | None = None) -> str:
    """One of KINDS. `session_id` is the SQLite application_id a session must carry (None: any SQLite file is one).

    Raises UserError that says what is accepted when the path holds nothing of the kind.
    """
    found = Path(path)
    if found.is_dir():
        return _probe_folder(found)
    if is_frame_set(found):
        frame_paths(found)
        return "events"
    start = first_bytes(path)
    if format_of(start) is not None:
        return "events"
    if start.startswith(SQLITE_MAGIC):
        if session_id is None or int.from_bytes(start[68:72], "big") == session_id:
            return "session"
        raise UserError(f"{path}: is a SQLite database but no evprof session; accepted are {ACCEPTED}.")
    return _text_kind(found, start) or _video_kind(found)


def _text_kind(path: Path, start: bytes) -> str | None:
    if _is_trace(path, start):
        return "trace"
    if is_legacy(path):
        return "legacy"
    return "manifest" if is_manifest(path) else None


def _video_kind(path: Path) -> str:
    try:
        with VideoFile(path):
            return "video"
    except UserError:
        # What a file calls itself decides nothing, but says which complaint is of use.
        if path.suffix.lower() in _VIDEO_SUFFIXES:
            raise
        if path.suffix.lower() in (".npy", ".npz"):
            read_events(path)
        raise UserError(f"{path}: is of no known kind; accepted are {ACCEPTED}.") from None


def _probe_folder(folder: Path) -> str:
    if (folder / "config.json").is_file():
        return "checkpoint"
    try:
        frame_paths(folder)
    except UserError:
        raise UserError(
            f"{folder}: the folder holds neither a config.json nor PNG event frames; accepted are {ACCEPTED}."
        ) from None
    return "events"


def _is_trace(path: Path, start: bytes) -> bool:
    """Whether a JSON file, plain or gzipped, begins like a Kineto or Chrome trace."""
    head = start
    try:
        if start.startswith(b"\x1f\x8b"):
            with gzip.open(path) as file:
                head = file.read(65_536)
        elif start.lstrip()[:1] in (b"{", b"["):
            with path.open("rb") as plain:
                head = plain.read(65_536)
    except (OSError, EOFError, zlib.error):
        return False
    if head.lstrip()[:1] not in (b"{", b"["):
        return False
    return any(word in head for word in (b'"traceEvents"', b'"schemaVersion"', b'"deviceProperties"', b'"ph"'))


def inspect_events(path: str | Path) -> dict[str, Any]:
    """The `inspect` document of an event recording; what a folder of frames cannot say is None. Raises UserError."""
    if Path(path).is_dir() or is_frame_set(path):
        source = load_event_frames(path)
        return _document(path, "events", _frame_problems(source)) | {
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
    with open_recording(path) as recording:
        events = recording.read()
        info = recording.info
    return _document(path, "events", [*info.problems, *event_problems(events)]) | {
        "format": info.format,
        "events": len(events),
        "width": info.width or events.width,
        "height": info.height or events.height,
        "duration_us": events.duration_us,
        "t_min_us": events.t_min_us,
        "t_max_us": events.t_max_us,
        "positive_fraction": events.positive_fraction,
    }


def inspect_video(path: str | Path) -> dict[str, Any]:
    """The `inspect` document of a video. Raises UserError."""
    info = probe_video(path)
    problems = [] if info.frames > 1 else ["The video holds a single frame; every sampled frame will be this one."]
    return _document(path, "video", problems) | {
        "codec": info.codec,
        "frames": info.frames,
        "width": info.width,
        "height": info.height,
        "duration_ms": info.duration_ms,
        "gop_frames": info.gop_frames,
    }


def _document(path: str | Path, kind: str, problems: list[str]) -> dict[str, Any]:
    return {"schema_version": 1, "path": str(path), "kind": kind, "problems": problems}


def event_problems(events: EventArray) -> list[str]:
    """What a reader of results from these events should know."""
    problems: list[str] = []
    duration_us = events.duration_us or 0
    if not events.is_sorted:
        problems.append("The events are not in time order; event frames are cut in file order, as EventGPT does.")
    if duration_us >= _TRUSTED_SPAN_US:
        problems.append(
            f"The recording spans {duration_us / 1000:.1f} ms; EventGPT was made for 50 ms and its own code refuses "
            "100 ms or more."
        )
    if duration_us == 0:
        problems.append("All events carry the same time.")
    if len(events) < EVENTGPT_FRAMES:
        problems.append(f"{len(events)} events are too few for EventGPT's {EVENTGPT_FRAMES} event frames.")
    return problems


def _frame_problems(source: EventFrames) -> list[str]:
    sizes = {frame.shape[:2] for frame in source.frames}
    return [] if len(sizes) == 1 else [f"The event frames have {len(sizes)} different sizes."]


def save_model_frames(path: str | Path, count: int | None, folder: str | Path) -> list[Path]:
    """Writes the frames a model would be shown, before its own resizing, as lossless PNGs; returns their paths.

    Events become `count` (default 5) EventGPT renderings, a video or a folder of frames `count` (default 8; all)
    evenly spread ones. Files are called `frame_00.png` on; raises UserError before overwriting any that is there.
    """
    kind = probe(path)
    if kind == "video":
        with VideoFile(path) as video:
            video.index()
            frames = video.read_uniform(VIDEO_FRAMES if count is None else count).frames
    elif kind == "events":
        frames = _event_pictures(open_events(path, count), count)
    else:
        raise UserError(f"{path}: is a {kind}, which has no frames; give an event recording or a video.")
    target = Path(folder)
    paths = [target / f"frame_{index:0{max(2, len(str(len(frames) - 1)))}d}.png" for index in range(len(frames))]
    taken = next((existing for existing in paths if existing.exists()), None)
    if taken is not None:
        raise UserError(f"{taken}: already there; give --save-frames an empty folder.")
    try:
        target.mkdir(parents=True, exist_ok=True)
        for frame_path, frame in zip(paths, frames, strict=True):
            frame_path.write_bytes(encode_png(frame))
    except OSError as error:
        raise UserError(f"{folder}: frames cannot be written there ({error.strerror or error}).") from None
    return paths


def _event_pictures(source: EventSource, count: int | None) -> list[Any]:
    if isinstance(source, EventFrames):
        return list(source.frames)
    return list(render_event_frames(source, EVENTGPT_FRAMES if count is None else count))
