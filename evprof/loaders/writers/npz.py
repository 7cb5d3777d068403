"""Writes `.npz` recordings: the arrays x, y, t, p."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from evprof.core.events import EventArray
from evprof.core.files.whole_file import whole_binary
from evprof.loaders.writers.npy import columns_of


def write_npz(
    path: Path,
    chunks: Iterable[EventArray],
    *,
    width: int | None = None,
    height: int | None = None,
    compressed: bool = False,
) -> int:
    """Writes all events in their order; returns how many. The same events give the same bytes.

    x, y: uint16, t: int64 µs, p: uint8; the sensor's size has no place in this format. Raises OSError, UserError for
    more events than memory holds, and whatever `chunks` raises.
    """
    columns = columns_of(path, chunks)
    save = np.savez_compressed if compressed else np.savez
    with whole_binary(path) as stream:
        save(stream, x=columns["x"], y=columns["y"], t=columns["t"], p=columns["p"])
    return len(columns["t"])
