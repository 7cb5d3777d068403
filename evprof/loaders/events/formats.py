"""The event formats there are: how each is recognised by content, and which file reads it.

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

from evprof.loaders.events.file_head import NPY_MAGIC, ZIP_MAGIC
from evprof.loaders.events.hdf5.stored import begins_as_hdf5
from evprof.loaders.events.ncaltech import begins_as_ncaltech
from evprof.loaders.events.prophesee.raw import names
from evprof.loaders.events.recording import EventRecording
from evprof.loaders.events.text_sniffing import begins_as_text

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


FORMATS: tuple[Format, ...] = (
    Format("npy", "NumPy .npy (EventGPT's dict, structured, N x 4)", _starts(NPY_MAGIC), "evprof.loaders.events.npy"),
    Format("npz", "NumPy .npz", _starts(ZIP_MAGIC), "evprof.loaders.events.npz"),
    Format("h5", "HDF5 (DSEC, M3ED and relatives)", begins_as_hdf5, "evprof.loaders.events.hdf5.recording"),
    Format("evt2", "Prophesee RAW, EVT2", partial(names, "evt2"), "evprof.loaders.events.prophesee.raw", "open_raw"),
    Format(
        "evt2.1", "Prophesee RAW, EVT2.1", partial(names, "evt2.1"), "evprof.loaders.events.prophesee.raw", "open_raw"
    ),
    Format("evt3", "Prophesee RAW, EVT3", partial(names, "evt3"), "evprof.loaders.events.prophesee.raw", "open_raw"),
    Format("dat", "Prophesee DAT", partial(names, "dat"), "evprof.loaders.events.prophesee.raw", "open_dat"),
    Format("aedat4", "AEDAT4", _starts(b"#!AER-DAT4.0\r\n"), "evprof.loaders.events.aedat.aedat4", "Aedat4"),
    Format("aedat3.1", "AEDAT 3.1", _starts(b"#!AER-DAT3."), "evprof.loaders.events.aedat.aedat3", "Aedat3"),
    Format("aedat2", "AEDAT 2.0", _starts(b"#!AER-DAT2.0"), "evprof.loaders.events.aedat.aedat2", "Aedat2"),
    Format("rosbag1", "ROS 1 bags", _starts(b"#ROSBAG V"), "evprof.loaders.events.rosbag", "Rosbag"),
    Format("es", "Event Stream (.es)", _starts(b"Event Stream"), "evprof.loaders.events.event_stream", "EventStream"),
    # After all others that are text: any table of numbers begins like it.
    Format(
        "csv",
        "text with one event per line (.csv, .txt, also gzipped)",
        begins_as_text,
        "evprof.loaders.events.text_recording",
    ),
    Format(
        "n-caltech",
        "N-Caltech101 and N-MNIST .bin",
        begins_as_ncaltech,
        "evprof.loaders.events.ncaltech",
    ),
)
"""In the order they are tried; the last one has no mark of its own and must stay the last."""


def format_titles() -> str:
    """What there is, for sentences: without what stands in parentheses, and kinds of one format once."""
    return ", ".join(dict.fromkeys(re.sub(r"(, EVT.*| \(.*\))$", "", form.title) for form in FORMATS))


def format_of(head: bytes) -> Format | None:
    return next((form for form in FORMATS if form.begins(head)), None)
