"""Writes `.npz` recordings: the arrays x, y, t, p, as numpy's own `savez` would, with memory bounded."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from pathlib import Path

from evprof.core.events import EventArray
from evprof.core.files.whole_file import whole_binary
from evprof.loaders.writers.npy import DTYPES, Spool, write_column


def write_npz(
    path: Path,
    chunks: Iterable[EventArray],
    *,
    width: int | None = None,
    height: int | None = None,
    compressed: bool = False,
) -> int:
    """Writes all events in their order; returns how many. The same events give the same bytes.

    x, y: uint16, t: int64 µs, p: uint8; the sensor's size has no place in this format. Raises OSError, and whatever
    `chunks` raises.
    """
    packing = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with Spool(path.parent) as spool:
        spool.take(chunks)
        with whole_binary(path) as stream, zipfile.ZipFile(stream, "w", allowZip64=True) as archive:
            for name in DTYPES:
                # A fixed date, as numpy writes: the archive depends on nothing but the events.
                entry = zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))
                entry.compress_type = packing
                with archive.open(entry, "w", force_zip64=True) as member:
                    write_column(member, spool, name)
        return spool.events
