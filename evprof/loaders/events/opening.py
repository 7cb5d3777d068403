"""Opens an event recording whatever its format, which its content shows.

Readers are named, not imported: what one needs is loaded when a file of its format is opened.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.events.hdf5.stored import begins_as_hdf5
from evprof.loaders.events.ncaltech import begins_as_ncaltech
from evprof.loaders.events.prophesee.raw import names
from evprof.loaders.events.recording import HEAD_BYTES, EventRecording
from evprof.loaders.events.text_sniffing import begins_as_text
from evprof.loaders.paths import first_bytes

_KEPT_BYTES = 24 << 20


def keep_scratch() -> None:
    """Call before decoding; costs microseconds and takes no memory.

    glibc returns freed memory to the system above thresholds that start at 128 KiB and grow to what was freed last.
    Until then every array of a block is made of new pages, which the system must clear: a first EVT3 recording took
    three times as long (118,000 page faults instead of 3,000). Elsewhere this does nothing.
    """
    np.empty(_KEPT_BYTES, np.uint8)


@dataclass(frozen=True)
class Format:
    """One way of keeping events in a file.

    `begins` looks at the first HEAD_BYTES and says whether the file claims to be one. `module` and `opener` name what
    opens a path as an EventRecording and raises UserError when the claim does not hold. `title` is for people.
    """

    name: str
    title: str
    begins: Callable[[bytes], bool]
    module: str
    opener: str = "open_recording"

    def open(self, path: str | Path) -> EventRecording:
        keep_scratch()
        opened: EventRecording = getattr(importlib.import_module(self.module), self.opener)(path)
        return opened


def _starts(*magics: bytes) -> Callable[[bytes], bool]:
    return lambda head: head.startswith(magics)


_ROOM = "evprof.loaders.events"
_RAW = f"{_ROOM}.prophesee.raw"

FORMATS: tuple[Format, ...] = (
    Format("npy", "NumPy .npy (EventGPT's dict, structured, N x 4)", _starts(b"\x93NUMPY"), f"{_ROOM}.npy"),
    Format("npz", "NumPy .npz", _starts(b"PK\x03\x04"), f"{_ROOM}.npz"),
    Format("h5", "HDF5 (DSEC, M3ED and relatives)", begins_as_hdf5, f"{_ROOM}.hdf5.recording"),
    Format("evt2", "Prophesee RAW, EVT2", partial(names, "evt2"), _RAW, "open_raw"),
    Format("evt2.1", "Prophesee RAW, EVT2.1", partial(names, "evt2.1"), _RAW, "open_raw"),
    Format("evt3", "Prophesee RAW, EVT3", partial(names, "evt3"), _RAW, "open_raw"),
    Format("dat", "Prophesee DAT", partial(names, "dat"), _RAW, "open_dat"),
    Format("aedat4", "AEDAT4", _starts(b"#!AER-DAT4.0\r\n"), f"{_ROOM}.aedat.aedat4", "Aedat4"),
    Format("aedat3.1", "AEDAT 3.1", _starts(b"#!AER-DAT3."), f"{_ROOM}.aedat.aedat3", "Aedat3"),
    Format("aedat2", "AEDAT 2.0", _starts(b"#!AER-DAT2.0"), f"{_ROOM}.aedat.aedat2", "Aedat2"),
    Format("rosbag1", "ROS 1 bags", _starts(b"#ROSBAG V"), f"{_ROOM}.rosbag", "Rosbag"),
    Format("es", "Event Stream (.es)", _starts(b"Event Stream"), f"{_ROOM}.event_stream", "EventStream"),
    # After all others that are text: any table of numbers begins like it.
    Format("csv", "text with one event per line (.csv, .txt, also gzipped)", begins_as_text, f"{_ROOM}.text_recording"),
    Format("n-caltech", "N-Caltech101 and N-MNIST .bin", begins_as_ncaltech, f"{_ROOM}.ncaltech"),
)
"""In the order they are tried; the last one has no mark of its own and must stay the last."""


def format_titles() -> str:
    """What there is, for sentences: without what stands in parentheses, and kinds of one format once."""
    return ", ".join(dict.fromkeys(re.sub(r"(, EVT.*| \(.*\))$", "", form.title) for form in FORMATS))


def format_of(head: bytes) -> Format | None:
    return next((form for form in FORMATS if form.begins(head)), None)


def form_of(path: str | Path) -> Format:
    """The format of a file, which its content shows. Raises UserError when it is not an event recording."""
    form = format_of(first_bytes(path, HEAD_BYTES))
    if form is None:
        raise UserError(
            f"{path}: is not an event recording. evprof reads {format_titles()}, and folders of PNG event frames."
        )
    return form


def open_recording(path: str | Path) -> EventRecording:
    """An open recording of a file, its format which its content shows. Raises UserError."""
    return form_of(path).open(path)


def read_events(path: str | Path) -> EventArray:
    with open_recording(path) as recording:
        return recording.read()
