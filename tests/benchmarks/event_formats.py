"""The files that `run.py events` compares readers on: who writes each, and which library reads it beside us."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.event_files import write_aedat2, write_aedat3, write_evt21, write_ncaltech
from benchmarks.moving_edges import HEIGHT, WIDTH
from evprof.core.events import EventArray
from evprof.loaders.writers.hdf5 import write_dsec
from evprof.loaders.writers.npy import write_npy, write_npz
from evprof.loaders.writers.raw import write_dat, write_evt2, write_evt3

_PIECE_EVENTS = 1 << 20
DSEC = "dsec-h5 blosc-zstd"


@dataclass(frozen=True)
class Contest:
    """A format: file name, who writes it (from events that fit, see `event_readers.FITS`), and libraries that read it.

    The first library that is installed takes part. `needs` names the library that writes; `alone` says why none reads.
    """

    name: str
    file: str
    write: Callable[[Path, EventArray], Any]
    libraries: tuple[str, ...] = ()
    fit: str = "as it is"
    needs: str | None = None
    alone: str | None = None


def _pieces(events: EventArray) -> list[EventArray]:
    starts = range(0, len(events), _PIECE_EVENTS)
    return [events.slice_count(start, start + _PIECE_EVENTS) for start in starts]


def _sized(write: Callable[..., Any]) -> Callable[[Path, EventArray], Any]:
    return lambda path, events: write(path, _pieces(events), width=WIDTH, height=HEIGHT)


def _npy(layout: str) -> Callable[[Path, EventArray], Any]:
    return lambda path, events: write_npy(path, _pieces(events), layout=layout)


def _dsec(compression: str) -> Callable[[Path, EventArray], Any]:
    return lambda path, events: write_dsec(path, _pieces(events), compression=compression)


def _evt21(*, is_legacy: bool) -> Callable[[Path, EventArray], Any]:
    return lambda path, events: write_evt21(path, events, width=WIDTH, height=HEIGHT, is_legacy=is_legacy)


def _faery(**options: Any) -> Callable[[Path, EventArray], Any]:
    def write(path: Path, events: EventArray) -> None:
        faery = importlib.import_module("faery")
        rows = np.empty(len(events), faery.EVENTS_DTYPE)
        rows["t"], rows["x"], rows["y"], rows["p"] = events.t_us, events.x, events.y, events.p
        faery.events_stream_from_array(rows, (WIDTH, HEIGHT)).to_file(path, zero_t0=False, **options)

    return write


def _aedat4(compression: str | None) -> Contest:
    options = {"file_type": "aedat", "compression": None if compression is None else (compression, 1)}
    name = f"aedat4 {compression or 'none'}"
    return Contest(name, f"{name.replace(' ', '-')}.aedat4", _faery(**options), ("aedat",), needs="faery")


_NO_READER = "no library of this comparison reads it"

CONTESTS = (
    Contest("npy dict", "dict.npy", _npy("dict"), ("numpy",)),
    Contest("npy structured", "structured.npy", _npy("structured"), ("numpy",)),
    Contest("npz", "plain.npz", lambda path, events: write_npz(path, _pieces(events)), ("numpy",)),
    Contest(DSEC, "zstd.h5", _dsec("blosc-zstd"), ("h5py",), needs="h5py"),
    Contest("dsec-h5 gzip", "gzip.h5", _dsec("gzip"), ("h5py",), needs="h5py"),
    Contest("evt2", "evt2.raw", _sized(write_evt2), ("faery",)),
    Contest("evt2.1", "evt21.raw", _evt21(is_legacy=False), alone="faery does not read EVT2.1"),
    Contest("evt2.1 legacy", "legacy.raw", _evt21(is_legacy=True), alone="faery does not read EVT2.1"),
    Contest("evt3", "evt3.raw", _sized(write_evt3), ("faery",)),
    Contest("dat", "cd.dat", _sized(write_dat), ("faery",)),
    _aedat4(None),
    _aedat4("lz4"),
    _aedat4("zstd"),
    Contest("aedat3.1", "aedat3.aedat", write_aedat3, fit="half", alone=_NO_READER),
    Contest("aedat2", "aedat2.aedat", write_aedat2, fit="half", alone=_NO_READER),
    Contest("ncaltech", "caltech.bin", write_ncaltech, fit="small", alone=_NO_READER),
    Contest("csv", "events.csv", _faery(), ("pyarrow", "faery", "pandas"), needs="faery"),
    Contest("es", "events.es", _faery(), ("faery",), needs="faery"),
)
"""In the order of the table."""
