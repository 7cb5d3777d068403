"""Opens an event recording whatever its format: events from `.npy` and `.npz`, ready-made frames from a folder."""

from __future__ import annotations

from pathlib import Path

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.events.frames import EventFrames, is_frame_set, load_event_frames
from evprof.loaders.events.npy import MAGIC, read_npy_events
from evprof.loaders.events.npz import read_npz_events
from evprof.loaders.paths import readable_file, reason

EventSource = EventArray | EventFrames
"""Events, or event frames that somebody else rendered."""

ZIP_MAGIC = b"PK\x03\x04"


def first_bytes(path: str | Path, count: int = 128) -> bytes:
    """The first `count` bytes of an existing, non-empty file. Raises UserError."""
    found = readable_file(path)
    try:
        with found.open("rb") as file:
            return file.read(count)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({reason(error)}); check its permissions and the disk.") from None


def read_events(path: str | Path) -> EventArray:
    """Events of a `.npy` or `.npz` file, told apart by content. Raises UserError."""
    start = first_bytes(path)
    if start.startswith(MAGIC):
        return read_npy_events(path)
    if start.startswith(ZIP_MAGIC):
        return read_npz_events(path)
    raise UserError(f"{path}: is no event recording; .npy, .npz and folders of PNG event frames are read.")


def open_events(path: str | Path, count: int | None = None) -> EventSource:
    """Events of a file, or the frames of a folder (with `count`, that many spread evenly). Raises UserError."""
    if Path(path).is_dir() or is_frame_set(path):
        return load_event_frames(path, count)
    return read_events(path)
