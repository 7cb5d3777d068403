"""Opens an event recording whatever its format: events from files, ready-made frames from a folder."""

from __future__ import annotations

from pathlib import Path

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.events.file_head import HEAD_BYTES
from evprof.loaders.events.formats import Format, format_of, format_titles
from evprof.loaders.events.recording import EventRecording
from evprof.loaders.paths import first_bytes


def form_of(path: str | Path) -> Format:
    """The format of a file, told by content. Raises UserError when it is no event recording."""
    form = format_of(first_bytes(path, HEAD_BYTES))
    if form is None:
        raise UserError(f"{path}: is no event recording; read are {format_titles()}, and folders of PNG event frames.")
    return form


def open_recording(path: str | Path) -> EventRecording:
    """An open recording of a file, its format told by content. Raises UserError."""
    return form_of(path).open(path)


def read_events(path: str | Path) -> EventArray:
    with open_recording(path) as recording:
        return recording.read()
